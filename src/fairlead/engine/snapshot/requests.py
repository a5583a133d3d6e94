"""What a pod takes from its node: exact sums, rounded up once per resource.

Follows the scheduler's arithmetic: containers are summed, init containers are a maximum, sidecars
(init containers that restart) count in both, pod-level requests replace the containers' sum, the
overhead comes on top. A resized pod counts for the larger of what it asks and what it was given.

Pods may come as their author wrote them: what the API server fills in (requests from limits, quantities
rounded up to thousandths) is filled in here, and changes nothing in pods that come from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fairlead.errors import BadObject
from fairlead.kube.pod import Container, ContainerStatus, Pod, Quantities
from fairlead.kube.quantity import NANO_PER_MILLI, NANO_PER_UNIT, QuantityError, nano

CPU = "cpu"
MEMORY = "memory"
EPHEMERAL = "ephemeral-storage"
PODS = "pods"

# Beyond these an amount is no longer told apart: 36 PB, or 549 million cores. It keeps sums over a
# node's pods, and their products with a score, inside int64.
AMOUNT_LIMIT = 2**55
CPU_LIMIT_MILLI = 2**39

# Ranking counts a container that asks for nothing as if it asked for these, so that such pods spread.
_ASSUMED_NANO = {CPU: 100 * NANO_PER_MILLI, MEMORY: 200 * 1024 * 1024 * NANO_PER_UNIT}

_POD_LEVEL = (CPU, MEMORY)


@dataclass(frozen=True, slots=True)
class Requests:
    """Whole amounts per resource (cpu in thousandths), zeros left out, sorted by name.

    `ranked_cpu_milli` and `ranked_memory` are what ranking counts: never zero for a container that
    names no request.
    """

    amounts: tuple[tuple[str, int], ...]
    ranked_cpu_milli: int
    ranked_memory: int


def requests_of(pod: Pod, *, use_status: bool = False) -> Requests:
    """What a pod that is to be placed asks for.

    `use_status`: what a pod that is placed takes; of spec and status the larger, resource by resource.
    """
    exact = _pod_nano(pod, use_status=use_status, assumed={})
    ranked = _pod_nano(pod, use_status=use_status, assumed=_ASSUMED_NANO)
    amounts = []
    for name in sorted(exact):
        amount = _whole(name, exact[name])
        if amount > 0 and is_tracked(name):
            amounts.append((name, amount))
    return Requests(tuple(amounts), _whole(CPU, ranked.get(CPU, 0)), _whole(MEMORY, ranked.get(MEMORY, 0)))


def allocatable(node_name: str, quantities: Quantities) -> dict[str, int]:
    """A node's allocatable amounts by resource, in the units of `Requests`."""
    amounts = {}
    for name, quantity in quantities.items():
        try:
            amount = _whole(name, _thousandths(quantity))
        except QuantityError as error:
            raise BadObject(f"Node {node_name}", f"status.allocatable.{name}", str(error)) from error
        if amount < 0:
            raise BadObject(f"Node {node_name}", f"status.allocatable.{name}", "is negative")
        if name == PODS or is_tracked(name):
            amounts[name] = amount
    return amounts


def is_tracked(name: str) -> bool:
    """Whether the resource is one that fitting looks at; others (plain unknown names) are ignored.

    >>> [is_tracked(name) for name in ("cpu", "nvidia.com/gpu", "hugepages-2Mi", "bananas", "requests.a/b")]
    [True, True, True, False, False]
    """
    if name in (CPU, MEMORY, EPHEMERAL):
        return True
    if name.startswith(("hugepages-", "attachable-volumes-")) or "kubernetes.io/" in name:
        return True
    return "/" in name and not name.startswith("requests.")


def _pod_nano(pod: Pod, *, use_status: bool, assumed: Mapping[str, int]) -> dict[str, int]:
    spec, status = pod.spec, pod.status
    infeasible = use_status and _resize_infeasible(pod)
    statuses: dict[str, ContainerStatus] = {}
    if use_status:
        for each in (*status.container_statuses, *status.init_container_statuses):
            statuses[each.name] = each

    def container_nano(container: Container, field: str, *, resizable: bool) -> dict[str, int]:
        asked = _read(pod, field, _with_limits(container.resources.requests, container.resources.limits))
        found = statuses.get(container.name) if resizable else None
        if found is not None and found.resources is not None:
            given = _max(
                _read(pod, f"status of {container.name}", found.resources.requests),
                _read(pod, f"status of {container.name}", found.allocated_resources),
            )
            asked = given if infeasible else _max(asked, given)
        return {**assumed, **asked} if assumed else asked

    total: dict[str, int] = {}
    for index, container in enumerate(spec.containers):
        _add(total, container_nano(container, f"spec.containers[{index}].resources", resizable=True))
    sidecars: dict[str, int] = {}
    starting: dict[str, int] = {}
    for index, container in enumerate(spec.init_containers):
        sidecar = container.restart_policy == "Always"
        field = f"spec.initContainers[{index}].resources"
        asked = container_nano(container, field, resizable=sidecar)
        if sidecar:
            _add(total, asked)
            _add(sidecars, asked)
            starting = _max(starting, sidecars)
        else:
            alone = dict(sidecars)
            _add(alone, asked)
            starting = _max(starting, alone)
    total = _max(total, starting)
    if spec.resources is not None:
        given_whole = dict(spec.resources.requests)
        for name, limit in spec.resources.limits.items():
            # Without a request the containers' sum stands, and only without that the limit.
            if name not in given_whole and not (name in _POD_LEVEL and name in total):
                given_whole[name] = limit
        whole = _read(pod, "spec.resources", given_whole)
        if use_status and status.resources is not None:
            given = _max(
                _read(pod, "status.resources", status.resources.requests),
                _read(pod, "status.allocatedResources", status.allocated_resources),
            )
            whole = {
                name: given.get(name, 0) if infeasible else max(amount, given.get(name, 0))
                for name, amount in whole.items()
            }
        for name, amount in whole.items():
            if name in _POD_LEVEL or name.startswith("hugepages-"):
                total[name] = amount
    _add(total, _read(pod, "spec.overhead", spec.overhead))
    return total


def _with_limits(requests: Quantities, limits: Quantities) -> Quantities:
    # The API server fills a request that is not given from the limit.
    return requests if all(name in requests for name in limits) else {**limits, **requests}


def _read(pod: Pod, field: str, quantities: Quantities) -> dict[str, int]:
    amounts = {}
    for name, quantity in quantities.items():
        try:
            amount = _thousandths(quantity)
        except QuantityError as error:
            raise BadObject(f"Pod {pod.metadata.key}", f"{field}.{name}", str(error)) from error
        if amount < 0:
            raise BadObject(f"Pod {pod.metadata.key}", f"{field}.{name}", f"{quantity} is negative")
        amounts[name] = amount
    return amounts


def _thousandths(quantity: str | int | float) -> int:
    """In nano-units, rounded up to the thousandths that the API server keeps of a resource."""
    return -(-nano(quantity) // NANO_PER_MILLI) * NANO_PER_MILLI


def _add(total: dict[str, int], more: Mapping[str, int]) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount


def _max(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    largest = dict(one)
    for name, amount in other.items():
        if amount > largest.get(name, 0) or name not in largest:
            largest[name] = amount
    return largest


def _whole(name: str, amount_nano: int) -> int:
    if name == CPU:
        return min(-(-amount_nano // NANO_PER_MILLI), CPU_LIMIT_MILLI)
    return min(-(-amount_nano // NANO_PER_UNIT), AMOUNT_LIMIT)


def _resize_infeasible(pod: Pod) -> bool:
    pending = next((c for c in pod.status.conditions if c.type == "PodResizePending"), None)
    return pending is not None and pending.reason == "Infeasible"
