"""Flags that several commands share, spelt once, and what their values mean.

Some stand for fields of the scheduler's configuration file, for every command that decides. One that is not
given leaves the file's value, so such flags have no defaults of their own. What they mean is read in one
place, `fairlead.doors.scheduler.configuration`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from fairlead.errors import BadInput

F = TypeVar("F", bound=Callable[..., Any])


def options(*given: Callable[[F], F]) -> Callable[[F], F]:
    """Several options as one decorator, in the order in which help shows them."""

    def give(command: F) -> F:
        for option in reversed(given):
            command = option(command)
        return command

    return give


def output_option(*formats: str, help: str = "Output format.") -> Callable[[F], F]:  # noqa: A002 (click's own word)
    """``-o``, with these formats; the first is the default."""
    return click.option(
        "-o", "--output", type=click.Choice(formats), default=formats[0], show_default=True, help=help
    )


def cluster_options(
    kubeconfig: str = "Path to the kubeconfig file.",
    context: str = "Context of the kubeconfig to use instead of the current one.",
) -> Callable[[F], F]:
    """``--kubeconfig`` and ``--context``, with these help texts; "" where they are not given."""
    return options(
        click.option("--kubeconfig", default="", metavar="FILE", help=kubeconfig),
        click.option("--context", default="", metavar="NAME", help=context),
    )


state_options = options(
    click.option(
        "-f",
        "--file",
        "files",
        multiple=True,
        metavar="FILE",
        help="State of the cluster, YAML or JSON, instead of a live one; - is standard input. Repeatable.",
    ),
    cluster_options(),
    click.option(
        "--system-namespace",
        default="fairlead-system",
        show_default=True,
        metavar="NAME",
        help="Namespace of Fairlead's own objects: its leases say which replica leads.",
    ),
    output_option("table", "wide", "json", "yaml"),
)
"""Where the state comes from, files or a live cluster, and the format of the answer."""

scope_options = options(
    click.option("-n", "--namespace", default="", metavar="NAME", help="Only pods of this namespace."),
    click.option(
        "-A", "--all-namespaces", is_flag=True, help="Pods of all namespaces, as without -n: for clarity."
    ),
    click.option(
        "-l", "--selector", "labels", default="", metavar="SELECTOR", help="Only pods with these labels."
    ),
)
"""Which pods are meant, as kubectl spells it."""

watch_option = click.option("-w", "--watch", is_flag=True, help="Look again every two seconds, until Ctrl-C.")


def duration_s(flag: str, text: str) -> float:
    """The seconds of a duration that was given as a flag; BadInput names the flag."""
    from fairlead.kube.duration import seconds

    try:
        return seconds(text)
    except ValueError as error:
        raise BadInput(f"{flag}: {error}") from error


_FIELD = "field__"  # begins the names under which a command gets the values of such flags
PRIORITY_FLAGS = (f"{_FIELD}priorityAnnotation__namespaceSelector", f"{_FIELD}priorityAnnotation__max")
"""The names under which a command gets the values of `priority_options`."""


def field_option(*names: str, field: str, **more: Any) -> Callable[[F], F]:
    """A flag that stands for a field of the configuration file."""
    return click.option(*names, _FIELD + field.replace(".", "__"), default=None, **more)


def take_fields(flags: dict[str, Any]) -> dict[str, Any]:
    """Take out the fields that were given as flags, as `read_configuration` takes them."""
    fields = {name: flags.pop(name) for name in list(flags) if name.startswith(_FIELD)}
    return {
        name.removeprefix(_FIELD).replace("__", "."): list(value) if isinstance(value, tuple) else value
        for name, value in fields.items()
        if value is not None and value != ()
    }


def _selector(_: click.Context, option: click.Parameter, text: str | None) -> dict[str, Any] | None:
    """What the configuration file would have for a selector as kubectl spells it."""
    if text is None:
        return None
    import msgspec

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
    help="Path to the scheduler's FairleadConfiguration file; flags win over it.",
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
"""Flags that change decisions, for the scheduler and for commands that answer for it."""
