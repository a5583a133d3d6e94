"""What the commands on node groups have in common: the file, and notes that are not part of the answer."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from fairlead.nodegroups import NodeGroup


F = TypeVar("F", bound=Callable[..., Any])


def file_option(command: F) -> F:
    """``-f FILE``."""
    return click.option(
        "-f", "--file", required=True, metavar="FILE", help="The node groups, YAML; - is standard input."
    )(command)


def read_given(file: str) -> tuple[NodeGroup, ...]:
    """The groups of the file."""
    from fairlead.cli.state import read_objects
    from fairlead.nodegroups.file import read_documents

    return read_documents(read_objects([file]), "standard input" if file == "-" else file)


def named(shape: re.Pattern[str]) -> Callable[[click.Context, click.Parameter, str | None], str | None]:
    """What an option that takes a name does with it: others are refused before anything is made of them."""

    def check(_: click.Context, parameter: click.Parameter, name: str | None) -> str | None:
        if name is not None and shape.fullmatch(name) is None:
            raise click.BadParameter(f"{name!r} is no such name")
        return name

    return check


def note(text: str) -> None:
    """Say something beside the answer, which alone is on standard output."""
    click.echo(f"note: {text}", err=True)
