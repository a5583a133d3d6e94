"""One kubelet that plays every node: registers them, runs their pods, ends what is to go.

Heartbeats cost nothing: a node is alive until `kill` says otherwise, and the node lifecycle
controller asks here (`last_heartbeat`) instead of reading a Lease every few seconds. On the wall
clock Leases are renewed as well, for their readers.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from fairlead.engine.snapshot.requests import PODS as POD_COUNT
from fairlead.engine.snapshot.requests import allocatable, requests_of
from fairlead.kube.decode import convert
from fairlead.kube.duration import seconds
from fairlead.kube.node import Node
from fairlead.kube.pod import Pod
from fairlead.world.controllers.writes import (
    Again,
    Create,
    Delete,
    Emit,
    Obj,
    Patch,
    View,
    Write,
    status_writes,
)
from fairlead.world.objects import (
    annotations_of,
    condition,
    condition_holds,
    controller_of,
    finished,
    key_of,
    labels_of,
    micro_stamp,
    new_condition,
    parse_time,
    split_key,
    stamp,
    terminating,
)

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
        """Last heartbeat of a silent node; None for one that is alive."""
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
        return [*status_writes(node, self._node_status(node, now)), *self._lease(view, node, now)]

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
            said = new_condition(kind, value, reason, message, now, lastHeartbeatTime=stamp(now))
            if before is not None and before["status"] == value:
                said["lastTransitionTime"] = before["lastTransitionTime"]
            conditions.append(said)
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
                event = Emit(pod, reason, message, self.name, "Warning")
                return [*status_writes(pod, _refused(pod, reason, message, now)), event]
            if self._pace.start > timedelta():
                return status_writes(pod, _accepted(pod, host_ip, now), [now + self._pace.start])
            return self._run(pod, host_ip, now)
        if status.get("phase") == "Pending":
            due = parse_time(status["startTime"]) + self._pace.start
            return [Again(due)] if now < due else self._run(pod, host_ip, now)
        return self._keep(pod, host_ip, now)

    def _run(self, pod: Obj, host_ip: str, now: datetime) -> list[Write]:
        self._pods_started += 1
        number = self._pods_started
        pod_ip = f"10.{128 + number // 65536 % 128}.{number // 256 % 256}.{number % 256}"
        return status_writes(pod, _running(pod, host_ip, pod_ip, now))

    def _keep(self, pod: Obj, host_ip: str, now: datetime) -> list[Write]:
        # A pod that runs: it may finish, be out of time, or become ready.
        looks = []
        end = _ends_at(pod, self._pace.job)
        if end is not None and end <= now:
            return self._exit(pod, now)
        limit_s = pod["spec"].get("activeDeadlineSeconds")
        if limit_s is not None:
            deadline = parse_time(pod["status"]["startTime"]) + timedelta(seconds=limit_s)
            if deadline <= now:
                message = "Pod was active on the node longer than the specified deadline"
                over = _ended(pod, now, 137, reason="DeadlineExceeded", message=message)
                return status_writes(pod, over)
            looks.append(deadline)
        ready = _ready_at(pod, now)
        looks += [at for at in (end, ready) if at is not None and at > now]
        if _is_told(pod, ready, now):
            return [] if not looks else [Again(min(looks))]
        return status_writes(pod, _running(pod, host_ip, pod["status"].get("podIP", ""), now), looks)

    def _exit(self, pod: Obj, now: datetime) -> list[Write]:
        code = _exit_code(pod)
        if code != 0 and pod["spec"].get("restartPolicy") == "OnFailure":
            return status_writes(pod, _restarted(pod, now, code))
        return status_writes(pod, _ended(pod, now, code))

    def _end(self, pod: Obj, now: datetime) -> list[Write]:
        meta = pod["metadata"]
        grace = timedelta(seconds=meta.get("deletionGracePeriodSeconds") or 0)
        asked = parse_time(meta["deletionTimestamp"]) - grace
        due = asked + min(grace, self._pace.stop)
        if now < due:
            return [Again(due)]
        writes: list[Write] = []
        if not finished(pod) and meta.get("finalizers"):
            # An owner that holds the pod back (a Job) waits for the phase; others only for it to be gone.
            writes += status_writes(pod, _stopped(pod, now))
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
            held = (meta.get("generation", 0), requests_of(convert(pod, Pod), use_status=True).amounts)
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


# What a pod may say about how it wants to be played.
RUN_FOR = "fairlead.dev/run-for"
EXIT_CODE = "fairlead.dev/exit-code"
READY_AFTER = "fairlead.dev/ready-after"


def _duration(text: str) -> timedelta | None:
    """A duration as a pod's annotation spells it; None when it is not one."""
    try:
        return timedelta(seconds=seconds(text))
    except ValueError:
        return None


def _refused(pod: Obj, reason: str, message: str, now: datetime) -> Obj:
    """The kubelet will not run this pod."""
    kept = [c for c in (pod.get("status") or {}).get("conditions") or () if c["type"] == "PodScheduled"]
    return {
        **_base(pod),
        "phase": "Failed",
        "reason": reason,
        "message": message,
        "startTime": stamp(now),
        **({"conditions": kept} if kept else {}),
    }


def _accepted(pod: Obj, host_ip: str, now: datetime) -> Obj:
    """The pod is this kubelet's; its containers are being created."""
    waiting = {"waiting": {"reason": "ContainerCreating"}}
    status: Obj = {
        **_base(pod),
        "phase": "Pending",
        "hostIP": host_ip,
        "hostIPs": [{"ip": host_ip}],
        "startTime": stamp(now),
        "conditions": _conditions(
            pod,
            now,
            {
                "PodReadyToStartContainers": ("False", "", ""),
                "Initialized": ("True", "", ""),
                "Ready": _unready(pod),
                "ContainersReady": _unready(pod),
            },
        ),
        "containerStatuses": _containers(pod, waiting),
    }
    return _with_init(pod, status, now)


def _running(pod: Obj, host_ip: str, pod_ip: str, now: datetime) -> Obj:
    """The containers run; whether they are ready is up to the pod's own `READY_AFTER`."""
    before = pod.get("status") or {}
    ready = _ready_at(pod, now)
    is_ready = ready is not None and ready <= now
    state = {"running": {"startedAt": _started(pod) or stamp(now)}}
    fine, gates = ("True", "", ""), _gates_open(pod)
    ip = host_ip if pod["spec"].get("hostNetwork") else pod_ip
    status: Obj = {
        **_base(pod),
        "phase": "Running",
        "hostIP": host_ip,
        "hostIPs": [{"ip": host_ip}],
        "podIP": ip,
        "podIPs": [{"ip": ip}],
        "startTime": before.get("startTime") or stamp(now),
        "conditions": _conditions(
            pod,
            now,
            {
                "PodReadyToStartContainers": fine,
                "Initialized": fine,
                "Ready": _unready(pod) if not is_ready else fine if gates else _GATED,
                "ContainersReady": fine if is_ready else _unready(pod),
            },
        ),
        "containerStatuses": _containers(pod, state, ready=is_ready),
    }
    return _with_init(pod, status, now)


def _is_told(pod: Obj, ready: datetime | None, now: datetime) -> bool:
    """Whether the status already says what there is to say: a pod may come from a cluster where another
    kubelet wrote it, in its own way.
    """
    status, is_ready = pod.get("status") or {}, ready is not None and ready <= now
    return (
        status.get("observedGeneration", 0) == pod["metadata"].get("generation", 0)
        and condition_holds(pod, "Ready") == (is_ready and _gates_open(pod))
        and (condition(pod, "ContainersReady") is None or condition_holds(pod, "ContainersReady") == is_ready)
    )


def _ready_at(pod: Obj, now: datetime) -> datetime | None:
    """When a running pod becomes ready; None for never."""
    asked = annotations_of(pod).get(READY_AFTER)
    started = _started(pod)
    begin = parse_time(started) if started is not None else now
    if asked is None:
        return begin
    delay = _duration(asked)
    return None if delay is None else begin + delay


def _ends_at(pod: Obj, job_run: timedelta) -> datetime | None:
    """When a running pod's containers exit by themselves; None for never.

    A Job's pods run for `job_run`; `RUN_FOR` says otherwise, for any pod.
    """
    asked = annotations_of(pod).get(RUN_FOR)
    if asked is not None:
        length = _duration(asked)
    else:
        held = controller_of(pod)
        length = job_run if held is not None and held["kind"] == "Job" else None
    started = _started(pod)
    if length is None or started is None:
        return None
    return parse_time(started) + length


def _exit_code(pod: Obj) -> int:
    """With what the pod's containers exit."""
    text = annotations_of(pod).get(EXIT_CODE, "0")
    return int(text) if text.isdigit() else 0


def _ended(pod: Obj, now: datetime, code: int, *, reason: str = "", message: str = "") -> Obj:
    """All containers exited with `code`, and are not restarted."""
    before = pod.get("status") or {}
    done = code == 0
    state = _exited(pod, now, code, "Completed" if done else "Error")
    over = ("False", "PodCompleted" if done else "PodFailed", "")
    return {
        **before,
        "phase": "Succeeded" if done else "Failed",
        "observedGeneration": pod["metadata"].get("generation", 0),
        **({"reason": reason} if reason else {}),
        **({"message": message} if message else {}),
        "conditions": _conditions(
            pod, now, {"PodReadyToStartContainers": ("False", "", ""), "Ready": over, "ContainersReady": over}
        ),
        "containerStatuses": _containers(pod, state),
    }


def _restarted(pod: Obj, now: datetime, code: int) -> Obj:
    """All containers exited with `code` and were started again."""
    before = pod.get("status") or {}
    at = stamp(now)
    last = _exited(pod, now, code, "Error")
    return {
        **before,
        "containerStatuses": [
            {
                **each,
                "restartCount": each.get("restartCount", 0) + 1,
                "state": {"running": {"startedAt": at}},
                "lastState": last,
            }
            for each in before.get("containerStatuses") or ()
        ],
    }


def _exited(pod: Obj, now: datetime, code: int, reason: str) -> Obj:
    ended_at = stamp(now)
    started_at = _started(pod) or ended_at
    said = {"exitCode": code, "reason": reason, "startedAt": started_at, "finishedAt": ended_at}
    return {"terminated": said}


def _stopped(pod: Obj, now: datetime) -> Obj:
    """Deleted, the containers exited on the signal."""
    return _ended(pod, now, 143)


_GATED = ("False", "ReadinessGatesNotReady", 'the status of pod readiness gates is not "True"')


def _base(pod: Obj) -> Obj:
    # What others wrote and a kubelet keeps.
    before = pod.get("status") or {}
    kept = {
        name: before[name]
        for name in ("qosClass", "nominatedNodeName", "resourceClaimStatuses")
        if name in before
    }
    return {**kept, "observedGeneration": pod["metadata"].get("generation", 0)}


def _started(pod: Obj) -> str | None:
    for each in (pod.get("status") or {}).get("containerStatuses") or ():
        run = (each.get("state") or {}).get("running")
        if run:
            return str(run["startedAt"])
    return None


def _unready(pod: Obj) -> tuple[str, str, str]:
    names = [each["name"] for each in pod["spec"]["containers"]]
    return "False", "ContainersNotReady", f"containers with unready status: [{' '.join(names)}]"


def _gates_open(pod: Obj) -> bool:
    gates = pod["spec"].get("readinessGates") or ()
    return all((condition(pod, gate["conditionType"]) or {}).get("status") == "True" for gate in gates)


def _conditions(pod: Obj, now: datetime, wanted: dict[str, tuple[str, str, str]]) -> list[Obj]:
    generation = pod["metadata"].get("generation", 0)
    result = []
    for kind, (status, reason, message) in wanted.items():
        old = condition(pod, kind)
        since = old["lastTransitionTime"] if old is not None and old["status"] == status else stamp(now)
        entry: Obj = {"type": kind, "status": status, "lastProbeTime": None, "lastTransitionTime": since}
        if generation:
            entry["observedGeneration"] = generation
        if reason:
            entry["reason"] = reason
        if message:
            entry["message"] = message
        result.append(entry)
    kept = [c for c in (pod.get("status") or {}).get("conditions") or () if c["type"] not in wanted]
    return [*result, *kept]


def _containers(pod: Obj, state: Obj, *, ready: bool = False) -> list[Obj]:
    before = (pod.get("status") or {}).get("containerStatuses") or ()
    restarts = {each["name"]: each.get("restartCount", 0) for each in before}
    return [
        _container(each, state, ready=ready, restarts=restarts.get(each["name"], 0))
        for each in pod["spec"]["containers"]
    ]


def _container(spec: Obj, state: Obj, *, ready: bool, restarts: int) -> Obj:
    status: Obj = {
        "name": spec["name"],
        "image": spec.get("image", ""),
        "imageID": "",
        "ready": ready,
        "started": "running" in state,
        "restartCount": restarts,
        "state": state,
        "lastState": {},
    }
    if resources := spec.get("resources"):
        status["resources"] = resources
        if resources.get("requests"):
            status["allocatedResources"] = resources["requests"]
    return status


def _with_init(pod: Obj, status: Obj, now: datetime) -> Obj:
    init = pod["spec"].get("initContainers")
    if not init:
        return status
    at = stamp(now)
    over = {"terminated": {"exitCode": 0, "reason": "Completed", "startedAt": at, "finishedAt": at}}
    on = {"running": {"startedAt": at}}
    before = {c["name"]: c for c in (pod.get("status") or {}).get("initContainerStatuses") or ()}
    status["initContainerStatuses"] = [
        before.get(c["name"])
        or _container(c, on if c.get("restartPolicy") == "Always" else over, ready=True, restarts=0)
        for c in init
    ]
    return status
