"""What every command that changes a cluster says first: which cluster that is.

A kubeconfig's current context may be production, and a command given without ``--context`` takes it. So the
notice is given once the configuration is read and before anything is sent, on standard error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from fairlead.client.config import Target
    from fairlead.nodegroups.aws import CloudState


def print_change_notice(target: Target) -> None:
    """Print which context and server a command is about to change."""
    click.echo(f"About to change {described(target)}", err=True)


def log_change_notice(target: Target) -> None:
    """Log the same as the first line of a component's log, whatever its level: in a cluster that is its log.

    A line of text would break a log of JSON lines, which others parse.
    """
    import structlog

    # Not the filtering logger that `configure_logging` sets: this is said at every --log-level.
    log = structlog.wrap_logger(None, wrapper_class=structlog.BoundLogger)
    named = {"context": target.context} if target.context else {}
    log.info("changes_cluster", **named, server=target.server.url, configuration=target.source)


def print_account_notice(state: CloudState) -> None:
    """Print which cloud account and which cluster's node groups there a command is about to change."""
    where = ", ".join(part for part in (state.region, state.account and f"account {state.account}") if part)
    click.echo(f'About to change Auto Scaling groups of EKS cluster "{state.cluster}" ({where})', err=True)


def described(target: Target) -> str:
    """The cluster in words.

    >>> from fairlead.client.config import Server, Target
    >>> described(Target(Server("https://10.0.0.1:6443"), context="lab", source="/home/a/.kube/config"))
    'the cluster of context "lab" (https://10.0.0.1:6443)'
    >>> described(Target(Server("https://10.96.0.1:443"), source="/var/run/secrets"))
    'the cluster that this runs in (https://10.96.0.1:443)'
    """
    which = f'of context "{target.context}"' if target.context else "that this runs in"
    return f"the cluster {which} ({target.server.url})"
