"""How commands print what they found: tables, lines, JSON, YAML; warnings go to standard error.

Output that is not a terminal is never wrapped or cut, so that tables can be searched and compared.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import click

from fairlead.kube.printable import printable

if TYPE_CHECKING:
    from rich.text import Text

    Cell = str | tuple[str, str] | Text


_NEARLY_FULL = 0.9
_KEPT = "\n\t"


def show_data(data: object, output: str) -> None:
    """Plain data as ``json`` or ``yaml``."""
    (show_json if output == "json" else show_yaml)(data)


def show_json(data: object) -> None:
    """Plain data as indented JSON."""
    import msgspec

    click.echo(msgspec.json.format(msgspec.json.encode(data), indent=2).decode())


def show_yaml(data: object) -> None:
    """Plain data as YAML."""
    import yaml

    click.echo(yaml.safe_dump(data, sort_keys=False, allow_unicode=True), nl=False)


def show_documents(objects: Iterable[object]) -> None:
    """Objects as YAML documents; text of several lines stands as it is, so that it can be read."""
    import yaml

    class Dumper(yaml.SafeDumper):
        def ignore_aliases(self, data: object) -> bool:
            return True

    Dumper.add_representer(
        str,
        lambda dumper, text: dumper.represent_scalar(
            "tag:yaml.org,2002:str", text, style="|" if "\n" in text else None
        ),
    )
    text = yaml.dump_all(
        objects, Dumper=Dumper, explicit_start=True, sort_keys=False, allow_unicode=True, width=10_000
    )
    click.echo(text, nl=False)


def show_warnings(warnings: Iterable[str]) -> None:
    """Lines on standard error, so that what is on standard output stays the answer alone."""
    for warning in warnings:
        click.echo(f"warning: {printable(warning, kept=_KEPT)}", err=True)


def show_table(
    headings: Sequence[str], rows: Iterable[Sequence[Cell]], *, heading: bool = True, sparse: bool = False
) -> None:
    """A table without lines; nothing at all when it has no rows. A cell is a text, or text and style.

    With `sparse`, columns in which every cell is empty are left out.
    """
    from rich.table import Table

    if sparse:
        rows = [tuple(row) for row in rows]
        used = [number for number in range(len(headings)) if any(_text(row[number]).plain for row in rows)]
        headings = [headings[number] for number in used]
        rows = [[row[number] for number in used] for row in rows]
    table = Table(box=None, pad_edge=False, header_style="bold", show_edge=False, show_header=heading)
    for title in headings:
        table.add_column(title, no_wrap=not sys.stdout.isatty())
    for row in rows:
        table.add_row(*(_text(cell) for cell in row))
    if table.row_count:
        _print(table)


def fill_bar(fill: float | None, width: int = 10) -> tuple[str, str]:
    """How full something is, as a bar and in percent; beyond 90 % in a colour of its own.

    >>> fill_bar(0.25, 4), fill_bar(None)
    (('█░░░  25%', ''), ('-', 'dim'))
    """
    if fill is None:
        return "-", "dim"
    full = min(width, max(int(fill > 0), round(fill * width)))
    style = "red" if fill > 1 else "yellow" if fill > _NEARLY_FULL else ""
    return f"{'█' * full}{'░' * (width - full)} {fill * 100:3.0f}%", style


def _text(cell: Cell) -> Text:
    from rich.text import Text

    if isinstance(cell, Text):
        return cell if printable(cell.plain, _KEPT) == cell.plain else Text(printable(cell.plain, _KEPT))
    text, style = cell if isinstance(cell, tuple) else (cell, "")
    return Text(printable(text, _KEPT), style)


def show_lines(*lines: str, style: str = "") -> None:
    """Lines as they are: what looks like markup is not, nor does a terminal act on any of it."""
    from rich.text import Text

    for line in lines:
        _print(Text(printable(line, _KEPT), style))


def _print(what: Any) -> None:
    from rich.console import Console

    terminal = sys.stdout.isatty()
    console = Console(highlight=False, soft_wrap=not terminal, width=None if terminal else 10_000)
    console.print(what)
