"""Objects as they come out of the API server's own structs: typed, pruned, with Go's zero values.

The API server reads JSON into Go structs and writes those out again. Whatever a client sends, what
is stored has no unknown fields, no empty optional ones, the structs that are never left out, and
quantities in one spelling. One function per struct is compiled on first use.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any

from fairlead.errors import FairleadError
from fairlead.kube.quantity import NANO_PER_MILLI, NANO_PER_UNIT, QuantityError, nano
from fairlead.world.schema.types import Field, table

Read = Callable[[Any], Any]


class Misfit(FairleadError):  # noqa: N818 (says what happened)
    """A value that cannot be read into its field; `str()` is what the API server says."""

    def __init__(self, problem: str, go_type: str = "") -> None:
        super().__init__(problem)
        self.problem = problem
        self.go_type = go_type
        self.struct = ""
        self.path: list[str] = []

    def __str__(self) -> str:
        """As Go's decoder words it."""
        if not self.go_type:
            return self.problem
        field = f"{self.struct}.{'.'.join(self.path)}"
        return f"json: cannot unmarshal {self.problem} into Go struct field {field} of type {self.go_type}"


def shaped(struct: str, value: Any) -> dict[str, Any]:
    """A fresh copy of `value` as the struct would write it; raises `Misfit`."""
    result: dict[str, Any] = _reader(struct)(value)
    return result


def unknown_fields(struct: str, value: Any, path: str = "") -> list[str]:
    """Paths of fields that the struct does not have, as strict decoding names them."""
    if not isinstance(value, dict):
        return []
    fields = table().types[struct]
    found = []
    for key, member in value.items():
        here = f"{path}.{key}" if path else key
        field = fields.get(key)
        if field is None:
            found.append(here)
        elif "." not in field.element:
            continue
        elif field.type.startswith("[]") and isinstance(member, list):
            for index, item in enumerate(member):
                found += unknown_fields(field.element, item, f"{here}[{index}]")
        elif field.type.startswith("{}") and isinstance(member, dict):
            for name, item in member.items():
                found += unknown_fields(field.element, item, f"{here}[{name}]")
        else:
            found += unknown_fields(field.type, member, here)
    return found


def copy_json(value: Any) -> Any:
    """A deep copy of plain JSON data."""
    if isinstance(value, dict):
        return {key: copy_json(member) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [copy_json(member) for member in value]
    return value


@cache
def _reader(spelled: str) -> Read:
    if spelled.startswith("[]"):
        return _list_reader(spelled[2:])
    if spelled.startswith("{}"):
        return _map_reader(spelled[2:])
    if "." in spelled:
        return _struct_reader(spelled)
    return _SCALARS[spelled]


def _struct_reader(name: str) -> Read:
    fields: dict[str, tuple[Read, bool]] = {}
    always: list[tuple[str, Callable[[], Any]]] = []
    short = name.rpartition(".")[2]

    # Structs refer to each other, even to themselves: readers of fields are found on first use.
    def compile_fields() -> None:
        for key, field in table().types[name].items():
            drop_empty = field.omit and not field.pointer and not _is_struct(field)
            fields[key] = (_reader(field.type), drop_empty)
            zero = _always(field)
            if zero is not None:
                always.append((key, zero))

    def read(value: Any) -> dict[str, Any]:
        if type(value) is not dict:
            raise Misfit(_kind(value), f"v1.{short}")
        if not fields:
            compile_fields()
        out: dict[str, Any] = {}
        for key, member in value.items():
            found = fields.get(key)
            if found is None or member is None:
                continue
            try:
                held = found[0](member)
            except Misfit as misfit:
                misfit.struct = misfit.struct or short
                misfit.path.insert(0, key)
                raise
            if held or not found[1]:
                out[key] = held
        for key, zero in always:
            if key not in out:
                out[key] = zero()
        return out

    return read


def _is_struct(field: Field) -> bool:
    named = "." in field.type and field.type[:2] not in ("[]", "{}")
    return named or field.type in ("time", "microtime")


def _always(field: Field) -> Callable[[], Any] | None:
    """What Go writes for a field that was not given; None when it writes nothing."""
    if field.pointer:
        return None if field.omit else _nothing
    if field.omitzero:
        return None
    if _is_struct(field):
        if "." in field.type:
            return lambda: _reader(field.type)({})
        return _nothing  # a zero time is null
    if field.omit or field.type in ("any", "intstr"):
        return None
    return _ZERO.get(field.type, _nothing)


def _nothing() -> None:
    return None


_ZERO: dict[str, Callable[[], Any]] = {
    "string": str,
    "bool": bool,
    "int32": int,
    "int64": int,
    "float": int,
    "quantity": lambda: "0",
}


def _list_reader(element: str) -> Read:
    holder: list[Read] = []

    def read(value: Any) -> list[Any]:
        if type(value) is not list:
            raise Misfit(_kind(value), f"[]{_go(element)}")
        if not holder:
            holder.append(_reader(element))
        item = holder[0]
        blank = {} if "." in element else _ZERO.get(element, _nothing)()
        return [item(blank if member is None else member) for member in value]

    return read


def _map_reader(element: str) -> Read:
    holder: list[Read] = []

    def read(value: Any) -> dict[str, Any]:
        if type(value) is not dict:
            raise Misfit(_kind(value), f"map[string]{_go(element)}")
        if not holder:
            holder.append(_amount if element == "quantity" else _reader(element))
        item = holder[0]
        blank = _ZERO.get(element, _nothing)()
        return {key: item(blank if member is None else member) for key, member in value.items()}

    return read


def _string(value: Any) -> str:
    if type(value) is str:
        return value
    raise Misfit(_kind(value), "string")


def _integer(bits: int) -> Read:
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1)

    def read(value: Any) -> int:
        if type(value) is not int or not low <= value < high:
            problem = (
                f"number {value}" if isinstance(value, int | float) and not isinstance(value, bool) else ""
            )
            raise Misfit(problem or _kind(value), f"int{bits}")
        return value

    return read


def _boolean(value: Any) -> bool:
    if type(value) is bool:
        return value
    raise Misfit(_kind(value), "bool")


def _number(value: Any) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    raise Misfit(_kind(value), "float64")


_QUANTITY = r"quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"


def _quantity(value: Any) -> str:
    try:
        if isinstance(value, int | float) and not isinstance(value, bool):
            return canonical(repr(value))
        return canonical(value.strip())
    except (QuantityError, AttributeError, TypeError) as error:
        raise Misfit(_QUANTITY) from error


def _amount(value: Any) -> str:
    # Resources are kept to a thousandth, rounded up.
    return canonical(_quantity(value), step=NANO_PER_MILLI)


def _int_or_string(value: Any) -> int | str:
    if type(value) is int or type(value) is str:
        return value
    raise Misfit(_kind(value), "int32")


def _bytes(value: Any) -> str:
    if type(value) is not str:
        raise Misfit(_kind(value), "[]uint8")
    try:
        base64.b64decode(value, validate=True)
    except binascii.Error as error:
        raise Misfit(f"illegal base64 data: {error}") from error
    return value


_SCALARS: dict[str, Read] = {
    "string": _string,
    "bool": _boolean,
    "int32": _integer(32),
    "int64": _integer(64),
    "float": _number,
    "quantity": _quantity,
    "intstr": _int_or_string,
    "bytes": _bytes,
    "time": _string,
    "microtime": _string,
    "any": copy_json,
}


def _kind(value: Any) -> str:
    # Go's decoder names the JSON value it met.
    match value:
        case bool():
            return "bool"
        case str():
            return "string"
        case int() | float():
            return "number"
        case list() | tuple():
            return "array"
        case dict():
            return "object"
    return "null"


def _go(element: str) -> str:
    return f"v1.{element.rpartition('.')[2]}" if "." in element else element


_DECIMAL = {-9: "n", -6: "u", -3: "m", 0: "", 3: "k", 6: "M", 9: "G", 12: "T", 15: "P", 18: "E"}
_BINARY = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")


@lru_cache(maxsize=65536)
def canonical(text: str, *, step: int = 1) -> str:
    """The canonical spelling, rounded up to a multiple of `step` nano-units.

    Keeps to binary, decimal or exponent form as written.

    >>> canonical("1000m"), canonical("1024Mi"), canonical("1.5"), canonical("0.5Gi"), canonical("100e3")
    ('1', '1Gi', '1500m', '512Mi', '100e3')
    """
    amount = -(-nano(text) // step) * step
    if amount == 0:
        return "0"
    whole, rest = divmod(abs(amount), NANO_PER_UNIT)
    sign = "-" if amount < 0 else ""
    if text.endswith("i") and not rest and whole >= 1024:
        steps = 0
        while whole % 1024 == 0 and steps < len(_BINARY) - 1:
            whole //= 1024
            steps += 1
        return f"{sign}{whole}{_BINARY[steps]}"
    exponent, digits = -9, abs(amount)
    while digits % 1000 == 0 and exponent < 18:
        digits //= 1000
        exponent += 3
    if _has_exponent(text):
        return f"{sign}{digits}e{exponent}" if exponent else f"{sign}{digits}"
    return f"{sign}{digits}{_DECIMAL[exponent]}"


def _has_exponent(text: str) -> bool:
    # 1E is the decimal suffix exa; 1E3 and 1e3 are exponents.
    stripped = text.rstrip("0123456789+-")
    return stripped != text and stripped[-1:] in ("e", "E")
