"""The webhook as a door: what it needs, what it serves, and when it lets itself be called.

It registers only when it can answer: definitions there, everything listed, port open. At the end it first
turns calls away gently (each connection is closed after its answer), because the API server keeps
connections open and would lose those that are under way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import structlog
from aiohttp import web

from fairlead.client.retry import Backoff
from fairlead.doors.certificates import Callers, Files, Shown
from fairlead.doors.crds import ensure_crds
from fairlead.doors.process import Context, Door
from fairlead.doors.tasks import beside
from fairlead.doors.webhook.admission import Admission
from fairlead.doors.webhook.adoption import Adoption
from fairlead.doors.webhook.ledgers import Ledgers
from fairlead.doors.webhook.metrics import Metrics
from fairlead.doors.webhook.own_authority import OwnAuthority
from fairlead.doors.webhook.registration import Registration, Where, check_callable
from fairlead.doors.webhook.server import Endpoint
from fairlead.engine.planning.tier_fit import TierFits
from fairlead.errors import ApiError, BadInput, Unreachable
from fairlead.feed.watches import Followed
from fairlead.kube.node import Node
from fairlead.kube.resources import known

_DRAIN_S = 2.0  # for how long calls are still answered that come while we are being left
_OUTDATED_S = 0.05  # until the follower of the certificates has read the newer ones

_log = structlog.get_logger(__name__)

_NODES = known("Node")


@dataclass(frozen=True, slots=True)
class Settings:
    """The webhook's own flags."""

    register: bool = False
    url: str = ""
    service: str = "fairlead-webhook"
    service_port: int = 443
    failure_policy: str = "Ignore"
    tls_cert_file: str = ""
    tls_key_file: str = ""
    tls_ca_file: str = ""
    client_ca_file: str = ""
    schedulers: tuple[str, ...] = ("fairlead",)
    rotation_wait_s: float = 60.0

    def __post_init__(self) -> None:
        """Refuse at once what could not work later."""
        if bool(self.tls_cert_file) != bool(self.tls_key_file):
            raise BadInput("--tls-cert-file and --tls-key-file go together")
        if self.tls_ca_file and not self.tls_cert_file:
            raise BadInput("--tls-ca-file says who signed --tls-cert-file, which is missing")
        if self.rotation_wait_s <= 0:
            raise BadInput("--rotation-wait must be more than nothing")
        if self.url:
            Where(url=self.url)


class WebhookDoor(Door):
    """See the module."""

    name = "webhook"
    takes_bodies = True
    garbage = 50_000  # about what a rush of a thousand pods takes

    def __init__(self, context: Context, settings: Settings) -> None:
        super().__init__(context)
        self._client = context.client
        where = Where(settings.url, settings.service, context.system_namespace, settings.service_port)
        if settings.register:
            check_callable(where, context.client.connection.target.server.url)
        self._settings = settings
        self._registration = Registration(
            context.client,
            where,
            failure_policy=settings.failure_policy,
            exempt=context.exempt,
            ours=settings.register,
        )
        self._shown = Shown(ask=bool(settings.client_ca_file))
        self._callers = (
            Callers(settings.client_ca_file, self._shown.trust) if settings.client_ca_file else None
        )
        self._certificates: Files | OwnAuthority = (
            Files(
                settings.tls_cert_file,
                settings.tls_key_file,
                settings.tls_ca_file or None,
                self._shown.show,
            )
            if settings.tls_cert_file
            else OwnAuthority(context, where.names, self._shown.show, wait_s=settings.rotation_wait_s)
        )
        self._adopting = Adoption(context.rng, context.clock)
        self._fits = TierFits()
        self._groups = context.groups
        self._groups.on_change(self._adopting.changed)
        context.watches.want(_NODES, Node)
        self._nodes = Followed(
            context.watches,
            _NODES,
            Node,
            lambda node: self._fits.node(node.metadata.name, node),
            lambda name, _: self._fits.node(name, None),
        )
        self._fits.use(context.policies.policies)
        context.policies.on_change(lambda: self._fits.use(context.policies.policies))
        self._marks = context.marks
        self._metrics = Metrics()
        self._ledgers = Ledgers(
            context.client,
            context.watches,
            self._groups,
            self._metrics,
            clock=context.clock,
            changed=self._adopting.changed,
        )
        admission = Admission(
            self._groups,
            self._ledgers,
            self._marks,
            self._metrics,
            self._fits,
            schedulers=settings.schedulers,
            clock=context.clock,
        )
        self._endpoint = Endpoint(admission, self._metrics, certified_only=bool(settings.client_ca_file))
        self._registered = False

    async def prepare(self) -> None:
        """Definitions, a certificate, and which callers are trusted."""
        if self._callers is not None:
            self._callers.first()
        await ensure_crds(self._client, clock=self._context.clock)
        await self._registration.publish(await self._certificates.first(), self._certificates.current)

    def routes(self) -> Iterable[web.RouteDef]:
        """The path that the API server calls."""
        return self._endpoint.routes

    def tls(self) -> Shown:
        """API servers call nothing else."""
        return self._shown

    def checks(self) -> Mapping[str, str]:
        """Ready when everything that decides was listed, and we were not asked to stop."""
        unlisted = self._groups.unlisted()
        if not self._ledgers.is_synced:
            unlisted.append("placementledgers")
        found = {
            "informer-sync": f"not listed yet: {', '.join(unlisted)}" if unlisted else "",
            "shutdown": "stopping" if self._stopping.is_set() else "",
        }
        if self._settings.register:
            found["registration"] = "" if self._registered else "not registered yet"
        return found

    def metrics(self) -> bytes:
        """See `Metrics`."""
        return self._metrics.text()

    async def run(self) -> None:
        """Answer until `stop`, then until the API server has gone elsewhere."""
        async with beside() as start:
            for part in (self._nodes, self._ledgers, self._callers):
                if part is not None:
                    start(part.run())
            start(self._serve())
            await self._stopping.wait()
            self._endpoint.drain()
            await asyncio.sleep(_DRAIN_S)

    async def _serve(self) -> None:
        await self._context.policies.synced()
        await self._marks.synced()
        await self._groups.synced()
        await self._nodes.listed.wait()
        await self._ledgers.synced()
        _log.info("synced", policies=len(self._groups.index.policies), groups=len(self._groups.index.groups))
        # What was loaded stays, and answers leave hardly any: looking for garbage only makes admissions wait.
        self._context.memory.settle()
        self._endpoint.open()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._adopting.run(self._groups, self._ledgers))
            keeping = group.create_task(self._certificates.run(self._registration))
            if self._settings.register:
                await self._register()
            await keeping

    async def _register(self) -> None:
        backoff = Backoff(self._context.rng)
        while not self._registered:
            try:
                self._registered = await self._registration.register()
                if not self._registered:
                    await asyncio.sleep(_OUTDATED_S)
            except (ApiError, Unreachable) as error:
                wait_s = backoff.next_s(error.retry_after_s if isinstance(error, ApiError) else None)
                _log.warning("not_registered", reason=str(error), wait_s=round(wait_s, 3))
                await asyncio.sleep(wait_s)
