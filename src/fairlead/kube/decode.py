"""From bytes or plain data to typed objects; a bad object gives an error that names it and the field.

Decoding skips every field that no struct declares. In Kubernetes' JSON a null is the same as an
absent field; our structs do not say so for each field, because nulls are rare: they are stripped
on a second try, only when the first one fails.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from fairlead.errors import BadObject

T = TypeVar("T")

_TOO_DEEP = "nested too deeply, or contains itself"

_PATH = re.compile(r"(?P<problem>.*?)(?: - at `(?:key in )?\$(?P<path>[^`]*)`)?", re.DOTALL)


def decoder(kind: type[T]) -> Callable[[bytes], T]:
    """A decoder for one kind that can be kept and called per object.

    >>> from fairlead.kube.pod import Pod
    >>> decoder(Pod)(b'{"metadata": {"name": "a"}, "spec": {"tolerations": null}}').metadata.name
    'a'
    """
    fast = msgspec.json.Decoder(kind).decode

    def read(data: bytes) -> T:
        try:
            try:
                return fast(data)
            except msgspec.ValidationError:
                plain = msgspec.json.decode(data)
        except msgspec.DecodeError as error:
            raise BadObject(kind.__name__, "", f"not JSON: {error}") from error
        except UnicodeDecodeError as error:
            raise BadObject(kind.__name__, "", f"not UTF-8: {error}") from error
        except RecursionError as error:
            raise BadObject(kind.__name__, "", _TOO_DEEP) from error
        return convert(plain, kind)

    return read


def decode(data: bytes, kind: type[T]) -> T:
    """One object from its JSON."""
    return decoder(kind)(data)


def convert(data: object, kind: type[T], called: str = "", where: str = "") -> T:
    """One object from plain data (as YAML or JSON gives it).

    Messages call it by `called`, else by its own name; `where` is the field that it is the value of.
    """
    try:
        try:
            return msgspec.convert(data, kind)
        except msgspec.ValidationError:
            return msgspec.convert(strip_nulls(data), kind)
    except RecursionError as error:
        raise BadObject(called or call_it(data, kind.__name__), where, _TOO_DEEP) from error
    except msgspec.ValidationError as error:
        found = _PATH.fullmatch(str(error))
        problem, path = (found["problem"], found["path"] or "") if found else (str(error), "")
        path = f"{where}{path}" if where else path.lstrip(".")
        raise BadObject(called or call_it(data, kind.__name__), path, problem) from error


def call_it(data: object, kind: str = "object") -> str:
    """How messages call an object: ``Pod shop/web-1``; says so when it has no name."""
    if not isinstance(data, dict):
        return f"{kind} (a {type(data).__name__}, not an object)"
    said = data.get("kind")
    kind = said if isinstance(said, str) and said else kind
    metadata = data.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    name = metadata.get("name") or metadata.get("generateName") or "(no name)"
    namespace = metadata.get("namespace")
    return f"{kind} {namespace}/{name}" if namespace else f"{kind} {name}"


def strip_nulls(data: Any) -> Any:
    """Plain data without null members and null list items (a null item of a list is dropped too).

    What is in there several times (YAML's anchors) is looked at once and is shared in the result too:
    written out, a few lines of it could be more than any memory holds.
    """
    return _stripped(data, {})


def unfolded_size(data: object) -> int:
    """How many members and items plain data would have if nothing in it were shared.

    >>> shared = ["x"] * 10
    >>> unfolded_size([shared, shared])
    23
    """
    return _unfolded(data, {})


def _stripped(data: Any, known: dict[int, Any]) -> Any:
    if not isinstance(data, dict | list | tuple):
        return data
    found = known.get(id(data))
    if found is None:
        if isinstance(data, dict):
            found = {key: _stripped(value, known) for key, value in data.items() if value is not None}
        else:
            found = [_stripped(value, known) for value in data if value is not None]
        known[id(data)] = found
    return found


def _unfolded(data: Any, known: dict[int, int]) -> int:
    if not isinstance(data, dict | list | tuple):
        return 1
    found = known.get(id(data))
    if found is None:
        items = data.values() if isinstance(data, dict) else data
        found = known[id(data)] = 1 + sum(_unfolded(item, known) for item in items)
    return found
