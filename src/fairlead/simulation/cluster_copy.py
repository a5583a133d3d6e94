"""A copy of a cluster that goes on in virtual time from the moment at which the cluster was read.

Objects are put into the store of an embedded cluster as they were found, with their UIDs, status and times.
The subtle thing is what was not read: the pods of an owner that the copy does not have would be collected as
garbage, so references to it are taken off, and such a pod is recreated by nothing once it is gone.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from msgspec.structs import replace

from fairlead.engine.ask.capacity import group_of
from fairlead.errors import ApiError, BadInput, BadObject
from fairlead.kube.decode import convert
from fairlead.kube.duration import age
from fairlead.kube.node import Node
from fairlead.nodegroups import GROUP_LABEL, NodeGroup
from fairlead.policy.names import POLICIES
from fairlead.policy.rule.model import PlacementPolicy
from fairlead.policy.tiers.fallback import PROMISES
from fairlead.simulation.contents import EXTENDER, REBALANCER, SCHEDULER, WEBHOOK, Contents, Obj
from fairlead.simulation.drain import Drain
from fairlead.simulation.node_pools import KIND as KIND_OF_POOLS
from fairlead.world.admission import AdmissionRequest
from fairlead.world.api import Options
from fairlead.world.autoscaler import Pacing
from fairlead.world.clock import VirtualClock
from fairlead.world.extender import Extender
from fairlead.world.fairlead_scheduler import Fairlead
from fairlead.world.ids import CountedIds
from fairlead.world.kubelet import Pace
from fairlead.world.objects import finished, stamp
from fairlead.world.placement import Placement
from fairlead.world.schema.kinds import Strategy, strategy_of
from fairlead.world.schema.resources import BUILTIN, NAMESPACES, PODS, Registry, Resource
from fairlead.world.schema.shape import copy_json
from fairlead.world.store import Change, Store
from fairlead.world.world import World

# Written all the time, by components that the copy does not need, or no part of what decides.
_LEFT_OUT = frozenset(
    {
        "CustomResourceDefinition",
        "Endpoints",
        "EndpointSlice",
        "Event",
        "Lease",
        "MutatingWebhookConfiguration",
        KIND_OF_POOLS,
        "PlacementLedger",
        POLICIES.kind,
        "ValidatingWebhookConfiguration",
    }
)
_NAMESPACE = strategy_of(next(one for one in BUILTIN if one.resource == NAMESPACES))
# How long a job that runs will take is not known: it goes on.
_PACE = Pace(job=timedelta(days=3650))
_USUAL = Pacing()
# A cluster is quiet while none of these changes: what follows from them is said of their owners later.
_WATCHED = frozenset({"Pod", "Node"})
# Steps between two looks at how far it is.
_SLICE = 256


@dataclass(frozen=True, slots=True)
class Original:
    """What all copies of a cluster begin with. Invariant: nothing changes it; each copy forks its store."""

    store: Store
    skipped: Counter[str]
    """Kinds of objects that a copy cannot have, and how many there were."""


def load(contents: Contents) -> Original:
    """Put the objects into a store; what never was in a cluster gets the defaults of one."""
    registry, skipped, begin = Registry(), Counter[str](), stamp(contents.at)
    there: list[tuple[Resource, Obj]] = []
    namespaces: dict[str, None] = {}
    for item in contents.objects:
        kind = item["kind"]
        if kind in _LEFT_OUT:
            continue
        resource = registry.of_kind(item.get("apiVersion", "v1"), kind)
        if resource is None:
            skipped[kind] += 1
            continue
        found = _in_a_namespace(item, resource)
        if not found["metadata"].get("resourceVersion"):
            found = _as_if_stored(found, strategy_of(registry.served(resource)), begin)
        if resource.namespaced:
            namespaces[found["metadata"]["namespace"]] = None
        there.append((resource, found))
    known = {item["metadata"]["name"] for resource, item in there if resource == NAMESPACES}
    for name in namespaces:
        if name not in known:
            made = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
            there.append((NAMESPACES, _as_if_stored(made, _NAMESPACE, begin)))
    uids = {item["metadata"]["uid"] for _, item in there}
    store = Store(history=0)
    for resource, item in there:
        store.put(resource, _with_known_owners(item, uids))
    return Original(store, skipped)


@dataclass(frozen=True, slots=True)
class Quiet:
    """How a copy came to rest: `after` that long nothing changed any more, or it still did at the limit."""

    after: timedelta
    reached: bool


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a copy has come: what has passed of its own time, and how many pods wait for a node by now."""

    passed: timedelta
    pending: int

    def __str__(self) -> str:
        """In words: ``2m30s passed, 12 pods pending``."""
        pods = "pod" if self.pending == 1 else "pods"
        return f"{age(self.passed.total_seconds())} passed, {self.pending:,} {pods} pending"


class ClusterCopy:
    """See the module. Close it when it is done with.

    `autoscaler` is how patient one is that brings nodes of the contents' groups; None: there is none. `found`
    false: the cluster begins here, and its groups with as many nodes as they desire. `original` is what
    `load` made of the contents' objects, where several copies are made of them.

    Invariant: two copies of the same contents to which the same is done end alike, byte for byte.
    """

    def __init__(
        self,
        contents: Contents,
        original: Original | None = None,
        *,
        autoscaler: Pacing | None = _USUAL,
        pace: Pace = _PACE,
        notice: timedelta = timedelta(),
        found: bool = True,
    ) -> None:
        self.contents = contents
        begin = original or load(contents)
        self.skipped = begin.skipped
        self.policies: tuple[PlacementPolicy, ...] = contents.policies()
        self.clock = VirtualClock(contents.at)
        self.begin = contents.at
        store = begin.store.fork()
        components = contents.components
        self.placement: Placement | None = None
        if self.policies:
            self.placement = Placement(self.policies, contents.marks(), contents.ledgers())
        if self.placement is not None:
            self.placement.active = REBALANCER in components
        extender = Extender(self.placement) if self.placement is not None and EXTENDER in components else None
        self.world = World(
            clock=self.clock,
            store=store,
            groups=_with_nodes(contents.groups, store, found=found),
            pace=pace,
            autoscaler=autoscaler if contents.groups else None,
            notice=notice,
            ids=CountedIds(_seed(store)),
            hooks=[self._admit] if self.placement is not None and WEBHOOK in components else [],
            extender=extender,
            events=PROMISES,
        )
        self._nodes_as_found()
        if self.placement is not None:
            self.placement.attach(self.world.api, self.clock)
        self.scheduler: Fairlead | None = None
        if SCHEDULER in components:
            marks = self.placement.marks if self.placement is not None else None
            self.scheduler = Fairlead(
                self.world.api, self.clock, contents.settings, self.policies, marks, events=PROMISES
            )
        self.drains: list[Drain] = []
        self._changed_at = contents.at
        self._waiting = {one["metadata"]["uid"]: None for one in store.list(PODS) if _waits(one)}
        self._stop = store.subscribe(self._changed)

    # Doing things to it

    def create(self, item: Obj) -> None:
        """Create an object, as a user does."""
        resource = self._resource(item)
        with_namespace = _in_a_namespace(item, resource)
        namespace = with_namespace["metadata"].get("namespace", "")
        try:
            self.world.api.create(resource, with_namespace, namespace)
        except (ApiError, BadObject) as error:
            raise BadInput(f"{called(item)}: {error}") from error

    def apply(self, item: Obj, options: Options) -> None:
        """Create or change an object, as ``kubectl apply`` does on the server's side."""
        resource = self._resource(item)
        whole = _in_a_namespace(item, resource)
        meta = whole["metadata"]
        try:
            self.world.api.patch(
                resource, meta["name"], whole, meta.get("namespace", ""), options, kind="apply"
            )
        except (ApiError, BadObject) as error:
            raise BadInput(f"{called(item)}: {error}") from error

    def find(self, kind: str, namespace: str, name: str) -> Obj | None:
        """An object, or None."""
        return self.world.runner.view.get(kind, namespace, name)

    def nodes(self) -> list[Obj]:
        """All nodes, by name."""
        return self.world.all("Node")

    # Time

    def settle(
        self, quiet: timedelta, limit: timedelta, say: Callable[[Progress], None] = lambda _: None
    ) -> Quiet:
        """Let things happen until nothing has changed for `quiet`, or until `limit` has passed.

        `say` receives, again and again, how far it is.
        """
        clock = self.clock
        start = self._changed_at = clock.now()
        end = start + limit
        while True:
            self._drain(say)
            rests_at, due = self._changed_at + quiet, clock.next_at()
            if due is None or due > min(rests_at, end):
                return Quiet(self._changed_at - start, rests_at <= end)
            clock.step(end)

    def go_on(self, span: timedelta, say: Callable[[Progress], None] = lambda _: None) -> None:
        """Let everything happen that is due within a time."""
        end = self.clock.now() + span
        self._drain(say)
        while self.clock.step(end):
            self._drain(say)

    def progress(self) -> Progress:
        """How far it is."""
        return Progress(self.clock.now() - self.begin, len(self._waiting))

    def close(self) -> None:
        """Let go of everything."""
        self._stop()
        for drain in self.drains:
            drain.close()
        if self.scheduler is not None:
            self.scheduler.close()
        if self.placement is not None:
            self.placement.close()
        self.world.close()

    # Inside

    def _drain(self, say: Callable[[Progress], None]) -> None:
        while self.world.runner.drain(_SLICE):
            say(self.progress())
        say(self.progress())

    def _nodes_as_found(self) -> None:
        """Nodes that were not ready stay so: nothing tells that their machines will come back."""
        for node in self.nodes():
            name = node["metadata"]["name"]
            for one in (node.get("status") or {}).get("conditions") or ():
                if one["type"] == "Ready" and one["status"] == "Unknown":
                    self.world.kubelet.kill(name, self.begin)
                elif one["type"] == "Ready" and one["status"] == "False":
                    self.world.kubelet.set_unready(name, one.get("message") or "it was not ready")

    def _admit(self, request: AdmissionRequest) -> Obj | None:
        assert self.placement is not None
        return self.placement.admit(request)

    def _resource(self, item: Mapping[str, Any]) -> Resource:
        found = self.world.api.registry.of_kind(item.get("apiVersion", "v1"), item.get("kind", ""))
        if found is None:
            raise BadInput(f"{called(item)}: the copy of a cluster has no objects of this kind")
        return found

    def _changed(self, change: Change) -> None:
        if change.resource.kind in _WATCHED:
            self._changed_at = self.clock.now()
        if change.resource == PODS:
            if change.type != "DELETED" and _waits(change.object):
                self._waiting[change.object["metadata"]["uid"]] = None
            else:
                self._waiting.pop(change.object["metadata"]["uid"], None)


def called(item: Mapping[str, Any]) -> str:
    """How messages name an object: ``Deployment shop/web``."""
    meta = item.get("metadata") or {}
    name = meta.get("name") or "(no name)"
    return f"{item.get('kind') or 'object'} " + (
        f"{meta['namespace']}/{name}" if meta.get("namespace") else name
    )


def _waits(pod: Obj) -> bool:
    return not pod["spec"].get("nodeName") and not finished(pod)


def _in_a_namespace(item: Obj, resource: Resource) -> Obj:
    """The object, to be changed by its new holder: without what only an API server's bookkeeping needs."""
    meta = {key: value for key, value in item["metadata"].items() if key != "managedFields"}
    if resource.namespaced:
        meta.setdefault("namespace", "default")
    return {**item, "metadata": meta}


def _seed(store: Store) -> str:
    """What new UIDs are counted from: the objects may be of a copy themselves, and have UIDs of that kind."""
    digest = hashlib.blake2b(digest_size=16)
    for resource in store.resources():
        for item in store.list(resource):
            digest.update(item["metadata"]["uid"].encode())
    return digest.hexdigest()


def _as_if_stored(item: Obj, strategy: Strategy, now: str) -> Obj:
    """What a user wrote, with what an API server fills in."""
    made: Obj = copy_json(item)
    if item["kind"] in ("Node", "Pod"):
        made = {"spec": {}, "status": {}, **made}
    if item["kind"] == "Pod":
        # State that was shortened for a report says nothing of images; nothing is decided by them either.
        for one in (*made["spec"].get("initContainers", ()), *made["spec"].get("containers", ())):
            one.setdefault("image", "not-said")
    strategy.default(made)
    meta = made["metadata"]
    meta.setdefault("uid", f"{item['kind']}:{meta.get('namespace', '')}/{meta['name']}")
    meta.setdefault("creationTimestamp", now)
    return made


def _with_known_owners(item: Obj, uids: set[str]) -> Obj:
    owners = item["metadata"].get("ownerReferences")
    if not owners:
        return item
    known = [one for one in owners if one["uid"] in uids]
    if len(known) == len(owners):
        return item
    meta = {key: value for key, value in item["metadata"].items() if key != "ownerReferences"}
    return {**item, "metadata": {**meta, "ownerReferences": known} if known else meta}


def _with_nodes(groups: Iterable[NodeGroup], store: Store, *, found: bool) -> list[NodeGroup]:
    """The groups, each with as many nodes as the cluster has of it, which are made known as the group's.

    Unless the cluster was `found`, a group of which it has none begins with the number that it desires.
    """
    there: Counter[str] = Counter()
    named = {group.name for group in groups}
    for resource in store.resources():
        if resource.kind != "Node":
            continue
        for item in store.list(resource):
            group = group_of(convert(item, Node))
            if group in named:
                there[group] += 1
                labels = {**(item["metadata"].get("labels") or {}), GROUP_LABEL: group}
                store.put(resource, {**item, "metadata": {**item["metadata"], "labels": labels}})
    return [
        replace(
            group,
            desired=there[group.name],
            max=max(group.max, there[group.name]),
            min=min(group.min, there[group.name]),
        )
        if found or there[group.name]
        else group
        for group in groups
    ]
