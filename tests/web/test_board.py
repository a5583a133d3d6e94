"""What a browser has after a whole board and its deltas is what the board has."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from fairlead.engine.planning.settings import Settings
from fairlead.kube.decode import convert
from fairlead.kube.event import Event
from fairlead.kube.node import Node
from fairlead.kube.pod import Pod
from fairlead.rig.nodes import node_object
from fairlead.web.board import KEPT, SENT, Board, Delta


def pod(name: str, *, node: str = "", uid: str = "", **more: Any) -> Pod:
    status = more.pop("status", {})
    spec = {
        "schedulerName": "fairlead",
        "nodeName": node,
        "containers": [{"name": "c"}],
        **more.pop("spec", {}),
    }
    meta = {"name": name, "namespace": "shop", "uid": uid or name, **more}
    return convert({"kind": "Pod", "metadata": meta, "spec": spec, "status": status}, Pod)


def node(name: str, **shape: Any) -> Node:
    return convert(node_object(name, **shape), Node)


def begun(board: Board | None = None) -> Board:
    board = board or Board()
    board.listed()
    return board


class Browser:
    """What the page keeps, by the same steps."""

    def __init__(self, whole: Delta) -> None:
        self.nodes = {row.name: row for row in whole.nodes}
        self.pods = {row.key: row for row in whole.pods}
        self.lines = [line.number for line in whole.lines]

    def apply(self, delta: Delta) -> None:
        for name in delta.gone_nodes:
            self.nodes.pop(name, None)
        for key in delta.gone_pods:
            self.pods.pop(key, None)
        self.nodes |= {row.name: row for row in delta.nodes}
        self.pods |= {row.key: row for row in delta.pods}
        known = self.lines[-1] if self.lines else 0
        self.lines += [line.number for line in delta.lines if line.number > known]


NAMES = st.sampled_from("abcd")
STEPS = st.one_of(
    st.tuples(st.just("put-pod"), NAMES, st.sampled_from(["", "a", "b"]), st.sampled_from(["1", "2"])),
    st.tuples(st.just("finish"), NAMES),
    st.tuples(st.just("drop-pod"), NAMES),
    st.tuples(st.just("put-node"), NAMES, st.integers(1, 3)),
    st.tuples(st.just("drop-node"), NAMES),
    st.tuples(st.just("take")),
    st.tuples(st.just("open")),
)


@given(st.lists(STEPS, max_size=60))
def test_a_whole_board_and_its_deltas_make_the_board(steps: list[tuple[Any, ...]]) -> None:
    board = begun()
    browsers = [Browser(board.whole(0.0))]

    def take(now: float) -> None:
        delta = board.take(now)
        if delta is not None:
            sent = msgspec.json.decode(msgspec.json.encode(delta), type=Delta)
            for browser in browsers:
                browser.apply(sent)

    for now, (what, *arguments) in enumerate(steps):
        match what, arguments:
            case "put-pod", [name, on, uid]:
                board.put_pod(pod(name, node=on, uid=uid), now)
            case "finish", [name]:
                board.put_pod(pod(name, node="a", status={"phase": "Succeeded"}), now)
            case "drop-pod", [name]:
                board.drop_pod(f"shop/{name}", now)
            case "put-node", [name, cpu]:
                board.put_node(node(name, cpu=cpu), now)
            case "drop-node", [name]:
                board.drop_node(name, now)
            case "take", _:
                take(now)
            case "open", _:
                # What was not taken yet is on the board already, and comes again in the next delta.
                browsers.append(Browser(board.whole(now)))
    take(len(steps))
    whole = Browser(board.whole(0.0))
    for browser in browsers:
        assert browser.nodes == whole.nodes
        assert browser.pods == whole.pods
        assert (
            browser.lines == list(range(browser.lines[0], browser.lines[0] + len(browser.lines)))
            if browser.lines
            else True
        )
        assert browser.lines[-1:] == whole.lines[-1:]


def test_what_the_page_does_not_show_is_no_change() -> None:
    board = begun()
    board.put_node(node("a"), 1.0)
    board.put_pod(pod("web", node="a"), 1.0)
    assert board.take(1.0) is not None
    board.put_node(node("a", annotations={"heartbeat": "2"}), 2.0)
    board.put_pod(pod("web", node="a", labels={"new": "label"}), 2.0)
    assert board.take(2.0) is None


def test_what_is_there_at_first_is_told_once_in_the_order_of_time() -> None:
    board = Board()
    scheduled = {"type": "PodScheduled", "status": "True"}
    for name, minute in (("late", 5), ("early", 1)):
        condition = {**scheduled, "lastTransitionTime": f"2026-01-01T00:0{minute}:00Z"}
        board.put_pod(pod(name, node="a", status={"conditions": [condition]}), 9.0)
    board.put_node(node("a"), 9.0)
    board.listed()
    assert [line.about for line in board.whole(9.0).lines] == ["shop/early", "shop/late"]


def test_a_recreated_pod_is_another() -> None:
    board = begun()
    board.put_pod(pod("web", node="a", uid="1"), 1.0)
    board.put_pod(pod("web", uid="2"), 2.0)
    assert [line.kind for line in board.whole(2.0).lines] == ["created", "placed", "gone", "created"]
    assert board.whole(2.0).pods[0].node == ""


def test_for_whom_a_pod_makes_room_is_told_once_and_a_gang_is_called_one() -> None:
    board = begun()
    marks = {"pod-group": "train"}
    board.put_pod(pod("member", annotations=marks), 1.0)
    board.put_pod(pod("low", node="a"), 1.0)
    evicted = {"type": "fairlead.dev/Evicted", "status": "True", "reason": "Pod"}
    why = {**evicted, "message": "Preempted by shop/train on node a"}
    board.put_pod(pod("low", node="a", status={"conditions": [why]}), 2.0)
    event = {
        "metadata": {"name": "e", "namespace": "shop"},
        "reason": "Preempted",
        "message": "Preempted by shop/train on node a",
        "involvedObject": {"kind": "Pod", "namespace": "shop", "name": "low"},
        "lastTimestamp": "2026-01-01T00:00:00Z",
    }
    board.put_event(convert(event, Event))
    told = [line for line in board.whole(2.0).lines if line.kind == "preempted"]
    assert [(line.about, line.by) for line in told] == [("shop/low", "gang shop/train")]


def test_memory_is_bounded_however_much_happens() -> None:
    board = begun()
    for number in range(KEPT + 10):
        board.put_pod(pod("web", uid=str(number)), float(number))
        board.drop_pod("shop/web", float(number))
    whole = board.whole(0.0)
    assert len(whole.lines) == SENT
    assert len(board.lines_of("shop/web")) == KEPT


def test_a_pod_that_has_its_node_to_itself_says_so() -> None:
    marks = {"fairlead.dev/capacity": "exclusive"}
    board = begun()
    board.put_pod(pod("alone", annotations=marks), 1.0)
    board.put_pod(pod("foreign", annotations=marks, spec={"schedulerName": "other"}), 1.0)
    assert {row.key: row.exclusive for row in board.whole(1.0).pods} == {
        "shop/alone": True,
        "shop/foreign": False,
    }
    board = begun(Board(Settings(capacity="exclusive")))
    board.put_pod(pod("any"), 1.0)
    assert board.whole(1.0).pods[0].exclusive
