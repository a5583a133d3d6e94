"""``fairlead report``: results of simulations as one HTML file."""

from __future__ import annotations

from pathlib import Path

import click

from fairlead.cli.output import show_lines
from fairlead.errors import BadInput


@click.command(
    "report",
    epilog="""Examples:

    \b
    fairlead report calm.json -o report.html
    fairlead report calm.json busy.json -o compared.html

    Exits with 0, or with 2 when a result cannot be used.
    """,
)
@click.argument("files", metavar="RESULT...", nargs=-1, required=True)
@click.option("-o", "--output", "to", required=True, metavar="FILE", help="File to write.")
def command(files: tuple[str, ...], to: str) -> None:
    """Show results of `fairlead simulate --out` in one HTML file; several are compared with the first.

    The file needs no network and no other file. The same results give the same file, to the byte. Charts are
    drawn by plotly, which is an extra: pip install 'fairlead[report]'.
    """
    import fairlead
    from fairlead.simulation.report.page import page
    from fairlead.simulation.report.plotly_script import plotly_script
    from fairlead.simulation.simulate.result import decode

    script = plotly_script()
    results = [decode(_read(name), name) for name in files]
    write_page(page(results, files, script, fairlead.__version__), to, "-o")
    show_lines(f"{to}: {' and '.join(dict.fromkeys(one.scenario for one in results))}; open it in a browser")


def write_page(text: str, to: str, flag: str) -> None:
    """Write the file that a flag names."""
    try:
        Path(to).write_bytes(text.encode())
    except OSError as error:
        raise BadInput(f"{flag} {to}: cannot be written: {error.strerror or error}") from error


def check_place(to: str, flag: str) -> None:
    """Raise what will keep a file from being written, as far as it can be known before."""
    if Path(to).is_dir():
        raise BadInput(f"{flag} {to}: cannot be written: Is a directory")
    if not Path(to).parent.is_dir():
        raise BadInput(f"{flag} {to}: cannot be written: there is no folder {Path(to).parent}")


def _read(name: str) -> bytes:
    try:
        return Path(name).read_bytes()
    except OSError as error:
        raise BadInput(f"{name}: cannot be read: {error.strerror or error}") from error
