"""The nodes that ``fairlead dev up`` starts with: a number of equal ones, or those of a file.

A file has Nodes, as a user writes them or as ``kubectl get nodes -o yaml`` prints them, or is a file of node
groups. What a kubelet or a controller says of a node is left out of it: here KWOK and the controller manager
say it. The embedded API server checks each node before anything starts, so what is wrong is named with its
field, in a real server's words.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fairlead.errors import ApiError, BadInput, BadObject, FairleadError
from fairlead.kube.quantity import QuantityError, nano
from fairlead.rig.nodes import node_object

# The controllers' own taints: they would stay on a node that nothing is wrong with.
_CONTROLLERS_TAINTS = "node.kubernetes.io/"


def equal_nodes(number: int, *, cpu: str, memory: str) -> list[dict[str, Any]]:
    """``node-0``, ``node-1`` and so on."""
    return [node_object(f"node-{index}", cpu=cpu, memory=memory) for index in range(number)]


def nodes_of(file: str, *, cpu: str, memory: str) -> list[dict[str, Any]]:
    """The nodes of a file; `cpu` and `memory` are for those that do not say what they have."""
    from fairlead.cli.state import read_objects
    from fairlead.engine.ask.objects import opened
    from fairlead.nodegroups.file import KIND, read_documents

    shown = "standard input" if file == "-" else file
    try:
        documents = list(read_objects([file]))
        if any(document.get("kind") == KIND for document in documents):
            nodes = list(_of_groups(read_documents(documents, shown)))
        else:
            nodes = [_as_created(thing, cpu=cpu, memory=memory) for thing in opened(documents)]
        _check(nodes)
    except FairleadError as error:
        said = str(error)
        raise BadInput(f"--nodes-file {said if said.startswith(shown) else f'{shown}: {said}'}") from error
    return nodes


def _of_groups(groups: Sequence[Any]) -> Iterator[dict[str, Any]]:
    """As many nodes of each group as it desires, and one of a group that would begin with none."""
    from fairlead.nodegroups import node_of

    for group in groups:
        for number in range(max(group.min, group.desired) or 1):
            made = node_of(group, f"{group.name}-{number}", number)
            yield _for_kwok(made["metadata"]["name"], made, made["status"])


def _as_created(thing: Mapping[str, Any], *, cpu: str, memory: str) -> dict[str, Any]:
    from fairlead.kube.decode import convert
    from fairlead.kube.node import Node

    if thing.get("kind") != "Node":
        raise BadInput(f"holds a {thing.get('kind')}; it takes Nodes, or node groups in one NodeGroups")
    node = convert(thing, Node)
    capacity, allocatable = node.status.capacity, node.status.allocatable
    for field, quantities in (("capacity", capacity), ("allocatable", allocatable)):
        for name, quantity in quantities.items():
            try:
                nano(quantity)
            except QuantityError as error:  # a server would not say which it was
                raise BadObject(f"Node {node.metadata.name}", f"status.{field}.{name}", str(error)) from error
    status = {"capacity": capacity or allocatable, "allocatable": allocatable or capacity}
    if not status["capacity"]:
        status = node_object(node.metadata.name, cpu=cpu, memory=memory)["status"]
    return _for_kwok(node.metadata.name, thing, status)


def _for_kwok(name: str, thing: Mapping[str, Any], status: Mapping[str, Any]) -> dict[str, Any]:
    """What of a Node is its user's, on a node that KWOK plays the kubelet of."""
    metadata, spec = thing.get("metadata") or {}, thing.get("spec") or {}
    taints = [one for one in spec.get("taints") or () if not _is_controllers(one)]
    made = node_object(name, labels=metadata.get("labels"), annotations=metadata.get("annotations"))
    kept = {key: spec[key] for key in ("unschedulable", "providerID") if key in spec}
    # A kubelet's default: on a node that takes no number of pods, there is room for none.
    resources = {each: {"pods": "110", **status[each]} for each in ("capacity", "allocatable")}
    return made | {"spec": kept | ({"taints": taints} if taints else {}), "status": resources}


def _is_controllers(taint: Any) -> bool:
    return isinstance(taint, dict) and str(taint.get("key", "")).startswith(_CONTROLLERS_TAINTS)


def _check(nodes: Sequence[Mapping[str, Any]]) -> None:
    from fairlead.world.api import Api
    from fairlead.world.clock import VirtualClock
    from fairlead.world.schema.resources import NODES
    from fairlead.world.store import Store

    api = Api(Store(), VirtualClock())
    for node in nodes:
        try:
            api.create(NODES, dict(node))
        except ApiError as error:
            raise BadInput(error.message) from error
