"""The command line: nouns then verbs, ``-o json|yaml|table``, kubectl's flags where they mean the same.

Commands are imported only when called, so that ``fairlead --help`` stays fast. Each lives in a module
of its own whose attribute `command` is the click command.
"""

from __future__ import annotations

import gc
import sys
from importlib import import_module

import click

import fairlead
from fairlead.errors import FairleadError
from fairlead.kube.printable import printable

__all__ = ["main"]

# name → (module, one line for --help: kept here so that listing imports nothing)
_COMMANDS: dict[str, tuple[str, str]] = {
    "dev": ("fairlead.cli.dev", "Run a real control plane on this machine, with simulated nodes."),
    "explain": (
        "fairlead.cli.explain",
        "Explain why a pod, workload or gang has no node, and what would help.",
    ),
    "status": (
        "fairlead.cli.status",
        "Show placement on one screen: how full nodes are, what waits and why.",
    ),
    "queue": ("fairlead.cli.queue", "List what waits for the scheduler, in order, and why each is held."),
    "gangs": ("fairlead.cli.gangs", "List gangs: how many members are there, and what each gang waits for."),
    "nodes": ("fairlead.cli.nodes", "Show how full nodes are, and the largest pod that still fits."),
    "cost": ("fairlead.cli.cost", "Show what nodes cost, by tier, namespace or workload, and what is idle."),
    "dashboard": ("fairlead.cli.dashboard", "Watch placement in a browser, on this machine."),
    "plan": ("fairlead.cli.plan", "Show what the scheduler would bind, evict and hold now."),
    "completion": (
        "fairlead.cli.completion",
        "Print the script that completes commands and flags in a shell.",
    ),
    "version": ("fairlead.cli.version", "Print the version."),
    "burst": (
        "fairlead.cli.burst",
        "Keep N pods on the cluster's own nodes and send the rest to a virtual one.",
    ),
    "scheduler": ("fairlead.cli.scheduler", "Schedule pods whose schedulerName is fairlead."),
    "extender": ("fairlead.cli.extender", "Answer kube-scheduler's calls: which nodes a pod may go to."),
    "webhook": ("fairlead.cli.webhook", "Assign pods to their tier when they are created."),
    "policy": (
        "fairlead.cli.policy",
        "Check placement policies before a cluster uses them: lint, test, crds.",
    ),
    "nodegroups": (
        "fairlead.cli.nodegroups",
        "Write node groups as autoscalers take them, and diagnose scale-up from zero.",
    ),
    "rebalance": ("fairlead.cli.rebalance", "Bring pods back to the tier where they belong."),
    "serve": ("fairlead.cli.serve", "Run several components in one process."),
    "replay": ("fairlead.cli.replay", "Decide a recording of the scheduler again, and compare."),
    "tenant": (
        "fairlead.cli.tenant",
        "Create, list and delete tenants: their objects, from a type, on their nodes.",
    ),
    "examples": ("fairlead.cli.examples", "Copy the examples that the documentation uses."),
    "install": ("fairlead.cli.installation.install", "Install Fairlead on a cluster."),
    "upgrade": ("fairlead.cli.installation.upgrade", "Upgrade an installation, or change its values."),
    "uninstall": ("fairlead.cli.installation.uninstall", "Take Fairlead off a cluster; policies stay."),
    "whatif": ("fairlead.cli.whatif", "Show what would happen to a cluster if something were done to it."),
    "simulate": (
        "fairlead.cli.simulate",
        "Play a scenario in virtual time: what is placed, waits, and costs.",
    ),
    "sweep": (
        "fairlead.cli.sweep",
        "Play a scenario for every combination of parameters, and compare.",
    ),
    "spot-plan": (
        "fairlead.cli.spot_plan",
        "Find the cheapest policy for spot nodes that keeps a workload available enough.",
    ),
    "report": ("fairlead.cli.report", "Show results of simulations in one HTML file, beside each other."),
    "scenario": ("fairlead.cli.scenario", "Check, describe and import scenarios for simulate."),
    "demo": ("fairlead.cli.demo", "Show the scheduler at work on an embedded cluster."),
}


class _Lazy(click.Group):
    """The commands, imported only when called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        command = import_module(_COMMANDS[cmd_name][0]).command
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, _COMMANDS[name][1]) for name in self.list_commands(ctx)])


@click.command(
    cls=_Lazy,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(fairlead.__version__, prog_name="fairlead")
def _fairlead() -> None:
    """Decide which pod goes on which Kubernetes node, and say why.

    Exit codes: 0 done; 1 it failed, the message says why; 2 the input cannot be used.
    """


def root() -> click.Group:
    """The whole command line, for what describes it."""
    assert isinstance(_fairlead, click.Group)
    return _fairlead


def main() -> None:
    """Run the command line; bad input ends with a message, never with a traceback."""
    try:
        _fairlead()
    except FairleadError as error:
        click.echo("error: " + printable(str(error), kept="\n\t"), err=True)
        sys.exit(error.exit_code)
    finally:
        # What is left goes with the process: to look through all of it for garbage first would take a
        # command 0.1 s and more, a fifth of what most commands take.
        gc.freeze()
