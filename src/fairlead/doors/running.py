"""What every long-running command shares: connection, policies, signals, one port, one event loop.

A process runs one or more doors over one connection. Each is prepared first (what it needs on the cluster),
then the port opens with the routes of all, then all run until a signal; whoever registers itself somewhere
does so in `run`, when its port already answers. One door that fails ends the process.
"""

from __future__ import annotations

import asyncio
import logging
import random
import signal
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from contextlib import AsyncExitStack
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
from fairlead.doors.allocator import return_large_blocks
from fairlead.doors.failures import worst
from fairlead.doors.policies import LivePolicies
from fairlead.errors import BadInput
from fairlead.policy.model import PlacementPolicy
from fairlead.policy.names import EXEMPT

if TYPE_CHECKING:
    from aiohttp import web

    from fairlead.doors.shown import Shown

__all__ = [
    "Door",
    "Options",
    "Surroundings",
    "configure_logging",
    "event_loop",
    "own_namespace",
    "run_doors",
    "serve_doors",
]

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


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a door works with; all doors of a process share it."""

    client: Client
    policies: LivePolicies
    system_namespace: str
    rng: random.Random
    clock: Clock = WALL_CLOCK

    @property
    def exempt(self) -> tuple[str, ...]:
        """The namespaces that no policy governs: what policies need to work must not wait for them."""
        return tuple(dict.fromkeys((*EXEMPT, self.system_namespace)))


class Door(ABC):
    """One way in. `run` ends after `stop` with what was under way done, or at once when cancelled."""

    name: str

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

    @abstractmethod
    def stop(self) -> None:
        """Make `run` return in order. Called from a signal handler, maybe twice."""


def run_doors(
    options: Options,
    make: Callable[[Surroundings], Sequence[Door]],
    *,
    in_flight: int = 64,
    fixed: Sequence[PlacementPolicy] = (),
) -> None:
    """Be a process with these doors until SIGTERM or SIGINT; `in_flight` is writes under way at once.

    `fixed` are policies that hold for as long as it runs, beside those of the file and the cluster.
    """
    configure_logging(options.log_format, options.log_level)
    with event_loop() as runner:
        runner.run(_main(options, make, in_flight, fixed))


async def _main(
    options: Options,
    make: Callable[[Surroundings], Sequence[Door]],
    in_flight: int,
    fixed: Sequence[PlacementPolicy],
) -> None:
    target = kubeconfig.load(options.kubeconfig or None, context=options.context or None)
    async with Connection(target, in_flight=in_flight + _READS) as connection:
        rng = random.Random()
        client = Client(connection, rng=rng)
        around = Surroundings(
            client,
            LivePolicies(client, file=options.policies, fixed=fixed, rng=rng),
            options.system_namespace or own_namespace(),
            rng,
        )
        from fairlead.doors.policy_status import StatusDoor  # which is a door, so it imports this module

        # Whichever doors a process has, it can also be the one that writes policies' statuses.
        doors = [*make(around), StatusDoor(around)]
        if any(True for door in doors for _ in door.routes()):
            return_large_blocks()  # it takes bodies
        stopping = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stopping.set)
        await serve_doors(doors, around, listen=options.listen, stopping=stopping)


async def serve_doors(
    doors: Sequence[Door],
    around: Surroundings,
    *,
    listen: str = "",
    stopping: asyncio.Event,
    ready: Callable[[str], None] | None = None,
) -> None:
    """Prepare the doors, open the port, run them all until `stopping` is set or one ends or fails.

    `ready` hears the URL once the port is open ("" without one). Cancelled, every door is cancelled and
    the port closed.
    """
    try:
        async with asyncio.TaskGroup() as group:
            stopped = group.create_task(stopping.wait())
            if await _unless(stopped, _prepare(doors)):
                # Not before: who found no definition of policies would look again only after a while.
                following = group.create_task(around.policies.run())
                await _open(group, doors, around, listen=listen, stopped=stopped, ready=ready)
                following.cancel()
            stopped.cancel()
    except BaseExceptionGroup as several:
        raise worst(several) from several


async def _prepare(doors: Sequence[Door]) -> None:
    for door in doors:
        await door.prepare()


async def _unless(stopped: asyncio.Task[Any], work: Any) -> bool:
    """Do the work, or give it up when it is time to stop; whether it was done."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.wait((task, stopped), return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            task.result()
            return True
        return False
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _open(
    group: asyncio.TaskGroup,
    doors: Sequence[Door],
    around: Surroundings,
    *,
    listen: str,
    stopped: asyncio.Task[Any],
    ready: Callable[[str], None] | None,
) -> None:
    async with AsyncExitStack() as stack:
        url = ""
        if listen:
            # A web server is a lot to import for who opens no port.
            from fairlead.doors.health import serving

            url = await stack.enter_async_context(
                serving(
                    listen,
                    checks=lambda: _checks(doors, around),
                    metrics=lambda: b"".join(door.metrics() for door in doors),
                    routes=[route for door in doors for route in door.routes()],
                    tls=next((tls for door in doors if (tls := door.tls()) is not None), None),
                )
            )
            _log.info("listening", url=url, doors=[door.name for door in doors])
        if ready is not None:
            ready(url)
        running = [group.create_task(door.run(), name=door.name) for door in doors]
        await asyncio.wait((*running, stopped), return_when=asyncio.FIRST_COMPLETED)
        for door in doors:
            door.stop()
        await asyncio.wait(running)


def _checks(doors: Sequence[Door], around: Surroundings) -> dict[str, str]:
    found = around.policies.checks()
    said = [(door.name, checks) for door in doors if (checks := door.checks())]
    for name, checks in said:
        for check, wrong in checks.items():
            found[f"{name}-{check}" if len(said) > 1 else check] = wrong
    return found


def own_namespace() -> str:
    """Where we run, inside a cluster; elsewhere ``fairlead-system``."""
    try:
        return Path(kubeconfig.SERVICE_ACCOUNT / "namespace").read_text().strip() or "fairlead-system"
    except OSError:
        return "fairlead-system"


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
    if text:
        structlog.configure(
            processors=[*shared, _as_printable, structlog.dev.ConsoleRenderer()],
            wrapper_class=structlog.make_filtering_bound_logger(level),
            logger_factory=structlog.WriteLoggerFactory(sys.stderr),
            cache_logger_on_first_use=True,
        )
    else:
        structlog.configure(
            processors=[*shared, structlog.processors.JSONRenderer(serializer=_encode)],
            wrapper_class=structlog.make_filtering_bound_logger(level),
            logger_factory=structlog.BytesLoggerFactory(sys.stderr.buffer),
            cache_logger_on_first_use=True,
        )


def _as_printable(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Escape what a terminal would act on: users choose much of what is logged.

    Lines stay apart only in tracebacks.
    """
    for key, value in event.items():
        if isinstance(value, str):
            event[key] = _printable(value, kept="\n\t" if key in ("exception", "stack") else "")
    return event


def _printable(text: str, kept: str = "") -> str:
    r"""The text with everything escaped that does not print: controls, line separators, changes of direction.

    >>> _printable("web\x1b[2J\n\x9b\u2028\u202e"), _printable("é 日本")
    ('web\\x1b[2J\\n\\x9b\\u2028\\u202e', 'é 日本')
    """
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() or each in kept else each.encode("unicode_escape").decode("ascii")
        for each in text
    )


def _encode(event: Any, **_: Any) -> bytes:
    return msgspec.json.encode(event, enc_hook=str)
