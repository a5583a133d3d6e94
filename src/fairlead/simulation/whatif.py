"""What if: a cluster's copy left alone, and another to which something is done; both until nothing changes.

The first tells what would happen anyway, so that the difference is the changes' own. Each way begins from the
same contents, and nothing of one reaches the other.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from fairlead.engine.ask.capacity import group_of
from fairlead.engine.ask.cost import Price
from fairlead.errors import BadInput
from fairlead.kube.decode import convert
from fairlead.kube.node import Node
from fairlead.simulation.changes import AddNodes, Change, apply_all, no_group
from fairlead.simulation.cluster_copy import ClusterCopy, Original, Progress, load
from fairlead.simulation.contents import Contents, Obj
from fairlead.simulation.outcome import Observer, Outcome, outcome

QUIET = timedelta(minutes=15)
"""Longer than all that waits by the clock: cool-downs, settling, back-off; doubled ones may take longer."""
LIMIT = timedelta(hours=2)

Say = Callable[[str], None]
Look = Callable[[ClusterCopy, Observer], None]
"""Sees a copy at its end."""


@dataclass(frozen=True, slots=True)
class Question:
    """What is to be tried: `policies` hold instead of those of their names, before the changes are made."""

    changes: Sequence[Change] = ()
    policies: Sequence[Obj] = ()
    quiet: timedelta = QUIET
    limit: timedelta = LIMIT
    prices: Sequence[Price] = ()

    @property
    def texts(self) -> list[str]:
        """What is done, in words."""
        policies = [f"policy {one['metadata']['name']}" for one in self.policies]
        return [*policies, *(one.text for one in self.changes)]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Both outcomes: as the cluster goes on by itself, and with the changes."""

    without: Outcome
    changed: Outcome
    changes: tuple[str, ...]
    skipped: dict[str, int]
    """Kinds of objects that were left out of the copy, and how many."""

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "changes": list(self.changes),
            "without": self.without.to_dict(),
            "with": self.changed.to_dict(),
            "skipped": self.skipped,
        }


def compare(
    contents: Contents, question: Question, say: Say = lambda _: None, look: Look = lambda *_: None
) -> Comparison:
    """Both ways; `say` receives what is being done and how far it is, for people who wait.

    `look` sees how each way ended, that with the changes first: what is wrong with one is then told at once.
    """
    say("with the changes")
    original = load(contents)
    changed = play(contents, question, original, _during("with the changes", say), look)
    alone = replace(question, changes=(), policies=())
    without = play(contents, alone, original, _during("the cluster as it is", say), look)
    return Comparison(without, changed, tuple(question.texts), dict(sorted(original.skipped.items())))


def play(
    contents: Contents,
    question: Question,
    original: Original | None = None,
    say: Callable[[Progress], None] = lambda _: None,
    look: Look = lambda *_: None,
) -> Outcome:
    """One way: how it ends. `original` is what `load` made of the contents, once for several ways.

    `say` receives how far it is, `look` sees the end.
    """
    given = contents.with_policies(question.policies) if question.policies else contents
    copy = ClusterCopy(given, original)
    try:
        observer = Observer(copy)
        apply_all(copy, question.changes, say)
        quiet = copy.settle(question.quiet, question.limit, say)
        found = outcome(copy, quiet, observer, question.prices)
        observer.close()
        look(copy, observer)
        return found
    finally:
        copy.close()
        del copy
        if not gc.isenabled():
            gc.collect()  # a copy refers to itself: one that switched collection off would keep all of it


def fewest_nodes(
    contents: Contents, question: Question, group: str, most: int, say: Say = lambda _: None
) -> int:
    """The fewest nodes of a group that, added before the other changes, leave no pod pending.

    Raises BadInput where `most` are not enough. More nodes of a group are taken never to hurt.
    """
    groups = {one.name for one in contents.groups}
    groups |= {group_of(convert(one, Node)) for one in contents.of_kind("Node")}
    if group not in groups:
        raise no_group(group, groups)
    original = load(contents)

    def pending(number: int) -> int:
        added = [AddNodes(group, number)] if number else []
        whole = replace(question, changes=[*added, *question.changes])
        return play(contents, whole, original, _during(f"{number} more of {group}", say)).pending

    if not pending(0):
        return 0
    low, high = 0, 1
    while pending(high):
        if high >= most:
            raise BadInput(f"--min-nodes {group}: with {high} more nodes pods still wait")
        low, high = high, min(2 * high, most)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if pending(middle) else (low, middle)
    return high


def _during(what: str, say: Say) -> Callable[[Progress], None]:
    return lambda progress: say(f"{what}: {progress}")
