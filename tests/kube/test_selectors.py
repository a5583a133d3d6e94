"""Selectors admit exactly what the API server's do."""

from __future__ import annotations

import pytest

from fairlead.errors import BadInput
from fairlead.kube.selectors import (
    LabelSelector,
    Requirement,
    matches,
    parse_field_selector,
    parse_label_selector,
    selector_text,
)

LABELS = {"app": "web", "tier": "front", "cores": "8", "empty": ""}


@pytest.mark.parametrize(
    ("text", "admitted"),
    [
        ("", True),
        ("app=web", True),
        ("app==web", True),
        ("app = web , tier=front", True),
        ("app!=web", False),
        ("app!=api", True),
        ("missing!=anything", True),
        ("app in (api, web)", True),
        ("app notin (api)", True),
        ("missing notin (api)", True),
        ("app", True),
        ("missing", False),
        ("!missing", True),
        ("!app", False),
        ("empty=", True),
        ("cores>4", True),
        ("cores<4", False),
        ("app in (api,web),tier!=back,!missing", True),
    ],
)
def test_a_label_query_admits(text: str, admitted: bool) -> None:
    assert matches(parse_label_selector(text), LABELS) is admitted


@pytest.mark.parametrize("text", ["a b", "a in b", "a=(b)", "=b", "a in (b", "a,,b c"])
def test_an_unreadable_label_query_is_named(text: str) -> None:
    with pytest.raises(BadInput, match="label selector"):
        parse_label_selector(text)


def test_an_absent_selector_selects_nothing_and_an_empty_one_everything() -> None:
    assert not matches(None, LABELS)
    assert matches(LabelSelector(), LABELS)
    assert LabelSelector().empty


@pytest.mark.parametrize(
    ("operator", "values", "admitted"),
    [
        ("Gt", ("4",), True),
        ("Gt", ("8",), False),
        ("Lt", ("9",), True),
        ("Gt", ("4.5",), False),
        ("Gt", ("many",), False),
        ("Gt", (), False),
        ("Near", ("8",), False),
    ],
)
def test_comparisons_need_integers_and_unknown_operators_admit_nothing(
    operator: str, values: tuple[str, ...], admitted: bool
) -> None:
    assert Requirement("cores", operator, values).admits(LABELS) is admitted


def test_a_comparison_with_a_label_that_is_no_integer_never_matches() -> None:
    assert not Requirement("app", "Gt", ("1",)).admits(LABELS)
    assert not Requirement("app", "Lt", ("1",)).admits(LABELS)


def test_field_selectors_are_conjunctions_of_equalities() -> None:
    pod = {"spec.nodeName": "n1", "status.phase": "Running"}
    read = lambda path: pod.get(path, "")  # noqa: E731 (a reader, not worth a name)
    assert parse_field_selector("spec.nodeName=n1,status.phase!=Failed").admits(read)
    assert not parse_field_selector("spec.nodeName!=n1").admits(read)
    assert parse_field_selector("metadata.name=").admits(read)
    with pytest.raises(BadInput, match="field selector"):
        parse_field_selector("spec.nodeName")


@pytest.mark.parametrize(
    "text",
    ["", "app=web", "app!=web", "app in (api,web)", "app notin (api,web)", "app,!old", "cores>4,cores<9"],
)
def test_a_selector_is_spelt_as_it_is_read(text: str) -> None:
    assert selector_text(parse_label_selector(text)) == text


def test_labels_of_a_selector_are_spelt_in_the_order_of_their_keys() -> None:
    selector = LabelSelector({"tier": "front", "app": "web"}, (Requirement("old", "DoesNotExist"),))
    assert selector_text(selector) == "app=web,tier=front,!old"
