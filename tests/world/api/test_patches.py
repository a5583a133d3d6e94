"""JSON patch, merge patch, strategic merge patch: what they make of a document."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.errors import ApiError
from fairlead.kube.patch import diff
from fairlead.world.patches import json_patch, merge_patch, strategic_patch

POD = "core/v1.Pod"
DEPLOYMENT = "apps/v1.Deployment"

leaf = st.one_of(st.integers(-3, 3), st.text("ab", max_size=2), st.booleans())
documents = st.recursive(
    st.dictionaries(st.sampled_from("abc/~"), leaf, max_size=3),
    lambda inner: st.dictionaries(
        st.sampled_from("abc/~"),
        st.one_of(leaf, inner, st.lists(st.one_of(leaf, inner), max_size=2)),
        max_size=3,
    ),
    max_leaves=8,
)


class TestJsonPatch:
    @given(documents, documents)
    def test_a_computed_difference_leads_from_one_document_to_the_other(self, old: Any, new: Any) -> None:
        before = copy.deepcopy(old)
        assert json_patch(old, diff(old, new).operations) == new
        assert old == before

    def test_items_are_added_before_an_index_and_at_the_end(self) -> None:
        steps = [
            {"op": "add", "path": "/a/0", "value": 0},
            {"op": "add", "path": "/a/-", "value": 9},
            {"op": "remove", "path": "/a/1"},
        ]
        assert json_patch({"a": [1, 2]}, steps) == {"a": [0, 2, 9]}

    def test_move_and_copy_take_a_value_along(self) -> None:
        steps = [
            {"op": "move", "from": "/a", "path": "/b"},
            {"op": "copy", "from": "/b", "path": "/c"},
        ]
        assert json_patch({"a": {"x": 1}}, steps) == {"b": {"x": 1}, "c": {"x": 1}}

    def test_escaped_names_are_found(self) -> None:
        step = {"op": "replace", "path": "/fairlead.dev~1a~0b", "value": 2}
        assert json_patch({"fairlead.dev/a~b": 1}, [step]) == {"fairlead.dev/a~b": 2}

    def test_replacing_a_member_that_is_not_there_adds_it(self) -> None:
        assert json_patch({}, [{"op": "replace", "path": "/a", "value": 1}]) == {"a": 1}

    def test_a_test_of_an_absent_member_for_null_holds(self) -> None:
        assert json_patch({"a": 1}, [{"op": "test", "path": "/b", "value": None}]) == {"a": 1}

    @pytest.mark.parametrize(
        "step",
        [
            {"op": "test", "path": "/a/0", "value": 2},
            {"op": "remove", "path": "/b"},
            {"op": "add", "path": "/b/c", "value": 1},
            {"op": "replace", "path": "/a/1", "value": 1},
            {"op": "add", "path": "/a/5", "value": 1},
            {"op": "move", "from": "/x", "path": "/y"},
            {"op": "nonsense", "path": "/a"},
            {"op": "add", "path": "a", "value": 1},
            {"op": "add", "path": "/a/b/c", "value": 1},
        ],
    )
    def test_a_step_that_cannot_be_done_refuses_the_whole_patch(self, step: dict[str, Any]) -> None:
        document = {"a": [1]}
        with pytest.raises(ApiError) as caught:
            json_patch(document, [{"op": "add", "path": "/z", "value": 1}, step])
        assert caught.value.code == 422
        assert document == {"a": [1]}

    def test_what_is_no_list_of_steps_is_a_bad_request(self) -> None:
        with pytest.raises(ApiError) as caught:
            json_patch({}, {"op": "add"})
        assert caught.value.code == 400


class TestMergePatch:
    @given(documents, documents)
    def test_applying_it_twice_is_applying_it_once(self, old: Any, patch: Any) -> None:
        before = copy.deepcopy(old)
        once = merge_patch(old, patch)
        assert merge_patch(once, patch) == once
        assert old == before

    @given(documents, documents)
    def test_two_patches_of_different_members_may_come_in_any_order(self, first: Any, second: Any) -> None:
        first, second = {"x": first}, {"y": second}
        old = {"x": {"k": 1}, "y": {"k": 2}}
        assert merge_patch(merge_patch(old, first), second) == merge_patch(merge_patch(old, second), first)

    def test_null_removes_and_lists_are_replaced(self) -> None:
        old = {"a": 1, "b": [1, 2], "c": {"d": 1}}
        assert merge_patch(old, {"a": None, "b": [3], "c": {"e": 2}}) == {"b": [3], "c": {"d": 1, "e": 2}}


containers = st.lists(
    st.builds(
        lambda name, image: {"name": name, "image": image},
        st.sampled_from(["a", "b", "c", "d"]),
        st.sampled_from(["x", "y"]),
    ),
    max_size=4,
    unique_by=lambda container: container["name"],
)


def pod_of(held: list[dict[str, Any]]) -> dict[str, Any]:
    return {"spec": {"containers": held}}


class TestStrategicMerge:
    @given(containers, containers)
    def test_lists_merge_by_their_key_and_nothing_else_is_touched(self, held: Any, given: Any) -> None:
        old = pod_of(held)
        before = copy.deepcopy(old)
        merged = strategic_patch(old, pod_of(given), POD)["spec"]["containers"]
        assert old == before
        by_name = {each["name"]: each for each in merged}
        assert len(by_name) == len(merged)
        assert by_name == {each["name"]: each for each in [*held, *given]}

    @given(containers, containers)
    def test_applying_it_twice_is_applying_it_once(self, held: Any, given: Any) -> None:
        once = strategic_patch(pod_of(held), pod_of(given), POD)
        assert strategic_patch(once, pod_of(given), POD) == once

    @given(containers, containers)
    def test_what_the_patch_names_keeps_the_patchs_order_and_the_rest_its_own(
        self, held: Any, given: Any
    ) -> None:
        merged = strategic_patch(pod_of(held), pod_of(given), POD)["spec"]["containers"]
        order = [each["name"] for each in merged]
        named = [each["name"] for each in given]
        assert [name for name in order if name in named] == named
        rest = [each["name"] for each in held if each["name"] not in named]
        assert [name for name in order if name not in named] == rest

    def test_tolerations_are_replaced_as_a_whole(self) -> None:
        old = {"spec": {"tolerations": [{"key": "a"}, {"key": "b"}]}}
        assert strategic_patch(old, {"spec": {"tolerations": [{"key": "c"}]}}, POD) == {
            "spec": {"tolerations": [{"key": "c"}]}
        }

    def test_taints_are_replaced_as_a_whole_and_finalizers_are_joined(self) -> None:
        old = {"metadata": {"finalizers": ["a/x"]}, "spec": {"taints": [{"key": "a"}]}}
        patch = {"metadata": {"finalizers": ["b/y", "a/x"]}, "spec": {"taints": [{"key": "b"}]}}
        merged = strategic_patch(old, patch, "core/v1.Node")
        assert merged["spec"]["taints"] == [{"key": "b"}]
        assert sorted(merged["metadata"]["finalizers"]) == ["a/x", "b/y"]

    def test_nested_lists_merge_within_the_item_of_the_same_key(self) -> None:
        old = pod_of([{"name": "a", "env": [{"name": "X", "value": "1"}, {"name": "Y", "value": "2"}]}])
        patch = pod_of([{"name": "a", "env": [{"name": "X", "value": "3"}]}])
        (merged,) = strategic_patch(old, patch, POD)["spec"]["containers"]
        assert {each["name"]: each["value"] for each in merged["env"]} == {"X": "3", "Y": "2"}

    def test_an_item_is_deleted_by_directive(self) -> None:
        old = pod_of([{"name": "a"}, {"name": "b"}])
        patch = pod_of([{"name": "a", "$patch": "delete"}])
        assert strategic_patch(old, patch, POD) == pod_of([{"name": "b"}])

    def test_a_list_or_map_is_replaced_by_directive(self) -> None:
        old = {"spec": {"containers": [{"name": "a"}], "nodeSelector": {"x": "1"}}}
        patch = {
            "spec": {
                "containers": [{"name": "b"}, {"$patch": "replace"}],
                "nodeSelector": {"$patch": "replace", "y": "2"},
            }
        }
        assert strategic_patch(old, patch, POD) == {
            "spec": {"containers": [{"name": "b"}], "nodeSelector": {"y": "2"}}
        }

    def test_retained_keys_clear_what_is_not_named(self) -> None:
        old = {"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}}
        patch = {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}
        assert strategic_patch(old, patch, DEPLOYMENT) == {"spec": {"strategy": {"type": "Recreate"}}}

    def test_items_of_plain_lists_are_deleted_by_directive(self) -> None:
        old = {"metadata": {"finalizers": ["a/x", "b/y"]}}
        patch = {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a/x"]}}
        assert strategic_patch(old, patch, POD) == {"metadata": {"finalizers": ["b/y"]}}

    def test_the_order_of_a_list_can_be_set(self) -> None:
        old = pod_of([{"name": "a"}, {"name": "b"}, {"name": "c"}])
        patch = {"spec": {"$setElementOrder/containers": [{"name": "c"}, {"name": "a"}]}}
        merged = strategic_patch(old, patch, POD)["spec"]["containers"]
        assert [each["name"] for each in merged] in (["c", "a", "b"], ["b", "c", "a"])
        assert [each["name"] for each in merged if each["name"] != "b"] == ["c", "a"]

    def test_an_item_without_its_key_is_refused(self) -> None:
        with pytest.raises(ApiError) as caught:
            strategic_patch(pod_of([]), pod_of([{"image": "x"}]), POD)
        assert caught.value.code == 422
