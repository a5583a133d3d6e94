"""``fairlead sweep``: play a scenario for every combination of parameters, and compare what comes of it."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fairlead.cli.flags import output_option
from fairlead.cli.output import show_table, show_warnings
from fairlead.cli.played import progress_of_runs
from fairlead.cli.report import check_place, write_page
from fairlead.errors import BadInput, FairleadError

if TYPE_CHECKING:
    from fairlead.simulation.sweep.kept import Kept
    from fairlead.simulation.sweep.sweep import Place, Sweep
    from fairlead.simulation.sweep.table import Table

_SAID_FAILURES = 10


@click.command(
    "sweep",
    epilog="""Examples:

    \b
    fairlead sweep examples/simulate/sweep.yaml --vary nodeGroups.big.nodes=2,3,4
    fairlead sweep examples/simulate/sweep.yaml --vary nodeGroups.big.nodes=2..4 --vary seed=1..5 -o csv
    fairlead sweep examples/simulate/sweep.yaml --vary arrivals.train.perHour=10..30/10 --out sweep/
    fairlead sweep examples/simulate/sweep.yaml --vary planning.ranking=spread,pack --columns waits.p95,cost
    fairlead sweep examples/simulate/sweep.yaml --vary nodeGroups.big.nodes=2..4 --report sweep.html

    Exits with 0; with 1 when a run failed or the sweep was interrupted; or with 2 when the scenario or a
    parameter cannot be used.
    """,
)
@click.argument("file", metavar="SCENARIO")
@click.option(
    "--vary",
    multiple=True,
    required=True,
    metavar="PATH=VALUES",
    help="A field of the scenario's spec and its values: a,b,c or a..b or a..b/STEP. Repeatable.",
)
@click.option(
    "--columns", default="", metavar="PATH,…", help="Numbers of the results to show, like waits.p95."
)
@click.option(
    "--out",
    default="",
    metavar="FOLDER",
    help="Keep each run's result here; a sweep that was interrupted goes on.",
)
@click.option(
    "--report",
    default="",
    metavar="FILE",
    help="Write the table to one HTML file, with charts; needs the extra `report`.",
)
@click.option(
    "--workers",
    type=click.IntRange(1, 1024),
    default=None,
    metavar="N",
    help="Processes that play runs side by side (default: as many as there are cores).",
)
@click.option(
    "--dask", default="", metavar="ADDRESS", help="Play runs on the Dask cluster of this scheduler."
)
@output_option("table", "json", "csv", help="Output format; json is an object in each line.")
def command(
    *,
    file: str,
    vary: tuple[str, ...],
    columns: str,
    out: str,
    report: str,
    workers: int | None,
    dask: str,
    output: str,
) -> None:
    """Play a scenario for every combination of parameters, and compare what comes of it.

    A path names fields of the scenario's spec; items of lists go by their name or their number. Where seed
    is varied, a row shows the mean over its seeds, the least and the most. The table is the same to the byte
    wherever runs are played and in whatever order they end.
    """
    import fairlead
    from fairlead.doors.process import configure_logging
    from fairlead.simulation.report.plotly_script import plotly_script
    from fairlead.simulation.report.sweep_page import sweep_page
    from fairlead.simulation.sweep.kept import InFolder, InMemory
    from fairlead.simulation.sweep.sweep import prepare, tabulated

    if dask and workers is not None:
        raise BadInput("--workers is for this machine's processes; a Dask cluster has its own")
    configure_logging("auto", "warning")  # what happens in a simulation is told by its result
    script = None
    if report:  # what is missing is to be known before anything is played
        script = plotly_script()
        check_place(report, "--report")
    sweep = prepare(Path(file), vary, [one.strip() for one in columns.split(",") if one.strip()])
    kept: Kept = InMemory()
    if out:
        kept = folder = InFolder(Path(out))
        folder.describe(sweep.description())
    failed = _play(sweep, kept, _place(dask, workers), out)
    found = tabulated(sweep, kept)
    _show(found, output)
    if script is not None:
        text = sweep_page(sweep.scenario, sweep.parameters, found, script, fairlead.__version__)
        write_page(text, report, "--report")
    if failed:
        show_warnings(f"{run}: {error}" for run, error in list(failed.items())[:_SAID_FAILURES])
        raise FairleadError(f"{len(failed)} of {len(sweep.runs)} runs failed; rows are of the others")


def _place(dask: str, workers: int | None) -> Place:
    if dask:
        from fairlead.simulation.sweep.dask_cluster import play_on_dask

        return partial(play_on_dask, address=dask)
    from fairlead.simulation.sweep.local_workers import cores, play_locally

    return partial(play_locally, workers=workers or cores())


def _play(sweep: Sweep, kept: Kept, place: Place, out: str) -> dict[str, str]:
    from fairlead.simulation.sweep.sweep import play_all, results

    try:
        with progress_of_runs() as say:
            return play_all(sweep, kept, place, say)
    except KeyboardInterrupt:
        there = f"{sum(1 for _ in results(sweep, kept))} of {len(sweep.runs)} runs were played"
        what = (
            f"their results are in {out}, and the same command goes on"
            if out
            else "--out would have kept them"
        )
        raise FairleadError(f"interrupted: {there}; {what}") from None


def _show(found: Table, output: str) -> None:
    from fairlead.simulation.sweep.table import to_csv, to_json_lines, to_texts

    if output == "table":
        show_table(*to_texts(found))
    else:
        click.echo(to_csv(found) if output == "csv" else to_json_lines(found), nl=False)
