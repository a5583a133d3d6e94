"""The extender as a door: watches that feed it, the lease that makes one replica answer, and its port.

All replicas watch; only the one that holds the lease is ready, so that the Service leads there. Slots that
are only assumed live in one memory: two replicas that answered at once would give the same slot twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import structlog
from aiohttp import web

from fairlead.client.api import Client
from fairlead.client.view import Added, Deleted, Event, Modified
from fairlead.doors.crds import ensure_crds
from fairlead.doors.extender.metrics import Metrics
from fairlead.doors.extender.reporting import PATIENCE_S, Calls
from fairlead.doors.extender.server import LARGEST, LIMIT, Endpoint
from fairlead.doors.extender.tokens import Tokens
from fairlead.doors.extender.upkeep import Upkeep
from fairlead.doors.grouping import GroupsOfPods
from fairlead.doors.leader import lead
from fairlead.doors.marks import LiveMarks
from fairlead.doors.owners import OwnersOfPods
from fairlead.doors.running import Door, Surroundings
from fairlead.doors.shown import Callers, Files, Shown
from fairlead.engine.tier_fit import TierFits
from fairlead.errors import BadInput, FairleadError
from fairlead.kube.meta import ObjectMeta
from fairlead.kube.node import Node, NodeSpec, NodeStatus
from fairlead.policy.decide.filter.filter_state import FilterState
from fairlead.policy.decide.filter.tier_nodes import NodesOfTiers
from fairlead.policy.groups import GroupKey
from fairlead.policy.model import PlacementPolicy
from fairlead.policy.names import POLICIES

__all__ = ["LEASE", "ExtenderDoor", "Settings"]

_log = structlog.get_logger(__name__)

LEASE = "fairlead-extender"


@dataclass(frozen=True, slots=True)
class Settings:
    """The extender's own flags."""

    tls_cert_file: str = ""
    tls_key_file: str = ""
    patience_s: float = PATIENCE_S
    """How long a scheduler may take to call before that is reported."""
    client_ca_file: str = ""
    """Who signs the certificates that callers must show; "" is anybody."""
    largest: int = LARGEST
    """Bytes of a call with whole nodes."""

    def __post_init__(self) -> None:
        """Refuse at once what could not work later."""
        if bool(self.tls_cert_file) != bool(self.tls_key_file):
            raise BadInput("--tls-cert-file and --tls-key-file go together")
        if self.largest < LIMIT:
            raise BadInput(f"--max-body-size is less than what every call may have: {LIMIT // 2**20}Mi")


class ExtenderDoor(Door):
    """See the module."""

    name = "extender"

    def __init__(self, around: Surroundings, settings: Settings) -> None:
        self._around = around
        self._settings = settings
        rng, clock = around.rng, around.clock
        self._nodes = NodesOfTiers()
        self._fits = TierFits()
        self._marks = LiveMarks(around.client, around.policies, around.system_namespace, rng=rng, clock=clock)
        self._state = FilterState(self._nodes, self._marks.unavailable)
        self._owners = OwnersOfPods(around.client, rng=rng, clock=clock)
        self._tokens = Tokens(around.client, self._ledger_changed, rng=rng, clock=clock)
        self._groups = GroupsOfPods(
            around.client,
            around.policies,
            self._owners,
            exempt=around.exempt,
            changed=self._group_changed,
            shown=self._state.shown,
            left=self._state.left,
            on_node=self._on_node,
            believed=self._tokens.known,
            alone=True,
            rng=rng,
            clock=clock,
        )
        self._metrics = Metrics()
        self._upkeep = Upkeep(
            self._state,
            self._fits,
            self._groups,
            around.policies,
            self._marks,
            metrics=self._metrics,
            clock=around.clock,
        )
        self._calls = Calls(
            around.policies, self._metrics, patience_s=settings.patience_s, clock=around.clock
        )
        self._endpoint = Endpoint(
            self._state,
            self._groups,
            self._tokens,
            self._metrics,
            closed=self._closed,
            claim_probe=self._claim_probe,
            called=self._calls.called,
            decided=self._upkeep.look,
            certified_only=bool(settings.client_ca_file),
            largest=settings.largest,
            clock=around.clock,
        )
        self._shown = Shown(ask=bool(settings.client_ca_file))
        self._callers = (
            Callers(settings.client_ca_file, self._shown.trust) if settings.client_ca_file else None
        )
        self._files = (
            Files(settings.tls_cert_file, settings.tls_key_file, None, self._shown.show)
            if settings.tls_cert_file
            else None
        )
        self._stopping = asyncio.Event()
        self._client: Client | None = None  # may write; only while we lead
        self._known: tuple[PlacementPolicy, ...] | None = None
        around.policies.on_change(self._policies_changed)
        self._marks.on_change(self._upkeep.look)

    async def prepare(self) -> None:
        """The definition of policies, unless they come from a file; the certificate, if there is one."""
        if not self._around.policies.policies:
            await ensure_crds(self._around.client, (POLICIES,), clock=self._around.clock)
        if self._callers is not None:
            self._callers.first()
        if self._files is not None:
            await self._files.first()

    def routes(self) -> Iterable[web.RouteDef]:
        """The verbs that kube-scheduler calls."""
        return self._endpoint.routes

    def tls(self) -> Shown | None:
        """Only with a certificate."""
        return self._shown if self._files is not None else None

    def checks(self) -> Mapping[str, str]:
        """Ready when everything was listed and the lease is ours."""
        unlisted = self._unlisted()
        return {
            "informer-sync": f"not listed yet: {', '.join(unlisted)}" if unlisted else "",
            "leading": "" if self._client is not None else "another replica leads, or none yet",
            "shutdown": "stopping" if self._stopping.is_set() else "",
        }

    def metrics(self) -> bytes:
        """See `Metrics`."""
        return self._metrics.text()

    async def run(self) -> None:
        """Watch, and answer while the lease is ours, until `stop`."""
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(work)
                for work in (
                    self._owners.run(),
                    self._tokens.run(),
                    self._groups.run(),
                    self._marks.run(),
                    *(one.run() for one in (self._files, self._callers) if one is not None),
                    self._be_candidate(),
                )
            ]
            await self._stopping.wait()
            for task in tasks:
                task.cancel()

    def stop(self) -> None:
        """See `Door`."""
        self._stopping.set()

    async def _be_candidate(self) -> None:
        await self._around.policies.synced()
        await self._marks.synced()
        await self._tokens.synced()
        await self._groups.synced()
        self._policies_changed()
        _log.info("synced", policies=len(self._groups.policies), groups=len(self._state.groups))
        await lead(
            self._around.client, LEASE, self._around.system_namespace, self._lead, clock=self._around.clock
        )

    async def _lead(self, client: Client) -> None:
        self._client = client
        self._metrics.leading.set(1)
        _log.info("answering")
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._upkeep.run(client))
                group.create_task(self._calls.run(client))
        finally:
            self._client = None
            self._metrics.leading.set(0)

    def _closed(self) -> str:
        """Why calls are not answered; "" when they are."""
        if self._client is None:
            return "another replica leads, or none yet"
        if unlisted := self._unlisted():
            return f"not listed yet: {', '.join(unlisted)}"
        return ""

    def _unlisted(self) -> list[str]:
        return [*self._owners.unlisted(), *self._groups.unlisted()]

    async def _claim_probe(self, policy: str, tier: str, token: str) -> bool:
        client = self._client
        if client is None:
            return False
        now = self._around.clock.wall().timestamp()
        mark = self._marks.of(policy).get(tier)
        if mark is None or mark.cooling(now):
            return False
        try:
            return await self._marks.claim_probe(policy, tier, token, now)
        except FairleadError as error:
            _log.warning("probe_not_claimed", policy=policy, tier=tier, reason=str(error))
            return False

    def _on_node(self, event: Event[Node, dict[str, str]]) -> None:
        match event:
            case Added(object=node) | Modified(object=node):
                node = _trimmed(node)
                self._nodes.put(node)
                self._fits.node(node.metadata.name, node)
            case Deleted(key=name):
                self._nodes.drop(name)
                self._fits.node(name, None)
            case _:
                return
        self._upkeep.look()

    def _policies_changed(self) -> None:
        policies = self._around.policies.policies
        if policies is not self._known:
            before = {one.name: one.spec for one in self._known or ()}
            self._known = policies
            self._nodes.use(policies)
            self._fits.use(policies)
            unchanged = {one.name for one in policies if before.get(one.name) == one.spec}
            self._state.start_over(self._groups.each(), unchanged)
        self._upkeep.look()

    def _ledger_changed(self, key: GroupKey) -> None:
        self._groups.look_again(key)

    def _group_changed(self, key: GroupKey) -> None:
        self._upkeep.touch(key)


def _trimmed(node: Node) -> Node:
    """What tiers and fallback read of a node."""
    meta = node.metadata
    kept = ObjectMeta(
        name=meta.name,
        labels=meta.labels,
        creation_timestamp=meta.creation_timestamp,
        deletion_timestamp=meta.deletion_timestamp,
    )
    ready = tuple(one for one in node.status.conditions if one.type == "Ready")
    status = NodeStatus(
        allocatable=node.status.allocatable,
        conditions=ready,
        declared_features=node.status.declared_features,
    )
    return Node(kept, NodeSpec(node.spec.unschedulable, node.spec.taints), status)
