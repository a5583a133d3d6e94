"""Gangs: which pods start together, how many of them, and whether they have started or are evicted.

The subtle things are size and eviction. A declared minimum is believed at once; a size taken from owners (or
just counted) is believed only `settle_s` after the newest creation among members and owners, because
controllers create in bursts. What latches is *that the gang has started*: from then on later members bind one
by one, while the minimum goes on following the object that declares it. An eviction covers every member: from
the decision on, those members count as gone, although they leave one after the other, and until each of them
is on its way out no replacement is placed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from fairlead.engine.gangs.membership import (
    COSCHEDULING,
    KUBERNETES,
    Membership,
    annotated_minimum,
    gang_of,
    key_of,
    membership_of,
    object_minimum,
    started_with,
)
from fairlead.engine.gangs.owners import GangOwners
from fairlead.engine.snapshot.evicted import is_released, with_its_gang
from fairlead.engine.snapshot.index import discard
from fairlead.engine.snapshot.log import Log
from fairlead.kube.meta import ObjectMeta
from fairlead.kube.pod import Pod
from fairlead.kube.workloads import PodGroup

_LOG_LIMIT = 65536


@dataclass(frozen=True, slots=True)
class Gang:
    """One gang at one moment. `name` is its key.

    `minimum` is how many must be present to start, `settles_at` the time from which that number is believed
    (0: at once), and `started_with` the minimum with which it started (0: it has not). `pending` are the
    members without a node, oldest first; `running` those with one (assumed or seen) and `succeeded` those
    that are done, both of which count as present. `evicted` are bound members that are to leave and are not
    on their way out yet, `outdated` waiting members of an older revision of their workload, which do not
    count. `unusable` is what is wrong with members that wait but make no sense, `lacks` the API group of the
    PodGroup that its members wait for, `advice` what helps a gang that waits because of how it is declared.
    `found_bound`: members were bound when they were first seen, so what came before is not known.
    """

    name: str
    minimum: int
    settles_at: float
    pending: tuple[Pod, ...]
    running: tuple[Pod, ...]
    succeeded: int
    started_with: int
    schedule_timeout_s: float | None
    unusable: tuple[str, ...]
    evicted: tuple[Pod, ...]
    outdated: tuple[Pod, ...]
    lacks: str
    advice: str
    found_bound: bool

    @property
    def latched(self) -> bool:
        """Whether it has started: later members are placed one by one."""
        return self.started_with > 0

    @property
    def present(self) -> int:
        """Members that are there in any form."""
        return len(self.pending) + len(self.running) + self.succeeded

    @property
    def needed(self) -> int:
        """How many pending members must be placed at once; 0 when the gang has started."""
        return 0 if self.latched else max(0, self.minimum - len(self.running) - self.succeeded)

    @property
    def healing(self) -> int:
        """How many pending members of a started gang replace lost ones; the others are beyond its minimum."""
        return max(0, min(self.started_with, self.minimum) - len(self.running) - self.succeeded)

    @property
    def may_start(self) -> bool:
        """Whether nothing but room keeps its pending members from being placed."""
        return not (self.evicted or self.lacks or self.missing())

    def missing(self) -> int:
        """How many members are yet to be created before it may start."""
        return max(0, self.needed - len(self.pending))

    def waits_because(self, now: float) -> str:
        """Why a gang that has not started is not tried yet, "" where nothing but room may keep it waiting."""
        if self.evicted:
            return "it is being evicted, and starts again as a whole"
        if self.lacks:
            return f"its PodGroup ({self.lacks}) does not exist"
        if self.missing():
            unusable = f"{len(self.unusable)} cannot be used: {self.unusable[0]}" if self.unusable else ""
            there = f"{self.present} of {self.minimum} members are there"
            return "; ".join(filter(None, (there, unusable, self.advice)))
        return "waiting for its size to settle" if self.settles_at > now else ""

    def falls(self, leaving: int) -> bool:
        """Whether losing that many running members takes it below its minimum."""
        return len(self.running) + self.succeeded - leaving < self.minimum


@dataclass(slots=True)
class _Record:
    pods: dict[str, Pod] = field(default_factory=dict)  # by uid
    started_with: int = 0
    found_bound: bool = False  # whether members were bound when they were first seen, after a restart say
    departing: dict[str, None] = field(default_factory=dict)  # uids that are being evicted by themselves
    evicted: dict[str, None] = field(default_factory=dict)  # uids that an eviction of the gang covers
    covered: int = 0  # how many these were when it was decided
    begun: bool = False  # whether that eviction can no longer be taken back
    granted: bool = False  # whether a member's eviction is known to have been granted
    evicted_from: int = 0  # `started_with` when it was decided
    taken_over: bool = False  # whether another scheduler began it: some members may have left
    bare_stay: bool = False  # whether it covers, of members found later, only those with a controller
    memo: Gang | None = None


class Gangs:
    """All gangs, kept up to date by events about pods, PodGroups and owners.

    Invariant: `get` depends only on what was seen, assumed and decided, never on the order it came in
    (latching excepted, which is what latching means).
    """

    def __init__(self, settle_s: float = 5.0) -> None:
        self._settle_s = settle_s
        self._records: dict[str, _Record] = {}
        self._gang_of_uid: dict[str, str] = {}
        self._groups: dict[str, PodGroup] = {}  # by gang
        self._owners = GangOwners()
        self._assumed: set[str] = set()
        # Pods whose PodGroup asks for ordinary, pod by pod scheduling: gang → by uid.
        self._one_by_one: dict[str, dict[str, Pod]] = {}
        # Members that make no sense, with what is wrong: gang → pod's key; and the gang of each of them.
        self._unusable: dict[str, dict[str, tuple[Pod, str]]] = {}
        self._gang_of_unusable: dict[str, str] = {}
        # Gangs whose eviction was decided and is not over.
        self.evicted: dict[str, None] = {}
        # Pods that were members and are none any more, until the queue has taken note of it.
        self.freed: dict[str, Pod] = {}
        # Names of gangs that an event touched since the queue last emptied this, in order.
        self.changed: dict[str, None] = {}
        # The same for caches of answers about gangs.
        self.log: Log[str] = Log(_LOG_LIMIT)

    # Pods

    def pod_seen(self, pod: Pod) -> None:
        """Take note of a pod."""
        uid = pod.metadata.uid
        name = gang_of(pod.metadata, pod.spec)
        before = self._gang_of_uid.get(uid, "")
        if before and before != name:
            self.pod_gone(uid)
        if not name:
            return
        self._gang_of_uid[uid] = name
        if self._is_one_by_one(name):
            self._one_by_one.setdefault(name, {})[uid] = pod
            return
        if pod.metadata.controller is not None:
            self._owners.controls(name, pod.metadata.controller.uid)
        record = self._records.setdefault(name, _Record())
        if uid not in record.pods and pod.spec.node_name:
            record.found_bound = True
            self._take_over(name, record, pod)
        record.pods[uid] = pod
        self._touch(name)

    def unusable(self, pod: Pod, problem: str) -> None:
        """A pod that makes no sense may be a member: its gang waits for it, or has it if it is running."""
        key = pod.metadata.key
        self.usable(key)
        name = gang_of(pod.metadata, pod.spec)
        self._gang_of_unusable[key] = name
        if name:
            self._unusable.setdefault(name, {})[key] = (pod, problem)
            self._touch(name)

    def usable(self, key: str) -> bool:
        """Such a pod makes sense now, or is gone; whether there was one of that name."""
        name = self._gang_of_unusable.pop(key, None)
        if name:
            discard(self._unusable, name, key)
            self._touch(name)
        return name is not None

    def pod_gone(self, uid: str) -> None:
        """Forget a pod."""
        name = self._gang_of_uid.pop(uid, "")
        self._assumed.discard(uid)
        self.freed.pop(uid, None)
        if not name:
            return
        if uid in self._one_by_one.get(name, ()):
            discard(self._one_by_one, name, uid)
            return
        record = self._records[name]
        record.pods.pop(uid, None)
        record.departing.pop(uid, None)
        record.evicted.pop(uid, None)
        if not record.pods:
            del self._records[name]
            self.evicted.pop(name, None)
            self._owners.emptied(name)
        self._touch(name)

    def assume(self, uid: str) -> None:
        """A member was given a node that the API does not show yet."""
        self._assumed.add(uid)
        self._touch(self.name_of(uid))

    def unassume(self, uid: str) -> None:
        """That did not come to be: the member waits, and no eviction need concern it."""
        name = self.name_of(uid)
        self._assumed.discard(uid)
        if name:
            self._records[name].evicted.pop(uid, None)
        self._touch(name)

    # PodGroups and owners

    def group_seen(self, group: PodGroup) -> None:
        """Take note of a PodGroup object of any API group."""
        metadata = group.metadata
        name = key_of(metadata.namespace, Membership(_api_group(group), metadata.name))
        self._groups[name] = group
        self._regroup(name)

    def group_gone(self, namespace: str, name: str, api_group: str) -> None:
        """Forget a PodGroup object."""
        key = key_of(namespace, Membership(api_group, name))
        if self._groups.pop(key, None) is not None:
            self._regroup(key)

    def owner_seen(self, kind: str, owner: object) -> None:
        """Take note of a Deployment, ReplicaSet, StatefulSet, Job or anything with replicas."""
        for name in self._owners.seen(kind, owner):
            self._touch(name)

    def owner_gone(self, kind: str, namespace: str, name: str) -> None:
        """Forget an owner."""
        for gang in self._owners.gone(kind, namespace, name):
            self._touch(gang)

    # Starting and evicting

    def latch(self, name: str) -> None:
        """The gang has started: from now on members bind one by one."""
        gang = self.get(name)
        if gang is not None and not gang.latched:
            self._records[name].started_with = max(1, gang.minimum)
            self._touch(name)

    def depart(self, uid: str) -> None:
        """A member is to leave by itself: it counts as gone from now on."""
        name = self.name_of(uid)
        if name:
            self._records[name].departing[uid] = None
            self._touch(name)

    def stay(self, uid: str) -> None:
        """That did not come to be. If its gang leaves whole meanwhile, the member leaves with it."""
        record = self._records.get(self.name_of(uid))
        if record is not None and uid in record.departing:
            del record.departing[uid]
            if record.evicted:
                record.evicted[uid] = None
                record.covered += 1
            self._touch(self.name_of(uid))

    def is_leaving(self, uid: str) -> bool:
        """Whether a member was told to leave, by itself or with its gang, and counts as gone."""
        record = self._records.get(self.name_of(uid))
        return record is not None and (uid in record.departing or uid in record.evicted)

    def evict(self, name: str, uids: Iterable[str]) -> None:
        """The gang is to leave whole: these are the members that the decision covers.

        They count as gone from now on. Until `begin` the decision can be taken back by `spare`.
        """
        record = self._records[name]
        if not record.evicted:
            record.evicted_from = record.started_with
            record.begun = record.granted = record.taken_over = False
        record.started_with, record.found_bound = 0, False
        record.evicted.update(dict.fromkeys(uids))
        record.covered = len(record.evicted)
        self.evicted[name] = None
        self._touch(name)

    def begin(self, name: str, *, begun: bool = True) -> None:
        """The first member is being evicted: from now on the decision holds, whatever it was made for.

        With ``begun=False`` that was refused. The next member is sent only once the first was granted.
        """
        if name in self.evicted:
            record = self._records[name]
            record.granted = begun and record.begun
            record.begun = begun

    def is_untouched(self, name: str) -> bool:
        """Whether every member that the gang's eviction covers is still there, and none on its way out."""
        gang = self.get(name)
        if gang is None:
            return False
        record = self._records[name]
        return not (record.taken_over or record.granted) and len(gang.evicted) == record.covered

    def has_begun(self, name: str) -> bool:
        """Whether the gang's eviction can no longer be taken back."""
        return name in self.evicted and self._records[name].begun

    def covers(self, name: str, uid: str) -> bool:
        """Whether the gang is evicted, and the pod with it."""
        return name in self.evicted and uid in self._records[name].evicted

    def spare(self, name: str) -> None:
        """The members that are left stay: the gang goes on as it was, and heals if some are gone."""
        gang = self.get(name)
        if gang is None or name not in self.evicted:
            return
        record = self._records[name]
        record.started_with = record.evicted_from
        record.evicted.clear()
        del self.evicted[name]
        self._touch(name)

    # Questions

    def name_of(self, uid: str) -> str:
        """The gang of the pod with this UID, or ""."""
        name = self._gang_of_uid.get(uid, "")
        return "" if name and uid in self._one_by_one.get(name, ()) else name

    def declared(self, pod: Pod) -> str:
        """The gang that a pod declares, seen or not; "" for none."""
        name = gang_of(pod.metadata, pod.spec)
        return "" if self._is_one_by_one(name) else name

    def get(self, name: str) -> Gang | None:
        """The gang as it stands, None when it has no members."""
        record = self._records.get(name)
        if record is None:
            return None
        if record.memo is None:
            record.memo = gang = self._read(name, record)
            record.started_with = gang.started_with
            if name in self.evicted and not gang.evicted:
                record.evicted.clear()
                del self.evicted[name]
        return record.memo

    def names(self) -> Iterable[str]:
        """All gangs that have members, in order of name."""
        return sorted(self._records)

    def _take_over(self, name: str, record: _Record, pod: Pod) -> None:
        """A bound member that was not known before may be part of an eviction that another scheduler began.

        As long as a marked member is not on its way out, no other member was placed since the decision: so
        all that run are covered by it. Of a gang that is released because it could not be completed, only
        members that a controller recreates are: a bare pod is not deleted for that.
        """
        if pod.metadata.deletion_timestamp is not None or pod.terminal:
            return
        uid = pod.metadata.uid
        if with_its_gang(pod) and not record.evicted:
            record.bare_stay = is_released(pod)
            bound = [each for each, one in record.pods.items() if one.spec.node_name]
            self.evict(name, (*(each for each in bound if self._leaves_too(record, record.pods[each])), uid))
            record.begun = record.taken_over = True
            # It runs without knowing how it began: should the eviction be taken back, it had started.
            record.evicted_from = 0 if record.bare_stay else max(1, started_with(pod))
        elif record.evicted and (with_its_gang(pod) or self._leaves_too(record, pod)):
            record.evicted[uid] = None
            record.covered += 1

    @staticmethod
    def _leaves_too(record: _Record, pod: Pod) -> bool:
        return not record.bare_stay or pod.metadata.controller is not None

    def _read(self, name: str, record: _Record) -> Gang:
        pending: list[Pod] = []
        running: list[Pod] = []
        evicted: list[Pod] = []
        succeeded = 0
        for uid, pod in record.pods.items():
            if pod.status.phase == "Succeeded":
                succeeded += 1
            elif pod.terminal or pod.metadata.deletion_timestamp is not None or uid in record.departing:
                continue
            elif uid in record.evicted:
                evicted.append(pod)
            elif pod.spec.node_name or uid in self._assumed:
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
        for pods in (pending, running, evicted):
            pods.sort(key=lambda pod: (created_at(pod.metadata), pod.metadata.name))
        group = self._groups.get(name)
        held = succeeded + len(running)
        outdated: list[Pod] = []
        if not held and pending:
            pending, outdated = self._current(pending)
        present = held + len(pending) + len(waiting)
        members = pending if outdated else record.pods.values()
        minimum, settles_at = self._size(name, group, members, present)
        started = self._started_with(record, running, held, minimum, declared=settles_at == 0.0)
        if started and settles_at:
            # Taken from owners it may shrink with them, but what was added since comes beyond it.
            minimum = min(minimum, started) if self._owners.desired(name)[0] else started
            settles_at = 0.0
        lacks = ""
        advice = ""
        if not started and pending:
            lacks = self._lacks(group, pending[0])
            if minimum > present:
                advice = self._owners.advice((*pending, *outdated))
        return Gang(
            name,
            minimum,
            settles_at,
            tuple(pending),
            tuple(running),
            succeeded,
            started,
            group.spec.schedule_timeout_seconds if group is not None else None,
            tuple(waiting),
            tuple(evicted),
            tuple(outdated),
            lacks,
            advice,
            record.found_bound,
        )

    def _current(self, pending: list[Pod]) -> tuple[list[Pod], list[Pod]]:
        """While every member waits: those that count, and those of an older revision of their workload."""
        older = [pod for pod in pending if self._owners.is_outdated(pod)]
        newer = [pod for pod in pending if pod not in older] if older else []
        return (newer, older) if newer else (pending, [])

    def _started_with(
        self, record: _Record, running: list[Pod], held: int, minimum: int, *, declared: bool
    ) -> int:
        """The minimum with which the gang started; 0 when it has not."""
        if not held:
            return 0
        if record.started_with:
            return record.started_with
        # Seen bound at the size it was started with, or at its declared size, after a restart say.
        bound = held - sum(1 for pod in running if not pod.spec.node_name)
        recorded = max(map(started_with, running), default=0)
        if recorded and bound >= recorded:
            return recorded
        return minimum if declared and bound >= minimum > 0 else 0

    def _size(
        self, name: str, group: PodGroup | None, pods: Iterable[Pod], present: int
    ) -> tuple[int, float]:
        """The minimum, and the time from which it is believed."""
        declared = object_minimum(group) or max(map(annotated_minimum, pods))
        if declared:
            return declared, 0.0
        newest = max(created_at(pod.metadata) for pod in pods)
        desired, owners_newest = self._owners.desired(name)
        return desired or present, max(newest, owners_newest) + self._settle_s

    @staticmethod
    def _lacks(group: PodGroup | None, pod: Pod) -> str:
        membership = membership_of(pod.metadata, pod.spec)
        if group is not None or membership is None or not membership.needs_object:
            return ""
        return membership.api_group

    def _is_one_by_one(self, name: str) -> bool:
        # Kubernetes' own PodGroup with the basic policy asks for ordinary, pod by pod scheduling.
        group = self._groups.get(name)
        policy = group.spec.scheduling_policy if group is not None else None
        return policy is not None and policy.gang is None and name.endswith(f"@{KUBERNETES}")

    def _regroup(self, name: str) -> None:
        """A PodGroup came, changed or went: its pods may be a gang now, or not any more."""
        if self._is_one_by_one(name):
            record = self._records.get(name)
            for uid, pod in list(record.pods.items()) if record is not None else ():
                assumed = uid in self._assumed
                self.pod_gone(uid)
                self.pod_seen(pod)
                self.freed[uid] = pod
                if assumed:
                    self._assumed.add(uid)
        else:
            for pod in list(self._one_by_one.pop(name, {}).values()):
                self.pod_seen(pod)
        self._touch(name)

    def _touch(self, name: str) -> None:
        if name:
            self.changed[name] = None
            self.log.note(name)
            record = self._records.get(name)
            if record is not None:
                record.memo = None


def created_at(metadata: ObjectMeta) -> float:
    """Seconds since the epoch; 0 for an object that does not say."""
    return metadata.creation_timestamp.timestamp() if metadata.creation_timestamp else 0.0


def _api_group(group: PodGroup) -> str:
    return group.api_version.partition("/")[0] if "/" in group.api_version else COSCHEDULING
