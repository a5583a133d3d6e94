"""Quantities mean what the API server's own parser says they mean."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.kube.quantity import (
    NANO_PER_UNIT,
    QuantityError,
    format_bytes,
    format_milli,
    milli,
    nano,
    value,
)

SUFFIXES = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    "": Fraction(1),
    "k": Fraction(10**3),
    "M": Fraction(10**6),
    "G": Fraction(10**9),
    "T": Fraction(10**12),
    "Ki": Fraction(2**10),
    "Mi": Fraction(2**20),
    "Gi": Fraction(2**30),
    "Ti": Fraction(2**40),
    "e3": Fraction(10**3),
    "E3": Fraction(10**3),
    "e-3": Fraction(1, 1000),
    "E+2": Fraction(100),
}


# (text, thousandths, whole units) as Kubernetes 1.36.4's resource.ParseQuantity answers.
@pytest.mark.parametrize(
    ("text", "thousandths", "units"),
    [
        ("0", 0, 0),
        ("1.5", 1500, 2),
        (".5", 500, 1),
        ("1.", 1000, 1),
        ("+1", 1000, 1),
        ("-1.5", -1500, -2),
        ("007", 7000, 7),
        ("0.0000000001", 1, 1),
        ("1.0000000001", 1001, 2),
        ("100m", 100, 1),
        ("1u", 1, 1),
        ("1e3", 1_000_000, 1000),
        ("1E3", 1_000_000, 1000),
        ("1E", 10**21, 10**18),
        ("1.5Gi", 1610612736000, 1610612736),
        ("123456789012", 123456789012000, 123456789012),
        ("-.5", -500, -1),
        ("m", 0, 0),
    ],
)
def test_a_spelling_means_what_the_api_server_says(text: str, thousandths: int, units: int) -> None:
    assert (milli(text), value(text)) == (thousandths, units)


@pytest.mark.parametrize(
    "text", ["", "1K", "1i", "1mi", "1e", "1E+", "1.2.3", "--1", "1 ", " 1", "1_0", "0x1", "\u0661"]
)
def test_what_the_api_server_refuses_is_refused(text: str) -> None:
    with pytest.raises(QuantityError):
        nano(text)


@given(
    whole=st.integers(0, 10**6),
    fraction=st.text("0123456789", max_size=12),
    suffix=st.sampled_from(sorted(SUFFIXES)),
)
def test_parsing_is_exact_and_rounds_up_only_below_one_nano(whole: int, fraction: str, suffix: str) -> None:
    exact = Fraction(f"{whole}.{fraction or '0'}") * SUFFIXES[suffix] * NANO_PER_UNIT
    assert nano(f"{whole}.{fraction}{suffix}") == -(-exact.numerator // exact.denominator)


def test_more_than_the_api_can_hold_is_capped_not_wrapped() -> None:
    assert value("9223372036854775808") == 2**63 - 1
    assert value("1e99999999") == 2**63 - 1
    assert nano("1e-99999999") == 1


def test_numbers_from_yaml_mean_what_was_written() -> None:
    assert milli(2) == 2000
    assert milli(0.1) == 100
    assert value(1e3) == 1000


def test_a_truth_value_is_not_a_quantity() -> None:
    with pytest.raises(QuantityError):
        nano(True)


@given(st.integers(0, 10**12))
def test_formatting_and_parsing_are_inverse(amount: int) -> None:
    assert milli(format_milli(amount)) == amount
    assert value(format_bytes(amount)) == amount
