"""``fairlead spot-plan``: the cheapest policy for spot nodes that keeps a workload available enough."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fairlead.cli.flags import output_option
from fairlead.cli.output import show_data, show_documents, show_lines, show_table
from fairlead.cli.played import progress
from fairlead.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fairlead.simulation.spot_plan.check import Measured
    from fairlead.simulation.spot_plan.choice import Judged, Plan

UNREACHABLE = 3


@click.command(
    "spot-plan",
    epilog="""Examples:

    \b
    fairlead spot-plan examples/spot-plan/rates.yaml
    fairlead spot-plan examples/spot-plan/traces.yaml --policy-out policy.yaml
    fairlead spot-plan examples/spot-plan/traces.yaml --choose 5d --check 5d

    Exits with 0, with 2 when the file cannot be used, and with 3 when no policy reaches the target. A target
    that is missed in the check is reported as missed; the exit code stays 0.
    """,
)
@click.argument("file", metavar="FILE")
@click.option(
    "--choose", default=None, metavar="SPAN", help="How much of the traces, from their beginning, chooses."
)
@click.option("--check", default=None, metavar="SPAN", help="Play the policies on this much after that.")
@click.option(
    "--check-from",
    default=None,
    metavar="DATE|SPAN",
    help="Begin to check on this day, or this long after the traces' beginning; what is before that chooses.",
)
@click.option("--policy-out", default="", metavar="FILE", help="Write the policy to a file.")
@output_option("table", "json", "yaml")
def command(
    *, file: str, choose: str | None, check: str | None, check_from: str | None, policy_out: str, output: str
) -> None:
    """Print the cheapest PlacementPolicy that keeps a workload available for its target share of time.

    FILE says the workload and its target, what nodes cost, and the pools of spot nodes, by traces of how many
    nodes could be had or by mean times up and down. Pools fail as wholes and together: policies are judged on
    what pools had at the same moment, and chosen by the lower limit of their availability. Checking plays
    them on time that was not used to choose.
    """
    from fairlead.doors.process import configure_logging
    from fairlead.simulation.spot_plan.check import measure
    from fairlead.simulation.spot_plan.choice import plan
    from fairlead.simulation.spot_plan.plan_file import Split, load

    configure_logging("auto", "warning")  # what happens in a simulation is told by its result
    question = load(Path(file), Split(choose, check, check_from))
    with progress("judging policies") as say:
        found = plan(question, lambda done, of: say(done, of, 0))
    checked: list[Measured] = []
    if question.check is not None:
        for one in found.variants:
            with progress(f"playing {one.name}") as say:
                checked.append(measure(question, one, say))
    if policy_out and found.chosen is not None:
        _write(policy_out, found.chosen.policy)
    if output == "table":
        _show(found, checked)
    else:
        show_data(_data(found, checked), output)
    if found.chosen is None:
        raise SystemExit(UNREACHABLE)


def _write(path: str, policy: dict[str, Any]) -> None:
    import yaml

    try:
        Path(path).write_text(yaml.safe_dump(policy, sort_keys=False))
    except OSError as error:
        raise BadInput(f"--policy-out {path}: cannot be written: {error.strerror or error}") from error


def _show(found: Plan, checked: Sequence[Measured]) -> None:
    question, chosen = found.question, found.chosen
    workload = question.spec.workload
    show_lines(
        f"{workload.name}: {question.terms.minimum} of {workload.replicas} pods ready for "
        f"{question.target:.4%} of the time; {found.tried} policies judged",
        style="bold",
    )
    show_lines(*found.said, "")
    if chosen is not None:
        show_lines(f"planned: {chosen.words}")
        show_documents([chosen.policy])
        show_lines("")
    show_table(
        ("POLICY", "COST/H", "OF ON-DEMAND", "AVAILABLE", "BETWEEN", "OUTAGES", "TARGET"),
        [
            (
                one.name if chosen is not None or one is not found.variants[-1] else "nearest",
                f"{one.course.cost_per_hour:.4f}",
                f"{one.course.cost_per_hour / found.full_price:.1%}" if found.full_price else "-",
                f"{one.course.availability:.4%}",
                f"{one.at_least:.4%} and {one.at_most:.4%}",
                f"{len(one.course.outages)} on {len(one.course.days())} days",
                "met" if one.meets else ("MISSED", "red"),
            )
            for one in found.variants
        ],
    )
    if not checked:
        return
    show_lines(
        "",
        f"played on {question.check_s / 86400:.1f} days from day {question.check_from_s / 86400:.1f} on, "
        "which chose nothing:",
    )
    show_table(
        (
            "POLICY",
            "COST/H",
            "OF ON-DEMAND",
            "EXPECTED",
            "AVAILABLE",
            "EXPECTED",
            "OUTAGES",
            "LONGEST",
            "TARGET",
        ),
        [
            (
                each.name,
                f"{each.cost_per_hour:.4f}",
                f"{each.cost_per_hour / found.full_price:.1%}" if found.full_price else "-",
                f"{one.course.cost_per_hour / found.full_price:.1%}" if found.full_price else "-",
                f"{each.availability:.4%}",
                f"{one.course.availability:.4%}",
                str(each.outages),
                f"{each.longest_s:.0f} s",
                "met" if each.meets else ("MISSED", "red"),
            )
            for each, one in zip(checked, found.variants, strict=True)
        ],
    )


def _data(found: Plan, checked: Sequence[Measured]) -> dict[str, Any]:
    question, chosen = found.question, found.chosen
    return {
        "workload": question.spec.workload.name,
        "replicas": question.terms.replicas,
        "minAvailable": question.terms.minimum,
        "target": question.target,
        "reachable": chosen is not None,
        "policiesJudged": found.tried,
        "said": list(found.said),
        "policy": None if chosen is None else chosen.policy,
        "variants": [_variant(one, found) for one in found.variants],
        "check": [
            {
                "name": one.name,
                "costPerHour": round(one.cost_per_hour, 6),
                "availability": round(one.availability, 8),
                "belowSeconds": round(one.below_s, 1),
                "outages": one.outages,
                "longestOutageSeconds": round(one.longest_s, 1),
                "nodesTaken": one.taken,
                "meetsTarget": one.meets,
                "expected": {
                    "costPerHour": round(one.walked.cost_per_hour, 6),
                    "availability": round(one.walked.availability, 8),
                    "outages": len(one.walked.outages),
                },
            }
            for one in checked
        ],
    }


def _variant(one: Judged, found: Plan) -> dict[str, Any]:
    cost = one.course.cost_per_hour
    return {
        "name": one.name,
        "does": one.words,
        "costPerHour": round(cost, 6),
        "shareOfOnDemand": round(cost / found.full_price, 6) if found.full_price else None,
        "availability": round(one.course.availability, 8),
        "atLeast": round(one.at_least, 8),
        "atMost": round(one.at_most, 8),
        "outages": len(one.course.outages),
        "daysWithOutages": len(one.course.days()),
        "belowSeconds": round(one.course.below_s, 1),
        "independentOutages": round(one.limits.independent, 2),
        "meetsTarget": one.meets,
        "policy": one.policy,
    }
