"""``fairlead policy``: look at policies before a cluster does."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from fairlead.cli.flags import cluster_options, options, output_option

if TYPE_CHECKING:
    from fairlead.client.config import Target
    from fairlead.client.connection import Connection
    from fairlead.policy.report.preview import Preview, State
    from fairlead.policy.rule.model import PlacementPolicy


F = TypeVar("F", bound=Callable[..., Any])

# What policies look at, as kubectl names it.
_KINDS = ("Node", "Pod", "PodDisruptionBudget", "Deployment", "ReplicaSet", "StatefulSet", "Job")


@click.group(
    "policy",
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Example: fairlead policy lint examples/spot/policy.yaml",
)
def command() -> None:
    """Check placement policies before a cluster uses them.

    A policy is an ordered list of tiers of nodes, with min and max, for groups of pods.
    """


def _state_options(*, required: bool) -> Callable[[F], F]:
    return options(
        click.option(
            "-f",
            "--file",
            "files",
            multiple=True,
            metavar="FILE",
            help="State of the cluster, YAML or JSON; - is standard input. Repeatable.",
        ),
        cluster_options(
            kubeconfig="Path to the kubeconfig file of a cluster to read the state from"
            + ("." if required else " (only when given).")
        ),
        output_option("table", "json", "yaml"),
    )


@command.command(
    "lint",
    epilog="""Examples:

    \b
    fairlead policy lint examples/spot/policy.yaml
    kubectl get nodes,pods,pdb,deploy,rs,sts,jobs -A -o yaml | fairlead policy lint policy.yaml -f -

    Exits with 0 when there is nothing to warn of (notes do not count), with 1 when there is, with 2 when
    the policies or the state cannot be used.
    """,
)
@click.argument("file", metavar="FILE")
@_state_options(required=False)
def lint(*, file: str, files: tuple[str, ...], kubeconfig: str, context: str, output: str) -> None:
    """Say what is likely to be a mistake in the policies of FILE (- is standard input).

    With a state, from files or from a cluster, it also says which tiers match no node, which mins are less
    than a workload's PodDisruptionBudget demands, and which workloads cannot be rolled out.
    """
    from fairlead.cli.output import show_data, show_lines, show_table
    from fairlead.policy.report.lint import lint as find

    policies = _policies(file)
    given = bool(files or kubeconfig or context)
    state = _state(files, kubeconfig, context) if given else None
    found = find(policies, state)
    warnings = sum(finding.severity == "warning" for finding in found)
    if output == "table":
        colours = {"warning": "yellow", "note": "dim"}
        show_table(
            ("POLICY", "SEVERITY", "CODE", "ABOUT", "MESSAGE"),
            (
                (one.policy, (one.severity, colours[one.severity]), one.code, one.about or "-", one.message)
                for one in found
            ),
        )
        looked = "with the state's nodes and workloads" if state is not None else "without a state"
        notes = len(found) - warnings
        show_lines(
            f"{len(policies)} {_s('policy', len(policies))} looked at, {looked}: "
            f"{warnings} {_s('warning', warnings)}, {notes} {_s('note', notes)}"
        )
    else:
        import msgspec

        show_data(msgspec.to_builtins(found), output)
    raise SystemExit(1 if warnings else 0)


@command.command(
    "test",
    epilog="""Examples:

    \b
    fairlead policy test examples/spot/policy.yaml -f examples/spot/workloads.yaml
    kubectl get nodes,pods,pdb,deploy,rs,sts,jobs -A -o yaml | fairlead policy test policy.yaml -f -

    Exits with 0 whatever would happen, with 2 when the policies or the state cannot be used.
    """,
)
@click.argument("file", metavar="FILE")
@_state_options(required=True)
@click.option("--slots", is_flag=True, help="Show the slots of each tier, not only how many pods it gets.")
def test(
    *,
    file: str,
    files: tuple[str, ...],
    kubeconfig: str,
    context: str,
    output: str,
    slots: bool,
) -> None:
    """Say what the policies of FILE (- is standard input) would do to the workloads of a state.

    Each workload's pods take their slots in turn; a slot's tier is the one that the rule adds going to that
    number of pods. NOW is where the state's pods are.
    """
    from fairlead.cli.output import show_data
    from fairlead.policy.names import EXEMPT
    from fairlead.policy.report.preview import preview
    from fairlead.policy.rule.matching import Policies

    policies = _policies(file)
    found = preview(Policies(policies, exempt=EXEMPT), _state(files, kubeconfig, context))
    if output == "table":
        _show_previews(found, slots=slots)
    else:
        show_data([_plain(one) for one in found], output)


@command.command(
    "crds",
    epilog="""Example:

    \b
    fairlead policy crds | kubectl apply -f -
    """,
)
def crds() -> None:
    """Print the CustomResourceDefinitions that components need, where they may not create them."""
    from fairlead.doors.crds import crd_texts

    for text in crd_texts():
        click.echo("---\n" + text, nl=False)


def _policies(file: str) -> tuple[PlacementPolicy, ...]:
    from fairlead.cli.state import read_objects
    from fairlead.engine.ask.objects import opened
    from fairlead.errors import BadInput
    from fairlead.policy.rule.model import read_policies

    found = list(opened(read_objects([file])))
    kinds = sorted({str(thing["kind"]) for thing in found if thing["kind"] != "PlacementPolicy"})
    if kinds:
        raise BadInput(f"{file}: holds {', '.join(kinds)}; only PlacementPolicy is expected here")
    return read_policies(found)


def _state(files: Sequence[str], kubeconfig: str, context: str) -> State:
    from fairlead.cli.state import read_objects
    from fairlead.engine.ask.objects import is_policy, opened, read
    from fairlead.errors import BadInput
    from fairlead.policy.report.preview import State

    if files and (kubeconfig or context):
        raise BadInput("the state comes from files or from a cluster, not from both")
    things: Iterable[dict[str, Any]] = opened(read_objects(files)) if files else _live(kubeconfig, context)
    state = State()
    for thing in things:
        if is_policy(thing):
            continue
        found = read(thing)
        if found is not None:
            state.add(*found, thing)
    return state


def _live(kubeconfig: str, context: str) -> Iterable[dict[str, Any]]:
    from fairlead.cli.cluster import call_cluster
    from fairlead.client.api import Client
    from fairlead.kube.resources import known

    async def read(connection: Connection, _: Target) -> list[dict[str, Any]]:
        client = Client(connection)
        found: list[dict[str, Any]] = []
        for kind in _KINDS:
            resource = known(kind)
            listed = await client.list(resource)
            found += ({**item, "kind": kind, "apiVersion": resource.api_version} for item in listed.items)
        return found

    return call_cluster(kubeconfig, context, read)


def _show_previews(found: Sequence[Preview], *, slots: bool) -> None:
    from fairlead.cli.output import show_lines, show_table
    from fairlead.policy.slots.placing import in_words

    show_table(
        ("NAMESPACE", "WORKLOAD", "POLICY", "PODS", "SLOTS" if slots else "TIERS", "NOW", "NOTE"),
        (
            (
                one.subject.workload.namespace,
                f"{one.subject.workload.kind}/{one.subject.workload.name}",
                one.policy.name if one.policy is not None else ("-", "dim"),
                str(one.subject.pods),
                in_words(one.slots()) if slots else _numbers(one.counts),
                _numbers(one.now.actual) if one.now is not None and one.now.pods else "-",
                _note(one),
            )
            for one in found
        ),
    )
    governed = sum(one.policy is not None for one in found)
    show_lines(f"{governed} of {len(found)} {_s('workload', len(found))} governed")


def _note(one: Preview) -> str:
    said = []
    if waits := one.counts.get("", 0):
        said.append(f"{waits} beyond every max: {'waits' if waits == 1 else 'wait'}")
    if one.split is not None:
        said.append("too many pods for a ledger: not numbered")
    if any(placing.choice.why == "single" for placing in one.placings):
        said.append("single replica")
    if one.now is not None and one.now.misplaced:
        said.append(f"{one.now.misplaced} misplaced now")
    if one.others:
        said.append(f"also matched by {', '.join(one.others)}")
    return "; ".join(said)


def _numbers(counts: dict[str, int] | Any) -> str:
    return ", ".join(f"{name} {number}" for name, number in counts.items() if name) or "-"


def _plain(one: Preview) -> dict[str, Any]:
    workload = one.subject.workload
    found: dict[str, Any] = {
        "namespace": workload.namespace,
        "kind": workload.kind,
        "name": workload.name,
        "pods": one.subject.pods,
        "policy": one.policy.name if one.policy is not None else None,
    }
    if one.policy is not None and one.key is not None and one.now is not None:
        found |= {
            "group": one.key.name,
            "alsoMatchedBy": list(one.others),
            "tiers": {name: number for name, number in one.counts.items() if name},
            "waiting": one.counts.get("", 0),
            "slots": [
                {"slot": placing.slot, "tier": one.tier(placing.choice) or None, "why": placing.choice.why}
                for placing in one.placings
            ],
            "now": {"pods": one.now.pods, "tiers": dict(one.now.actual), "misplaced": one.now.misplaced},
        }
    return found


def _s(word: str, number: int) -> str:
    if number == 1:
        return word
    return "policies" if word == "policy" else f"{word}s"
