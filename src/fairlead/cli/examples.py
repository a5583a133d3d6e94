"""``fairlead examples``: the files that the documents and ``--help`` call ``examples/…``, for those who have
installed a wheel.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import click

from fairlead.errors import BadInput

# In the package where it was installed from a wheel, beside `src` in a source tree.
_PACKAGE = Path(__file__).resolve().parents[1]
SHIPPED = next(
    (path for path in (_PACKAGE / "examples", _PACKAGE.parents[1] / "examples") if path.exists()),
    _PACKAGE / "examples",
)
"""The examples as they are installed."""


@click.command(
    "examples",
    epilog="""\b
Examples:
  Copy them to ./examples, where documents and help expect them:
    fairlead examples
  Copy them elsewhere:
    fairlead examples ~/fairlead/examples
""",
)
@click.argument("folder", metavar="[FOLDER]", default="examples", type=click.Path(path_type=Path))
@click.option("--force", is_flag=True, help="Replace files that differ.")
def command(folder: Path, *, force: bool) -> None:
    """Copy the examples to FOLDER (default: examples).

    Files that are there already and are the same are left alone; where one differs, nothing is copied.
    """
    files = sorted(path.relative_to(SHIPPED) for path in SHIPPED.rglob("*") if path.is_file())
    if not files:
        raise BadInput(f"there is nothing in {SHIPPED}: this installation of fairlead lacks its examples")
    missing = []
    differing = []
    for file in files:
        there, shipped = folder / file, SHIPPED / file
        if not there.exists():
            missing.append(file)
        elif not there.is_file() or there.read_bytes() != shipped.read_bytes():
            differing.append(file)
    if differing and not force:
        raise BadInput(
            f"{folder / differing[0]} differs from the example of that name"
            + (f", and so do {len(differing) - 1} more" if len(differing) > 1 else "")
            + ": name another folder, or replace them with --force"
        )
    for file in missing + differing:
        try:
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(SHIPPED / file, folder / file)
        except OSError as error:
            raise BadInput(f"{folder / file}: cannot be written: {error.strerror or error}") from error
    copied = len(missing) + len(differing)
    click.echo(f"{folder}: {copied} files copied, {len(files) - copied} were there")
