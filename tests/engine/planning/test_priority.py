"""Which priority counts for a pod."""

from __future__ import annotations

import pytest

from fairlead.engine.planning.priority import Priority, PriorityAnnotation, may_be_victim, priority_of
from fairlead.kube.selectors import LabelSelector, parse_label_selector
from support.units import pod, typed


def annotated(text: str, priority: int | None = 5):
    return typed(pod("a", priority=priority, annotations={"priority": text}))


def test_the_annotation_comes_before_the_spec():
    assert priority_of(annotated("7")).value == 7


def test_without_an_annotation_the_spec_counts():
    assert priority_of(typed(pod("a", priority=5))).value == 5


def test_a_pod_that_says_nothing_has_priority_zero():
    assert priority_of(typed(pod("a"))).value == 0


def test_a_negative_annotation_is_taken():
    assert priority_of(annotated("-3")).value == -3


@pytest.mark.parametrize(
    "text", ["", "high", "1.5", "1e3", "0x10", "--1", "9" * 30, "-99999999999", "\uff11"]
)
def test_a_malformed_annotation_is_reported_and_the_spec_counts(text):
    found = priority_of(annotated(text))
    assert found.value == 5
    assert "not an integer" in found.problem


def test_a_value_above_the_cap_is_reported_and_capped():
    found = priority_of(annotated("1000000001"))
    assert found.value == 1_000_000_000
    assert "above the cap" in found.problem


def test_the_cap_is_configurable():
    assert priority_of(annotated("50"), PriorityAnnotation(max=10)).value == 10


def test_the_cap_does_not_touch_spec_priority():
    assert priority_of(typed(pod("a", priority=2_000_001_000))).value == 2_000_001_000


def test_outside_the_selected_namespaces_the_annotation_is_ignored_and_the_problem_says_what_to_do():
    limits = PriorityAnnotation(namespace_selector=LabelSelector(match_labels={"trusted": "yes"}))
    honoured = priority_of(annotated("7"), limits, {"trusted": "yes"})
    assert (honoured.value, honoured.problem) == (7, "")
    ignored = priority_of(annotated("7"), limits, {"trusted": "no"})
    assert ignored.value == 5
    assert ignored.problem == (
        "annotation priority is ignored in namespace default: use a PriorityClass, or label the namespace so "
        "that it matches trusted=yes; using 5"
    )


@pytest.mark.parametrize(
    "selector", ["trusted=yes,team in (a,b)", "trusted!=no", "!untrusted,team", "team notin (a,b)"]
)
def test_whatever_the_selector_the_problem_spells_it_as_kubectl_does(selector):
    labels = {"trusted": "no", "untrusted": "", "team": "a"}
    limits = PriorityAnnotation(namespace_selector=parse_label_selector(selector))
    assert f"so that it matches {selector};" in priority_of(annotated("7"), limits, labels).problem


def test_in_a_namespace_that_has_not_been_seen_the_annotation_is_ignored_and_nothing_is_reported_yet():
    limits = PriorityAnnotation(namespace_selector=LabelSelector(match_labels={"trusted": "yes"}))
    assert priority_of(annotated("7"), limits, None) == Priority(5)


def test_a_selector_without_requirements_honours_the_annotation_everywhere():
    limits = PriorityAnnotation(namespace_selector=LabelSelector())
    assert priority_of(annotated("7"), limits, None) == priority_of(annotated("7"), limits, {}) == Priority(7)


def test_where_the_annotation_is_ignored_it_is_not_read_either():
    limits = PriorityAnnotation(namespace_selector=LabelSelector(match_labels={"trusted": "yes"}))
    assert "not an integer" not in priority_of(annotated("high"), limits, {}).problem


def test_system_pods_are_never_victims():
    assert may_be_victim(1, 2)
    assert not may_be_victim(2, 2)
    assert not may_be_victim(2_000_000_000, 2_000_001_000)
