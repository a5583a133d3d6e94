"""Flags that stand for fields of the scheduler's configuration file, for every command that decides.

A flag that is not given leaves the file's value, so such flags have no defaults of their own. What they
mean is read in one place, `fairlead.doors.scheduler.configuration`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

from fairlead.cli.showing import options

__all__ = [
    "PRIORITY_FLAGS",
    "config_option",
    "decision_options",
    "field_option",
    "fields_of",
    "priority_options",
]

F = TypeVar("F", bound=Callable[..., Any])

PRIORITY_FLAGS = ("priorityAnnotation__namespaceSelector", "priorityAnnotation__max")
"""The names under which a command gets the values of `priority_options`."""


def field_option(*names: str, field: str, **more: Any) -> Callable[[F], F]:
    """A flag that stands for a field of the configuration file."""
    return click.option(*names, field.replace(".", "__"), default=None, **more)


def fields_of(flags: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that were given as flags, as `read_configuration` takes them."""
    return {
        name.replace("__", "."): list(value) if isinstance(value, tuple) else value
        for name, value in flags.items()
        if value is not None and value != ()
    }


def _selector(_: click.Context, option: click.Parameter, text: str | None) -> dict[str, Any] | None:
    """What the configuration file would have for a selector as kubectl spells it."""
    if text is None:
        return None
    import msgspec

    from fairlead.errors import BadInput
    from fairlead.kube.selectors import parse_label_selector

    try:
        selector: dict[str, Any] = msgspec.to_builtins(parse_label_selector(text))
    except BadInput as error:
        raise BadInput(f"{option.opts[0]}: {error}") from None
    return selector


config_option = click.option(
    "--config",
    "config_file",
    metavar="FILE",
    help="The scheduler's FairleadConfiguration; flags win over it.",
)

priority_options = options(
    field_option(
        "--priority-annotation-namespaces",
        field="priorityAnnotation.namespaceSelector",
        metavar="SELECTOR",
        callback=_selector,
        help="Honour the annotation priority only in namespaces with these labels (default: in all). "
        "Written as for kubectl -l; '' is all.",
    ),
    field_option(
        "--priority-annotation-max",
        field="priorityAnnotation.max",
        type=int,
        metavar="N",
        help="The highest priority that the annotation can give (default: 1000000000).",
    ),
)
"""Where the annotation ``priority`` is honoured, and up to which value."""

decision_options = options(
    config_option,
    field_option(
        "--capacity",
        field="capacity",
        type=click.Choice(["resources", "exclusive"]),
        help="exclusive: one Fairlead pod per node (default: resources).",
    ),
    field_option(
        "--pdb",
        field="preemption.pdb",
        type=click.Choice(["respect", "best-effort"]),
        help="Whether evictions must stay within PodDisruptionBudgets (default: respect).",
    ),
    priority_options,
)
"""What the scheduler, and commands that answer for it, can be told to decide differently."""
