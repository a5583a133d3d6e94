"""JSON patches are built with escaped paths, and a difference turns the old document into the new one."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from fairlead.kube.patch import JsonPatch, diff

documents = st.recursive(
    st.booleans() | st.integers() | st.text(max_size=3) | st.lists(st.integers(), max_size=3),
    lambda children: st.dictionaries(st.text("ab/~", min_size=1, max_size=3), children, max_size=4),
    max_leaves=12,
)
objects = st.dictionaries(st.text("ab/~", min_size=1, max_size=3), documents, max_size=4)


def applied(document: Any, operations: list[dict[str, Any]]) -> Any:
    """A reference application, of the three operations that a difference uses."""
    document = json.loads(json.dumps(document))
    for operation in operations:
        *parents, last = [t.replace("~1", "/").replace("~0", "~") for t in operation["path"].split("/")[1:]]
        target = document
        for token in parents:
            target = target[token]
        if operation["op"] == "remove":
            del target[last]
        else:
            assert operation["op"] != "replace" or last in target
            target[last] = operation["value"]
    return document


@given(objects, objects)
def test_a_difference_turns_the_old_document_into_the_new_one(
    old: dict[str, Any], new: dict[str, Any]
) -> None:
    assert json.dumps(applied(old, diff(old, new).operations), sort_keys=True) == json.dumps(
        new, sort_keys=True
    )


@given(objects)
def test_no_difference_is_an_empty_patch(document: dict[str, Any]) -> None:
    assert not diff(document, document)


def test_paths_are_escaped() -> None:
    patch = JsonPatch().test(("metadata", "uid"), "u").replace(("spec", "containers", 0, "image"), "b")
    patch.remove(("metadata", "labels", "fairlead.dev/slot"))
    assert json.loads(patch.encode()) == [
        {"op": "test", "path": "/metadata/uid", "value": "u"},
        {"op": "replace", "path": "/spec/containers/0/image", "value": "b"},
        {"op": "remove", "path": "/metadata/labels/fairlead.dev~1slot"},
    ]
