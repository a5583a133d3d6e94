"""Two namespaces of a cluster that grows nodes, tenants made there by our own command, and what is seen."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import yaml

from fairlead.nodegroups import GROUP_LABEL
from fairlead.rig.nodes import is_ready, node_object
from support.cluster import Cluster
from support.grown import fairlead
from support.seen import has_node, is_marked
from support.wire import PATIENCE_S, Watch

__all__ = ["Past", "Stage"]

Obj = dict[str, Any]

# Autoscalers take their time before they take a node away.
_PATIENCE_S = 8 * PATIENCE_S
_TENANT = "fairlead.dev/tenant"


class Stage:
    """Where a story happens. Tenants are called by their names, which are in one namespace each."""

    def __init__(self, cluster: Cluster, folder: Path, scheduler: str = "") -> None:
        self.cluster = cluster
        self.namespaces = (cluster.namespace, cluster.add_namespace())
        self._types: list[str | Path] = []
        if scheduler:
            types = yaml.safe_load(fairlead("tenant", "types"))
            types["types"] = [{**one, "schedulerName": scheduler} for one in types["types"]]
            file = folder / "tenant-types.yaml"
            file.write_text(yaml.safe_dump(types))
            self._types = ["--types", file]

    # What users do

    def create(self, **tenants: str) -> None:
        """Create tenants, name and type, all at once, in one namespace and the other in turn."""
        commands = [
            self._command(
                "create", "-t", kind, "--name", name, "-n", self.namespaces[number % 2], *self._types
            )
            for number, (name, kind) in enumerate(tenants.items())
        ]
        with ThreadPoolExecutor(len(commands)) as pool:
            list(pool.map(lambda words: fairlead(*words), commands))

    def delete(self, *names: str) -> None:
        named = [part for name in names for part in ("--name", name)]
        fairlead(*self._command("delete", *named, "--yes"))

    def listed(self) -> dict[str, Obj]:
        """The tenants by name, as the command tells of them."""
        found = json.loads(fairlead(*self._command("list", "-o", "json")))
        return {one["name"]: one for one in found if one["namespace"] in self.namespaces}

    # What is seen

    def pods(self) -> dict[str, Obj]:
        """The pods of tenants that are to stay, by tenant."""
        found = {}
        for namespace in self.namespaces:
            for pod in self.cluster.list("Pod", namespace=namespace, labelSelector=_TENANT)["items"]:
                if "deletionTimestamp" not in pod["metadata"]:
                    tenant = pod["metadata"]["labels"][_TENANT]
                    assert tenant not in found, f"{tenant} has two pods"
                    found[tenant] = pod
        return found

    def nodes(self) -> dict[str, Obj]:
        return {node["metadata"]["name"]: node for node in self.cluster.list("Node")["items"]}

    def sizes(self) -> Counter[str]:
        """How many nodes there are of each size."""
        return Counter(_size(node) for node in self.nodes().values())

    def running(self, number: int) -> dict[str, Obj]:
        """The pods of all tenants, once so many of them run."""

        def look() -> dict[str, Obj] | None:
            pods = self.pods()
            there = sum(pod["status"]["phase"] == "Running" for pod in pods.values())
            return pods if there == number else None

        found = self.cluster.wait(look, f"{number} tenants to run", patience_s=_PATIENCE_S)
        assert found is not None
        return found

    def settled(self, **sizes: int) -> None:
        """Wait until there are just so many nodes of each size, all of them ready."""

        def look() -> bool:
            nodes = self.nodes().values()
            ready = all(is_ready(node, untainted=True) for node in nodes)
            return ready and Counter(map(_size, nodes)) == Counter(sizes)

        self.cluster.wait(look, f"nodes to be {sizes}", patience_s=_PATIENCE_S)

    def told(self, pod: Obj, *texts: str) -> str:
        """Wait for an event about a pod that says one of the texts."""
        metadata = pod["metadata"]

        def look() -> str:
            events = self.cluster.list(
                "Event",
                namespace=metadata["namespace"],
                fieldSelector=f"involvedObject.name={metadata['name']}",
            )["items"]
            said = (str(one["message"]) for one in events)
            return next((one for one in said if any(text in one for text in texts)), "")

        return self.cluster.wait(look, f"an event about {metadata['name']}", patience_s=_PATIENCE_S)

    @contextmanager
    def watching(self) -> Iterator[Past]:
        """All that happens to nodes and tenants' pods inside the block."""
        wire = self.cluster.wire
        with ExitStack() as open_watches:
            nodes = open_watches.enter_context(wire.watch("/api/v1/nodes"))
            pods = open_watches.enter_context(wire.watch("/api/v1/pods", labelSelector=_TENANT))
            yield Past(self.cluster, nodes, pods)

    def _command(self, *words: str | Path) -> list[str | Path]:
        return ["tenant", *words, "--kubeconfig", self.cluster.kubeconfig]


class Past:
    """What watches have seen since they were opened."""

    def __init__(self, cluster: Cluster, nodes: Watch, pods: Watch) -> None:
        self._cluster = cluster
        self._nodes = nodes
        self._pods = pods
        self._events: list[Obj] = []

    def waited(self, number: int) -> dict[str, bool]:
        """Whether each of so many tenants' pods had to wait for its node, marked so that autoscalers act."""
        waited: dict[str, bool] = {}
        marked: set[str] = set()
        while len(waited) < number:
            pod = self._pods.next()["object"]
            tenant = pod["metadata"]["labels"][_TENANT]
            if has_node(pod):
                waited.setdefault(tenant, tenant in marked)
            elif is_marked(pod):
                marked.add(tenant)
        return waited

    def ever(self) -> Counter[str]:
        """How many nodes of each size there have been at all."""
        return Counter(
            {event["object"]["metadata"]["name"]: _size(event["object"]) for event in self.nodes()}.values()
        )

    def sizes(self) -> list[Counter[str]]:
        """How many nodes of each size there were, after each change."""
        there: dict[str, str] = {}
        found = []
        for event in self.nodes():
            name = event["object"]["metadata"]["name"]
            if event["type"] == "DELETED":
                del there[name]
            else:
                there[name] = _size(event["object"])
            found.append(Counter(there.values()))
        return found

    def nodes(self) -> list[Obj]:
        """All events of nodes until now, in order."""
        # A watch shows the mark after all that happened before. (Of some group, as every node must be to
        # Cluster Autoscaler; and for nobody's pods.)
        name = self._cluster.unique("mark")
        taint = {"key": "mark", "effect": "NoSchedule"}
        self._cluster.create(node_object(name, labels={GROUP_LABEL: "mark"}, taints=[taint]))
        events = self._nodes.until(lambda event: _named(event, name))
        self._cluster.delete("Node", name)
        self._nodes.until(lambda event: event["type"] == "DELETED" and _named(event, name))
        self._events += [event for event in events if not _named(event, name)]
        return self._events


def _named(event: Obj, name: str) -> bool:
    return bool(event["object"]["metadata"]["name"] == name)


def _size(node: Obj) -> str:
    return str(node["metadata"].get("labels", {}).get("size", ""))
