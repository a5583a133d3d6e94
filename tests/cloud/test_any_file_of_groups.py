"""Whatever a file says: either each target can use what is made of it, or one error says why not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.cloud.karpenter import Provider, node_pools
from fairlead.cloud.kwok import config_maps
from fairlead.cloud.terraform import terraform
from fairlead.errors import BadObject, FairleadError
from fairlead.kube.quantity import nano
from fairlead.nodegroups import NodeGroup
from fairlead.nodegroups.file import read_file
from support.terraform import Module, misformatted

PROVIDERS: tuple[Provider, ...] = ("aws", "kwok")

ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 5),
    st.floats(allow_nan=True),
    st.text(max_size=6),
    st.lists(st.text(max_size=3), max_size=2),
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
)
KEYS = st.sampled_from(["size", "example.com/Kind", "node.kubernetes.io/x", "kubernetes.io/arch", "a b", ""])
WORDS = st.sampled_from(["medium", "a.b_c", "", "${var.x}", '"', "%{if}", "-x", "1", "ä"])
QUANTITIES = st.sampled_from([0, 1, 2.5, "4Gi", "1500m", "1e3", "-1", "two", 2**70])
FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "name": st.sampled_from(["medium", "2xl", "a-b", "A", "a_b", "", "x" * 64]),
    "instanceTypes": st.lists(
        st.sampled_from(["t3a.medium", "m5.large", "t4g.small", "g5.xlarge", "no.such"]), max_size=2
    ),
    "resources": st.dictionaries(
        st.sampled_from(["cpu", "memory", "pods", "nvidia.com/gpu", "a b"]), QUANTITIES, max_size=4
    ),
    "labels": st.dictionaries(KEYS, WORDS, max_size=3),
    "taints": st.lists(
        st.one_of(
            st.builds(
                "{}={}:{}".format, KEYS, WORDS, st.sampled_from(["NoSchedule", "NoExecute", "NO_EXECUTE"])
            ),
            st.fixed_dictionaries({"key": KEYS, "effect": st.just("NoSchedule")}),
        ),
        max_size=3,
    ),
    "zones": st.lists(st.sampled_from(["eu-west-1a", "test-zone-b", '"']), max_size=2),
    "min": st.integers(-1, 3),
    "desired": st.integers(-1, 4),
    "max": st.integers(-1, 5),
    "volatile": st.booleans(),
    "pricePerHour": st.sampled_from([0, 0.0376, "0.1", -1, float("inf")]),
    "bootTime": st.sampled_from(["30s", 5, "soon", -1]),
}
SOUND = st.fixed_dictionaries(
    {"name": st.sampled_from(["medium", "2xl", "a-b"]), "instanceTypes": st.just(["t3a.medium"])},
    optional={name: FIELDS[name] for name in ("labels", "taints", "zones", "volatile", "resources", "max")},
)
GROUPS = st.one_of(
    SOUND, st.fixed_dictionaries({}, optional=FIELDS), st.dictionaries(st.sampled_from(list(FIELDS)), ODD)
)
FILES = st.builds(
    lambda groups: {"apiVersion": "fairlead.dev/v1alpha1", "kind": "NodeGroups", "groups": groups},
    st.lists(GROUPS, min_size=1, max_size=2),
)


def check(document: object) -> str:
    """How far it got: refused as a file, refused by a target, or used by all."""
    try:
        groups = read_file(yaml.safe_dump(document, allow_unicode=True), "groups.yaml")
    except FairleadError:
        return "file"
    assert all(nano(amount) >= 0 for group in groups for amount in group.instance_type.capacity.values())
    check_kwok(groups)
    try:
        for provider in PROVIDERS:
            for pool in node_pools(groups, provider=provider, node_class="default", note=str):
                assert pool["spec"]["template"]["spec"]["requirements"]
        text = terraform(groups, cluster=None, note=str)
    except BadObject:
        return "target"
    check_terraform(groups, text)
    return "used"


def check_kwok(groups: tuple[NodeGroup, ...]) -> None:
    _, templates = config_maps(groups, "kube-system")
    made = yaml.safe_load(templates["data"]["templates"])["items"]
    assert [node["metadata"]["name"] for node in made] == [group.name for group in groups]


def check_terraform(groups: tuple[NodeGroup, ...], text: str) -> None:
    module = Module(text)
    assert misformatted(text) == []
    assert module.undeclared() == []
    made = module.resources("aws_eks_node_group")
    assert [body["node_group_name"] for body in made.values()] == [group.name for group in groups]
    assert [body.get("labels", {}) for body in made.values()] == [group.labels for group in groups]


def test_what_is_read_can_be_used_and_what_cannot_is_refused(count: Callable[[int, int], int]) -> None:
    ends: dict[str, int] = {}

    @settings(max_examples=count(40, 1000), deadline=None)
    @given(FILES)
    def any_file(document: object) -> None:
        end = check(document)
        ends[end] = ends.get(end, 0) + 1

    any_file()
    assert ends.keys() >= {"file", "used"}
