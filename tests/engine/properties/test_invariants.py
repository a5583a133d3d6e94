"""The invariants, over random histories of a cluster: what must hold whatever happens in whatever order."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fairlead.engine.core.actions import Action, BindPod, EvictPod, NominatePod, ReleasePod
from fairlead.engine.core.core import Core
from fairlead.engine.core.events import BindFailed, Event, EvictFailed, Gone, Seen
from fairlead.engine.planning.settings import Settings
from fairlead.kube.pod import Pod
from support.cluster_of import Running, seen
from support.units import EPOCH, budget, node, pod

NODES = [f"n{index}" for index in range(4)]
APART = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "a"}}}
        ]
    }
}
NEAR = {
    "podAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "b"}}}
        ]
    }
}
SPREAD = [
    {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "a"}},
    }
]
RULES = [{}, {}, {}, {"affinity": APART}, {"affinity": NEAR}, {"topologySpreadConstraints": SPREAD}]

NODE = st.tuples(
    st.just("node"), st.sampled_from(NODES), st.integers(2, 5), st.sampled_from([False, False, False, True])
)
POD = st.tuples(
    st.just("pod"),
    st.integers(1, 3),
    st.sampled_from([-1, 0, 5, 9]),
    st.sampled_from(["a", "b"]),
    st.integers(0, len(RULES) - 1),
    st.booleans(),
)
GANG = st.tuples(
    st.just("gang"),
    st.integers(2, 4),
    st.integers(1, 2),
    st.sampled_from([0, 5, 7]),
    st.sampled_from([0, 0, 1]),
)
STEPS = st.one_of(
    NODE,
    POD,
    POD,
    POD,
    GANG,
    GANG,
    st.tuples(st.just("no node"), st.sampled_from(NODES)),
    st.tuples(st.just("no pod"), st.integers(0, 30)),
    st.tuples(st.just("budget"), st.sampled_from(["a", "b"]), st.integers(0, 2)),
    st.tuples(st.just("wait"), st.sampled_from([0.5, 3.0, 20.0, 700.0])),
    st.tuples(st.just("bind fails"), st.integers(1, 2)),
    st.tuples(st.just("eviction refused"), st.booleans()),
    st.tuples(st.just("leave slowly"), st.booleans()),
)
# Nodes first and low pods on them, so that most histories are about scarce room.
HISTORIES = st.builds(
    lambda nodes, low, rest: [
        *(("node", name, cpu, False) for name, cpu in zip(NODES, nodes, strict=False)),
        *(("pod", cpu, -1, app, 0, False) for cpu, app in low),
        *rest,
    ],
    st.lists(st.integers(2, 5), min_size=1, max_size=3),
    st.lists(st.tuples(st.integers(1, 3), st.sampled_from(["a", "b"])), max_size=6),
    st.lists(STEPS, min_size=4, max_size=25),
)


@dataclass
class Leaving:
    """A gang that is to leave whole: who is covered by that, who it was decided for, when it has begun."""

    uids: set[str]
    priority: int
    begun: float | None = None


class History(Running):
    """Plays steps, remembers every event as the core was told it, and checks actions as they come."""

    def __init__(self) -> None:
        super().__init__(Settings(reserve_after_s=600.0))
        self.told: list[tuple[float, tuple[Event, ...]]] = []
        self.outputs: list[bytes] = []
        self.nodes: dict[str, dict] = {}
        self.budgets: dict[str, dict] = {}
        self.serial = 0
        self.sent: dict[str, str] = {}
        self.bind_failures = 0
        self.binds_fail = self._fails
        self.leaving: dict[str, Leaving] = {}  # by gang

    def tell(self, *events: Event):
        self.told.append((self.now, events))
        for event in events:
            if isinstance(event, BindFailed):
                self.sent.pop(event.uid, None)
            if isinstance(event, EvictFailed):
                assert event.pod in self.pods
                if event.final:
                    # One that can never leave: the others stay with it.
                    self.leaving.pop(gang_of(self.pods[event.pod]), None)
        actions = super().tell(*events)
        self.outputs.append(msgspec.json.encode(actions))
        self._check(actions)
        return actions

    def happens(self, action: Action) -> list[Event]:
        events = super().happens(action)
        if isinstance(action, EvictPod) and action.gang and events:
            granted = not isinstance(events[0], EvictFailed)
            leaving = self.leaving.get(action.gang)
            if granted and leaving is not None and leaving.begun is None:
                leaving.begun = self.now
        return events

    def play(self, step) -> None:
        match step:
            case ("node", name, cpu, cordoned):
                self.nodes[name] = node(name, cpu, unschedulable=cordoned)
                self.add(self.nodes[name])
            case ("no node", name):
                if self.nodes.pop(name, None):
                    self.settle(self.tell(Gone("Node", "", name)))
            case ("pod", cpu, priority, app, rule, never):
                self.serial += 1
                more = {"preemptionPolicy": "Never"} if never and priority == 5 else {}
                self.add(
                    pod(
                        f"p{self.serial}",
                        cpu,
                        priority=priority,
                        created=self.now,
                        labels={"app": app},
                        **RULES[rule],
                        **more,
                    )
                )
            case ("gang", size, cpu, priority, short):
                self.serial += 1
                name = f"g{self.serial}"
                members = [
                    pod(
                        f"{name}-{index}",
                        cpu,
                        priority=priority,
                        created=self.now,
                        gang=name,
                        minimum=size,
                        owner={"kind": "Job", "name": name, "uid": f"uid-{name}", "controller": True},
                    )
                    for index in range(size - short)
                ]
                self.add(*members)
            case ("no pod", which):
                keys = sorted(self.pods)
                if keys:
                    self.remove(keys[which % len(keys)].partition("/")[2])
            case ("budget", app, allowed):
                self.budgets[app] = budget(app, {"app": app}, allowed)
                self.add(self.budgets[app])
            case ("wait", seconds):
                self.after(seconds)
            case ("bind fails", number):
                self.bind_failures = number
            case ("eviction refused", final):
                keys = [key for key in sorted(self.pods) if self.pods[key].spec.node_name]
                self.refused = {keys[0]: final} if keys else {}
            case ("leave slowly", slowly):
                self.leaves_at_once = not slowly
                if not slowly:
                    self.finish()

    def finish(self) -> None:
        """All that is leaving has left."""
        leaving = [key for key, one in sorted(self.pods.items()) if one.metadata.deletion_timestamp]
        self.settle(self.tell(*(self.gone(key) for key in leaving)))

    def rest(self) -> None:
        """A quiet moment: nothing fails, everybody has left, all backoffs are over."""
        self.bind_failures = 0
        self.refused = {}
        self.leaves_at_once = True
        # A commit may run out of time (60 s) while we wait, and what it frees may be waited for in turn.
        for _ in range(6):
            self.finish()
            self.after(30)

    def _fails(self, bind: BindPod) -> bool:
        self.bind_failures -= 1
        return self.bind_failures >= 0

    def _check(self, actions) -> None:
        for action in actions:
            match action:
                case BindPod():
                    self._check_bind(action)
                case EvictPod():
                    self._check_eviction(action)

    def _check_bind(self, bind: BindPod) -> None:
        one = self.pods[bind.pod]
        assert one.metadata.uid == bind.uid
        assert not one.spec.node_name, "bound a pod that has a node"
        assert bind.uid not in self.sent, "bound a pod twice"
        self.sent[bind.uid] = bind.node
        assert bind.node in self.nodes, "bound to a node that is not there"
        there = self.nodes[bind.node]
        assert not there["spec"]["unschedulable"], "bound to a cordoned node"
        taken = sum(
            cpu(other)
            for other in self.pods.values()
            if not other.terminal and (other.spec.node_name or self.sent.get(other.metadata.uid)) == bind.node
        )
        assert taken <= int(there["status"]["allocatable"]["cpu"]), "bound beyond allocatable"

    def _check_eviction(self, evict: EvictPod) -> None:
        if evict.unit_id:
            self._check_makes_room(evict)
        else:
            self._check_finishes(evict)
        assert self.core.confirms(evict), "evicted though the placement does not hold"

    def _check_makes_room(self, evict: EvictPod) -> None:
        victim = self.pods[evict.pod]
        members = [one for key, one in self.pods.items() if key == evict.unit or gang_of(one) == evict.unit]
        assert members, "evicted for nobody"
        priority = min(one.spec.priority or 0 for one in members)
        assert (victim.spec.priority or 0) < priority
        if evict.gang:
            assert gang_of(victim) == evict.gang, "evicted with a gang that is not its own"
            known = self.leaving.get(evict.gang)
            if known is None or known.begun is None or self._ends_at(known) <= self.now:
                # Decided now, or again after it was taken back.
                self.leaving[evict.gang] = Leaving(self._placed(evict.gang), priority)

    def _check_finishes(self, evict: EvictPod) -> None:
        """No unit waits for it: it leaves because its gang leaves whole, and others of it have left."""
        victim = self.pods[evict.pod]
        assert gang_of(victim) == evict.gang == evict.unit, "evicted for nobody"
        leaving = self.leaving.get(evict.gang)
        assert leaving is not None, "finished what was never decided, or was taken back"
        assert leaving.begun is not None, "finished what has not begun"
        assert evict.uid in leaving.uids, "evicted a member that was placed since"
        assert (victim.spec.priority or 0) < leaving.priority
        assert self.now < self._ends_at(leaving), "finished what had to end by now"

    def _placed(self, gang: str) -> set[str]:
        return {
            one.metadata.uid
            for one in self.pods.values()
            if gang_of(one) == gang and (one.spec.node_name or one.metadata.uid in self.sent)
        }

    def _ends_at(self, leaving: Leaving) -> float:
        """From when on what is left of the gang stays, if it could not be evicted until then."""
        assert leaving.begun is not None
        return leaving.begun + self.core.settings.preemption_timeout_s

    def unfinished(self) -> dict[str, set[str]]:
        """Members of gangs that are yet to leave because others have, while there is time for that."""
        retry_s = self.core.settings.eviction_retry_s
        return {
            name: {one.metadata.uid for one in self.pods.values()} & leaving.uids
            for name, leaving in self.leaving.items()
            if leaving.begun is not None and self.now + retry_s < self._ends_at(leaving)
        }


def cpu(one: Pod) -> int:
    return int(one.spec.containers[0].resources.requests["cpu"])


def gang_of(one: Pod) -> str:
    name = one.metadata.annotations.get("pod-group")
    return f"default/{name}" if name else ""


def bound_members(world: Running) -> dict[str, list[int]]:
    """Per gang: its minimum, how many members have a node, how many there are."""
    found: dict[str, list[int]] = {}
    for one in world.pods.values():
        gang = one.metadata.annotations.get("pod-group")
        if gang:
            entry = found.setdefault(gang, [int(one.metadata.annotations["pod-group-min-member"]), 0, 0])
            entry[1] += bool(one.spec.node_name)
            entry[2] += 1
    return found


# Two gangs of equal priority make room on one node at the same moment: each placement holds only with the
# other's victims gone as well.
BOTH_MAKE_ROOM = [
    *(("node", name, cpu, False) for name, cpu in (("n0", 2), ("n1", 2), ("n2", 4))),
    *(("pod", cpu, -1, "a", 0, False) for cpu in (3, 2, 1, 1)),
    ("no pod", 0),
    ("eviction refused", True),
    ("gang", 2, 2, 5, 0),
    ("pod", 3, -1, "a", 0, False),
    ("budget", "b", 0),
    ("gang", 2, 1, 5, 0),
]


# The last one makes room as the first of its like; then one of its like is placed elsewhere.
COMPANY_COMES = [
    *(("node", name, 3, False) for name in ("n0", "n1")),
    *(("pod", cpu, -1, app, 0, False) for cpu, app in ((1, "a"), (1, "a"), (1, "a"), (1, "a"), (2, "b"))),
    ("eviction refused", True),
    ("pod", 3, 0, "b", 4, False),
]

# With the first node goes the only other pod that the last one wants to be near: from then on the last one
# may take the place of its like.
COMPANY_GOES = [
    *(("node", name, 2, False) for name in ("n0", "n1")),
    *(("pod", cpu, -1, app, 0, False) for cpu, app in ((1, "b"), (2, "b"), (1, "a"))),
    ("pod", 1, 0, "b", 4, False),
    ("no node", "n0"),
]

# The first who should make room cannot, another does; but the bind fails, and the node shrinks. What the API
# shows of the second promise, of the same node as the first, is taken back like that was.
PROMISED_TWICE = [
    *(("node", name, cpu, False) for name, cpu in (("n0", 2), ("n1", 3))),
    *(("pod", cpu, -1, "a", 0, False) for cpu in (1, 1, 1, 2)),
    ("no node", "n0"),
    ("wait", 3.0),
    ("bind fails", 1),
    ("eviction refused", True),
    ("pod", 2, 0, "a", 5, False),
    ("pod", 1, -1, "a", 0, False),
    ("node", "n1", 2, False),
]

# One member of the gang may not leave for now. The others leave, and that is room enough for the last pod:
# nobody waits for that member any more when it is asked to leave again.
THE_REST_FOLLOWS = [
    *(("node", name, cpu, False) for name, cpu in (("n0", 2), ("n1", 3), ("n2", 4))),
    ("no node", "n0"),
    ("gang", 3, 1, 0, 0),
    ("eviction refused", False),
    ("pod", 3, 5, "a", 0, False),
]

# The same with that member on a node that is gone.
THE_REST_FOLLOWS_FROM_NOWHERE = [
    *(("node", name, 3, False) for name in ("n0", "n1")),
    ("gang", 3, 1, 0, 0),
    ("no node", "n0"),
    ("eviction refused", False),
    ("pod", 3, 5, "a", 0, False),
]

# That member may not leave for so long that it stays.
THE_REST_STAYS = [*THE_REST_FOLLOWS, ("wait", 700.0)]

# Or it can never leave: then it stays at once.
THE_REST_IS_STUCK = [
    ("eviction refused", True) if step == ("eviction refused", False) else step for step in THE_REST_FOLLOWS
]


def played(steps) -> History:
    world = History()
    for step in steps:
        world.play(step)
    return world


def test_binds_and_evictions_are_right_whatever_happens(count):
    """A pod is bound once and only where it fits; victims are lower, and the placement holds or they go
    because the rest of their gang has gone for one that did.
    """

    @settings(max_examples=count(150, 1500))
    @given(HISTORIES)
    @example(BOTH_MAKE_ROOM)
    @example(COMPANY_COMES)
    @example(THE_REST_FOLLOWS)
    @example(THE_REST_FOLLOWS_FROM_NOWHERE)
    @example(THE_REST_STAYS)
    @example(THE_REST_IS_STUCK)
    def check(steps):
        played(steps).rest()

    check()


def test_gangs_are_never_left_partly_started(count):
    @settings(max_examples=count(100, 1000))
    @given(HISTORIES)
    def check(steps):
        world = History()
        started: set[str] = set()
        for step in steps:
            world.play(step)
            started |= {name for name, (size, bound, _) in bound_members(world).items() if bound >= size}
        world.rest()
        world.after(120)
        for name, (size, bound, _) in bound_members(world).items():
            assert bound == 0 or bound >= size or name in started

    check()


def test_an_eviction_of_a_gang_that_has_begun_is_finished(count):
    """Whatever becomes of the unit that it was decided for, unless a member can never be evicted, or could
    not be in time.
    """

    @settings(max_examples=count(100, 1000))
    @given(HISTORIES)
    @example(THE_REST_FOLLOWS)
    @example(THE_REST_FOLLOWS_FROM_NOWHERE)
    @example(THE_REST_STAYS)
    @example(THE_REST_IS_STUCK)
    def check(steps):
        world = played(steps)
        begun = world.unfinished()
        world.rest()
        for name, uids in begun.items():
            still = {one.metadata.uid for one in world.pods.values()} & uids
            assert not still, f"gang {name} was left in part"

    check()


def test_the_same_history_gives_the_same_actions_to_the_byte(count):
    @settings(max_examples=count(60, 600))
    @given(HISTORIES)
    def check(steps):
        world = played(steps)
        again = Core(world.core.settings)
        for (now, events), expected in zip(world.told, world.outputs, strict=True):
            assert msgspec.json.encode(again.handle(events, EPOCH.timestamp() + now)) == expected

    check()


def test_no_change_no_action(count):
    @settings(max_examples=count(100, 1000))
    @given(HISTORIES)
    def check(steps):
        world = played(steps)
        world.rest()
        assert world.tell() == []
        same = [Seen("Pod", one) for one in world.pods.values()]
        same += [seen(one) for one in world.nodes.values()]
        assert world.tell(*same) == []

    check()


def test_incremental_equals_a_full_plan_over_the_same_state(count):
    @settings(max_examples=count(150, 1500))
    @given(HISTORIES)
    @example(COMPANY_GOES)
    @example(PROMISED_TWICE)
    @example(THE_REST_FOLLOWS)
    @example(THE_REST_FOLLOWS_FROM_NOWHERE)
    @example(THE_REST_STAYS)
    @example(THE_REST_IS_STUCK)
    def check(steps):
        world = played(steps)
        world.rest()
        fresh = Core(world.core.settings)
        fresh.handle([seen(one) for one in (*world.nodes.values(), *world.budgets.values())], 0.0)
        fresh_state, state = fresh._state, world.core._state
        for name in state.gangs.names():
            gang = state.gangs.get(name)
            if gang.latched:
                # What latching remembers is part of the state.
                for one in (*gang.running, *gang.pending):
                    fresh_state.gangs.pod_seen(one)
                fresh_state.gangs.latch(name)
        # So are reservations, and who was found to be impossible to evict.
        fresh._service.preemption.spared.update(world.core._service.preemption.spared)
        fresh._service.reserver.restore(state.room.reservations)
        actions = fresh.handle(
            [Seen("Pod", one) for one in world.pods.values()], EPOCH.timestamp() + world.now
        )
        assert not [
            action for action in actions if isinstance(action, BindPod | EvictPod | NominatePod | ReleasePod)
        ]
        assert held(fresh) == held(world.core)

    check()


def held(core: Core) -> set[str]:
    return {key for key, _, _ in core.report.held()}
