"""The values of an installation: the chart's defaults, files and ``--set`` over them, checked as Helm does.

Read as Helm reads them: mappings are merged, lists replaced, and null takes a default away.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any

import yaml

from fairlead.errors import BadInput
from fairlead.install.manifests import catalog, shipped_text
from fairlead.install.schema import problems
from fairlead.kube.documents import documents

Values = dict[str, Any]


@cache
def _schema() -> Values:
    found: Values = json.loads(shipped_text("charts/fairlead/values.schema.json"))
    return found


def defaults() -> Values:
    """The chart's own values."""
    found: Values = yaml.safe_load(shipped_text("charts/fairlead/values.yaml"))
    return found


def read_values(files: Iterable[tuple[str, str | bytes]] = (), sets: Sequence[str] = ()) -> Values:
    """The values of (name, text) files with ``--set`` over them, over the defaults, checked."""
    return complete(read_given(files, sets))


def read_given(files: Iterable[tuple[str, str | bytes]], sets: Sequence[str]) -> Values:
    """What the files and ``--set`` say, without the defaults; BadInput names the one that cannot be used."""
    found: Values = {}
    for name, text in files:
        read = [one for one in documents(text, name) if one is not None]
        if len(read) > 1 or not all(isinstance(one, dict) for one in read):
            raise BadInput(f"{name}: is not one mapping of values")
        for one in read:
            found = merged(found, one)
            _check(found, name)
    for one in sets:
        found = merged(found, read_set(one))
        _check(found, f"--set {one}")
    return found


def complete(given: Values) -> Values:
    """What is given over the defaults, checked as a whole."""
    _check(given, "values")
    values = coalesced(defaults(), given)
    check_together(values)
    return values


def _check(given: Values, where: str) -> None:
    for field, problem in problems(coalesced(defaults(), given), _schema()):
        raise BadInput(f"{where}: {field}: {problem}")


def check_together(values: Values) -> None:
    """Raise BadInput for components that exclude each other, and where none is on."""
    on = components_on(values)
    if not on:
        raise BadInput(f"components: none is on; there are: {', '.join(catalog()['components'])}")
    for name, others in catalog()["instead"].items():
        for other in others:
            if name in on and other in on:
                raise BadInput(f"components: {name} already does what {other} does: turn one of them off")


def components_on(values: Values) -> list[str]:
    """The components to install, in their order."""
    given = values.get("components") or {}
    return [name for name in catalog()["components"] if (given.get(name) or {}).get("enabled")]


def merged(first: Mapping[str, Any], second: Mapping[str, Any]) -> Values:
    """Both; where they disagree, the second.

    >>> merged({"a": {"b": 1, "c": 2}, "d": 3}, {"a": {"b": None}, "d": [4]})
    {'a': {'b': None, 'c': 2}, 'd': [4]}
    """
    found = dict(first)
    for key, value in second.items():
        have = found.get(key)
        found[key] = merged(have, value) if isinstance(have, dict) and isinstance(value, dict) else value
    return found


def coalesced(first: Mapping[str, Any], given: Mapping[str, Any]) -> Values:
    """What is given over the defaults: a null takes the default away, and stays where there is none.

    >>> coalesced({"a": {"b": 1, "c": 2}, "d": 3}, {"a": {"b": None, "e": None}, "d": [4]})
    {'a': {'c': 2, 'e': None}, 'd': [4]}
    """
    found = dict(first)
    for key, value in given.items():
        have = found.get(key)
        if isinstance(have, dict) and isinstance(value, dict):
            found[key] = coalesced(have, value)
        elif value is None and key in found:
            del found[key]
        else:
            found[key] = value
    return found


_PART = re.compile(r"((?:\\.|[^\\.\[\]=])+)(\.|$)")


def read_set(text: str) -> Values:
    r"""What ``--set`` says, as Helm spells it: ``a.b=1,c\.d={x,y}``.

    >>> read_set("components.webhook.enabled=true,image.tag=v1.2")
    {'components': {'webhook': {'enabled': True}}, 'image': {'tag': 'v1.2'}}
    >>> read_set(r"nodeSelector.example\.com/pool=a,config.schedulerNames={a,b}")
    {'nodeSelector': {'example.com/pool': 'a'}, 'config': {'schedulerNames': ['a', 'b']}}
    """
    found: Values = {}
    for one in _split(text):
        key, equals, value = one.partition("=")
        parts = _PART.findall(key)
        if not equals or "".join(name + dot for name, dot in parts) != key or key.endswith("."):
            raise BadInput(f"--set {text}: {one!r} is not NAME=VALUE; lists are given in a values file")
        *parents, last = [re.sub(r"\\(.)", r"\1", name) for name, _ in parts]
        holder = found
        for parent in parents:
            holder = holder.setdefault(parent, {})
            if not isinstance(holder, dict):
                raise BadInput(f"--set {text}: {parent} is given a value and fields")
        if value.startswith("{") and value.endswith("}"):
            holder[last] = [_typed(item) for item in _split(value[1:-1])]
        else:
            holder[last] = _typed(value)
    return found


def _split(text: str) -> list[str]:
    """At commas that are neither escaped nor in braces."""
    return [one for one in re.findall(r"((?:\\.|\{(?:\\.|[^}\\])*\}|[^,\\])+)(?:,|$)", text) if one]


def _typed(text: str) -> Any:
    plain = re.sub(r"\\(.)", r"\1", text)
    match plain:
        case "true" | "false":
            return plain == "true"
        case "null":
            return None
        case "0":
            return 0
    return int(plain) if re.fullmatch(r"-?[1-9]\d{0,17}", plain) else plain
