"""Numbers and times are what the API allows; what it would not have let in is refused by name."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from fairlead.errors import BadObject
from fairlead.kube.decode import convert, decode, strip_nulls, unfolded_size
from fairlead.kube.pod import Pod
from fairlead.kube.quantity import QuantityError, nano
from fairlead.kube.selectors import LabelSelector, Requirement, check_selector
from fairlead.kube.workloads import PriorityClass

HUGE = 10**30


def preferred(weight: int) -> dict[str, Any]:
    terms = [{"weight": weight, "preference": {}}]
    return {"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}}}


def spread(**more: Any) -> dict[str, Any]:
    return {"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone", **more}]}


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"priority": HUGE}, "spec.priority"),
        ({"priority": 2**40}, "spec.priority"),
        ({"containers": [{"ports": [{"hostPort": HUGE}]}]}, "spec.containers[0].ports[0].hostPort"),
        ({"containers": [{"ports": [{"hostPort": -5}]}]}, "spec.containers[0].ports[0].hostPort"),
        (spread(maxSkew=2**63), "spec.topologySpreadConstraints[0].maxSkew"),
        (spread(maxSkew=0), "spec.topologySpreadConstraints[0].maxSkew"),
        (spread(minDomains=HUGE), "spec.topologySpreadConstraints[0].minDomains"),
        (spread(whenUnsatisfiable="Bogus"), "spec.topologySpreadConstraints[0].whenUnsatisfiable"),
        (spread(nodeTaintsPolicy="honor"), "spec.topologySpreadConstraints[0].nodeTaintsPolicy"),
        ({"preemptionPolicy": "never"}, "spec.preemptionPolicy"),
        ({"tolerations": [{"tolerationSeconds": HUGE}]}, "spec.tolerations[0].tolerationSeconds"),
        ({"activeDeadlineSeconds": HUGE}, "spec.activeDeadlineSeconds"),
        ({"overhead": {"cpu": HUGE}}, "spec.overhead[...]"),
    ],
)
def test_what_the_api_would_not_let_in_is_refused_by_name(spec: dict[str, Any], field: str) -> None:
    with pytest.raises(BadObject) as caught:
        convert({"kind": "Pod", "metadata": {"name": "a"}, "spec": spec}, Pod)
    assert (caught.value.object, caught.value.field) == ("Pod a", field)


def test_weights_and_priority_classes_are_bounded_too() -> None:
    assert convert({"spec": preferred(100)}, Pod).spec.affinity is not None
    with pytest.raises(BadObject, match="weight"):
        convert({"spec": preferred(101)}, Pod)
    with pytest.raises(BadObject, match="value"):
        convert({"metadata": {"name": "p"}, "value": HUGE}, PriorityClass)


def test_numbers_at_their_bounds_are_kept() -> None:
    spec = {
        "priority": 2**31 - 1,
        "tolerations": [{"tolerationSeconds": 2**63 - 1}],
        **spread(maxSkew=2**31 - 1),
    }
    pod = convert({"spec": spec}, Pod)
    assert pod.spec.priority == 2**31 - 1
    assert pod.spec.tolerations[0].toleration_seconds == 2**63 - 1


class TestTimes:
    def test_a_time_without_a_zone_is_refused(self) -> None:
        with pytest.raises(BadObject, match=r"metadata\.creationTimestamp: .*timezone"):
            decode(b'{"metadata": {"name": "a", "creationTimestamp": "2026-01-01T00:00:00"}}', Pod)
        naive = datetime(2026, 1, 1)
        with pytest.raises(BadObject, match=r"metadata\.creationTimestamp: .*timezone"):
            convert({"metadata": {"name": "a", "creationTimestamp": naive}}, Pod)

    def test_a_time_with_one_is_that_moment(self) -> None:
        pod = decode(b'{"metadata": {"creationTimestamp": "2026-01-01T02:00:00+02:00"}}', Pod)
        assert pod.metadata.creation_timestamp == datetime(2026, 1, 1, tzinfo=UTC)


class TestLongNumbers:
    @pytest.mark.parametrize("operator", ["Gt", "Lt"])
    def test_thousands_of_digits_match_nothing(self, operator: str) -> None:
        assert not Requirement("a", operator, ("9" * 5000,)).admits({"a": "1"})
        assert not Requirement("a", operator, ("1",)).admits({"a": "9" * 5000})

    def test_leading_zeros_do_no_harm(self) -> None:
        assert Requirement("a", "Gt", ("0" * 5000 + "1",)).admits({"a": "+2"})
        assert Requirement("a", "Lt", ("0",)).admits({"a": "-0001"})

    def test_a_quantity_of_thousands_of_digits_is_none(self) -> None:
        for text in ("9" * 5000, "1e" + "9" * 5000, "0." + "0" * 5000):
            with pytest.raises(QuantityError, match="too long"):
                nano(text)


class TestSharedData:
    def bomb(self) -> Any:
        data: Any = "x"
        for _ in range(30):
            data = [data] * 10
        return data

    def test_nulls_are_stripped_once_from_what_is_shared(self) -> None:
        assert len(strip_nulls({"a": self.bomb(), "b": None})) == 1

    def test_a_pod_with_such_data_is_refused_or_read(self) -> None:
        with pytest.raises(BadObject, match="tolerations"):
            convert({"metadata": {"name": "a"}, "spec": {"tolerations": self.bomb()}}, Pod)
        pod = convert({"metadata": {"name": "a", "labels": None}, "junk": self.bomb()}, Pod)
        assert pod.metadata.name == "a"

    def test_what_it_would_be_unfolded_is_counted_without_unfolding(self) -> None:
        assert unfolded_size(self.bomb()) > 10**30


def test_a_selector_with_an_operator_that_does_not_exist_is_named() -> None:
    selector = LabelSelector(match_expressions=(Requirement("app", "Near", ("x",)),))
    with pytest.raises(BadObject, match=r"ReplicaSet a/b: spec\.selector\.app: 'Near' is not an operator"):
        check_selector("ReplicaSet a/b", "spec.selector", selector)
