"""How many pods the owners of a gang want: the sum over *all* owners whose template names it.

A gang split over three one-replica Deployments wants three pods. The subtle thing: a Deployment and
its ReplicaSets say the same number twice, so a ReplicaSet counts only when no known Deployment that
names the gang owns it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fairlead.kube.meta import ObjectMeta
from fairlead.kube.pod import PodSpec
from fairlead.kube.workloads import Job, Workload

__all__ = ["Owners"]


@dataclass(frozen=True, slots=True)
class _Owner:
    kind: str
    uid: str
    gang: str  # what its template names, or ""
    desired: int
    created: float
    parent: str  # uid of the Deployment that owns a ReplicaSet


class Owners:
    """Owners by key, and by the gang that their template names or that their pods are in."""

    __slots__ = ("_by_gang", "_by_uid", "_controllers", "_controls", "_gang_of", "_known")

    def __init__(self, gang_of: Callable[[ObjectMeta, PodSpec], str]) -> None:
        self._gang_of = gang_of
        self._known: dict[tuple[str, str, str], _Owner] = {}
        self._by_uid: dict[str, _Owner] = {}
        self._by_gang: dict[str, dict[str, None]] = {}  # gang → uids
        self._controls: dict[str, dict[str, None]] = {}  # owner uid → gangs that its pods are in
        self._controllers: dict[str, dict[str, None]] = {}  # the same the other way round

    def seen(self, kind: str, owner: object) -> list[str]:
        """Take note of an owner; the gangs whose size this may change."""
        if not isinstance(owner, Workload | Job):
            return []
        metadata = owner.metadata
        touched = self._drop(kind, metadata.namespace, metadata.name, but=metadata.uid)
        template = owner.spec.template
        named = self._gang_of(
            ObjectMeta(
                namespace=metadata.namespace,
                labels=template.metadata.labels,
                annotations=template.metadata.annotations,
            ),
            template.spec,
        )
        parent = metadata.controller if kind == "ReplicaSet" else None
        entry = _Owner(
            kind,
            metadata.uid or f"{kind}/{metadata.key}",
            named,
            owner.desired,
            metadata.creation_timestamp.timestamp() if metadata.creation_timestamp else 0.0,
            parent.uid if parent is not None and parent.kind == "Deployment" else "",
        )
        self._known[kind, metadata.namespace, metadata.name] = entry
        self._by_uid[entry.uid] = entry
        for gang in self._gangs(entry):
            self._by_gang.setdefault(gang, {})[entry.uid] = None
            touched.append(gang)
        return touched

    def gone(self, kind: str, namespace: str, name: str) -> list[str]:
        """Forget an owner; the gangs whose size this may change."""
        return self._drop(kind, namespace, name)

    def controls(self, gang: str, uid: str) -> None:
        """A member of `gang` is controlled by the owner with this UID; counts if no template says more.

        Custom resources keep their template in places of their own; their pods tell.
        """
        if uid:
            self._controls.setdefault(uid, {})[gang] = None
            self._controllers.setdefault(gang, {})[uid] = None
            owner = self._by_uid.get(uid)
            if owner is not None and not owner.gang:
                self._by_gang.setdefault(gang, {})[uid] = None

    def emptied(self, gang: str) -> None:
        """A gang has no members any more. Owners that are known will make new ones; others are forgotten."""
        for uid in [uid for uid in self._controllers.get(gang, ()) if uid not in self._by_uid]:
            self._uncontrol(uid)

    def desired(self, gang: str) -> tuple[int, float]:
        """(pods that all owners of the gang want, creation time of the newest owner)."""
        owners = [self._by_uid[uid] for uid in self._by_gang.get(gang, ())]
        named = {owner.uid for owner in owners if owner.kind == "Deployment"}
        counted = [owner for owner in owners if owner.parent not in named]
        newest = max((owner.created for owner in owners), default=0.0)
        return sum(owner.desired for owner in counted), newest

    def _drop(self, kind: str, namespace: str, name: str, *, but: str = "") -> list[str]:
        """Take an owner out; what its pods are in stays known if it is only about to change (`but`)."""
        entry = self._known.pop((kind, namespace, name), None)
        if entry is None:
            return []
        self._by_uid.pop(entry.uid, None)
        touched = self._gangs(entry)
        for gang in touched:
            self._by_gang.get(gang, {}).pop(entry.uid, None)
        if entry.uid != but:
            self._uncontrol(entry.uid)
        return touched

    def _uncontrol(self, uid: str) -> None:
        for gang in self._controls.pop(uid, ()):
            uids = self._controllers[gang]
            del uids[uid]
            if not uids:
                del self._controllers[gang]

    def _gangs(self, owner: _Owner) -> list[str]:
        found = dict.fromkeys([owner.gang] if owner.gang else [])
        # A template that names a gang is the truth; what its pods are in is asked only without one.
        return list(found or self._controls.get(owner.uid, {}))
