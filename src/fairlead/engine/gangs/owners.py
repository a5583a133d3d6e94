"""How many pods the owners of a gang want, and which of its pods are of an older revision.

The number is the sum over *all* owners whose template names the gang: one that is split over three
one-replica Deployments wants three pods. The subtle thing: a Deployment and its ReplicaSets say the same
number twice, so a ReplicaSet counts only when no known Deployment that names the gang owns it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from fairlead.engine.gangs.membership import gang_of, whole_number
from fairlead.engine.snapshot.index import discard
from fairlead.kube.pod import Pod
from fairlead.kube.workloads import DEPLOYMENT_REVISION, REVISION_LABEL, Job, Workload


@dataclass(frozen=True, slots=True)
class _Owner:
    kind: str
    name: str
    uid: str
    gang: str  # what its template names, or ""
    desired: int
    created: float
    parent: str  # uid of the Deployment that owns a ReplicaSet
    revision: tuple[int, float]  # of a ReplicaSet: larger is newer
    updates_to: str  # the revision that a StatefulSet rolls out
    at_once: bool  # whether it creates all of its pods together


class GangOwners:
    """Owners by key, and by the gang that their template names or that their pods are in."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str, str], _Owner] = {}
        self._by_uid: dict[str, _Owner] = {}
        self._by_gang: dict[str, dict[str, None]] = {}  # gang → uids
        self._children: dict[str, dict[str, None]] = {}  # uid of a Deployment → uids of its ReplicaSets
        self._controls: dict[str, dict[str, None]] = {}  # owner uid → gangs that its pods are in
        self._controllers: dict[str, dict[str, None]] = {}  # the same the other way round

    def seen(self, kind: str, owner: object) -> list[str]:
        """Take note of an owner; the gangs whose size this may change."""
        if not isinstance(owner, Workload | Job):
            return []
        metadata = owner.metadata
        touched = self._drop(kind, metadata.namespace, metadata.name, but=metadata.uid)
        template = owner.spec.template
        named = gang_of(
            msgspec.structs.replace(template.metadata, namespace=metadata.namespace), template.spec
        )
        parent = metadata.controller if kind == "ReplicaSet" else None
        created = metadata.creation_timestamp.timestamp() if metadata.creation_timestamp else 0.0
        entry = _Owner(
            kind,
            metadata.name,
            metadata.uid or f"{kind}/{metadata.key}",
            named,
            owner.desired,
            created,
            parent.uid if parent is not None and parent.kind == "Deployment" else "",
            (whole_number(metadata.annotations.get(DEPLOYMENT_REVISION, "")), created),
            owner.status.update_revision if isinstance(owner, Workload) else "",
            _creates_at_once(kind, owner),
        )
        self._known[kind, metadata.namespace, metadata.name] = entry
        self._by_uid[entry.uid] = entry
        if entry.parent:
            self._children.setdefault(entry.parent, {})[entry.uid] = None
            # Which of a Deployment's pods are outdated may have changed with its newest ReplicaSet.
            siblings = self._children[entry.parent]
            touched += [gang for uid in siblings for gang in self._gangs(self._by_uid[uid])]
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

    def is_outdated(self, pod: Pod) -> bool:
        """Whether the pod is of an older revision of its Deployment or StatefulSet."""
        controller = pod.metadata.controller
        owner = self._by_uid.get(controller.uid) if controller is not None else None
        if owner is None:
            return False
        if owner.kind == "StatefulSet":
            revision = pod.metadata.labels.get(REVISION_LABEL, "")
            return bool(revision and owner.updates_to) and revision != owner.updates_to
        siblings = self._children.get(owner.parent, ()) if owner.parent else ()
        return any(self._by_uid[uid].revision > owner.revision for uid in siblings)

    def advice(self, pending: Sequence[Pod]) -> str:
        """What would help a gang whose members are not created together; "" where that is not the trouble."""
        found: dict[str, None] = {}
        for pod in pending:
            controller = pod.metadata.controller
            owner = self._by_uid.get(controller.uid) if controller is not None else None
            if owner is None:
                continue
            updated = self.is_outdated(pod)
            owner = self._by_uid.get(owner.parent, owner)
            if owner.at_once and not (updated and owner.kind == "StatefulSet"):
                continue
            if owner.kind == "Deployment" and updated:
                found[f"Deployment {owner.name} replaces waiting pods one by one: use strategy: Recreate"] = (
                    None
                )
            elif owner.kind == "StatefulSet" and owner.at_once:
                one_by_one = f"StatefulSet {owner.name} replaces waiting pods one by one"
                found[f"{one_by_one}: delete its pods of the older revision"] = None
            elif owner.kind == "StatefulSet" and owner.desired > 1:
                in_turn = f"StatefulSet {owner.name} creates a pod only after the one before is ready"
                cure = "delete it with --cascade=orphan and create it with podManagementPolicy: Parallel"
                found[f"{in_turn}: {cure}"] = None
        return "; ".join(found)

    def _drop(self, kind: str, namespace: str, name: str, *, but: str = "") -> list[str]:
        """Take an owner out; what its pods are in stays known if it is only about to change (`but`)."""
        entry = self._known.pop((kind, namespace, name), None)
        if entry is None:
            return []
        self._by_uid.pop(entry.uid, None)
        if entry.parent:
            discard(self._children, entry.parent, entry.uid)
        touched = self._gangs(entry)
        for gang in touched:
            if entry.uid in self._by_gang.get(gang, ()):
                discard(self._by_gang, gang, entry.uid)
        if entry.uid != but:
            self._uncontrol(entry.uid)
        return touched

    def _uncontrol(self, uid: str) -> None:
        for gang in self._controls.pop(uid, ()):
            discard(self._controllers, gang, uid)

    def _gangs(self, owner: _Owner) -> list[str]:
        found = dict.fromkeys([owner.gang] if owner.gang else [])
        # A template that names a gang is the truth; what its pods are in is asked only without one.
        return list(found or self._controls.get(owner.uid, {}))


def _creates_at_once(kind: str, owner: Workload | Job) -> bool:
    """Whether all pods of an owner are created together, whatever becomes of the first of them."""
    if not isinstance(owner, Workload):
        return True
    if kind == "StatefulSet":
        return owner.spec.pod_management_policy == "Parallel"
    return kind != "Deployment" or (
        owner.spec.strategy is not None and owner.spec.strategy.type == "Recreate"
    )
