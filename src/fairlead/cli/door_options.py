"""How the commands of components are put together: the flags they share, and the `Options` made from them.

A command without a configuration file takes the shared flags with `door_options`. One with a configuration
file takes them with `door_fields`, as fields that win over the file's; `options_of` reads the outcome.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

import click

from fairlead.cli.flags import field_option, options
from fairlead.errors import BadInput

if TYPE_CHECKING:
    from fairlead.client.api import Client
    from fairlead.doors.process import Context, Door, Options
    from fairlead.doors.scheduler.configuration import Configuration
    from fairlead.policy.rule.model import PlacementPolicy


F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")


def door_options(listen: str = "") -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give a command the shared flags; it gets them as `options`, a `fairlead.doors.process.Options`.

    `listen` is the default address.
    """

    def give(command: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(command)
        def called(**given: Any) -> Any:
            shared = {name: given.pop(name) for name in (*_SHARED, "log_format", "log_level")}
            return command(options=_options(shared, listen), **given)

        flags = [click.option(*spelt, name, default="", **more) for name, (spelt, _, more) in _SHARED.items()]
        return options(*flags, _log_options)(called)

    return give


def door_fields(command: F) -> F:
    """Give a command the shared flags as fields of the scheduler's configuration file, and those for logs."""
    flags = [field_option(*spelt, field=field, **more) for spelt, field, more in _SHARED.values()]
    return options(*flags, _log_options)(command)


def options_of(configuration: Configuration, *, listen: str = "", **logs: str) -> Options:
    """What a configuration says of the shared flags; `listen` is the default address."""
    return _options({name: getattr(configuration, name) for name in _SHARED} | logs, listen)


def _options(shared: dict[str, str], listen: str) -> Options:
    from fairlead.doors.process import Options

    return Options(**shared | {"listen": shared["listen"] or listen})


_SHARED: dict[str, tuple[tuple[str, ...], str, dict[str, Any]]] = {
    "kubeconfig": (
        ("--kubeconfig", "--kubeConfig"),
        "kubeconfig",
        {"metavar": "FILE", "help": "Path to the kubeconfig file."},
    ),
    "context": (
        ("--context",),
        "context",
        {"metavar": "NAME", "help": "Context of the kubeconfig to use instead of the current one."},
    ),
    "policies": (
        ("--policies",),
        "policies",
        {
            "metavar": "FILE",
            "help": "YAML file of policies to use in addition to the cluster's; reloaded when it changes.",
        },
    ),
    "listen": (
        ("--listen",),
        "listen",
        {
            "metavar": "ADDRESS:PORT",
            "help": "The one address to listen on: calls, /livez, /readyz and /metrics. Without it, no port "
            "is opened, unless the component must be called.",
        },
    ),
    "system_namespace": (
        ("--system-namespace",),
        "systemNamespace",
        {
            "metavar": "NAME",
            "help": "Namespace of leases and other objects of Fairlead's own (default: the pod's own, else "
            "fairlead-system).",
        },
    ),
}
"""Each shared flag, by its name in `Options` and in a `Configuration`: how it is spelt, the field of the
configuration file that it stands for, and its help.
"""

_log_options = options(
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
        help="info: one line per decision.",
    ),
)


def run_components(
    options: Options,
    make: Callable[[Context], Sequence[Door]],
    *,
    in_flight: int = 64,
    fixed: Sequence[PlacementPolicy] = (),
) -> None:
    """Be a process with these doors; see `run_doors`. Its log says first which cluster it changes."""
    from fairlead.cli.change_notice import log_change_notice
    from fairlead.doors.process import run_doors

    run_doors(options, make, announce=log_change_notice, in_flight=in_flight, fixed=fixed)


def call_once(options: Options, call: Callable[[Client, str], Awaitable[T]], *, changes: bool = False) -> T:
    """What `call` answers, with a client for the cluster that the flags name and the system namespace.

    `changes`: see `call_cluster`.
    """
    from fairlead.cli.cluster import call_cluster
    from fairlead.client.api import Client

    return call_cluster(
        options.kubeconfig,
        options.context,
        lambda connection, _: call(Client(connection), options.namespace),
        changes=changes,
        log_format=options.log_format,
        log_level=options.log_level,
    )


def called_options(*names: str, only: str = "", certificate: str = "") -> Callable[[F], F]:
    """Flags of components that are called, by their names.

    `only` says in help to what they are limited: "webhook" is shown as "webhook: ...". `certificate` is the
    help of ``--tls-cert-file``.
    """
    made = []
    for name in names:
        more = dict(_CALLED[name])
        text = more.pop("help") or certificate
        shown = f"{only}: {text[0].lower()}{text[1:]}" if only else text
        made.append(click.option(f"--{name}", **{"default": ""} | more, help=shown))
    return options(*made)


_CALLED: dict[str, dict[str, Any]] = {
    "url": {
        "metavar": "https://HOST:PORT",
        "help": "Address at which the API server reaches the webhook from outside the cluster, perhaps "
        "through a load balancer; without it, --service is used.",
    },
    "service": {
        "default": "fairlead-webhook",
        "show_default": True,
        "metavar": "NAME[:PORT]",
        "help": "Name of the Service in front of the webhook, in the system namespace; the default port is "
        "443.",
    },
    "failure-policy": {
        "type": click.Choice(["Ignore", "Fail"]),
        "default": "Ignore",
        "show_default": True,
        "help": "While the webhook is unavailable, create pods without a tier and adopt them later (Ignore), "
        "or create no pods (Fail).",
    },
    "tls-cert-file": {"metavar": "FILE", "help": ""},
    "tls-key-file": {"metavar": "FILE", "help": "Private key of the certificate."},
    "client-ca-file": {
        "metavar": "FILE",
        "help": "Accept only clients whose certificate one of these authorities (PEM) signed; reloaded when "
        "it changes. Without it, every client that reaches the port is accepted.",
    },
}
"""Where and how the API server calls a webhook (see `service_and_port`), the certificate that the port shows,
and which clients are answered (see `check_client_ca`).
"""


def own_scheduler_option(help: str) -> Callable[[F], F]:  # noqa: A002 (click's own word)
    """``--scheduler-name``, repeatable: the pods of these schedulers are treated as Fairlead's own."""
    return click.option(
        "--scheduler-name",
        "schedulers",
        multiple=True,
        default=("fairlead",),
        show_default=True,
        metavar="NAME",
        help=help,
    )


def service_and_port(service: str) -> dict[str, Any]:
    """What ``--service NAME[:PORT]`` says, as the webhook's settings have it."""
    name, colon, port = service.partition(":")
    # isdecimal knows the digits of all scripts; a port has ASCII's.
    if not name or (colon and not (port.isascii() and port.isdecimal() and 0 < int(port) < 65536)):
        raise BadInput(f"--service: {service!r} is not NAME or NAME:PORT")
    return {"service": name, "service_port": int(port) if port else 443}


def check_client_ca(client_ca_file: str, tls_cert_file: str) -> None:
    """Refuse --client-ca-file for a component that would not speak TLS."""
    if client_ca_file and not tls_cert_file:
        raise BadInput("--client-ca-file needs --tls-cert-file: without TLS no client shows a certificate")
