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
from fairlead.doors.certificates import Callers, Files, Shown
from fairlead.doors.crds import ensure_crds
from fairlead.doors.extender.call_watch import PATIENCE_S, Calls
from fairlead.doors.extender.ledgers import Ledgers
from fairlead.doors.extender.metrics import Metrics
from fairlead.doors.extender.server import LARGEST, LIMIT, Endpoint
from fairlead.doors.extender.upkeep import Upkeep
from fairlead.doors.leader import lead
from fairlead.doors.process import Context, Door
from fairlead.doors.tasks import beside
from fairlead.engine.planning.tier_fit import TierFits
from fairlead.errors import BadInput
from fairlead.feed.watches import Followed
from fairlead.kube.node import Node
from fairlead.kube.resources import known
from fairlead.policy.decide.filter.extender import Extender
from fairlead.policy.groups.member import GroupKey
from fairlead.policy.names import POLICIES
from fairlead.policy.rule.model import PlacementPolicy

_log = structlog.get_logger(__name__)

LEASE = "fairlead-extender"

_NODES = known("Node")


@dataclass(frozen=True, slots=True)
class Settings:
    """The extender's own flags."""

    tls_cert_file: str = ""
    tls_key_file: str = ""
    patience_s: float = PATIENCE_S
    """How long a scheduler may take to call before that is reported."""
    client_ca_file: str = ""
    """The signers of the certificates that callers must show; "": callers need none."""
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
    takes_bodies = True

    def __init__(self, context: Context, settings: Settings) -> None:
        super().__init__(context)
        self._settings = settings
        self._fits = TierFits()
        self._marks = context.marks
        self._groups = context.groups
        self._extender = Extender(lambda: self._groups.index, self._marks.of)
        self._ledgers = Ledgers(context.client, context.watches, self._extender.tokens, self._ledger_changed)
        self._groups.on_pods(self._extender.shown, self._extender.state.left)
        context.watches.want(_NODES, Node)
        self._followed_nodes = Followed(context.watches, _NODES, Node, self._put_node, self._drop_node)
        self._metrics = Metrics()
        self._upkeep = Upkeep(
            self._extender,
            self._fits,
            context.policies,
            self._marks,
            metrics=self._metrics,
            clock=context.clock,
        )
        self._calls = Calls(
            context.policies, self._metrics, patience_s=settings.patience_s, clock=context.clock
        )
        self._endpoint = Endpoint(
            self._extender,
            self._groups,
            self._ledgers,
            self._metrics,
            closed=self._closed,
            claim_probe=self._claim_probe,
            called=self._calls.called,
            decided=self._upkeep.look,
            certified_only=bool(settings.client_ca_file),
            largest=settings.largest,
            clock=context.clock,
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
        self._client: Client | None = None  # may write; only while we lead
        self._known: tuple[PlacementPolicy, ...] | None = None
        self._groups.on_change(self._upkeep.touch)
        context.policies.on_change(self._policies_changed)
        self._marks.on_change(self._upkeep.look)

    async def prepare(self) -> None:
        """The definition of policies, unless they come from a file; the certificate, if there is one."""
        if not self._context.policies.policies:
            await ensure_crds(self._context.client, (POLICIES,), clock=self._context.clock)
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
        unlisted = self._groups.unlisted()
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
        async with beside() as start:
            for part in (self._ledgers, self._followed_nodes, self._files, self._callers):
                if part is not None:
                    start(part.run())
            start(self._be_candidate())
            await self._stopping.wait()

    async def _be_candidate(self) -> None:
        await self._context.policies.synced()
        await self._marks.synced()
        await self._ledgers.synced()
        await self._groups.synced()
        await self._followed_nodes.listed.wait()
        self._policies_changed()
        _log.info(
            "synced", policies=len(self._groups.index.policies), groups=len(self._extender.state.groups)
        )
        await lead(
            self._context.client, LEASE, self._context.system_namespace, self._lead, clock=self._context.clock
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
        if unlisted := self._groups.unlisted():
            return f"not listed yet: {', '.join(unlisted)}"
        return ""

    async def _claim_probe(self, policy: str, tier: str, token: str) -> bool:
        if self._client is None:
            return False
        return await self._marks.claim_probe(policy, tier, token, self._context.clock.wall().timestamp())

    def _put_node(self, node: Node) -> None:
        self._node(node.metadata.name, node)

    def _drop_node(self, name: str, _: str) -> None:
        self._node(name, None)

    def _node(self, name: str, node: Node | None) -> None:
        self._extender.node(name, node)
        self._fits.node(name, node)
        self._upkeep.look()

    def _policies_changed(self) -> None:
        policies = self._context.policies.policies
        if policies is not self._known:
            self._known = policies
            self._fits.use(policies)
            self._extender.use(policies)
        self._upkeep.look()

    def _ledger_changed(self, key: GroupKey) -> None:
        self._extender.reread(key)
        self._upkeep.look()
