"""A pod that has a place."""

from __future__ import annotations

from fairlead.engine.classes import PodClass
from fairlead.engine.requests import Requests
from fairlead.kube.pod import Pod

__all__ = ["Placed"]


class Placed:
    """A pod on a node, bound or assumed.

    `node` says where it is; ``pod.spec`` does not: of pods as the API shows them it is one object per
    template.
    `slot` is -1 while there is no such node; then the pod counts nowhere, but is not forgotten.
    `usage` is what it takes now, which in-place resize makes differ from what its class asks for.
    `static` and `provision` are the claims that are to be bound with it (see `rules.volume_binding`).
    """

    __slots__ = (
        "cls",
        "key",
        "leaving",
        "node",
        "pod",
        "priority",
        "provision",
        "row_amounts",
        "slot",
        "static",
        "usage",
    )

    def __init__(  # noqa: PLR0917 (made a hundred thousand times: keywords cost)
        self,
        pod: Pod,
        cls: PodClass,
        node: str,
        slot: int,
        priority: int,
        usage: Requests,
        row_amounts: tuple[tuple[int, int], ...],
    ) -> None:
        self.key = pod.metadata.key
        self.pod = pod
        self.cls = cls
        self.node = node
        self.slot = slot
        self.priority = priority
        self.leaving = pod.metadata.deletion_timestamp is not None
        self.usage = usage
        self.row_amounts = row_amounts
        self.static: tuple[tuple[str, str], ...] = ()
        self.provision: tuple[str, ...] = ()

    def counts_like(self, other: Placed) -> bool:
        """Whether it counts in nothing differently from another, volumes not looked at."""
        return (
            self.cls is other.cls
            and self.node == other.node
            and self.priority == other.priority
            and self.leaving == other.leaving
            and (self.usage is other.usage or self.usage == other.usage)
        )

    def __repr__(self) -> str:
        return f"Placed({self.key} on {self.node})"
