"""Reads Kubernetes' protobuf bodies, which typed clients (parts of kubectl among them) insist on sending.

Field numbers come from the same table as the JSON field types. Only reading: every client that sends
protobuf also accepts JSON.
"""

from __future__ import annotations

import struct as binary
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cache
from typing import Any

import msgspec

from fairlead.world.api_errors import bad_request
from fairlead.world.objects import micro_stamp, stamp
from fairlead.world.schema.types import Field, table

Object = dict[str, Any]

_MAGIC = b"k8s\x00"
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


def decode_protobuf(data: bytes) -> Object:
    """The object of a protobuf body, as JSON would have given it; 400 when it cannot be read."""
    if not data.startswith(_MAGIC):
        raise bad_request(
            "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]"
        )
    try:
        kind, api_version, raw = "", "", b""
        for number, _, value in _fields(data[len(_MAGIC) :]):
            if number == 1:
                meta = {inner: held for inner, _, held in _fields(value)}
                api_version, kind = meta.get(1, b"").decode(), meta.get(2, b"").decode()
            elif number == 2:
                raw = value
        struct = _struct_of(api_version, kind)
        item = _message(raw, struct)
    except (IndexError, ValueError, binary.error, TypeError) as error:
        raise bad_request(f"proto: cannot read the body: {error}") from error
    item["apiVersion"], item["kind"] = api_version, kind
    return item


def _struct_of(api_version: str, kind: str) -> str:
    if kind == "DeleteOptions":
        return "meta/v1.DeleteOptions"
    group, _, version = api_version.rpartition("/")
    found = table().kinds.get(f"{group}/{version}/{kind}")
    if found is None:
        raise bad_request(f'no kind "{kind}" is registered for version "{api_version}"')
    return found


def _fields(data: bytes) -> Iterator[tuple[int, int, Any]]:
    at = 0
    value: Any
    while at < len(data):
        tag, at = _varint(data, at)
        number, wire = tag >> 3, tag & 7
        if wire == _VARINT:
            value, at = _varint(data, at)
        elif wire == _BYTES:
            size, at = _varint(data, at)
            if at + size > len(data):
                raise ValueError("unexpected EOF")
            value, at = data[at : at + size], at + size
        elif wire == _FIXED64:
            value, at = data[at : at + 8], at + 8
        elif wire == _FIXED32:
            value, at = data[at : at + 4], at + 4
        else:
            raise ValueError(f"illegal wireType {wire}")
        yield number, wire, value


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


@cache
def _numbers(struct: str) -> tuple[dict[int, tuple[str, Field]], dict[int, str]]:
    """The struct's own fields and its embedded structs, by number."""
    inline = table().inline.get(struct, {})
    nested = {name for inner in inline.values() for name in table().types[inner]}
    own = {
        field.number: (name, field)
        for name, field in table().types[struct].items()
        if name not in nested and field.number
    }
    return own, inline


def _message(data: bytes, struct: str) -> Object:
    own, inline = _numbers(struct)
    item: Object = {}
    for number, wire, value in _fields(data):
        if number in inline:
            item |= _message(value, inline[number])
        elif number in own:
            name, field = own[number]
            if field.type.startswith("[]"):
                held = item.setdefault(name, [])
                held.extend(_items(field.element, wire, value))
            elif field.type.startswith("{}"):
                key, member = _entry(field.element, value)
                item.setdefault(name, {})[key] = member
            else:
                item[name] = _value(field.type, wire, value)
    return item


def _items(element: str, wire: int, value: Any) -> list[Any]:
    if wire == _BYTES and element in ("int32", "int64", "bool"):  # packed
        found, at = [], 0
        while at < len(value):
            number, at = _varint(value, at)
            found.append(_value(element, _VARINT, number))
        return found
    return [_value(element, wire, value)]


def _entry(element: str, data: bytes) -> tuple[str, Any]:
    key, member = "", _value(element, _BYTES, b"") if element in ("string", "quantity") else None
    for number, wire, value in _fields(data):
        if number == 1:
            key = value.decode()
        elif element.startswith("[]"):  # a list as a map's value is wrapped in a message of its own
            member = [_value(element[2:], inner_wire, held) for _, inner_wire, held in _fields(value)]
        else:
            member = _value(element, wire, value)
    return key, member


def _value(kind: str, wire: int, value: Any) -> Any:
    if "." in kind:
        return _message(value, kind)
    match kind:
        case "bool":
            return bool(value)
        case "int32" | "int64":
            return value - (1 << 64) if value >= 1 << 63 else value
        case "float":
            return binary.unpack("<d" if wire == _FIXED64 else "<f", value)[0]
        case "string":
            # A Duration is a message around its nanoseconds; nothing that clients send us has one.
            return value.decode()
        case "bytes":
            return msgspec.to_builtins(value)
        case "quantity":
            return next((held.decode() for number, _, held in _fields(value) if number == 1), "0")
        case "time" | "microtime":
            return _time(value, micro=kind == "microtime")
        case "intstr":
            parts = {number: held for number, _, held in _fields(value)}
            return parts.get(3, b"").decode() if parts.get(1) else _value("int32", _VARINT, parts.get(2, 0))
        case "any":
            raw = next((held for number, _, held in _fields(value) if number == 1), b"null")
            return msgspec.json.decode(raw)
    raise ValueError(f"unknown type {kind}")


def _time(data: bytes, *, micro: bool) -> str | None:
    parts = {number: value for number, _, value in _fields(data)}
    seconds = _value("int64", _VARINT, parts.get(1, 0))
    if not parts:
        return None
    moment = datetime.fromtimestamp(seconds, UTC).replace(microsecond=parts.get(2, 0) // 1000)
    return micro_stamp(moment) if micro else stamp(moment)
