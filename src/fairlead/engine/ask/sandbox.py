"""How many nodes of a group would take how many pods: first-fit on templates, tried out on the snapshot.

Nodes are opened one by one, as they would come: a node that is not there yet must not count as an
empty domain for topology spread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from fairlead.engine import rules
from fairlead.engine.ranking.ranking import Ranking
from fairlead.engine.snapshot.classes import PodClass
from fairlead.kube.node import Node
from fairlead.kube.pod import Pod


@dataclass(frozen=True, slots=True)
class Packing:
    """Pods (by key) that would fit, and the nodes they need."""

    pods: tuple[str, ...]
    nodes: int


class Sandbox:
    """Imagined nodes and placements on a snapshot, taken back in reverse order, all or from a mark on."""

    def __init__(self, ranking: Ranking) -> None:
        self.ranking = ranking
        self.snapshot = ranking.snapshot
        self._undo: list[tuple[str, str]] = []

    def mark(self) -> int:
        """A point to come back to."""
        return len(self._undo)

    def back_to(self, mark: int) -> None:
        """Take back all since the mark."""
        while len(self._undo) > mark:
            what, name = self._undo.pop()
            if what == "pod":
                self.snapshot.forget(name)
            else:
                self.snapshot.remove_node(name)

    def open_node(self, node: Node) -> int:
        """Imagine a node; returns its slot."""
        slot = self.snapshot.put_node(node)
        self._undo.append(("node", node.metadata.name))
        return slot

    def place(self, pod: Pod, slot: int) -> None:
        """Imagine a pod on a node."""
        self.snapshot.assume(pod, slot)
        self._undo.append(("pod", pod.metadata.key))

    def place_anywhere(self, pod: Pod) -> bool:
        """Imagine a pod wherever the scheduler would put it; False when nowhere."""
        slot = self.ranking.choose(self.snapshot.class_of(pod))
        if slot < 0:
            return False
        self.place(pod, slot)
        return True

    def pack(self, pods: Sequence[Pod], at_most: int, open_node: Callable[[int], int | None]) -> Packing:
        """Pack pods into up to `at_most` new nodes; `open_node(i)` opens the i-th and gives its slot."""
        helped: list[str] = []
        opened: list[int] = []
        hopeless: set[PodClass] = set()
        for pod in pods:
            cls = self.snapshot.class_of(pod)
            slot = self._first_fit(pod, opened)
            if slot is None and len(opened) < at_most and cls not in hopeless:
                mark = self.mark()
                fresh = open_node(len(opened))
                if fresh is not None and rules.fits(self.snapshot, self.snapshot.class_of(pod), fresh):
                    opened.append(fresh)
                    slot = fresh
                else:
                    # Alone on an empty node and still refused: its like would be, too.
                    self.back_to(mark)
                    hopeless.add(cls)
            if slot is not None:
                self.place(pod, slot)
                helped.append(pod.metadata.key)
        return Packing(tuple(helped), len(opened))

    def _first_fit(self, pod: Pod, opened: Sequence[int]) -> int | None:
        if not opened:
            return None
        slots = np.array(opened)
        found = np.flatnonzero(self.ranking.feasible(self.snapshot.class_of(pod))[slots])
        return opened[int(found[0])] if len(found) else None


@contextmanager
def sandbox(ranking: Ranking) -> Iterator[Sandbox]:
    """A sandbox on the ranking's snapshot that leaves it as it was."""
    box = Sandbox(ranking)
    try:
        yield box
    finally:
        box.back_to(0)
