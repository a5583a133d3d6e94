"""What every long-running command shares: connection, policies, signals, memory, one port, one event loop.

A process runs one or more doors over one connection. Each is prepared first (what it needs on the cluster),
then the port opens with the routes of all, then all run until a signal; one that registers itself somewhere
does so in `run`, when its port already answers. One door that fails ends the process. Signals, the collector
of garbage and the allocator are the process': they are set here, once, and no door touches them.
"""

from __future__ import annotations

import asyncio
import logging
import random
import signal
import sys
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, MutableMapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import structlog

from fairlead.client import config as kubeconfig
from fairlead.client.api import Client
from fairlead.client.clock import WALL_CLOCK, Clock
from fairlead.client.connection import Connection
from fairlead.doors.address import check_address
from fairlead.doors.memory import Memory
from fairlead.doors.tasks import beside
from fairlead.errors import BadInput
from fairlead.feed.groups import LiveGroups
from fairlead.feed.marks import LiveMarks
from fairlead.feed.policies import LivePolicies
from fairlead.feed.scale_up_events import ScaleUpEvents
from fairlead.feed.watches import Watches
from fairlead.kube.printable import printable
from fairlead.policy.names import EXEMPT
from fairlead.policy.rule.model import PlacementPolicy

if TYPE_CHECKING:
    from aiohttp import web

    from fairlead.doors.certificates import Shown


_log = structlog.get_logger(__name__)

_READS = 32  # requests under way beside writes


@dataclass(frozen=True, slots=True)
class Options:
    """The flags that all long-running commands have."""

    kubeconfig: str = ""
    context: str = ""
    policies: str = ""
    """A file; "" is none."""
    listen: str = ""
    """``ADDRESS:PORT``; "" opens no port."""
    system_namespace: str = ""
    log_format: str = "auto"
    log_level: str = "info"

    def __post_init__(self) -> None:
        """Refuse at once what could not work later."""
        if self.listen:
            check_address(self.listen)

    @property
    def namespace(self) -> str:
        """The system namespace: as given; else where we run, inside a cluster, or ``fairlead-system``."""
        return self.system_namespace or _own_namespace() or "fairlead-system"


class Context:
    """What a door works with. All doors of a process share it: what is followed is followed once."""

    def __init__(
        self,
        client: Client,
        policies: LivePolicies,
        system_namespace: str,
        rng: random.Random,
        clock: Clock = WALL_CLOCK,
    ) -> None:
        self.client = client
        self.policies = policies
        self.system_namespace = system_namespace
        self.rng = rng
        self.clock = clock
        self.memory = Memory()
        self.exempt = tuple(dict.fromkeys((*EXEMPT, system_namespace)))
        """The namespaces that no policy governs: what policies need to work must not wait for them."""
        self.watches = Watches(client, rng=rng, clock=clock)
        self.marks = LiveMarks(client, policies, system_namespace, rng=rng, clock=clock)
        self.groups = LiveGroups(client, self.watches, policies, exempt=self.exempt, clock=clock)
        self.scale_ups = ScaleUpEvents(client, rng=rng, clock=clock)

    async def follow(self) -> None:
        """Follow the cluster for all doors, for ever. Cancelled, every watch ends."""
        async with asyncio.TaskGroup() as group:
            for one in (self.policies, self.marks, self.watches, self.groups, self.scale_ups):
                group.create_task(one.run())


class Door(ABC):
    """One way in. `run` ends after `stop` with what was under way done, or at once when cancelled.

    `reloads`: SIGHUP is for it. Where it is for no door of a process, it ends the process as usual.
    `takes_bodies`, `garbage`: see `Memory.set_up`; of several doors the most counts.
    """

    name: str
    reloads: bool = False
    takes_bodies: bool = False
    garbage: int = 0

    def __init__(self, context: Context) -> None:
        self._context = context
        self._stopping = asyncio.Event()

    async def prepare(self) -> None:  # noqa: B027 (most doors need nothing)
        """What must be there before the port opens: definitions, certificates. May raise `Missing`.

        Of the policies only those of a file are known by then.
        """

    def routes(self) -> Iterable[web.RouteDef]:
        """What it answers on the port, besides health and metrics."""
        return ()

    def tls(self) -> Shown | None:
        """Asked after `prepare`. One door that wants TLS makes the whole port speak it."""
        return None

    def checks(self) -> Mapping[str, str]:
        """What must hold for it to be ready, by name: "" or what is wrong."""
        return {}

    def metrics(self) -> bytes:
        """Its metrics as Prometheus reads them."""
        return b""

    @abstractmethod
    async def run(self) -> None:
        """Work until `stop`; the port is open and policies are being followed."""

    def reload(self) -> None:  # noqa: B027 (most doors have nothing to read again)
        """Read the configuration again. Called from a signal handler, maybe before `run`."""

    def stop(self) -> None:
        """Make `run` return in order. Called from a signal handler, maybe twice."""
        self._stopping.set()


def run_doors(
    options: Options,
    make: Callable[[Context], Sequence[Door]],
    *,
    announce: Callable[[kubeconfig.Target], None],
    in_flight: int = 64,
    fixed: Sequence[PlacementPolicy] = (),
) -> None:
    """Be a process with these doors until SIGTERM or SIGINT; `in_flight` is writes under way at once.

    `announce` is called with the cluster that they are going to change, before anything is sent to it.
    `fixed` are policies that hold for as long as it runs, beside those of the file and the cluster.
    """
    configure_logging(options.log_format, options.log_level)

    async def main() -> None:
        target = kubeconfig.load(options.kubeconfig or None, context=options.context or None)
        announce(target)
        async with Connection(target, in_flight=in_flight + _READS) as connection:
            rng = random.Random()
            client = Client(connection, rng=rng)
            policies = LivePolicies(client, file=options.policies, fixed=fixed, rng=rng)
            context = Context(client, policies, options.namespace, rng)
            # Whichever doors a process has, it can also be the one that writes policies' statuses.
            doors = [*make(context), StatusDoor(context)]
            context.memory.set_up(
                takes_bodies=any(door.takes_bodies for door in doors),
                garbage=max(door.garbage for door in doors),
            )
            stopping = asyncio.Event()
            _handle_signals(doors, stopping)
            await serve_doors(doors, context, listen=options.listen, stopping=stopping)

    from fairlead.doors.policy_status import StatusDoor  # which is a door, so it imports this module

    with event_loop() as runner:
        runner.run(main())


def _handle_signals(doors: Sequence[Door], stopping: asyncio.Event) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)

    def reload() -> None:
        for door in doors:
            door.reload()

    if any(door.reloads for door in doors):
        loop.add_signal_handler(signal.SIGHUP, reload)


async def serve_doors(
    doors: Sequence[Door],
    context: Context,
    *,
    listen: str = "",
    stopping: asyncio.Event,
    ready: Callable[[str], None] | None = None,
) -> None:
    """Prepare the doors, open the port, run them all until `stopping` is set or one ends or fails.

    `ready` receives the URL once the port is open ("" without one). Cancelled, every door is cancelled and
    the port closed.
    """
    async with beside() as start:
        stopped, preparing = start(stopping.wait()), start(_prepare(doors))
        await asyncio.wait((preparing, stopped), return_when=asyncio.FIRST_COMPLETED)
        if not preparing.done():
            return
        # Not before: finding no definition of policies, it would look again only after a while.
        start(context.follow())
        async with _port(doors, context, listen) as url:
            if ready is not None:
                ready(url)
            running = [start(door.run()) for door in doors]
            await asyncio.wait((*running, stopped), return_when=asyncio.FIRST_COMPLETED)
            for door in doors:
                door.stop()
            await asyncio.wait(running)


async def _prepare(doors: Sequence[Door]) -> None:
    for door in doors:
        await door.prepare()


@asynccontextmanager
async def _port(doors: Sequence[Door], context: Context, listen: str) -> AsyncIterator[str]:
    """The port of the process, if it is to have one: its URL."""
    if not listen:
        yield ""
        return
    # A web server is a lot to import for a process that opens no port.
    from fairlead.doors.health import serving

    async with serving(
        listen,
        checks=lambda: _checks(doors, context),
        metrics=lambda: b"".join(door.metrics() for door in doors),
        routes=[route for door in doors for route in door.routes()],
        tls=next((tls for door in doors if (tls := door.tls()) is not None), None),
    ) as url:
        _log.info("listening", url=url, doors=[door.name for door in doors])
        yield url


def _checks(doors: Sequence[Door], context: Context) -> dict[str, str]:
    found = context.policies.checks()
    said = [(door.name, checks) for door in doors if (checks := door.checks())]
    for name, checks in said:
        for check, wrong in checks.items():
            found[f"{name}-{check}" if len(said) > 1 else check] = wrong
    return found


def _own_namespace() -> str:
    try:
        return Path(kubeconfig.SERVICE_ACCOUNT / "namespace").read_text().strip()
    except OSError:
        return ""


def event_loop() -> asyncio.Runner:
    """A runner with the fastest loop there is."""
    try:
        import uvloop
    except ImportError:
        return asyncio.Runner()
    return asyncio.Runner(loop_factory=uvloop.new_event_loop)


def configure_logging(log_format: str, log_level: str) -> None:
    """Lines on standard error: text on a terminal, JSON elsewhere, unless told."""
    text = log_format == "text" or (log_format == "auto" and sys.stderr.isatty())
    level = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING}.get(log_level)
    if level is None:
        raise BadInput(f"--log-level: {log_level!r} is not debug, info or warning")
    shared: list[Any] = [
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso"),
        structlog.processors.format_exc_info,
    ]
    # What a line is about comes first, as it was said: pod, node, reason.
    console = structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), sort_keys=False)
    last = [_as_printable, console] if text else [_as_json]
    to_text, to_json = (
        structlog.WriteLoggerFactory(sys.stderr),
        structlog.BytesLoggerFactory(sys.stderr.buffer),
    )
    structlog.configure(
        processors=[*shared, *last],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=to_text if text else to_json,
        cache_logger_on_first_use=True,
    )


def _as_printable(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Escape what a terminal would act on: users choose much of what is logged.

    Lines stay apart only in tracebacks.
    """
    for key, value in event.items():
        if isinstance(value, str):
            event[key] = printable(value, kept="\n\t" if key in ("exception", "stack") else "")
    return event


def _as_json(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> bytes:
    # In the order in which a line is read; the rest as it was said.
    first = {key: event.pop(key) for key in ("timestamp", "level", "event") if key in event}
    return msgspec.json.encode({**first, **event}, enc_hook=str)
