"""Addresses and node ports of Services: given when one is created, free again when it is gone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fairlead.world.schema.resources import SERVICES
from fairlead.world.store import Store

Object = dict[str, Any]

_FIRST_NODE_PORT, _LAST_NODE_PORT = 30000, 32767


def allocate(store: Store, service: Object) -> None:
    """Fill in (in place) the cluster address and node ports that a Service needs and does not name."""
    spec = service["spec"]
    kind = spec.get("type", "ClusterIP")
    if kind == "ExternalName":
        return
    if "clusterIP" not in spec:
        # Counting from the number of Services finds a free one at the first try, mostly.
        spec["clusterIP"] = _first_free(
            _address, store.count(SERVICES), {held["spec"].get("clusterIP") for held in store.list(SERVICES)}
        )
    spec.setdefault("clusterIPs", [spec["clusterIP"]])
    if kind in ("NodePort", "LoadBalancer"):
        taken = {
            port.get("nodePort") for held in store.list(SERVICES) for port in held["spec"].get("ports") or ()
        }
        for port in spec.get("ports") or ():
            if not port.get("nodePort"):
                port["nodePort"] = _first_free(_node_port, store.count(SERVICES), taken)
                taken.add(port["nodePort"])


def _address(index: int) -> str:
    number = 1 + index % 65_533
    return f"10.96.{number >> 8}.{number & 255}"


def _node_port(index: int) -> int:
    return _FIRST_NODE_PORT + index % (_LAST_NODE_PORT - _FIRST_NODE_PORT + 1)


def _first_free(make: Callable[[int], Any], start: int, taken: set[Any]) -> Any:
    index = start
    while make(index) in taken:
        index += 1
    return make(index)
