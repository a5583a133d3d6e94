"""Values held to a JSON schema: the part of the language that the chart's schema uses.

Helm checks the same file with a whole implementation; a test compares the two. A keyword that is not known
here is a mistake in the schema and raises, so that nothing is let through unread.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

Schema = Mapping[str, Any]

_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
    "null": (type(None),),
}
_WORDS = {"object": "a mapping", "array": "a list", "integer": "a whole number", "boolean": "true or false"}


def problems(value: Any, schema: Schema) -> Iterator[tuple[str, str]]:
    """Each field that the schema refuses, and what is allowed there.

    >>> schema = {"type": "object", "properties": {"pull": {"enum": ["Always", "Never"]}}}
    >>> list(problems({"pull": "Sometimes"}, schema))
    [('pull', '"Sometimes" is not allowed: it is "Always" or "Never"')]
    """
    yield from _problems(value, schema, "", schema)


def _problems(value: Any, schema: Schema, at: str, root: Schema) -> Iterator[tuple[str, str]]:
    for keyword in schema:
        yield from _check(keyword, value, schema, at, root)


def _check(keyword: str, value: Any, schema: Schema, at: str, root: Schema) -> Iterator[tuple[str, str]]:
    said = schema[keyword]
    match keyword, value:
        case ("$schema" | "definitions", _):
            pass
        case "$ref", _:
            yield from _problems(value, root["definitions"][said.removeprefix("#/definitions/")], at, root)
        case "type", _:
            allowed = [said] if isinstance(said, str) else said
            if not any(_is(value, one) for one in allowed):
                words = " or ".join(_WORDS.get(one, one) for one in allowed if one != "null")
                yield at, f"{json.dumps(value)} is not allowed: it is {words}"
        case "enum", _:
            if value not in said:
                words = " or ".join(json.dumps(one) for one in said)
                yield at, f"{json.dumps(value)} is not allowed: it is {words}"
        case "properties", dict():
            for name, one in said.items():
                if name in value:
                    yield from _problems(value[name], one, _joined(at, name), root)
        case "additionalProperties", dict():
            known = schema.get("properties", {})
            for name in value.keys() - known.keys():
                if said is False:
                    words = ", ".join(known)
                    yield _joined(at, name), f"there is no such setting; there are: {words}"
                else:
                    yield from _problems(value[name], said, _joined(at, name), root)
        case "propertyNames", dict():
            for name in value:
                if any(_problems(name, said, at, root)):
                    yield _joined(at, name), "may not be set: Fairlead sets it itself"
        case "required", dict():
            for name in said:
                if name not in value:
                    yield _joined(at, name), "is missing"
        case "not", _:
            if not any(_problems(value, said, at, root)):
                fields = " and ".join(said.get("required", ()))
                yield at, f"{fields} exclude each other" if fields else f"{json.dumps(value)} is not allowed"
        case "items", list():
            for index, one in enumerate(value):
                yield from _problems(one, said, f"{at}[{index}]", root)
        case "minItems", list():
            if len(value) < said:
                yield at, f"needs at least {said}"
        case "minLength", str():
            if len(value) < said:
                yield at, "is empty"
        case "pattern", str():
            if re.search(said, value) is None or value.endswith("\n"):
                yield at, f"{json.dumps(value)} is not allowed: it matches {said}"
        case "minimum", int() | float():
            if not isinstance(value, bool) and value < said:
                yield at, f"{value} is not allowed: it is at least {said}"
        case "maximum", int() | float():
            if not isinstance(value, bool) and value > said:
                yield at, f"{value} is not allowed: it is at most {said}"
        case _ if keyword not in _OF_ONE_TYPE:
            raise ValueError(f"the schema has {keyword!r}, which is not known here")


_OF_ONE_TYPE = (
    *("properties", "additionalProperties", "propertyNames", "required", "items", "minItems"),
    *("minLength", "pattern", "minimum", "maximum"),
)


def _is(value: Any, kind: str) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    if kind == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, _TYPES[kind])


def _joined(at: str, name: str) -> str:
    return f"{at}.{name}" if at else name
