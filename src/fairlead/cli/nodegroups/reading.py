"""What the commands on node groups have in common: the file, and notes that are not part of the answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from fairlead.nodegroups import NodeGroup

__all__ = ["file_option", "note", "read_given"]

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


def note(text: str) -> None:
    """Say something beside the answer, which alone is on standard output."""
    click.echo(f"note: {text}", err=True)
