"""Objects, versions and the history that watches are fed from."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.errors import BadObject, Gone
from fairlead.kube.pod import Pod
from fairlead.world.schema.resources import CONFIGMAPS, NODES, PODS
from fairlead.world.store import Change, Store

Object = dict[str, Any]


def item(name: str, namespace: str = "a", **more: Any) -> Object:
    return {"metadata": {"name": name, "namespace": namespace, **more}}


def names(objects: list[Object]) -> list[str]:
    return [f"{each['metadata'].get('namespace')}/{each['metadata']['name']}" for each in objects]


def test_versions_increase_with_each_write_of_any_resource() -> None:
    store = Store()
    first = store.put(CONFIGMAPS, item("x"))
    second = store.put(PODS, item("x"))
    gone = store.remove(CONFIGMAPS, "a", "x")
    versions = [int(each["metadata"]["resourceVersion"]) for each in (first, second, gone)]
    assert versions == sorted(set(versions))
    assert store.rv == versions[-1]


def test_lists_are_in_the_order_of_etcds_keys() -> None:
    store = Store()
    for namespace, name in (("b", "x"), ("a", "z"), ("a-b", "x"), ("a", "y")):
        store.put(CONFIGMAPS, item(name, namespace))
    # "a-b/x" sorts before "a/y": a hyphen comes before the slash.
    assert names(store.list(CONFIGMAPS)) == ["a-b/x", "a/y", "a/z", "b/x"]
    assert names(store.list(CONFIGMAPS, "a")) == ["a/y", "a/z"]


def test_a_subscriber_hears_each_change_with_the_object_before_and_after() -> None:
    store, heard = Store(), []
    stop = store.subscribe(heard.append)
    added = store.put(CONFIGMAPS, item("x"))
    changed = store.put(CONFIGMAPS, item("x", labels={"a": "b"}))
    store.remove(CONFIGMAPS, "a", "x")
    stop()
    store.put(CONFIGMAPS, item("y"))

    assert [change.type for change in heard] == ["ADDED", "MODIFIED", "DELETED"]
    assert [change.old for change in heard] == [None, added, changed]


def test_a_deletion_shows_the_last_state_under_its_own_version() -> None:
    store, heard = Store(), []
    store.put(CONFIGMAPS, item("x", labels={"a": "b"}))
    store.subscribe(heard.append)
    last = store.remove(CONFIGMAPS, "a", "x")
    assert last["metadata"]["labels"] == {"a": "b"}
    assert heard[0].object["metadata"]["resourceVersion"] == str(heard[0].rv)


def test_pods_are_found_by_their_node_and_by_their_owner() -> None:
    store = Store()
    store.put(PODS, {**item("x", ownerReferences=[{"uid": "u1"}]), "spec": {"nodeName": "n1"}})
    store.put(PODS, {**item("y"), "spec": {}})
    assert names(store.pods_on("n1")) == ["a/x"]
    assert names([owned for _, owned in store.owned_by("u1")]) == ["a/x"]

    store.put(PODS, {**item("x"), "spec": {"nodeName": "n2"}})
    assert store.pods_on("n1") == []
    assert store.owned_by("u1") == []
    store.remove(PODS, "a", "x")
    assert store.pods_on("n2") == []


def test_changes_since_a_version_before_the_history_are_gone() -> None:
    store = Store(history=5)
    for number in range(30):
        store.put(NODES, {"metadata": {"name": f"n{number}"}})
    assert len(store.changes(NODES, store.rv - 5)) == 5
    with pytest.raises(Gone, match="too old resource version: 1 "):
        store.changes(NODES, 1)


def test_a_quiet_resource_keeps_its_past_while_a_busy_one_forgets() -> None:
    store = Store(history=5)
    store.put(CONFIGMAPS, item("x"))
    start = store.rv
    for number in range(30):
        store.put(NODES, {"metadata": {"name": f"n{number}"}})
    store.put(CONFIGMAPS, item("y"))
    assert names([change.object for change in store.changes(CONFIGMAPS, start)]) == ["a/y"]


def test_compaction_forgets_what_is_before_and_keeps_what_is_after() -> None:
    store = Store()
    store.put(CONFIGMAPS, item("x"))
    before = store.rv
    store.put(CONFIGMAPS, item("y"))
    store.compact(store.rv)
    store.put(CONFIGMAPS, item("z"))
    assert [change.type for change in store.changes(CONFIGMAPS, store.rv - 1)] == ["ADDED"]
    with pytest.raises(Gone):
        store.changes(CONFIGMAPS, before)
    with pytest.raises(Gone):
        store.at(NODES, before)  # of a resource without any history as well


@given(
    st.lists(
        st.tuples(st.sampled_from(["put", "remove"]), st.sampled_from("ab"), st.sampled_from("xyz")),
        max_size=30,
    ),
    st.data(),
)
def test_any_past_state_is_what_was_listed_then_and_is_reached_by_its_changes(
    steps: list[tuple[str, str, str]], data: st.DataObject
) -> None:
    store = Store()
    past = {store.rv: store.list(CONFIGMAPS)}
    for step, namespace, name in steps:
        if step == "put":
            store.put(CONFIGMAPS, item(name, namespace, uid=str(store.rv)))
        elif store.get(CONFIGMAPS, namespace, name) is not None:
            store.remove(CONFIGMAPS, namespace, name)
        past[store.rv] = store.list(CONFIGMAPS)

    for version, listed in past.items():
        assert store.at(CONFIGMAPS, version) == listed
        assert store.at(CONFIGMAPS, version, "a") == [
            each for each in listed if each["metadata"]["namespace"] == "a"
        ]

    start = data.draw(st.sampled_from(sorted(past)))
    state = {(each["metadata"]["namespace"], each["metadata"]["name"]): each for each in past[start]}
    changes: list[Change] = store.changes(CONFIGMAPS, start)
    for change in changes:
        key = (change.object["metadata"]["namespace"], change.object["metadata"]["name"])
        assert change.old == state.get(key)
        if change.type == "DELETED":
            del state[key]
        else:
            state[key] = change.object
    assert sorted(state.values(), key=lambda each: each["metadata"]["uid"]) == sorted(
        store.list(CONFIGMAPS), key=lambda each: each["metadata"]["uid"]
    )
    assert [change.rv for change in changes] == sorted(change.rv for change in changes)


def pod(name: str, node: str, uid: str = "u", owner: str = "o") -> Object:
    meta = {
        "name": name,
        "namespace": "a",
        "uid": uid,
        "ownerReferences": [{"kind": "ReplicaSet", "name": "o", "uid": owner}],
    }
    return {"metadata": meta, "spec": {"nodeName": node}}


def test_a_fork_has_the_same_objects_and_goes_its_own_way() -> None:
    store = Store()
    store.put(PODS, pod("x", "n"))
    heard: list[Change] = []
    store.subscribe(heard.append)
    fork = store.fork()
    assert fork.list(PODS)[0] is store.list(PODS)[0]
    assert fork.rv == store.rv
    fork.put(PODS, pod("y", "n"))
    store.remove(PODS, "a", "x")
    assert [one.type for one in heard] == ["DELETED"]
    assert (store.list(PODS), store.pods_on("n"), store.owned_by("o")) == ([], [], [])
    assert names(fork.list(PODS)) == names(fork.pods_on("n")) == ["a/x", "a/y"]
    assert names([each for _, each in fork.owned_by("o")]) == ["a/x", "a/y"]
    with pytest.raises(Gone):
        fork.changes(PODS, 1)


def test_an_object_is_converted_once_until_it_changes() -> None:
    store = Store()
    first = store.put(PODS, pod("x", "n"))
    typed = store.typed(first, Pod)
    assert store.typed(first, Pod) is typed
    assert store.fork().typed(first, Pod) is typed
    assert store.typed(store.put(PODS, pod("x", "m")), Pod).spec.node_name == "m"
    with pytest.raises(BadObject):
        store.typed({**first, "spec": 1}, Pod)
