"""The flags that every long-running command has, spelt once."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

import click

__all__ = ["running_options"]

F = TypeVar("F", bound=Callable[..., Any])

_NAMES = ("kubeconfig", "context", "policies", "listen", "system_namespace", "log_format", "log_level")


def running_options(command: F) -> Callable[..., Any]:
    """Give a command the shared flags; it gets them as `options`, a `fairlead.doors.running.Options`."""

    @wraps(command)
    def called(**given: Any) -> Any:
        from fairlead.doors.running import Options

        shared = {name: given.pop(name) for name in _NAMES}
        return command(options=Options(**shared), **given)

    made: Callable[..., Any] = called
    for option in reversed(_FLAGS):
        made = option(made)
    return made


_FLAGS = (
    click.option(
        "--kubeconfig",
        "--kubeConfig",
        default="",
        metavar="FILE",
        help="Which cluster, and who we are to it.",
    ),
    click.option("--context", default="", metavar="NAME", help="Another context than the current one."),
    click.option(
        "--policies",
        default="",
        metavar="FILE",
        help="A YAML stream of policies, beside those of the cluster; read again when it changes.",
    ),
    click.option(
        "--listen",
        default="",
        metavar="ADDRESS:PORT",
        help="The one port to open: calls, /livez, /readyz and /metrics; without it, none.",
    ),
    click.option(
        "--system-namespace",
        default="",
        metavar="NAME",
        help="Where leases and the like live (default: the pod's own, else fairlead-system).",
    ),
    click.option(
        "--log-format",
        type=click.Choice(["auto", "json", "text"]),
        default="auto",
        show_default=True,
        help="auto: text on a terminal, JSON elsewhere.",
    ),
    click.option(
        "--log-level",
        type=click.Choice(["debug", "info", "warning"]),
        default="info",
        show_default=True,
        help="info has one line per decision.",
    ),
)
