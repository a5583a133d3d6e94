from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from fairlead.errors import BadInput, BadObject
from fairlead.nodegroups import GROUP_LABEL, node_of, read_groups, template_of

LARGE = {"name": "m5.large", "capacity": {"cpu": "2", "memory": "8Gi"}, "pricePerHour": "0.096"}


def spot(**more: Any) -> dict[str, Any]:
    return {"name": "spot", "instanceTypes": [LARGE], "max": 5, **more}


def test_a_group_is_read_as_it_is_written() -> None:
    [group] = read_groups(
        [spot(min=1, labels={"capacity": "spot"}, zones=["a", "b"], bootS=45, volatile=True)]
    )
    assert (group.min, group.max, group.boot_s, group.volatile) == (1, 5, 45, True)
    assert group.price_per_hour == Decimal("0.096")


def test_its_template_is_the_node_that_it_would_bring() -> None:
    taint = {"key": "size", "value": "large", "effect": "NoSchedule"}
    [group] = read_groups([spot(labels={"tier": "gold"}, taints=[taint], zones=["a", "b"])])
    node = template_of(group, "new")
    assert node.metadata.labels == {
        "kubernetes.io/hostname": "new",
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "node.kubernetes.io/instance-type": "m5.large",
        "topology.kubernetes.io/zone": "a",
        "tier": "gold",
        GROUP_LABEL: "spot",
    }
    assert [str(taint) for taint in node.spec.taints] == ["size=large:NoSchedule"]
    assert node.status.allocatable == {"cpu": "2", "memory": "8Gi", "pods": "110"}


def test_what_pods_may_use_can_be_less_than_what_the_machine_has() -> None:
    machine = {**LARGE, "allocatable": {"cpu": "1930m"}}
    [group] = read_groups([spot(instanceTypes=[machine])])
    node = template_of(group, "new")
    assert (node.status.capacity["cpu"], node.status.allocatable["cpu"]) == ("2", "1930m")
    assert node.status.allocatable["memory"] == "8Gi"


def test_nodes_take_the_zones_in_turn() -> None:
    [group] = read_groups([spot(zones=["a", "b", "c"])])
    zones = [
        node_of(group, f"n{i}", i)["metadata"]["labels"]["topology.kubernetes.io/zone"] for i in range(4)
    ]
    assert zones == ["a", "b", "c", "a"]


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"name": ""}, "name"),
        ({"min": 6}, "min"),
        ({"min": -1}, "min"),
        ({"min": 1, "desired": 6}, "desired"),
        ({"bootS": -1}, "bootS"),
        ({"bootS": float("nan")}, "bootS"),
        ({"instanceTypes": [{"pricePerHour": "NaN"}]}, r"instanceTypes\[0\].pricePerHour"),
        ({"instanceTypes": [{"pricePerHour": -1}]}, r"instanceTypes\[0\].pricePerHour"),
        ({"instanceTypes": []}, "instanceTypes"),
        ({"taints": [{"key": "a", "effect": "NO_SCHEDULE"}]}, r"taints\[0\].effect"),
        ({"instanceTypes": [{"capacity": {"cpu": "two"}}]}, r"instanceTypes\[0\].capacity.cpu"),
        ({"instanceTypes": [{"allocatable": {"cpu": "-1"}}]}, r"instanceTypes\[0\].allocatable.cpu"),
        ({"max": "many"}, "max"),
    ],
)
def test_a_bad_group_is_refused_with_the_name_of_the_field(wrong: dict[str, Any], field: str) -> None:
    with pytest.raises(BadObject, match=field):
        read_groups([spot(**wrong)])


def test_two_groups_of_one_name_are_refused() -> None:
    with pytest.raises(BadInput, match="two of that name"):
        read_groups([spot(), spot()])
