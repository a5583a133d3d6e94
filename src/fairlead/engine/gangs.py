"""Gangs: which pods start together, how many of them, and whether they already have.

The subtle thing is the size. A declared minimum is believed at once; a size taken from owners (or
just counted) is believed only `settle_s` after the newest creation among members and owners,
because controllers create in bursts. The size matters until the first start: from then on the gang
is *latched* and later members bind one by one, until an eviction of the whole gang opens the latch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from fairlead.engine.owners import Owners
from fairlead.kube.meta import ObjectMeta
from fairlead.kube.pod import Pod, PodSpec
from fairlead.kube.workloads import PodGroup

__all__ = ["MIN_MEMBER", "Gang", "Gangs", "created_at", "gang_of"]

MIN_MEMBER = "pod-group-min-member"

_LOG_LIMIT = 65536

_COSCHEDULING = "scheduling.x-k8s.io"
_VOLCANO = "scheduling.volcano.sh"
_KUBERNETES = "scheduling.k8s.io"

# How annotations (or labels) spell it, and the API group of the PodGroup that goes with the spelling.
_SPELLINGS = (
    ("pod-group", ""),
    ("scheduling.x-k8s.io/pod-group", _COSCHEDULING),
    ("scheduling.k8s.io/group-name", _VOLCANO),
    ("scheduling.volcano.sh/group-name", _VOLCANO),
)


def gang_of(metadata: ObjectMeta, spec: PodSpec) -> str:
    """The name, within its namespace, of the gang that a pod or a pod template declares; or "".

    >>> gang_of(ObjectMeta(labels={"pod-group": "train"}), PodSpec())
    'train'
    """
    return _declared(metadata, spec)[1]


@dataclass(frozen=True, slots=True)
class Gang:
    """One gang at one moment. `name` is ``namespace/name``.

    `minimum` is how many must be present to start (of a latched gang: had to be, when it started),
    `settles_at` the time from which that number is believed (0: at once). `pending` are the members
    without a node, oldest first; `running` those with one (assumed or seen) and `succeeded` those
    that are done, both of which count as present. `unusable` is what is wrong with members that wait but
    make no sense.
    """

    name: str
    minimum: int
    settles_at: float
    pending: tuple[Pod, ...]
    running: tuple[Pod, ...]
    succeeded: int
    latched: bool
    schedule_timeout_s: float | None
    unusable: tuple[str, ...] = ()

    @property
    def present(self) -> int:
        """Members that are there in any form."""
        return len(self.pending) + len(self.running) + self.succeeded

    @property
    def needed(self) -> int:
        """How many pending members must be placed at once; 0 when the gang has started."""
        return 0 if self.latched else max(0, self.minimum - len(self.running) - self.succeeded)

    def missing(self) -> int:
        """How many members are yet to be created before it may start."""
        return max(0, self.needed - len(self.pending))

    def falls(self, leaving: int) -> bool:
        """Whether losing that many running members takes it below its minimum."""
        return len(self.running) + self.succeeded - leaving < self.minimum


@dataclass(slots=True)
class _Record:
    pods: dict[str, Pod] = field(default_factory=dict)  # by uid
    latched: int = 0  # the size at which it started; 0: it has not
    memo: Gang | None = None


class Gangs:
    """All gangs, kept up to date by events about pods, PodGroups and owners.

    Invariant: `get` depends only on what was seen and assumed, never on the order it came in
    (latching excepted, which is what latching means).
    """

    __slots__ = (
        "_assumed",
        "_gang_of_uid",
        "_gang_of_unusable",
        "_groups",
        "_owners",
        "_records",
        "_settle_s",
        "_unusable",
        "changed",
        "epoch",
        "log",
    )

    def __init__(self, settle_s: float = 5.0) -> None:
        self._settle_s = settle_s
        self._records: dict[str, _Record] = {}
        self._gang_of_uid: dict[str, str] = {}
        self._groups: dict[str, dict[str, PodGroup]] = {}  # gang → API group → object
        self._owners = Owners(lambda metadata, spec: _key(metadata.namespace, gang_of(metadata, spec)))
        self._assumed: set[str] = set()
        # Members that make no sense, with what is wrong: gang → pod's key; and the gang of each of them.
        self._unusable: dict[str, dict[str, tuple[Pod, str]]] = {}
        self._gang_of_unusable: dict[str, str] = {}
        # Names of gangs that an event touched since somebody last emptied this, in order.
        self.changed: dict[str, None] = {}
        # The same for who keeps answers about gangs: all names ever touched, or `epoch` was raised.
        self.log: list[str] = []
        self.epoch = 0

    def pod_seen(self, pod: Pod) -> str:
        """Take note of a pod; the name of its gang, or ""."""
        uid = pod.metadata.uid
        name = self.declared(pod)
        before = self._gang_of_uid.get(uid, "")
        if before and before != name:
            self.pod_gone(uid)
        if not name:
            return ""
        if pod.metadata.controller is not None:
            self._owners.controls(name, pod.metadata.controller.uid)
        self._gang_of_uid[uid] = name
        self._records.setdefault(name, _Record()).pods[uid] = pod
        self._touch(name)
        return name

    def unusable(self, pod: Pod, problem: str) -> None:
        """A pod that makes no sense may be a member: its gang waits for it, or has it if it is running."""
        key = pod.metadata.key
        self.usable(key)
        name = _key(pod.metadata.namespace, gang_of(pod.metadata, pod.spec))
        self._gang_of_unusable[key] = name
        if name:
            self._unusable.setdefault(name, {})[key] = (pod, problem)
            self._touch(name)

    def usable(self, key: str) -> bool:
        """Such a pod makes sense now, or is gone; whether there was one of that name."""
        name = self._gang_of_unusable.pop(key, None)
        if name:
            members = self._unusable[name]
            del members[key]
            if not members:
                del self._unusable[name]
            self._touch(name)
        return name is not None

    def pod_gone(self, uid: str) -> str:
        """Forget a pod; the name of the gang it was in, or ""."""
        name = self._gang_of_uid.pop(uid, "")
        self._assumed.discard(uid)
        if name:
            record = self._records[name]
            record.pods.pop(uid, None)
            if not record.pods:
                del self._records[name]
                self._owners.emptied(name)
            self._touch(name)
        return name

    def group_seen(self, group: PodGroup) -> None:
        """Take note of a PodGroup object of any API group."""
        name = group.metadata.key
        self._groups.setdefault(name, {})[_api_group(group)] = group
        self._touch(name)

    def group_gone(self, namespace: str, name: str, api_group: str = "") -> None:
        """Forget a PodGroup object; without `api_group`, all of that name."""
        key = _key(namespace, name)
        held = self._groups.get(key, {})
        for one in [api_group] if api_group else list(held):
            held.pop(one, None)
        self._touch(key)

    def owner_seen(self, kind: str, owner: object) -> None:
        """Take note of a Deployment, ReplicaSet, StatefulSet, Job or anything with replicas."""
        for name in self._owners.seen(kind, owner):
            self._touch(name)

    def owner_gone(self, kind: str, namespace: str, name: str) -> None:
        """Forget an owner."""
        for gang in self._owners.gone(kind, namespace, name):
            self._touch(gang)

    def assume(self, uid: str) -> None:
        """A member was given a node that the API does not show yet."""
        self._assumed.add(uid)
        self._touch(self._gang_of_uid.get(uid, ""))

    def unassume(self, uid: str) -> None:
        """That did not come to be."""
        self._assumed.discard(uid)
        self._touch(self._gang_of_uid.get(uid, ""))

    def latch(self, name: str) -> None:
        """The gang has started: from now on members bind one by one."""
        gang = self.get(name)
        if gang is not None and not gang.latched:
            self._records[name].latched = max(1, gang.minimum)
            self._touch(name)

    def unlatch(self, name: str) -> None:
        """The gang was evicted as a whole: it starts again as a whole."""
        if name in self._records:
            self._records[name].latched = 0
            self._touch(name)

    def name_of(self, uid: str) -> str:
        """The gang of the pod with this UID, or ""."""
        return self._gang_of_uid.get(uid, "")

    def declared(self, pod: Pod) -> str:
        """The gang that a pod declares, seen or not; "" for none."""
        api_group, name = _declared(pod.metadata, pod.spec)
        if not name:
            return ""
        key = _key(pod.metadata.namespace, name)
        return "" if api_group == _KUBERNETES and self._one_by_one(key) else key

    def get(self, name: str) -> Gang | None:
        """The gang as it stands, None when it has no members."""
        record = self._records.get(name)
        if record is None:
            return None
        if record.memo is None:
            record.memo = self._read(name, record)
            record.latched = record.memo.minimum if record.memo.latched else 0
        return record.memo

    def names(self) -> Iterable[str]:
        """All gangs that have members, in order of name."""
        return sorted(self._records)

    def _read(self, name: str, record: _Record) -> Gang:
        pending: list[Pod] = []
        running: list[Pod] = []
        succeeded = 0
        for pod in record.pods.values():
            if pod.status.phase == "Succeeded":
                succeeded += 1
            elif pod.terminal or pod.metadata.deletion_timestamp is not None:
                continue
            elif pod.spec.node_name or pod.metadata.uid in self._assumed:
                running.append(pod)
            elif not pod.spec.scheduling_gates:
                pending.append(pod)
        waiting: list[str] = []
        for _, (pod, problem) in sorted(self._unusable.get(name, {}).items()):
            if pod.status.phase == "Succeeded" or (pod.spec.node_name and not pod.terminal):
                # It is where it should be, and nothing can be done about it: as good as done.
                succeeded += 1
            elif not pod.terminal:
                waiting.append(problem)
        pending.sort(key=lambda pod: (created_at(pod.metadata), pod.metadata.name))
        running.sort(key=lambda pod: (created_at(pod.metadata), pod.metadata.name))
        present = len(pending) + len(running) + succeeded + len(waiting)
        minimum, settles_at, timeout_s = self._size(name, record, present)
        started = len(running) + succeeded
        if record.latched and started:
            minimum, settles_at, latched = record.latched, 0.0, True
        else:
            # Seen bound at its declared size, after a restart say: it has started.
            bound = succeeded + sum(1 for pod in running if pod.spec.node_name)
            latched = bound >= minimum > 0 and settles_at == 0.0
        return Gang(
            name,
            minimum,
            settles_at,
            tuple(pending),
            tuple(running),
            succeeded,
            latched,
            timeout_s,
            tuple(waiting),
        )

    def _size(self, name: str, record: _Record, present: int) -> tuple[int, float, float | None]:
        group = self._group(name, record.pods.values())
        timeout_s = group.spec.schedule_timeout_seconds if group is not None else None
        declared = _minimum(group)
        if not declared:
            declared = max((_annotated(pod.metadata.annotations) for pod in record.pods.values()), default=0)
        if declared:
            return declared, 0.0, timeout_s
        newest = max(created_at(pod.metadata) for pod in record.pods.values())
        desired, owners_newest = self._owners.desired(name)
        settles_at = max(newest, owners_newest) + self._settle_s
        return desired or present, settles_at, timeout_s

    def _group(self, name: str, pods: Iterable[Pod]) -> PodGroup | None:
        known = self._groups.get(name)
        if not known:
            return None
        for pod in pods:
            api_group = _declared(pod.metadata, pod.spec)[0]
            if api_group in known:
                return known[api_group]
        return known[min(known)]

    def _one_by_one(self, name: str) -> bool:
        # Kubernetes' own PodGroup with the basic policy asks for ordinary, pod by pod scheduling.
        group = self._groups.get(name, {}).get(_KUBERNETES)
        policy = group.spec.scheduling_policy if group is not None else None
        return policy is not None and policy.gang is None

    def _touch(self, name: str) -> None:
        if name:
            self.changed[name] = None
            if len(self.log) >= _LOG_LIMIT:
                self.log.clear()
                self.epoch += 1
            self.log.append(name)
            record = self._records.get(name)
            if record is not None:
                record.memo = None


def created_at(metadata: ObjectMeta) -> float:
    """Seconds since the epoch; 0 for an object that does not say."""
    return metadata.creation_timestamp.timestamp() if metadata.creation_timestamp else 0.0


def _declared(metadata: ObjectMeta, spec: PodSpec) -> tuple[str, str]:
    """(API group of the PodGroup that the spelling belongs to, gang name)."""
    if spec.scheduling_group is not None and spec.scheduling_group.pod_group_name:
        return _KUBERNETES, spec.scheduling_group.pod_group_name
    for marks in (metadata.annotations, metadata.labels):
        if marks:
            for spelling, api_group in _SPELLINGS:
                name = marks.get(spelling)
                if name:
                    return api_group, name
    return "", ""


def _key(namespace: str, name: str) -> str:
    return f"{namespace}/{name}" if name else ""


def _api_group(group: PodGroup) -> str:
    return group.api_version.partition("/")[0] if "/" in group.api_version else _COSCHEDULING


def _minimum(group: PodGroup | None) -> int:
    if group is None:
        return 0
    policy = group.spec.scheduling_policy
    if policy is not None and policy.gang is not None:
        return max(0, policy.gang.min_count)
    return max(0, group.spec.min_member or 0)


def _annotated(annotations: Mapping[str, str]) -> int:
    text = annotations.get(MIN_MEMBER, "").strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0
