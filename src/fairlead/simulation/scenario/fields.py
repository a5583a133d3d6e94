"""Plain data as a scenario's structs, every field by itself: so all mistakes are found, not only the first.

msgspec stops at the first value that is wrong; here it reads each field alone, and what is allowed there is
said from the field's type.
"""

from __future__ import annotations

import difflib
import json
import types
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec

from fairlead.simulation.scenario.model import Name, Span, dec_hook

Found = Iterator[tuple[str, str]]
"""Paths of fields, and what is wrong with each."""

NAME_IN_WORDS = "lower case letters, digits and -, at most 63, with a letter or digit at both ends"
_DURATION = "a duration like 90s, 10m, 1h30m or 7d"
_AMOUNT = "an amount like 2, 500m or 4Gi"
_SHOWN_MOST = 60


def mistakes(value: object, kind: Any, path: str = "") -> Found:
    """All that is wrong with a value that should be of a kind.

    >>> from fairlead.simulation.scenario.model import Fault
    >>> for field, problem in mistakes({"at": "soon", "action": "kill", "node": 3}, Fault, "f"):
    ...     print(field, problem)
    f.at 'soon' is not allowed; allowed is a duration like 90s, 10m, 1h30m or 7d
    f.node 3 is not allowed; allowed is text; put it in quotes
    """
    kind = _bare(kind)
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        if isinstance(value, dict):
            yield from _fields(value, kind, path)
        else:
            yield path, f"{_shown(value)} is not allowed; allowed are the fields {', '.join(names_of(kind))}"
    elif get_origin(kind) is tuple:
        if isinstance(value, list | tuple):
            for number, one in enumerate(value):
                yield from mistakes(one, get_args(kind)[0], f"{path}[{number}]")
        else:
            yield path, f"{_shown(value)} is not allowed; allowed is {allowed(kind)}"
    elif get_origin(kind) is dict and isinstance(value, dict):
        for key, one in value.items():
            below = f"{path}[{key}]" if "." in str(key) or "/" in str(key) else f"{path}.{key}"
            if not isinstance(key, str):
                yield below, f"the key {_shown(key)} is not text; put it in quotes"
            else:
                yield from mistakes(one, get_args(kind)[1], below)
    elif not _is(value, kind):
        hint = "; put it in quotes" if kind is str and not isinstance(value, dict | list) else ""
        kinds = "are" if get_origin(kind) is Literal else "is"
        yield path, f"{_shown(value)} is not allowed; allowed {kinds} {allowed(kind)}{hint}"


def names_of(kind: type[msgspec.Struct]) -> list[str]:
    """The fields of a struct as the file spells them."""
    return [one.encode_name for one in msgspec.structs.fields(kind)]


def types_of(kind: type[msgspec.Struct]) -> Mapping[str, Any]:
    """The types of a struct's fields, by the name that the file has."""
    hints = get_type_hints(kind, include_extras=True)
    return {one.encode_name: hints[one.name] for one in msgspec.structs.fields(kind)}


def allowed(kind: Any) -> str:
    """What may stand in a field of a type, in words.

    >>> from fairlead.simulation.scenario.model import Natural
    >>> allowed(Natural), allowed(bool | None)
    ('a whole number from 0 to 10000000', 'true or false')
    """
    if kind is Name:
        return NAME_IN_WORDS
    found = _bare(kind)
    plain = {Span: _DURATION, str: "text", bool: "true or false", int: "a whole number", Any: "anything"}
    if get_origin(found) is Annotated:
        return _bounded(found)
    if found in plain:
        return plain[found]
    if get_origin(found) is Literal:
        return ", ".join(get_args(found))
    if get_origin(found) is tuple:
        inner = _bare(get_args(found)[0])
        many = {str: "texts", Span: "durations like 90s, 10m, 1h30m or 7d"}
        return f"a list of {allowed(inner) if get_origin(inner) is Literal else many.get(inner, 'fields')}"
    if get_origin(found) is dict:
        values = get_args(found)[1]
        return "texts by key" if values is str else "fields" if values is Any else "amounts by resource"
    if options := _options(found):
        if options == {int, str}:
            return "a whole number, or a percentage like 50%"
        if options == {str, int, float}:
            return "text or a number"
        if {str, float} < options:
            return _AMOUNT
        return " or ".join(allowed(one) for one in get_args(found) if one in options)
    if isinstance(found, type) and issubclass(found, msgspec.Struct):
        return "fields"
    return "a number"


def _fields(value: dict[Any, Any], kind: type[msgspec.Struct], path: str) -> Found:
    known = types_of(kind)
    for key in value:
        if key not in known and kind.__struct_config__.forbid_unknown_fields:
            near = difflib.get_close_matches(str(key), known, 1)
            meant = f"; did you mean {near[0]}?" if near else ""
            yield _below(path, key), f"there is no such field{meant}; allowed are {', '.join(known)}"
    for one in msgspec.structs.fields(kind):
        if one.encode_name in value:
            yield from mistakes(value[one.encode_name], known[one.encode_name], _below(path, one.encode_name))
        elif one.required:
            said = allowed(known[one.encode_name])
            what = "" if said == "fields" else f": {said}"
            yield path, f"lacks {one.encode_name}, which is required{what}"


def _below(path: str, key: object) -> str:
    return f"{path}.{key}" if path else str(key)


def _bare(kind: Any) -> Any:
    """A type without None, which nulls were."""
    if get_origin(kind) in (Union, types.UnionType):
        rest = [one for one in get_args(kind) if one is not type(None)]
        if len(rest) == 1:
            return rest[0]
    return kind


def _options(kind: Any) -> set[Any]:
    return set(get_args(kind)) - {type(None)} if get_origin(kind) in (Union, types.UnionType) else set()


def _is(value: object, kind: Any) -> bool:
    try:
        msgspec.convert(value, kind, dec_hook=dec_hook)
    except msgspec.ValidationError:
        return False
    return True


def _bounded(kind: Any) -> str:
    inner, *about = get_args(kind)
    meta = next(one for one in about if isinstance(one, msgspec.Meta))
    what = {int: "a whole number", float: "a number", str: "text"}[inner]
    if meta.gt is not None:
        return f"{what} above {meta.gt}"
    if meta.ge is not None and meta.le is not None:
        return f"{what} from {meta.ge} to {meta.le}"
    return NAME_IN_WORDS if meta.pattern is not None else what


def _shown(value: object) -> str:
    """A value as the file may have it, shortened."""
    match value:
        case str():
            text = repr(value)
        case dict():
            return "a value with fields"
        case list():
            return "a list"
        case None:
            return "nothing"
        case bool() | int() | float():
            text = json.dumps(value)
        case _:
            text = str(value)
    return text if len(text) <= _SHOWN_MOST else text[: _SHOWN_MOST - 1] + "…"
