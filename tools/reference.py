"""Write the reference pages of the documentation from the code: ``python -m tools.reference FOLDER``.

Commands, fields, metrics, labels and event reasons are found in the code; what a field, label or reason means
is said in `tools.reference_words`. Either without the other is an error, so no page is behind the code.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

import click
import msgspec
from prometheus_client import CollectorRegistry

from fairlead.cli import root
from fairlead.doors.crds import crds
from fairlead.doors.extender.metrics import Metrics as ExtenderMetrics
from fairlead.doors.rebalancer.metrics import Metrics as RebalancerMetrics
from fairlead.doors.scheduler.configuration import Configuration, Seconds
from fairlead.doors.scheduler.metrics import Metrics as SchedulerMetrics
from fairlead.doors.webhook.metrics import Metrics as WebhookMetrics
from fairlead.nodegroups.file import GroupFields
from fairlead.simulation.scenario import pod_trace
from fairlead.simulation.scenario.fields import NAME_IN_WORDS, allowed, types_of
from fairlead.simulation.scenario.model import (
    Arrivals,
    AutoscalerSection,
    Fault,
    Market,
    Metadata,
    Name,
    Planning,
    PodShape,
    ScaleStep,
    Spec,
    Workload,
)
from fairlead.simulation.scenario.schema import GROUP_SENTENCES, default_of, sentence_of
from tools.reference_words import FIELDS, LABELS, REASONS

__all__ = ["PAGES", "BehindError", "commands", "labels_in_code", "reasons_in_code", "write"]

SOURCES = Path(__file__).resolve().parents[1] / "src" / "fairlead"
FROM_CODE = "This page is made from the code by `tools/reference.py` whenever the site is built."


class BehindError(Exception):
    """What the code has and what is said of it differ."""


# Commands


def commands() -> Iterator[tuple[str, click.Command]]:
    """Every command with its full name, groups before what is in them."""
    yield from _within("fairlead", root())


def _within(name: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
    yield name, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for each in command.list_commands(context):
            found = command.get_command(context, each)
            assert found is not None
            yield from _within(f"{name} {each}", found)


def command_line() -> str:
    """Every ``--help``, under the command's name."""
    parts = ["# The command line", FROM_CODE, "Every command has `--help`, which says the same."]
    for name, command in commands():
        context = click.Context(command, info_name=name, max_content_width=100, terminal_width=100)
        parts += [f"## {name}", f"```text\n{command.get_help(context)}\n```"]
    return "\n\n".join(parts)


# The scheduler's configuration


def configuration() -> str:
    """Every field of a FairleadConfiguration."""
    rows = dict(_fields(Configuration, ""))
    _same("tools.reference_words.FIELDS", set(FIELDS), set(rows))
    table = _table(
        ("field", "type", "default", "what"),
        [(f"`{name}`", *about, FIELDS[name]) for name, about in rows.items()],
    )
    return "\n\n".join(
        [
            "# FairleadConfiguration",
            FROM_CODE,
            "The file that `fairlead scheduler --config FILE` reads, at its start and again when it changes. "
            "Flags win over it. A misspelt field is an error that names it. Durations are written `90s`, "
            "`10m` or `1h30m`.",
            "```yaml\napiVersion: fairlead.dev/v1alpha1\nkind: FairleadConfiguration\nqueue:\n"
            "  reserveAfter: 10m\n```",
            table,
        ]
    )


def _fields(section: type[msgspec.Struct], prefix: str) -> Iterator[tuple[str, tuple[str, str]]]:
    for field in msgspec.structs.fields(section):
        name = prefix + field.encode_name
        if isinstance(field.type, type) and issubclass(field.type, msgspec.Struct):
            yield from _fields(field.type, f"{name}.")
        else:
            yield name, (_type(field.type), _default(field.default, field.type))


def _type(kind: Any) -> str:
    if kind is Seconds:
        return "duration"
    words = {str: "string", int: "integer", bool: "boolean"}
    if kind in words:
        return words[kind]
    if "Selector" in str(kind):
        return "label selector"
    if str(kind).startswith("tuple"):
        return "list of strings"
    return ", ".join(f"`{one}`" for one in get_args(kind))


def _default(value: Any, kind: Any) -> str:
    if kind is Seconds:
        return f"`{value:g}s`"
    if value is None or value in ("", (), {}) or value is msgspec.NODEFAULT:
        return ""
    if isinstance(value, tuple):
        return f"`{', '.join(value)}`"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


# Scenarios

_PARTS: Mapping[str, type[msgspec.Struct]] = {
    "spec": Spec,
    "spec.workloads[] and spec.arrivals[]": PodShape,
    "spec.workloads[]": Workload,
    "spec.workloads[].scale[]": ScaleStep,
    "spec.arrivals[]": Arrivals,
    "spec.markets[]": Market,
    "spec.faults[]": Fault,
    "spec.planning": Planning,
    "spec.autoscaler": AutoscalerSection,
}
"""The parts of a scenario's spec, in the order of the page."""


def scenario() -> str:
    """Every field of a scenario."""
    parts = [
        "# Scenario",
        FROM_CODE,
        "The file that `fairlead simulate` plays. `fairlead scenario lint` checks it, `fairlead scenario "
        "schema` prints its JSON Schema. [Simulate](../how-to/simulate.md) explains it by example. A "
        "misspelt field is an error that names it. Durations are written `90s`, `10m`, `1h30m` or `7d`; "
        f"times count from the beginning. A name is {NAME_IN_WORDS}.",
        _table(("field", "type", "default", "what"), list(_of_struct(Metadata, "metadata."))),
    ]
    above: set[str] = set()
    for title, kind in _PARTS.items():
        rows = [row for row in _of_struct(kind, "") if row[0] not in above]
        if kind is PodShape:  # what workloads and arrivals have in common is said once
            above = {row[0] for row in rows}
        parts += [f"## {title}", _table(("field", "type", "default", "what"), rows)]
    given = {one.encode_name: one for one in msgspec.structs.fields(GroupFields)}
    _same("GROUP_SENTENCES", set(GROUP_SENTENCES), {*given, "nodes"})
    groups = [
        (f"`{name}`", _default(given[name].default, None) if name in given else "", what)
        for name, what in GROUP_SENTENCES.items()
    ]
    parts += [
        "## spec.nodeGroups[]",
        "As in a [file of node groups](../how-to/node-groups.md), and `nodes`.",
        _table(("field", "default", "what"), groups),
        "## A trace of pods",
        " ".join(str(pod_trace.__doc__).split()).replace("``", "`"),
        "```text\nat,runs_for,pods,cpu,memory,node:zone\n0,600,1,500m,1Gi,\n30,3600,4,2,4Gi,a|b\n```",
    ]
    return "\n\n".join(parts)


def _of_struct(kind: type[msgspec.Struct], prefix: str) -> Iterator[tuple[str, ...]]:
    types = types_of(kind)
    for one in msgspec.structs.fields(kind):
        default = default_of(one)
        shown = (
            "required" if one.required else "" if default in (None, "", [], {}) else _default(default, None)
        )
        if isinstance(default, list) and default:
            shown = f"`{', '.join(default)}`"
        yield (
            f"`{prefix}{one.encode_name}`",
            _briefly(types[one.encode_name]),
            shown,
            sentence_of(kind, one),
        )


def _briefly(kind: Any) -> str:
    """A field's type; what the page says once of names and durations is not said in every line."""
    if kind is Name:
        return "name"
    return re.sub(
        r"^a duration like .*", "duration", re.sub(r"durations like .*", "durations", allowed(kind))
    )


# Definitions


def definitions() -> str:
    """The fields of our CustomResourceDefinitions, and the columns that kubectl shows."""
    parts = [
        "# PlacementPolicy and PlacementLedger",
        FROM_CODE,
        "`kubectl explain placementpolicy.spec` says the same.",
    ]
    for name, definition in sorted(crds().items(), reverse=True):
        spec = definition["spec"]
        (version,) = spec["versions"]
        schema = version["schema"]["openAPIV3Schema"]
        parts += [
            f"## {spec['names']['kind']}",
            f"`{name}`, version `{version['name']}`, scope {spec['scope']}. {schema.get('description', '')}",
            _table(("field", "type", "what"), list(_properties(schema, ""))),
        ]
        columns = version.get("additionalPrinterColumns", [])
        if columns:
            rows = [(f"`{one['name'].upper()}`", one.get("description", "")) for one in columns]
            parts += [f"### Columns of {spec['names']['plural']}", _table(("column", "what"), rows)]
    return "\n\n".join(parts)


def _properties(schema: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, str, str]]:
    for name, about in schema.get("properties", {}).items():
        if not prefix and name in ("apiVersion", "kind", "metadata"):
            continue
        path = f"{prefix}{name}"
        kind = str(about.get("type", "number or string"))
        if values := about.get("enum"):
            kind = ", ".join(f"`{one}`" for one in values)
        inner = about
        if kind == "array":
            inner = about["items"]
            path += "[]"
            kind = f"list of {inner.get('type', 'object')}s"
        yield f"`{path}`", kind, " ".join(str(about.get("description", "")).split())
        yield from _properties(inner, f"{path}.")


# Metrics

_SERVED_BY: Mapping[str, Callable[[], Any]] = {
    "The scheduler": SchedulerMetrics,
    "The webhook": WebhookMetrics,
    "The extender": ExtenderMetrics,
    "The rebalancer": RebalancerMetrics,
}


def metrics() -> str:
    """Every metric of every component."""
    parts = [
        "# Metrics",
        FROM_CODE,
        "Each component serves them on the port that `--listen` opens, at `/metrics`. Names that begin with "
        "`scheduler_` are kube-scheduler's own and mean the same.",
    ]
    for name, made in _SERVED_BY.items():
        registry: CollectorRegistry = made().registry
        rows = [
            (f"`{_exported(family)}`", _kind(registry, family), family.documentation)
            for family in registry.collect()
        ]
        parts += [f"## {name}", _table(("metric", "type", "what"), sorted(rows))]
    return "\n\n".join(parts)


def _kind(registry: CollectorRegistry, family: Any) -> str:
    names = ", ".join(f"`{one}`" for one in _labels(registry, family.name))
    return f"{family.type} by {names}" if names else str(family.type)


def _exported(family: Any) -> str:
    return f"{family.name}_total" if family.type == "counter" else str(family.name)


def _labels(registry: CollectorRegistry, family: str) -> tuple[str, ...]:
    for collector, names in registry._collector_to_names.items():
        if family in names and hasattr(collector, "_labelnames"):
            return tuple(collector._labelnames)
    found = next(one for one in registry.collect() if one.name == family)
    return tuple(dict.fromkeys(label for sample in found.samples for label in sample.labels))


# Annotations and labels
_LABEL = re.compile(r'"(fairlead\.dev/(?!v\d)[A-Za-z-]+|pod-group(?:-min-member)?)"')
_OF_GROUP = re.compile(r'f"\{GROUP\}/([a-z-]+)"')
_PRIORITY = re.compile(r'^[A-Z_]+ = "(priority)"', re.MULTILINE)


def labels_in_code() -> set[str]:
    """Every annotation, label and condition of Fairlead's own that the package names."""
    found: set[str] = set()
    for text in _texts():
        found |= set(_LABEL.findall(text)) | set(_PRIORITY.findall(text))
        found |= {f"fairlead.dev/{name}" for name in _OF_GROUP.findall(text)}
    return found


def labels() -> str:
    """What Fairlead reads and writes on objects."""
    _same("tools.reference_words.LABELS", {name for one in LABELS.values() for name in one}, labels_in_code())
    parts = ["# Annotations and labels", FROM_CODE]
    for title, rows in LABELS.items():
        parts += [
            f"## {title}",
            _table(("name", "what"), [(f"`{name}`", what) for name, what in sorted(rows.items())]),
        ]
    parts.append(
        "The shipped configuration honours the annotation `priority` in namespaces with the label "
        "`fairlead.dev/priority-annotation=honour`; the label is whatever your configuration names."
    )
    parts.append("Gangs can also be declared as other projects do it: see [Run gangs](../how-to/gangs.md).")
    return "\n\n".join(parts)


# Event reasons
_SAYS = {"_tell", "tell", "_say", "record"}
_REASON = re.compile(r"[A-Z][a-z]+(?:[A-Z][a-z]+)*")


def reasons_in_code() -> set[str]:
    """Every reason that a component gives an event on a live cluster."""
    found: set[str] = set()
    for text in _texts("doors", "engine/core", "feed"):
        tree = ast.parse(text)
        named = {
            target.id: node.value.value
            for node in tree.body
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        for node in ast.walk(tree):
            parts: list[ast.expr] = []
            if isinstance(node, ast.Call) and _name(node.func) in _SAYS:
                # What an event is about, its reason, its text: of the flags behind, none is a reason.
                parts = [one for one in node.args if not isinstance(one, ast.Call)]
            elif isinstance(node, ast.FunctionDef) and node.name == "event_reason":
                parts = [
                    value for one in ast.walk(node) if isinstance(one, ast.Return) and (value := one.value)
                ]
                parts = [
                    half
                    for one in parts
                    for half in ((one.body, one.orelse) if isinstance(one, ast.IfExp) else (one,))
                ]
            for part in parts:
                value = named.get(part.id) if isinstance(part, ast.Name) else getattr(part, "value", None)
                if isinstance(value, str) and _REASON.fullmatch(value):
                    found.add(value)
    return found


def _name(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def events() -> str:
    """Every reason of an event."""
    _same("tools.reference_words.REASONS", set(REASONS), reasons_in_code())
    rows = [(f"`{name}`", *about) for name, about in sorted(REASONS.items())]
    return "\n\n".join(
        [
            "# Event reasons",
            FROM_CODE,
            "`kubectl events --for pod/NAME` shows a pod's. Repeated ones are counted, not written again.",
            _table(("reason", "type", "what happened", "what to look at"), rows),
        ]
    )


# The pages

PAGES: Mapping[str, Callable[[], str]] = {
    "cli.md": command_line,
    "configuration.md": configuration,
    "scenario.md": scenario,
    "crds.md": definitions,
    "labels.md": labels,
    "metrics.md": metrics,
    "events.md": events,
}


def write(folder: Path) -> None:
    """Write every page into the folder; a page that is already so is left alone."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, page in PAGES.items():
        text = page() + "\n"
        if not (folder / name).exists() or (folder / name).read_text() != text:
            (folder / name).write_text(text)


def _texts(*below: str) -> Iterator[str]:
    for folder in below or ("",):
        for file in sorted((SOURCES / folder).rglob("*.py")):
            yield file.read_text()


def _same(where: str, said: set[str], real: set[str]) -> None:
    if missing := sorted(real - said):
        raise BehindError(f"{where} does not say what {', '.join(missing)} means")
    if gone := sorted(said - real):
        raise BehindError(f"{where} speaks of {', '.join(gone)}, which the code does not have")


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)


if __name__ == "__main__":
    write(Path(sys.argv[1]))
