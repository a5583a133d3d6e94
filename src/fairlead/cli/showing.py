"""What commands that answer from files have in common: their options, and how they show what they found.

Elsewhere than on a terminal nothing is wrapped or cut, so that tables can be searched and compared.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from rich.text import Text

__all__ = [
    "options",
    "output_option",
    "show_documents",
    "show_json",
    "show_lines",
    "show_table",
    "show_warnings",
    "show_yaml",
    "state_options",
]

F = TypeVar("F", bound=Callable[..., Any])


def options(*given: Callable[[F], F]) -> Callable[[F], F]:
    """Several options as one decorator, in the order in which help shows them."""

    def give(command: F) -> F:
        for option in reversed(given):
            command = option(command)
        return command

    return give


output_option = click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "json", "yaml"]),
    default="table",
    show_default=True,
    help="Form.",
)


state_options = options(
    click.option(
        "-f",
        "--file",
        "files",
        multiple=True,
        required=True,
        metavar="FILE",
        help="State of the cluster, YAML or JSON; - is standard input. Repeatable.",
    ),
    click.option(
        "-o",
        "--output",
        type=click.Choice(["table", "json"]),
        default="table",
        show_default=True,
        help="Form.",
    ),
)
"""Where the state comes from and in which form the answer is shown."""


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
        click.echo(f"warning: {warning}", err=True)


def show_table(headings: Sequence[str], rows: Iterable[Sequence[Text]]) -> None:
    """A table without lines; nothing at all when it has no rows."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold", show_edge=False)
    for heading in headings:
        table.add_column(heading, no_wrap=not sys.stdout.isatty())
    for row in rows:
        table.add_row(*row)
    if table.row_count:
        _print(table)


def show_lines(*lines: str) -> None:
    """Lines as they are: what looks like markup is not."""
    from rich.text import Text

    for line in lines:
        _print(Text(line))


def _print(what: Any) -> None:
    from rich.console import Console

    terminal = sys.stdout.isatty()
    console = Console(highlight=False, soft_wrap=not terminal, width=None if terminal else 10_000)
    console.print(what)
