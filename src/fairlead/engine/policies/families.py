"""Pods that one controller made from one template: what is known of their workload is the same for all.

So a change of an owner is worked out once per family, not once per pod. A bare pod is a family of its own.
"""

from __future__ import annotations

from collections.abc import Iterator

from fairlead.engine.policies.owners import KnownOwners
from fairlead.kube.meta import ObjectMeta
from fairlead.kube.pod import Pod
from fairlead.policy.groups import GroupKey
from fairlead.policy.names import REPLICAS_LABEL
from fairlead.policy.workloads import REVISIONS, Workload, workload_of

__all__ = ["Families", "Family"]

_Owner = tuple[str, str, str]  # kind, namespace, name


class Family:
    """See the module. `workload` is that of any of its pods but for the ordinal, which is one pod's."""

    __slots__ = ("controller", "groups", "key", "owners", "pods", "some", "workload")

    def __init__(self, key: tuple[str, ...], some: ObjectMeta, workload: Workload) -> None:
        self.key = key
        self.some = some
        self.workload = workload
        self.pods: dict[str, None] = {}
        self.groups: dict[GroupKey, int] = {}  # the groups that its pods are in, and how many in each
        made_by = some.controller
        self.controller: _Owner | None = (
            (made_by.kind, some.namespace, made_by.name) if made_by is not None else None
        )
        self.owners: tuple[_Owner, ...] = ()  # whose change may be one of the workload


class Families:
    """Families by their key. Invariant: none is empty, and each is found by all of its owners."""

    __slots__ = ("_families", "_of_owner", "_owners")

    def __init__(self, owners: KnownOwners) -> None:
        self._owners = owners
        self._families: dict[tuple[str, ...], Family] = {}
        self._of_owner: dict[_Owner, dict[tuple[str, ...], None]] = {}

    def join(self, metadata: ObjectMeta, workload: Workload, group: GroupKey) -> Family:
        """A pod of `workload` is there, in `group`."""
        key = _key(metadata)
        family = self._families.get(key)
        if family is None:
            family = self._families[key] = Family(key, metadata, workload)
            self._index(family)
        family.pods[metadata.uid] = None
        family.groups[group] = family.groups.get(group, 0) + 1
        return family

    def leave(self, family: Family, uid: str, group: GroupKey) -> None:
        """A pod is not there any more."""
        del family.pods[uid]
        family.groups[group] -= 1
        if not family.groups[group]:
            del family.groups[group]
        if not family.pods:
            del self._families[family.key]
            self._unindex(family)

    def made_by(self, kind: str, namespace: str, name: str) -> list[str]:
        """The pods whose controller this is, by UID."""
        owner = kind, namespace, name
        return [uid for each in self._owned(owner) if each.controller == owner for uid in each.pods]

    def renewed(self, kind: str, namespace: str, name: str) -> Iterator[Family]:
        """An owner changed, or is gone: the families whose workload is another for it."""
        for family in self._owned((kind, namespace, name)):
            workload = workload_of(Pod(family.some), self._owners)
            if workload != family.workload:
                self._unindex(family)
                family.workload = workload
                self._index(family)
                yield family

    def _owned(self, owner: _Owner) -> list[Family]:
        return [self._families[key] for key in self._of_owner.get(owner, ())]

    def _index(self, family: Family) -> None:
        if family.controller is not None:
            workload = family.workload
            above = workload.kind, workload.namespace, workload.name
            family.owners = tuple(dict.fromkeys((family.controller, above)))
            for owner in family.owners:
                self._of_owner.setdefault(owner, {})[family.key] = None

    def _unindex(self, family: Family) -> None:
        for owner in family.owners:
            members = self._of_owner[owner]
            del members[family.key]
            if not members:
                del self._of_owner[owner]


def _key(metadata: ObjectMeta) -> tuple[str, ...]:
    controller = metadata.controller
    if controller is None:
        return (metadata.uid,)
    said = [metadata.labels.get(label, "") for label in (*REVISIONS, REPLICAS_LABEL)]
    made_by = controller.api_version, controller.kind, controller.name, controller.uid
    return (metadata.namespace, *made_by, *said)
