"""YAML with keys given twice, and what only looks like it."""

from __future__ import annotations

import pytest

from fairlead.errors import BadInput
from fairlead.kube.documents import documents


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a: 1\nb: 2\na: 3\n", "line 3: 'a' is given twice"),
        ("x:\n- y: {a: 1, a: 1}\n", "line 2: 'a' is given twice"),
        ("fine: 1\n---\na: 1\n'a': 2\n", "line 4: 'a' is given twice"),
        ("base: &base {a: 1}\nx:\n  <<: *base\n  b: 1\n  b: 2\n", "line 5: 'b' is given twice"),
        ('{"a": 1, "a": 2}', "line 1: 'a' is given twice"),
    ],
    ids=["plain", "within", "second document", "beside a merge", "JSON"],
)
def test_a_key_given_twice_is_a_mistake(text: str, says: str) -> None:
    with pytest.raises(BadInput, match=f"file: {says}"):
        list(documents(text, "file"))


def test_a_merged_key_may_be_replaced_also_where_others_merge_that() -> None:
    text = "a: &a {k: 1, l: 1}\nb: &b {<<: *a, k: 2}\nc: {<<: *b, l: 3}\nd: {<<: [*a, *b]}\n"
    (found,) = documents(text, "file")
    assert found == {
        "a": {"k": 1, "l": 1},
        "b": {"k": 2, "l": 1},
        "c": {"k": 2, "l": 3},
        "d": {"k": 1, "l": 1},
    }


def test_keys_that_differ_in_kind_are_two() -> None:
    assert list(documents("1: a\n'1': b\n", "file")) == [{1: "a", "1": "b"}]


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize(
    "value", ["!!timestamp foo", '!!int ""', "!!bool foo", "2026-13-45", "a: [", "? [a]\n: b"]
)
def test_what_cannot_be_read_is_an_error_that_names_the_file(value: str, large: bool) -> None:
    with pytest.raises(BadInput, match="file: "):
        list(documents(value, "file", large=large))


def test_nesting_beyond_any_sense_is_an_error() -> None:
    with pytest.raises(BadInput, match="nested too deeply"):
        list(documents("[" * 50_000 + "]" * 50_000, "file"))


def test_merge_keys_count_together() -> None:
    text = "base: &base {" + ", ".join(f"k{number}: 1" for number in range(6000)) + "}\n"
    assert list(documents(text + "x:\n  <<: *base\n", "file"))
    with pytest.raises(BadInput, match="unfold to too much"):
        list(documents(text + "x:\n  <<: *base\n  <<: *base\n", "file"))
