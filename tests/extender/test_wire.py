"""The bytes that kube-scheduler sends and reads."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fairlead.doors.extender import wire
from fairlead.errors import BadInput

POD = {"metadata": {"name": "a", "namespace": "shop", "uid": "u1"}, "spec": {"containers": []}, "status": {}}
NODE = {"metadata": {"name": "n1", "labels": {"zone": "a"}}, "spec": {}, "status": {"nodeInfo": {"x": 1}}}


def body(**more: Any) -> bytes:
    return json.dumps({"Pod": POD, "Nodes": None, "NodeNames": None} | more).encode()


def test_names_come_and_go_with_every_key_there() -> None:
    args = wire.read_args(body(NodeNames=["n1", "n2"]))
    assert args.names() == ("n1", "n2")

    answer = json.loads(wire.encode(wire.FilterResult(node_names=("n1",))))
    assert answer == {
        "Nodes": None,
        "NodeNames": ["n1"],
        "FailedNodes": {},
        "FailedAndUnresolvableNodes": {},
        "Error": "",
    }


def test_nodes_are_returned_exactly_as_they_came() -> None:
    other = {"metadata": {"name": "n2"}}
    args = wire.read_args(body(Nodes={"metadata": {}, "items": [other, NODE]}))
    assert args.names() == ("n2", "n1")

    answer = json.loads(wire.encode(wire.FilterResult(args.only({"n1"}, ("n2", "n1")))))
    assert answer["Nodes"] == {"metadata": {}, "items": [NODE]}
    assert answer["NodeNames"] is None


def test_an_empty_list_of_nodes_is_no_error() -> None:
    assert wire.read_args(body(Nodes={"metadata": {}, "items": None})).names() == ()
    assert wire.read_args(body(NodeNames=[])).names() == ()


def test_priorities_are_a_bare_list() -> None:
    assert json.loads(wire.encode([wire.HostPriority("n1", 7)])) == [{"Host": "n1", "Score": 7}]


def test_victims_are_answered_by_uid_whichever_way_they_came() -> None:
    meta = {"n1": {"Pods": [{"UID": "v1"}], "NumPDBViolations": 2}, "n2": None}
    args = wire.read_preemption(
        json.dumps({"Pod": POD, "NodeNameToVictims": None, "NodeNameToMetaVictims": meta}).encode()
    )
    wanted = {
        "NodeNameToMetaVictims": {
            "n1": {"Pods": [{"UID": "v1"}], "NumPDBViolations": 2},
            "n2": {"Pods": [], "NumPDBViolations": 0},
        }
    }
    assert json.loads(wire.encode(wire.PreemptionResult(args.candidates()))) == wanted

    whole = {"n1": {"Pods": [{"metadata": {"uid": "v1", "name": "x"}}], "NumPDBViolations": 2}, "n2": None}
    args = wire.read_preemption(
        json.dumps({"Pod": POD, "NodeNameToVictims": whole, "NodeNameToMetaVictims": None}).encode()
    )
    assert json.loads(wire.encode(wire.PreemptionResult(args.candidates()))) == wanted


@pytest.mark.parametrize(
    "garbage",
    [
        b"",
        b"null",
        b"[]",
        b'"text"',
        b"\xff\xfe",
        b"{",
        b"{}",
        body(),
        body(NodeNames="n1"),
        body(NodeNames=[1]),
        body(NodeNames=["n1"], Pod=None),
        body(NodeNames=["n1"], Pod={"metadata": {"name": "a"}}),
        body(NodeNames=["n1"], Pod={"metadata": {"uid": "u", "labels": []}}),
        body(Nodes={"items": [1]}),
        body(Nodes={"items": [{"metadata": {}}]}),
        b"[" * 100_000,
    ],
)
def test_what_is_not_a_call_is_refused_in_words(garbage: bytes) -> None:
    with pytest.raises(BadInput, match=r"."):
        wire.read_args(garbage).names()
    with pytest.raises(BadInput, match=r"."):
        wire.read_preemption(garbage)
