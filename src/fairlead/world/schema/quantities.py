"""Quantities as the API server writes them back: same value, one spelling."""

from __future__ import annotations

from functools import lru_cache

from fairlead.kube.quantity import NANO_PER_UNIT, nano

__all__ = ["canonical"]

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
