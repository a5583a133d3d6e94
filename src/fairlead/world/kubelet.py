"""One kubelet that plays every node: registers them, runs their pods, ends what is to go.

Heartbeats cost nothing: a node is alive until `kill` says otherwise, and the node lifecycle
controller asks here (`last_heartbeat`) instead of reading a Lease every few seconds. On the wall
clock Leases are renewed as well, for those who look.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from fairlead.engine.requests import PODS as POD_COUNT
from fairlead.engine.requests import allocatable, requests_of, usage_of
from fairlead.kube.decode import convert
from fairlead.kube.node import Node
from fairlead.kube.pod import Pod
from fairlead.world import pod_status
from fairlead.world.controllers.objects import (
    condition,
    finished,
    key_of,
    labels_of,
    parse_time,
    split_key,
    stamp,
    terminating,
    with_status,
)
from fairlead.world.controllers.writes import Again, Create, Delete, Emit, Obj, Patch, Update, View, Write
from fairlead.world.timestamps import micro_stamp

__all__ = ["Kubelet", "Pace"]

_LEASES = "kube-node-lease"
_LEASE_S = 40
_RENEW = timedelta(seconds=10)

# What a node that does not say otherwise has.
_ROOMY = {"cpu": "32", "memory": "256Gi", "pods": "110", "ephemeral-storage": "1Ti"}

_HEALTH = (
    ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
)


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast pods start, stop and finish where they do not say themselves."""

    start: timedelta = timedelta(seconds=1)
    stop: timedelta = timedelta(seconds=1)
    job: timedelta = timedelta(seconds=5)


class Kubelet:
    """Plays the kubelets of all nodes. Keys are ``node:/name`` and ``pod:namespace/name``."""

    name = "kubelet"
    watches = ("Node", "Pod")

    def __init__(self, pace: Pace | None = None, *, leases: bool = False) -> None:
        self._pace = pace or Pace()
        self._leases = leases
        self._silent: dict[str, datetime] = {}
        self._unready: dict[str, str] = {}
        self._addresses: dict[str, str] = {}
        self._pods_started = 0
        self._usage: dict[str, tuple[int, tuple[tuple[str, int], ...]]] = {}

    # What is done to nodes

    def kill(self, node: str, now: datetime) -> None:
        """The node falls silent: no more heartbeats, nothing starts or stops on it."""
        self._silent.setdefault(node, now)

    def revive(self, node: str) -> None:
        """The node speaks again, and is ready."""
        self._silent.pop(node, None)
        self._unready.pop(node, None)

    def set_unready(self, node: str, why: str) -> None:
        """The node keeps speaking, but says that it is not ready."""
        self._unready[node] = why

    def last_heartbeat(self, node: str) -> datetime | None:
        """When a silent node was last heard of; None for one that is alive."""
        return self._silent.get(node)

    # What it does by itself

    def keys(self, view: View, kind: str, old: Obj | None, new: Obj | None, now: datetime) -> Iterable[str]:
        """Every node, and every pod that is bound to one."""
        item = new or old
        assert item is not None
        if kind == "Node":
            name = item["metadata"]["name"]
            if new is None:
                # A node of the same name that comes later is another machine.
                self._silent.pop(name, None)
                self._unready.pop(name, None)
                return []
            woken = [f"pod:{key_of(pod)}" for pod in view.pods_on(name)] if old is None else []
            return [f"node:/{name}", *woken]
        if new is None:
            self._usage.pop(item["metadata"]["uid"], None)
            return []
        return [f"pod:{key_of(new)}"] if new["spec"].get("nodeName") else []

    def reconcile(self, view: View, key: str, now: datetime) -> list[Write]:
        """Whatever the node or the pod needs next."""
        what, _, rest = key.partition(":")
        namespace, name = split_key(rest)
        if what == "node":
            node = view.get("Node", "", name)
            return [] if node is None or name in self._silent else self._node(view, node, now)
        pod = view.get("Pod", namespace, name)
        if pod is None or not pod["spec"].get("nodeName"):
            return []
        home = pod["spec"]["nodeName"]
        node = view.get("Node", "", home)
        if node is None or home in self._silent:
            return []
        return self._pod(view, pod, node, now)

    def _node(self, view: View, node: Obj, now: datetime) -> list[Write]:
        name = node["metadata"]["name"]
        wanted = {
            "kubernetes.io/hostname": name,
            "kubernetes.io/os": "linux",
            "kubernetes.io/arch": "amd64",
            "beta.kubernetes.io/os": "linux",
            "beta.kubernetes.io/arch": "amd64",
        }
        missing = {label: value for label, value in wanted.items() if label not in labels_of(node)}
        if missing:
            return [Patch(node, {"metadata": {"labels": missing}})]
        status = self._node_status(node, now)
        writes: list[Write] = []
        if status != (node.get("status") or {}):
            writes.append(Update(with_status(node, status), "status"))
        return [*writes, *self._lease(view, node, now)]

    def _node_status(self, node: Obj, now: datetime) -> Obj:
        name = node["metadata"]["name"]
        old = node.get("status") or {}
        capacity = old.get("capacity") or old.get("allocatable") or _ROOMY
        conditions = []
        for health in _HEALTH:
            kind, value, reason, message = health
            if kind == "Ready" and name in self._unready:
                value, reason, message = "False", "KubeletNotReady", self._unready[name]
            before = condition(node, kind)
            if before is not None and before["status"] == value and before.get("reason") == reason:
                conditions.append(before)
                continue
            at = stamp(now)
            since = before["lastTransitionTime"] if before is not None and before["status"] == value else at
            conditions.append(
                {
                    "type": kind,
                    "status": value,
                    "lastHeartbeatTime": at,
                    "lastTransitionTime": since,
                    "reason": reason,
                    "message": message,
                }
            )
        ours = [kind for kind, *_ in _HEALTH]
        conditions += [each for each in old.get("conditions") or () if each["type"] not in ours]
        return {
            **old,
            "capacity": capacity,
            "allocatable": old.get("allocatable") or capacity,
            "conditions": conditions,
            "addresses": old.get("addresses")
            or [
                {"type": "InternalIP", "address": self._address(name)},
                {"type": "Hostname", "address": name},
            ],
            "nodeInfo": old.get("nodeInfo")
            if (old.get("nodeInfo") or {}).get("kubeletVersion")
            else _node_info(name),
        }

    def _lease(self, view: View, node: Obj, now: datetime) -> list[Write]:
        if not self._leases:
            return []
        name = node["metadata"]["name"]
        held = view.get("Lease", _LEASES, name)
        if held is None:
            lease: Obj = {
                "apiVersion": "coordination.k8s.io/v1",
                "kind": "Lease",
                "metadata": {
                    "name": name,
                    "namespace": _LEASES,
                    "ownerReferences": [
                        {"apiVersion": "v1", "kind": "Node", "name": name, "uid": node["metadata"]["uid"]}
                    ],
                },
                "spec": {
                    "holderIdentity": name,
                    "leaseDurationSeconds": _LEASE_S,
                    "renewTime": micro_stamp(now),
                },
            }
            return [Create(lease), Again(now + _RENEW)]
        due = parse_time(held["spec"]["renewTime"]) + _RENEW
        if now < due:
            return [Again(due)]
        return [Patch(held, {"spec": {"renewTime": micro_stamp(now)}}), Again(now + _RENEW)]

    def _pod(self, view: View, pod: Obj, node: Obj, now: datetime) -> list[Write]:
        if terminating(pod):
            return self._end(pod, now)
        if finished(pod):
            return []
        status = pod.get("status") or {}
        host_ip = _host_ip(node)
        if not status.get("startTime"):
            if (why := self._misfit(view, pod, node)) is not None:
                reason, message = why
                said = with_status(pod, pod_status.refused(pod, reason, message, now))
                return [Update(said, "status"), Emit(pod, reason, message, self.name, "Warning")]
            if self._pace.start > timedelta():
                said = with_status(pod, pod_status.accepted(pod, host_ip, now))
                return [Update(said, "status"), Again(now + self._pace.start)]
            return self._run(pod, host_ip, now)
        if status.get("phase") == "Pending":
            due = parse_time(status["startTime"]) + self._pace.start
            return [Again(due)] if now < due else self._run(pod, host_ip, now)
        return self._keep(pod, host_ip, now)

    def _run(self, pod: Obj, host_ip: str, now: datetime) -> list[Write]:
        self._pods_started += 1
        number = self._pods_started
        pod_ip = f"10.{128 + number // 65536 % 128}.{number // 256 % 256}.{number % 256}"
        return [Update(with_status(pod, pod_status.running(pod, host_ip, pod_ip, now)), "status")]

    def _keep(self, pod: Obj, host_ip: str, now: datetime) -> list[Write]:
        # A pod that runs: it may finish, be out of time, or become ready.
        looks = []
        end = pod_status.ends_at(pod, self._pace.job)
        if end is not None and end <= now:
            return self._exit(pod, now)
        limit_s = pod["spec"].get("activeDeadlineSeconds")
        if limit_s is not None:
            deadline = parse_time(pod["status"]["startTime"]) + timedelta(seconds=limit_s)
            if deadline <= now:
                message = "Pod was active on the node longer than the specified deadline"
                over = pod_status.ended(pod, now, 137, reason="DeadlineExceeded", message=message)
                return [Update(with_status(pod, over), "status")]
            looks.append(deadline)
        ready = pod_status.ready_at(pod, now)
        looks += [at for at in (end, ready) if at is not None and at > now]
        status = pod_status.running(pod, host_ip, pod["status"].get("podIP", ""), now)
        writes: list[Write] = []
        if status != pod["status"]:
            writes.append(Update(with_status(pod, status), "status"))
        if looks:
            writes.append(Again(min(looks)))
        return writes

    def _exit(self, pod: Obj, now: datetime) -> list[Write]:
        code = pod_status.exit_code(pod)
        if code != 0 and pod["spec"].get("restartPolicy") == "OnFailure":
            return [Update(with_status(pod, pod_status.restarted(pod, now, code)), "status")]
        return [Update(with_status(pod, pod_status.ended(pod, now, code)), "status")]

    def _end(self, pod: Obj, now: datetime) -> list[Write]:
        meta = pod["metadata"]
        grace = timedelta(seconds=meta.get("deletionGracePeriodSeconds") or 0)
        asked = parse_time(meta["deletionTimestamp"]) - grace
        due = asked + min(grace, self._pace.stop)
        if now < due:
            return [Again(due)]
        writes: list[Write] = []
        if not finished(pod) and meta.get("finalizers"):
            # Who holds the pod back (a Job) waits for the phase; others only for it to be gone.
            writes.append(Update(with_status(pod, pod_status.stopped(pod, now)), "status"))
        if grace or not meta.get("finalizers"):
            writes.append(Delete(pod, grace_s=0))
        return writes

    def _misfit(self, view: View, pod: Obj, node: Obj) -> tuple[str, str] | None:
        # Pods are taken in the order they came; one that no longer fits beside those taken is refused.
        home = node["metadata"]["name"]
        room = allocatable(home, convert(node, Node).status.allocatable)
        taken = [
            each
            for each in view.pods_on(home)
            if not finished(each) and (each.get("status") or {}).get("startTime")
        ]
        if POD_COUNT in room and len(taken) + 1 > room[POD_COUNT]:
            return _out_of("pods", 1, len(taken), room[POD_COUNT])
        used: dict[str, int] = {}
        for each in taken:
            for name, amount in self._usage_of(each):
                used[name] = used.get(name, 0) + amount
        for name, amount in requests_of(convert(pod, Pod)).amounts:
            if amount > room.get(name, 0) - used.get(name, 0):
                return _out_of(name, amount, used.get(name, 0), room.get(name, 0))
        return None

    def _usage_of(self, pod: Obj) -> tuple[tuple[str, int], ...]:
        # A pod's needs change only with its generation (a resize).
        meta = pod["metadata"]
        held = self._usage.get(meta["uid"])
        if held is None or held[0] != meta.get("generation", 0):
            held = (meta.get("generation", 0), usage_of(convert(pod, Pod)).amounts)
            self._usage[meta["uid"]] = held
        return held[1]

    def _address(self, node: str) -> str:
        held = self._addresses.get(node)
        if held is None:
            number = len(self._addresses) + 1
            held = self._addresses[node] = f"10.{number // 65536 % 128}.{number // 256 % 256}.{number % 256}"
        return held


def _out_of(name: str, asked: int, used: int, capacity: int) -> tuple[str, str]:
    return (
        f"OutOf{name}",
        f"Pod was rejected: Node didn't have enough resource: {name}, "
        f"requested: {asked}, used: {used}, capacity: {capacity}",
    )


def _host_ip(node: Obj) -> str:
    for each in (node.get("status") or {}).get("addresses") or ():
        if each["type"] == "InternalIP":
            return str(each["address"])
    return ""


def _node_info(name: str) -> Obj:
    return {
        "architecture": "amd64",
        "bootID": "",
        "containerRuntimeVersion": "fairlead://world",
        "kernelVersion": "",
        "kubeProxyVersion": "v1.36.4",
        "kubeletVersion": "v1.36.4",
        "machineID": name,
        "operatingSystem": "linux",
        "osImage": "fairlead world",
        "systemUUID": "",
    }
