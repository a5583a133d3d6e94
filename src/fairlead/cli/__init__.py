"""The command line: nouns then verbs, ``-o json|yaml|table``, kubectl's flags where they mean the same.

Commands are imported only when called, so that ``fairlead --help`` stays fast. Each lives in a module
of its own whose attribute `command` is the click command.
"""

from __future__ import annotations

import sys

import click

import fairlead
from fairlead.cli.lazy import Lazy
from fairlead.errors import FairleadError

__all__ = ["main"]

# name → (module, one line for --help: kept here so that listing imports nothing)
_COMMANDS: dict[str, tuple[str, str]] = {
    "dev": ("fairlead.cli.dev", "A real control plane on this machine, with simulated nodes."),
    "explain": ("fairlead.cli.explain", "Why a pod fits, or not, on each node of a cluster given as files."),
    "plan": ("fairlead.cli.plan", "What would be bound, evicted and held, for a cluster given as files."),
    "burst": ("fairlead.cli.burst", "So many pods on the cluster's own nodes, the rest on a virtual one."),
    "scheduler": ("fairlead.cli.scheduler", "Place the pods of a cluster that ask for us."),
    "extender": ("fairlead.cli.extender", "Let kube-scheduler ask which nodes a pod may go to."),
    "webhook": ("fairlead.cli.webhook", "Give pods their tier when they are created."),
    "policy": ("fairlead.cli.policy", "Look at placement policies before a cluster does: lint, test, crds."),
    "nodegroups": ("fairlead.cli.nodegroups", "What autoscalers make of a file of node groups."),
    "rebalance": ("fairlead.cli.rebalance", "Bring pods back to the tier where they belong."),
    "serve": ("fairlead.cli.serve", "Several doors in one process."),
    "replay": ("fairlead.cli.replay", "Decide a recording of the scheduler again, and compare."),
    "tenant": ("fairlead.cli.tenant", "One command per tenant: its objects, from its type, on its nodes."),
    "demo": ("fairlead.cli.demo", "The main job, told on the embedded cluster."),
}


@click.command(
    cls=Lazy,
    lazy=_COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(fairlead.__version__, prog_name="fairlead")
def _fairlead() -> None:
    """Decides which pod goes on which Kubernetes node, and says why.

    Exit codes: 0 done; 1 it failed, the message says why; 2 the input cannot be used.
    """


def main() -> None:
    """Run the command line; bad input ends with a message, never with a traceback."""
    try:
        _fairlead()
    except FairleadError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(error.exit_code)
