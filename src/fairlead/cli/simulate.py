"""``fairlead simulate``: play a scenario in virtual time."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from fairlead.cli.flags import output_option
from fairlead.cli.output import show_data, show_lines, show_table
from fairlead.cli.played import progress
from fairlead.cli.report import write_page
from fairlead.errors import BadInput

if TYPE_CHECKING:
    from fairlead.simulation.simulate.result import Result


@click.command(
    "simulate",
    epilog="""Examples:

    \b
    fairlead simulate examples/simulate/batch.yaml
    fairlead simulate examples/simulate/batch.yaml -o json
    fairlead simulate examples/simulate/batch.yaml --seed 7 --out result.json
    fairlead simulate examples/simulate/batch.yaml --report report.html

    Exits with 0, or with 2 when the scenario cannot be used.
    """,
)
@click.argument("file", metavar="SCENARIO")
@click.option("--seed", type=int, default=None, help="Another seed than the scenario's.")
@click.option("--out", default="", metavar="FILE", help="Write the result to a file, as versioned JSON.")
@click.option(
    "--report",
    default="",
    metavar="FILE",
    help="Write the result to one HTML file, with charts; needs the extra `report`.",
)
@output_option("table", "json", "yaml")
def command(file: str, seed: int | None, out: str, report: str, output: str) -> None:
    """Play a scenario in virtual time: nodes, workloads, arrivals, spot markets, policies and faults.

    What decides is the code that decides live. The same scenario and seed give the same result, to the byte,
    wherever it is played. Nothing is read from a cluster or written to one.
    """
    from dataclasses import replace

    from msgspec.structs import replace as with_fields

    import fairlead
    from fairlead.doors.process import configure_logging
    from fairlead.simulation.report.page import page
    from fairlead.simulation.report.plotly_script import plotly_script
    from fairlead.simulation.scenario.material import load
    from fairlead.simulation.simulate.simulation import simulate

    configure_logging("auto", "warning")  # what happens in a simulation is told by its result
    script = plotly_script() if report else None  # missing, it is to be known before anything is played
    material = load(Path(file))
    if seed is not None:
        scenario = material.scenario
        material = replace(
            material, scenario=with_fields(scenario, spec=with_fields(scenario.spec, seed=seed))
        )
    with progress() as say:
        result = simulate(material, say)
    if out:
        try:
            Path(out).write_bytes(result.encode())
        except OSError as error:
            raise BadInput(f"--out {out}: cannot be written: {error.strerror or error}") from error
    if script is not None:
        write_page(page([result], [file], script, fairlead.__version__), report, "--report")
    if output != "table":
        show_data(result.to_dict(), output)
    else:
        _show(result)


def _show(found: Result) -> None:
    from fairlead.simulation.report.words import availability

    pods, waits = found.pods, found.waits
    show_lines(
        f"{found.scenario}: {_span(found.duration_s)} of virtual time, seed {found.seed}", style="bold"
    )
    show_lines(
        f"pods    {pods.arrived} arrived, {pods.placed} placed, {pods.finished} finished, "
        f"{pods.evicted} evicted, {pods.moved} moved",
        f"        {pods.pending} pending and {pods.running} running at the end",
        f"waits   median {_wait(waits.p50)}, p95 {_wait(waits.p95)}, p99 {_wait(waits.p99)}, "
        f"longest {_wait(waits.max)}",
        f"cost    {found.cost:.2f} in all, {found.cost_per_hour:.4f} per hour",
        "",
    )
    show_table(
        ("RESOURCE", "CAPACITY", "USED", "MOST", "AT THE END", "FREE BUT UNUSABLE"),
        [
            (
                one.name,
                f"{one.capacity:g}",
                f"{one.used:.1%}",
                f"{one.peak_used:.1%}",
                f"{one.used_at_end:.1%}",
                f"{one.unusable_share:.1%}, {one.unusable_per_node:g} per node",
            )
            for one in found.resources
        ],
    )
    show_lines("")
    show_table(
        ("NODES OF", "HOURS", "COST", "MOST", "AT THE END", "TAKEN AWAY"),
        [
            (
                one.name,
                f"{one.node_hours:.1f}",
                f"{one.cost:.2f}",
                str(one.most),
                str(one.at_end),
                str(one.taken),
            )
            for one in found.groups
        ],
    )
    show_lines("")
    show_table(
        ("WORKLOAD", "PLACED", "FINISHED", "EVICTED", "PENDING", "WAIT p95", "AVAILABLE", "OUTAGES"),
        [
            (
                one.name,
                str(one.pods.placed),
                str(one.pods.finished),
                str(one.pods.evicted),
                str(one.pods.pending),
                _wait(one.waits.p95),
                "" if one.availability is None else availability(one.availability),
                "" if one.availability is None else f"{one.outages}, longest {_wait(one.longest_outage_s)}",
            )
            for one in found.workloads
        ],
        sparse=True,
    )
    if found.waiting:
        show_lines("")
        show_table(("PENDING AT THE END", "WHY"), [(str(one.pods), one.text) for one in found.waiting])
    for note in found.notes:
        show_lines(note, style="yellow")


def _wait(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 120 else _span(seconds)


def _span(seconds: float) -> str:
    whole = round(seconds)
    days, rest = divmod(whole, 86400)
    hours, rest = divmod(rest, 3600)
    minutes, left = divmod(rest, 60)
    parts = [
        f"{number}{unit}"
        for number, unit in ((days, "d"), (hours, "h"), (minutes, "m"), (left, "s"))
        if number
    ]
    return "".join(parts[:2]) or "0s"
