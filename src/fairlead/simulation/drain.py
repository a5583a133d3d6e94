"""Draining a node in virtual time, as ``kubectl drain`` does: evict, wait for budgets, try again."""

from __future__ import annotations

from datetime import timedelta

from fairlead.errors import ApiError, NotFound
from fairlead.world.clock import Timer
from fairlead.world.objects import annotations_of, controller_of, finished, key_of, split_key, terminating
from fairlead.world.world import World

_AGAIN = timedelta(seconds=5)
_MIRROR = "kubernetes.io/config.mirror"


class Drain:
    """Evicts the pods of a node until none is left that it may; pods of DaemonSets and static pods stay.

    Invariant: `refused` are the pods that the last look could not evict, each with what refused it.
    """

    def __init__(self, world: World, node: str) -> None:
        self.node = node
        self.refused: dict[str, str] = {}
        self._world = world
        self._timer: Timer | None = None
        self._look()

    def close(self) -> None:
        """Try no more."""
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        self.refused = {}
        left = False
        for pod in self._world.store.pods_on(self.node):
            owner = controller_of(pod)
            if finished(pod) or _MIRROR in annotations_of(pod) or (owner and owner["kind"] == "DaemonSet"):
                continue
            left = True
            if terminating(pod):
                continue
            namespace, name = split_key(key_of(pod))
            try:
                self._world.api.evict(name, namespace)
            except NotFound:
                continue
            except ApiError as error:
                self.refused[key_of(pod)] = error.message
        if left:
            clock = self._world.clock
            self._timer = clock.call_at(clock.now() + _AGAIN, self._look)
