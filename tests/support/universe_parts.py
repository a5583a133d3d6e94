"""What decides in a `Universe`: the pure parts that the doors call, kept and fed as the doors do.

`Webhook` gives slots at admission; `KubeScheduler` goes by what it wrote, `Extender` is kube-scheduler that
asks about tiers, `OwnScheduler` is the core.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from fairlead.engine.core.actions import BindPod, EvictPod, ReleasePod
from fairlead.engine.core.core import Core
from fairlead.engine.core.events import Event, Gone, MarksAre, PoliciesAre, Seen
from fairlead.engine.planning.settings import Settings
from fairlead.kube.decode import convert
from fairlead.kube.node import Node
from fairlead.kube.pod import Pod
from fairlead.policy.decide.admission import annotations_of, patched
from fairlead.policy.decide.filter.filter_state import FilterRequest, FilterState
from fairlead.policy.groups.index import GroupedPod
from fairlead.policy.groups.member import GroupKey
from fairlead.policy.names import SLOT_ANNOTATION
from fairlead.policy.rule.choice import Choice
from fairlead.policy.rule.split import Tiers
from fairlead.policy.slots.ledger import Ledger, Sightings
from fairlead.policy.slots.placing import Placing, place, place_alone
from fairlead.policy.tiers.tier_nodes import NodesOfTiers
from support.tiers import matched, runs_on
from support.universes import Answer, Api, Obj, Part, typed

__all__ = ["OURS", "Extender", "KubeScheduler", "OwnScheduler", "Webhook"]

OURS = "fairlead"


class Webhook(Part):
    """Admission, with ledgers as `fairlead.doors.webhook.ledgers` keeps them: in the API, observed first."""

    def __init__(self, api: Api, ours: Collection[str] = ()) -> None:
        self._ours = ours
        super().__init__(api)

    def start(self) -> None:
        self._sightings = Sightings()
        self._gone: dict[GroupKey, list[str]] = {}

    def changed(self, before: GroupedPod | None, after: GroupedPod | None) -> None:
        if before is not None and after is None:
            tokens = (before.member.token, before.member.uid)
            self._gone.setdefault(before.key, []).extend(token for token in tokens if token)

    def admitted(self, pod: Obj) -> Obj:
        read: Pod = typed(pod)
        where = self.index.place(read.metadata, "default")
        if where is None:
            return pod
        tiers = self.index.tiers(where, read.metadata.labels, coming=True)
        skipped, crowded = self.fits.steers(where.policy.name, read, self.api.marks)
        if where.key.alone:
            placing = place_alone(where.policy, where.workload, tiers, unavailable=skipped, crowded=crowded)
        else:
            ledger = self._observed(self.ledger(where.key).owned_by(where.workload), tiers)
            token = f"token-of-{read.metadata.uid}"
            after, placing = place(
                ledger,
                where.policy,
                where.workload,
                tiers,
                token=token,
                now=self.api.now,
                unavailable=skipped,
                crowded=crowded,
            )
            self._write(after)
        return patched(pod, where.policy, placing, where.workload, self._ours)

    def written(self) -> list[Obj]:
        for key in {*self.index.groups, *(Ledger.from_object(one).key for one in self.api.ledgers.values())}:
            if key.alone:
                continue
            some = self.index.some(key)
            tiers = None if some is None else self.index.tiers(some.place, some.facts.metadata.labels)
            self._write(self._observed(self.ledger(key), tiers))
        return []

    def answers(self) -> dict[str, Answer]:
        found = {}
        for pod, one in self.holding():
            ledger = self.ledger(one.key)
            entry = ledger.of_token(one.member.token) or ledger.of_token(one.member.uid)
            assert entry is not None or one.key.alone, pod["metadata"]["name"]
            slot = 1 if entry is None else entry.slot
            found[one.id] = Answer(slot, one.member.tier, one.facts.node)
        return found

    def ledger(self, key: GroupKey) -> Ledger:
        """A group's ledger as the API has it."""
        found = self.api.ledgers.get(key.ledger_name)
        return Ledger(key) if found is None else Ledger.from_object(found)

    def _observed(self, ledger: Ledger, tiers: Tiers | None) -> Ledger:
        ledger = self._sightings.of(ledger, self.api.now)
        members, gone = self.index.members(ledger.key), self._gone.get(ledger.key, ())
        if tiers is None:
            return ledger.gone(gone).expire(members, self.api.now)
        return ledger.observe(members, tiers, self.api.now, gone=gone)

    def _write(self, ledger: Ledger) -> None:
        if ledger.entries:
            self.api.ledgers[ledger.key.ledger_name] = ledger.to_object()
        else:
            self.api.ledgers.pop(ledger.key.ledger_name, None)


class KubeScheduler(Part):
    """A scheduler that goes by what the pods say: the first node, of those that weigh most."""

    def scheduled(self) -> Iterator[Obj]:
        """Pods that got their node, one after the other, the oldest first."""
        for pod in self.api.pods:
            if pod["spec"].get("nodeName") or "deletionTimestamp" in pod["metadata"]:
                continue
            node = self.chosen(pod, [one for one in self.api.open_nodes() if runs_on(pod, _like(one))])
            if node is not None:
                yield {**pod, "spec": {**pod["spec"], "nodeName": node}}

    def chosen(self, pod: Obj, fitting: list[Obj]) -> str | None:
        """The node for a pod."""
        affinity = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
        wishes = affinity.get("preferredDuringSchedulingIgnoredDuringExecution") or []

        def weight(node: Obj) -> int:
            return sum(wish["weight"] for wish in wishes if matched([wish["preference"]], _like(node)))

        best = max(fitting, key=weight, default=None)
        return None if best is None else str(best["metadata"]["name"])


class Extender(KubeScheduler):
    """kube-scheduler that asks the extender about each pod, with all nodes that take it on offer."""

    def start(self) -> None:
        self._nodes = NodesOfTiers()
        self._nodes.use([self.api.policy])
        self.state = FilterState(self._nodes, lambda _: {tier for tier, _ in self.api.marks})
        self._said: dict[str, Answer] = {}

    def changed(self, before: GroupedPod | None, after: GroupedPod | None) -> None:
        if before is not None and (after is None or before.key != after.key):
            self.state.left(before.key, before.member, gone=after is None)
        if after is not None:
            self.state.shown(after.key, after.member, after.facts.node)

    def seen(self, thing: Obj) -> None:
        if thing["kind"] == "Node":
            self._nodes.put(convert(thing, Node))
        super().seen(thing)

    def gone(self, thing: Obj) -> None:
        if thing["kind"] == "Node":
            self._nodes.drop(thing["metadata"]["name"])
        super().gone(thing)

    def marked(self) -> None:
        self._nodes.noted(self.api.policy.name, {tier for tier, _ in self.api.marks})

    def chosen(self, pod: Obj, fitting: list[Obj]) -> str | None:
        one = self.index.get(pod["metadata"]["name"])
        if one is None:
            return super().chosen(pod, fitting)
        tiers = self.index.tiers(one.place, one.facts.metadata.labels)
        ask = FilterRequest(one.member, "default", one.place, tiers)
        offered = tuple(str(node["metadata"]["name"]) for node in fitting)
        answer = self.state.filter(ask, offered, self.api.now)
        scores = dict(zip(offered, self.state.scores(ask, offered, highest=10), strict=True))
        best = max((scores[name] for name in answer.nodes), default=0)
        left = [
            node
            for node in fitting
            if (name := node["metadata"]["name"]) in answer.nodes and scores[name] == best
        ]
        if answer.choice is not None:
            tier = answer.choice.tier
            called = "" if tier is None else one.policy.spec.tiers[tier].name
            self._said[one.id] = Answer(answer.slot, called)
        return super().chosen(pod, left)

    def written(self) -> list[Obj]:
        """Write which slot is whose on pods that have a node, see `fairlead.doors.extender.upkeep`."""
        found = []
        for pod, one in self.holding():
            slot = self.slot_of(one)
            if not one.facts.node or one.member.token or slot is None or slot == one.member.slot:
                continue
            said = self._said.get(one.id)
            if one.member.slot is not None or (said is not None and said.slot != slot):
                self.api.renumbered.add(one.key)
            tier = self.api.tier_of(one.facts.node)
            index = next((at for at, each in enumerate(one.policy.spec.tiers) if each.name == tier), None)
            marks = annotations_of(one.policy, Placing(slot, Choice(index, "rule")))
            metadata = pod["metadata"]
            annotations = {**metadata.get("annotations", {}), **marks}
            found.append({**pod, "metadata": {**metadata, "annotations": annotations}})
        return found

    def slot_of(self, one: GroupedPod) -> int | None:
        """The slot that a pod holds."""
        slots = self.state.groups.get(one.key)
        if slots is None:
            return 1 if one.key.alone else None
        slots.settle(self.index.tiers(one.place, one.facts.metadata.labels))
        return next((held.slot for uid, held in slots.placed() if uid == one.member.uid), None)

    def answers(self) -> dict[str, Answer]:
        found = {}
        for _, one in self.holding():
            slot = self.slot_of(one)
            if one.facts.node and slot is not None:
                found[one.id] = Answer(slot, one.member.tier, one.facts.node)
            elif one.id in self._said:
                found[one.id] = self._said[one.id]
        return found


class OwnScheduler(KubeScheduler):
    """The scheduler's core, which decides on tier and node."""

    def start(self) -> None:
        self._core = Core(Settings(backoff_s=0.0))
        self._events: list[Event] = [PoliciesAre((self.api.policy,))]
        self.marked()

    def seen(self, thing: Obj) -> None:
        self._events.append(Seen(thing["kind"], typed(thing)))
        super().seen(thing)

    def gone(self, thing: Obj) -> None:
        meta = thing["metadata"]
        self._events.append(Gone(thing["kind"], meta.get("namespace", ""), meta["name"], meta.get("uid", "")))
        super().gone(thing)

    def marked(self) -> None:
        self._events.append(MarksAre(self.api.policy.name, dict(self.api.marks)))

    def scheduled(self) -> Iterator[Obj]:
        while True:
            events, self._events = self._events, []
            actions = self._core.handle(events, self.api.now)
            assert not [one for one in actions if isinstance(one, EvictPod | ReleasePod)]
            for action in actions:
                if isinstance(action, BindPod):
                    pod = self.api.objects["Pod", action.pod.partition("/")[2]]
                    annotations = {**pod["metadata"].get("annotations", {}), **action.annotations}
                    metadata = {**pod["metadata"], "annotations": annotations}
                    yield {**pod, "metadata": metadata, "spec": {**pod["spec"], "nodeName": action.node}}
            if not self._events:
                return

    def answers(self) -> dict[str, Answer]:
        sent = self._core.report.sent
        found = {}
        for pod, one in self.holding():
            marked = pod["metadata"].get("annotations", {}).get(SLOT_ANNOTATION)
            if one.facts.node and marked is not None:
                found[one.id] = Answer(int(marked), one.member.tier, one.facts.node)
            elif (said := sent(one.member.uid)) is not None:
                tier = said.choice.tier
                found[one.id] = Answer(said.slot, "" if tier is None else one.policy.spec.tiers[tier].name)
        return found


def _like(node: Obj) -> tuple[str, dict[str, str]]:
    return node["metadata"]["name"], node["metadata"]["labels"]
