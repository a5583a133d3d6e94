"""A scheduler as a process: configuration read, signals heard, port opened, event loop chosen."""

from __future__ import annotations

import asyncio
import logging
import os
import random
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import structlog

from fairlead.client import config as kubeconfig
from fairlead.client.api import Client
from fairlead.client.connection import Connection
from fairlead.doors.scheduler.configuration import Configuration, load, merged
from fairlead.doors.scheduler.leading import Scheduler
from fairlead.doors.scheduler.session import worst
from fairlead.errors import BadInput

__all__ = ["run_process"]

_log = structlog.get_logger(__name__)

_OWN_NAMESPACE = kubeconfig.SERVICE_ACCOUNT / "namespace"
_LOOK_S = 5.0  # how often the configuration file is looked at


def run_process(file: str | None, flags: Mapping[str, Any], *, log_format: str, log_level: str) -> None:
    """Run until SIGTERM or SIGINT."""
    _configure_logging(log_format, log_level)
    configuration = _read(file, flags)
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(_main(configuration, file, flags))


async def _main(configuration: Configuration, file: str | None, flags: Mapping[str, Any]) -> None:
    target = kubeconfig.load(configuration.kubeconfig or None, context=configuration.context or None)
    async with Connection(target, in_flight=configuration.in_flight + 32) as connection:
        rng = random.Random()
        scheduler = Scheduler(
            Client(connection, rng=rng),
            configuration,
            system_namespace=configuration.system_namespace or _own_namespace(),
            rng=rng,
        )
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, scheduler.stop)
        again = asyncio.Event()
        loop.add_signal_handler(signal.SIGHUP, again.set)
        try:
            async with asyncio.TaskGroup() as group:
                watcher = group.create_task(_reload(scheduler, file, flags, again)) if file else None
                await _serve(scheduler, configuration.listen)
                if watcher is not None:
                    watcher.cancel()
        except BaseExceptionGroup as several:
            raise worst(several) from several


async def _serve(scheduler: Scheduler, listen: str) -> None:
    if not listen:
        await scheduler.run()
        return
    # A web server is a lot to import for who opens no port.
    from fairlead.doors.scheduler.health import serving

    async with serving(listen, checks=scheduler.checks, metrics=scheduler.metrics.text) as url:
        _log.info("listening", url=url)
        await scheduler.run()


async def _reload(scheduler: Scheduler, file: str, flags: Mapping[str, Any], again: asyncio.Event) -> None:
    """Read the file again on SIGHUP and when it changes; a file that cannot be used changes nothing."""
    known, told = _stamp(file), None
    while True:
        try:
            async with asyncio.timeout(_LOOK_S):
                await again.wait()
        except TimeoutError:
            pass  # time to look at the file
        stamp = _stamp(file)
        if not again.is_set() and stamp == known:
            continue
        again.clear()
        known = stamp
        try:
            configuration = _read(file, flags)
        except BadInput as error:
            _log.error("configuration_refused", reason=str(error))
            continue
        if configuration != told:
            told = configuration
            _log.info("configuration_reloaded", file=file)
            scheduler.reload(configuration)


def _stamp(file: str) -> tuple[int, int] | None:
    try:
        found = os.stat(file)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino


def _read(file: str | None, flags: Mapping[str, Any]) -> Configuration:
    return merged(load(file) if file else {}, flags, where=file or "flags")


def _own_namespace() -> str:
    try:
        return Path(_OWN_NAMESPACE).read_text().strip() or "fairlead-system"
    except OSError:
        return "fairlead-system"


def _loop_factory() -> Any:
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


def _configure_logging(log_format: str, log_level: str) -> None:
    text = log_format == "text" or (log_format == "auto" and sys.stderr.isatty())
    level = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING}[log_level]
    shared: list[Any] = [
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso"),
        structlog.processors.format_exc_info,
    ]
    if text:
        structlog.configure(
            processors=[*shared, structlog.dev.ConsoleRenderer()],
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


def _encode(event: Any, **_: Any) -> bytes:
    return msgspec.json.encode(event, enc_hook=str)
