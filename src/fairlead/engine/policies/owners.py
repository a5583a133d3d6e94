"""What is known of pods' owners, cut down to what tells whose pod it is and how many are wanted."""

from __future__ import annotations

from dataclasses import dataclass

from fairlead.kube.meta import OwnerReference
from fairlead.kube.workloads import Job, Workload
from fairlead.policy.owners import trimmed
from fairlead.policy.sharing import Sharing

__all__ = ["KnownOwners", "News"]


@dataclass(frozen=True, slots=True)
class News:
    """What may be another, now that an owner has changed."""

    identity: bool = False
    """Whose its pods are."""
    numbers: bool = False
    """How many are wanted, or anything else of it."""
    shares: bool = False
    """Who has a part in what budgets let be unavailable."""


class KnownOwners:
    """Owners by kind and name; it is the `Owners` that `fairlead.policy.workloads` asks.

    Kept also while there is no policy: one may come, and its pods' owners are not told again then.
    """

    __slots__ = ("_known", "sharing")

    def __init__(self) -> None:
        self._known: dict[tuple[str, str, str], Workload | Job] = {}
        self.sharing = Sharing()
        """Which workloads share a budget."""

    def owner(self, reference: OwnerReference, namespace: str) -> Workload | Job | None:
        """The owner that a pod or ReplicaSet names, None when it is not known."""
        return self._known.get((reference.kind, namespace, reference.name))

    def seen(self, kind: str, owner: Workload | Job) -> News:
        """Take note of an owner: what may be another now."""
        key = kind, owner.metadata.namespace, owner.metadata.name
        before, after = self._known.get(key), trimmed(owner)
        shares = self.sharing.seen(kind, owner)
        if before == after:
            return News(shares=shares)
        self._known[key] = after
        return News(before is None or _identity(before) != _identity(after), numbers=True, shares=shares)

    def gone(self, kind: str, namespace: str, name: str) -> bool:
        """Forget an owner; whether that may change what others share."""
        self._known.pop((kind, namespace, name), None)
        return self.sharing.gone(kind, namespace, name)


def _identity(owner: Workload | Job) -> object:
    ordinals = owner.spec.ordinals if isinstance(owner, Workload) else None
    return owner.metadata.uid, owner.metadata.owner_references, ordinals
