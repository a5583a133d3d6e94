"""Objects are decoded leniently where Kubernetes is, and refused by name where they cannot be used."""

from __future__ import annotations

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.errors import BadObject
from fairlead.kube.decode import call_it, convert, decode
from fairlead.kube.node import Node
from fairlead.kube.pod import Pod


def test_unknown_fields_are_ignored() -> None:
    pod = decode(b'{"metadata": {"name": "a", "zone": 1}, "spec": {"novel": {"deep": [1]}}, "more": 2}', Pod)
    assert pod.metadata.name == "a"


def test_a_null_is_an_absent_field() -> None:
    pod = decode(
        b'{"metadata": {"name": "a", "labels": null, "creationTimestamp": null},'
        b' "spec": {"containers": [{"resources": {"requests": null}}, null],'
        b' "tolerations": null, "affinity": null}}',
        Pod,
    )
    assert pod.metadata.labels == {}
    assert len(pod.spec.containers) == 1
    assert pod.spec.tolerations == ()


def test_missing_metadata_leaves_an_object_without_a_name() -> None:
    assert decode(b'{"spec": {}}', Pod).metadata.name == ""


def test_the_error_names_the_object_and_the_field() -> None:
    with pytest.raises(BadObject) as caught:
        convert({"metadata": {"name": "web-1", "namespace": "shop"}, "spec": {"priority": "high"}}, Pod)
    assert caught.value.object == "Pod shop/web-1"
    assert caught.value.field == "spec.priority"
    assert "Expected `int" in caught.value.problem


@pytest.mark.parametrize("data", [b"", b"{", b"\xff\xfe", b'{"metadata": '])
def test_what_is_not_json_is_a_named_error(data: bytes) -> None:
    with pytest.raises(BadObject, match="Pod"):
        decode(data, Pod)


@pytest.mark.parametrize("data", [b"null", b"[]", b"1", b'"text"'])
def test_what_is_not_an_object_is_a_named_error(data: bytes) -> None:
    with pytest.raises(BadObject, match="Pod"):
        decode(data, Pod)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda children: st.lists(children) | st.dictionaries(st.text(), children),
    max_leaves=20,
)


@given(
    st.dictionaries(st.sampled_from(["metadata", "spec", "status", "kind"]), json_values)
    | st.fixed_dictionaries(
        {"spec": st.dictionaries(st.sampled_from(["containers", "taints", "affinity"]), json_values)}
    )
)
def test_any_json_decodes_or_gives_a_named_error(data: dict[str, object]) -> None:
    for kind in (Pod, Node):
        with contextlib.suppress(BadObject):
            decode(json.dumps(data).encode(), kind)


def test_an_object_is_called_by_kind_namespace_and_name() -> None:
    assert call_it({"kind": "Node", "metadata": {"name": "n1"}}) == "Node n1"
    assert call_it({"metadata": {"generateName": "web-", "namespace": "shop"}}, "Pod") == "Pod shop/web-"
    assert call_it({"metadata": []}, "Pod") == "Pod (no name)"
    assert call_it([], "Pod") == "Pod (a list, not an object)"


def test_an_object_that_contains_itself_is_a_named_error() -> None:
    data: dict[str, object] = {"metadata": {"name": "ring"}, "spec": {"containers": [], "priority": None}}
    data["spec"] = {"affinity": {"nodeAffinity": data}, "overhead": data}
    data["status"] = data
    with pytest.raises(BadObject, match="Pod ring"):
        convert(data, Pod)


def test_json_nested_without_end_is_a_named_error() -> None:
    with pytest.raises(BadObject, match="nested too deeply"):
        decode(b'{"spec": {"containers": ' + b"[" * 100_000, Pod)
