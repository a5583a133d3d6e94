"""Parameters of a sweep as they are typed: a path in the scenario's spec, and the values it takes in turn.

Values are YAML scalars: ``5``, ``30%``, ``spread``, ``"5"`` for a text. ``a..b`` is every whole number from a
to b, ``a..b/s`` goes in steps of s; steps are decimal, so that 0.1..0.3/0.1 ends with 0.3.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal

import msgspec
import yaml

from fairlead.errors import BadInput
from fairlead.kube.documents import documents

Value = str | int | float | bool | None

MOST_VALUES = 100_000

_NUMBER = r"[-+]?\d+(?:\.\d+)?"
_RANGE = re.compile(rf"({_NUMBER})\.\.({_NUMBER})(?:/({_NUMBER}))?")
_PART = re.compile(r'"([^"]+)"|([^."\[\]]+)|\[(\d+)\]')
_PATH = re.compile(r'(?:"[^"]+"|[^."\[\]]+)(?:\.(?:"[^"]+"|[^."\[\]]+)|\[\d+\])*')


@dataclass(frozen=True, slots=True)
class Parameter:
    """A path in the spec, its parts, and the values in the order in which they were given.

    Invariant: there is at least one value, no two are the same, and a path is spelt in one way.
    """

    path: str
    parts: tuple[str, ...]
    values: tuple[Value, ...]


def parameter(text: str) -> Parameter:
    """What ``PATH=VALUES`` says.

    >>> parameter("seed=1..3").values, parameter("policies.web.spec.tiers.b.min=0,30%,pdb").values
    ((1, 2, 3), (0, '30%', 'pdb'))
    >>> parameter('nodeGroups.big.resources."nvidia.com/gpu"=4').parts
    ('nodeGroups', 'big', 'resources', 'nvidia.com/gpu')
    """
    path, equals, given = (part.strip() for part in text.partition("="))
    called = f"--vary {text!r}"
    if not equals:
        raise BadInput(f"{called}: is not PATH=VALUES, like workloads.web.replicas=5,10")
    parts = parts_of(path)
    if not parts:
        raise BadInput(
            f"{called}: {path!r} is not a path like workloads.web.replicas;"
            " a name with dots in it stands in double quotes"
        )
    values = tuple(_values(given, called))
    if not values:
        raise BadInput(f"{called}: has no values")
    seen: set[str] = set()
    for one in values:
        if (spelt := spelling(one)) in seen:
            raise BadInput(f"{called}: {spelt} is given twice")
        seen.add(spelt)
    return Parameter(".".join(f'"{part}"' if "." in part else part for part in parts), parts, values)


def parts_of(path: str) -> tuple[str, ...]:
    """The names and numbers of a path; none where it is not a path.

    >>> parts_of('resources."nvidia.com/gpu".used'), parts_of("a[0].b"), parts_of("a..b")
    (('resources', 'nvidia.com/gpu', 'used'), ('a', '0', 'b'), ())
    """
    return tuple("".join(found) for found in _PART.findall(path)) if _PATH.fullmatch(path) else ()


def spelling(value: Value) -> str:
    """A value as it may be typed: no two are spelt alike.

    >>> spelling("30%"), spelling(5), spelling("5"), spelling(True), spelling(None), spelling(1e-30)
    ('30%', '5', '"5"', 'true', 'null', '1.0e-30')
    """
    if isinstance(value, str):
        plain = re.fullmatch(r"[A-Za-z0-9][-\w./%:]*", value) is not None
        if plain and _RANGE.fullmatch(value) is None and yaml.safe_load(f"[{value}]") == [value]:
            return value
    text = msgspec.json.encode(value).decode()
    if isinstance(value, float):
        # YAML takes a number for text where it has an exponent and no point, or an exponent without a sign.
        return re.sub(r"^(-?\d+)(?=e)", r"\1.0", re.sub(r"e(?=\d)", "e+", text))
    return text


def _values(text: str, called: str) -> Iterator[Value]:
    """Scalars of a list between commas, with ranges written out."""
    try:
        whole = yaml.compose(f"[{text}\n]", Loader=yaml.SafeLoader)
    except yaml.YAMLError:
        whole = None
    if not isinstance(whole, yaml.SequenceNode):
        raise BadInput(f"{called}: {text!r} is not a list of values between commas")
    number = 0
    for node in whole.value:
        if not isinstance(node, yaml.ScalarNode):
            raise BadInput(f"{called}: a value is a number, a word or a text, not fields or a list")
        span = _RANGE.fullmatch(node.value) if node.style is None else None
        for value in _ranged(span, called) if span is not None else _scalar(node, called):
            number += 1
            if number > MOST_VALUES:
                raise BadInput(f"{called}: has more than {MOST_VALUES} values")
            yield value


def _scalar(node: yaml.ScalarNode, called: str) -> Iterable[Value]:
    try:
        (value,) = documents(yaml.serialize(node), called)
    except BadInput:
        raise BadInput(f"{called}: {node.value!r} is not a value") from None
    if not isinstance(value, str | int | float | None):
        raise BadInput(
            f"{called}: {node.value} is a {type(value).__name__}; put it in quotes to make it a text"
        )
    if isinstance(value, float) and not math.isfinite(value):
        raise BadInput(f"{called}: {node.value} is not a finite number")
    return (value,)


def _ranged(span: re.Match[str], called: str) -> Iterator[Value]:
    first, last, step = Decimal(span[1]), Decimal(span[2]), Decimal(span[3] or 1)
    if step <= 0:
        raise BadInput(f"{called}: {span[0]} has a step that is not more than 0")
    if last < first:
        raise BadInput(f"{called}: {span[0]} ends before it begins")
    if span[3] is None and (first % 1 or last % 1):
        raise BadInput(f"{called}: {span[0]} wants a step, like {span[0]}/0.1")
    whole = not (first % 1 or step % 1)
    value = first
    while value <= last:
        yield int(value) if whole else float(value)
        value += step
