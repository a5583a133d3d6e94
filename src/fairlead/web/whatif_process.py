"""The process that works out one what-if: a cluster's objects come in, progress and the answer go out.

What comes in is told in `whatif_task`; what goes out are frames of JSON. It runs below the priority of its
parent, within a limit of memory, and ends when the parent does.
"""

from __future__ import annotations

import os
import pickle
import resource
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

import msgspec

from fairlead.doors.process import configure_logging
from fairlead.engine.ask.cost import Price
from fairlead.errors import BadInput, BadObject, FairleadError
from fairlead.kube.decode import convert
from fairlead.kube.documents import documents
from fairlead.kube.node import Node
from fairlead.kube.pod import Pod
from fairlead.policy.names import POLICIES
from fairlead.policy.rule.model import read_policies
from fairlead.simulation.change_text import NAMES, read_change
from fairlead.simulation.changes import AddNodes, Apply, Change, Scale
from fairlead.simulation.cluster_copy import ClusterCopy
from fairlead.simulation.contents import Contents, components_seen, manifests
from fairlead.simulation.difference import End, difference, end_of
from fairlead.simulation.whatif import Question, compare
from fairlead.web.board import Board, PodRow
from fairlead.web.whatif_task import HEAD, Task, framed

_APPLY, _POLICY = "apply", "policy"
_LEFT = ("evicted", "moved", "goes")
_MOST_NODES, _MOST_REPLICAS = 5_000, 100_000
_SAID_EVERY_S = 0.5
_NICE = 10


class BadChange(BadInput):
    """One of the changes cannot be made; `number` counts from 0."""

    def __init__(self, number: int, why: str) -> None:
        self.number = number
        super().__init__(why)


@dataclass(frozen=True, slots=True)
class _Numbered(Change):
    """A change that says which one it is when it cannot be made."""

    number: int
    change: Change

    @property
    def text(self) -> str:
        return self.change.text

    def apply(self, copy: ClusterCopy) -> None:
        try:
            self.change.apply(copy)
        except BadInput as error:
            raise BadChange(self.number, str(error)) from error


def _paced(say: Callable[[str], None]) -> Callable[[str], None]:
    """Say how far it is, but only now and then."""
    last = float("-inf")

    def paced(text: str) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= _SAID_EVERY_S:
            last = now
            say(text)

    return paced


def main() -> None:
    """Be the process."""
    received, sent = sys.stdin.buffer, sys.stdout.buffer

    def send(said: dict[str, Any]) -> None:
        sent.write(framed(msgspec.json.encode(said)))
        sent.flush()

    os.nice(_NICE)
    configure_logging("auto", "warning")  # what happens in a copy is told by its outcome
    task: Task = pickle.loads(_frame(received))
    complete = threading.Event()
    threading.Thread(target=_end_with_parent, args=(received, complete), daemon=True).start()
    # All is imported by now: what takes too much from here on is the copy.
    resource.setrlimit(resource.RLIMIT_DATA, (task.memory, task.memory))
    try:
        question = _question(task)
        objects, unread = _objects(received)
        complete.set()
        found = _answer(task, question, objects, _paced(lambda text: send({"say": f"playing {text}"})))
        send({"answer": {**found, "unread": unread}})
    except BadChange as error:
        send({"wrong": {"why": " ".join(str(error).split()), "change": error.number}})
    except FairleadError as error:
        send({"wrong": {"why": str(error)}})
    except MemoryError:
        most = f"{task.memory // 2**20:,} MiB"
        send({"wrong": {"why": f"the copy of this cluster takes more memory than it may have here, {most}"}})


def _answer(
    task: Task, question: Question, objects: Sequence[dict[str, Any]], say: Callable[[str], None]
) -> dict[str, Any]:
    acting = components_seen(objects, task.at, task.settings)
    contents = Contents(tuple(objects), task.at, task.settings, acting, task.groups)
    if task.policies:
        contents = contents.with_policies(task.policies)
    ends: list[End] = []
    found = compare(contents, question, say, lambda copy, observer: ends.append(end_of(copy, observer)))
    changed, without = ends
    return {
        **found.to_dict(),
        "at": task.at.timestamp(),
        "components": sorted(acting),
        "map": _map(contents, task.prices, without, changed),
    }


# What comes in


def _question(task: Task) -> Question:
    changes: list[Change] = []
    policies: list[dict[str, Any]] = []
    for number, (name, text) in enumerate(task.changes):
        try:
            if name == _POLICY:
                policies += _policies(text)
            else:
                changes.append(_Numbered(number, _change(number, name, text)))
        except BadInput as error:
            raise BadChange(number, str(error)) from error
    return Question(changes, policies, prices=task.prices)


def _change(number: int, name: str, text: str) -> Change:
    if name == _APPLY:
        return Apply(f"the manifests of change {number + 1}", _manifests(_APPLY, text))
    if name not in NAMES:
        raise BadInput(f"there is no change {name!r}; there are {', '.join((*NAMES, _APPLY, _POLICY))}")
    change = read_change(name, name, text)
    # A number that a user mistypes is not to keep the server busy.
    if isinstance(change, AddNodes) and change.number > _MOST_NODES:
        raise BadInput(f"{change.number} nodes are more than the {_MOST_NODES} that can be added")
    if isinstance(change, Scale) and change.replicas > _MOST_REPLICAS:
        raise BadInput(f"{change.replicas} replicas are more than the {_MOST_REPLICAS} that can be asked for")
    return change


def _policies(text: str) -> list[dict[str, Any]]:

    found = _manifests(_POLICY, text)
    for one in found:
        if one["kind"] != POLICIES.kind:
            raise BadInput(f"{_POLICY}: this is a {one['kind']}, not a {POLICIES.kind}")
    read_policies(found)
    return found


def _manifests(called: str, text: str) -> list[dict[str, Any]]:
    try:
        found = manifests(documents(text, called))
    except BadObject as error:
        raise BadInput(f"{called}: {error}") from error
    if not found:
        raise BadInput(f"{called}: there is no object; paste YAML or JSON")
    return found


def _objects(received: BinaryIO) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """The cluster's objects in an order that does not depend on which kind was read first."""
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    while True:
        page: dict[str, Any] = msgspec.json.decode(_frame(received))
        if "unread" in page:
            unread: dict[str, str] = page["unread"]
            break
        if "again" in page:
            found.clear()
            continue
        said = {"apiVersion": page["apiVersion"], "kind": page["kind"]}
        found.setdefault((said["apiVersion"], said["kind"]), []).extend(
            {**said, **item} for item in page["items"]
        )
    return [item for _, items in sorted(found.items()) for item in items], unread


def _frame(received: BinaryIO) -> bytes:
    data = received.read(int.from_bytes(received.read(HEAD), "big"))
    if not data:
        os._exit(1)  # the parent is gone, and with it the reader of an answer
    return data


def _end_with_parent(received: BinaryIO, complete: threading.Event) -> None:
    """After all objects nothing comes in but the end: then the parent is gone."""
    complete.wait()
    received.read()
    os._exit(1)


# What goes out


def _map(contents: Contents, prices: Sequence[Price], without: End, changed: End) -> dict[str, Any]:
    """Rows as the page has them: nodes of both ways, and pods by what becomes of them."""
    found = difference(without, changed)
    at = contents.at.timestamp()
    here, there = (Board(contents.settings, prices=prices) for _ in range(2))
    for one in contents.of_kind("Namespace"):
        for board in (here, there):
            board.put_namespace(one["metadata"]["name"], one["metadata"].get("labels") or {})
    for node in changed.nodes.values():
        here.put_node(convert(node, Node), at)
    for name, mark in found.nodes.items():
        if mark == "gone":
            there.put_node(convert(without.nodes[name], Node), at)
    pods: dict[str, list[PodRow]] = {}
    for board, left in ((here, False), (there, True)):
        marks: dict[str, str] = {}
        for becomes, one in found.pods:
            if (becomes in _LEFT) == left:
                pod = convert(one, Pod)
                marks[pod.metadata.key] = becomes
                board.put_pod(pod, at)
        for row in board.whole(at).pods:
            pods.setdefault(marks[row.key], []).append(row)
    nodes = [*here.whole(at).nodes, *there.whole(at).nodes]
    return {"nodes": nodes, "marks": found.nodes, "pods": pods}


if __name__ == "__main__":
    main()
