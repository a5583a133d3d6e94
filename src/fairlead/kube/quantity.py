"""Kubernetes quantities, exactly: every legal spelling, integers only.

A quantity is held as an integer number of nano-units, the finest step Kubernetes keeps (finer
input is rounded up to it, as the API server does). Sums are taken in nano-units and rounded up
*once*, because kube-scheduler adds exactly and rounds the pod's total.
"""

from __future__ import annotations

import re
from functools import lru_cache

NANO_PER_UNIT = 1_000_000_000
NANO_PER_MILLI = 1_000_000

# The API server caps what it cannot hold; so do we.
_MAX_NANO = (2**63 - 1) * NANO_PER_UNIT

_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
# No amount needs more characters; far longer ones are no numbers to Python either.
_LONGEST = 1000
_SHAPE = re.compile(r"([+-]?)(\d*)(?:\.(\d*))?(Ki|Mi|Gi|Ti|Pi|Ei|[eE][+-]?\d+|[numkMGTPE]?)", re.ASCII)


class QuantityError(ValueError):
    """Not a quantity."""


def nano(quantity: str | int | float) -> int:
    """The quantity in nano-units, rounded away from zero below one nano.

    >>> nano("100m"), nano("1Gi") // NANO_PER_UNIT, nano("1e3") // NANO_PER_UNIT
    (100000000, 1073741824, 1000)
    """
    if isinstance(quantity, bool):
        raise QuantityError(f"{quantity!r} is not a quantity")
    if isinstance(quantity, int):
        return _cap(quantity * NANO_PER_UNIT)
    if isinstance(quantity, float):
        # YAML gives `cpu: 0.1` as a float; its shortest spelling is what was written.
        quantity = repr(quantity)
    return _parse(quantity)


def milli(quantity: str | int | float) -> int:
    """The quantity in thousandths, rounded away from zero (as for cpu).

    >>> milli("1.5"), milli("1u"), milli("0.0001")
    (1500, 1, 1)
    """
    return _away_from_zero(nano(quantity), NANO_PER_MILLI)


def value(quantity: str | int | float) -> int:
    """The quantity in whole units, rounded away from zero (bytes, counts).

    >>> value("1Ki"), value("100m"), value("1.5Gi")
    (1024, 1, 1610612736)
    """
    return _away_from_zero(nano(quantity), NANO_PER_UNIT)


def format_milli(amount_milli: int) -> str:
    """Canonical spelling of a number of thousandths.

    >>> format_milli(1500), format_milli(2000)
    ('1500m', '2')
    """
    whole, rest = divmod(amount_milli, 1000)
    return f"{amount_milli}m" if rest else str(whole)


def format_bytes(amount: int) -> str:
    """The shortest binary spelling that is exact.

    >>> format_bytes(1073741824), format_bytes(1536), format_bytes(1000)
    ('1Gi', '1536', '1000')
    """
    for suffix, bits in reversed(_BINARY.items()):
        if amount and amount % (1 << bits) == 0:
            return f"{amount >> bits}{suffix}"
    return str(amount)


@lru_cache(maxsize=65536)
def _parse(text: str) -> int:
    if len(text) > _LONGEST:
        raise QuantityError(f"{text[:20]!r}… is too long for a quantity")
    found = _SHAPE.fullmatch(text)
    # A suffix without digits is zero to the API server, so it is to us.
    if found is None or not (found[2] or found[3] or found[4]):
        raise QuantityError(f"{text!r} is not a quantity")
    sign, whole, fraction, suffix = found[1], found[2], found[3] or "", found[4]
    digits = int((whole or "0") + fraction)
    if suffix in _BINARY:
        numerator, exponent = digits << _BINARY[suffix], 9 - len(fraction)
    else:
        power = _DECIMAL[suffix] if suffix in _DECIMAL else int(suffix[1:])
        # An exponent beyond this is past the cap, or below one nano: no need for a bigger integer.
        power = max(-1000, min(1000, power))
        numerator, exponent = digits, power + 9 - len(fraction)
    amount = numerator * 10**exponent if exponent >= 0 else -(-numerator // 10**-exponent)
    return _cap(-amount if sign == "-" else amount)


def _away_from_zero(amount: int, unit: int) -> int:
    return -(-amount // unit) if amount >= 0 else amount // unit


def _cap(amount: int) -> int:
    return max(-_MAX_NANO, min(_MAX_NANO, amount))
