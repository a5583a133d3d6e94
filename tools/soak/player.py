"""Does what was drawn: load through the API, faults to proxies and processes.

Subtle: an action may find the API server away, or what it is about gone (when a history is replayed in
part). It is tried again for a while, and then left out: the cluster of a replay is what it is.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import aiohttp

from tools.soak import stage as staged
from tools.soak.actions import FOR_A_WHILE, NAMESPACE, Action
from tools.soak.stage import Manifest, Stage

_TRIES = 40
_PAUSE_S = 0.5
_PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
_PATCH = "application/merge-patch+json"


class Player:
    """Plays actions on a stage. `leader` names the leading scheduler, `say` logs what became of an action.

    Faults go on in tasks of their own, so that several last at once; `over` waits for all of them.
    """

    def __init__(self, stage: Stage, leader: Callable[[], str], say: Callable[..., None]) -> None:
        self._stage = stage
        self._leader = leader
        self._say = say
        self._lasting: set[asyncio.Task[None]] = set()

    async def play(self, action: Action) -> None:
        """Do one thing; faults and whatever takes time go on beside."""
        work = self._fault(action.do, action.what) if action.is_fault else self._load(action.do, action.what)
        task = asyncio.create_task(self._guarded(action, work))
        self._lasting.add(task)
        task.add_done_callback(self._lasting.discard)
        await asyncio.sleep(0)

    async def over(self) -> None:
        """Wait until nothing of what was begun goes on."""
        while self._lasting:
            await asyncio.wait(self._lasting)

    async def _guarded(self, action: Action, work: Any) -> None:
        try:
            await work
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            self._say("left_out", action=action.do, what=action.what, reason=repr(error))

    # Load

    async def _load(self, do: str, what: dict[str, Any]) -> None:
        match do:
            case "create":
                for path, manifest in manifests(what):
                    await self._send("POST", path, manifest)
            case "scale":
                await self._send("PATCH", _deployment(what["name"]), {"spec": {"replicas": what["replicas"]}})
            case "delete":
                path = _job(what["name"]) if what["kind"] in ("job", "gangjob") else _deployment(what["name"])
                await self._send("DELETE", path, {"propagationPolicy": "Background"})
                await self._send("DELETE", _budget(what["name"]))
            case "rollout":
                template = {"metadata": {"annotations": {"revision": what["revision"]}}}
                await self._send("PATCH", _deployment(what["name"]), {"spec": {"template": template}})
            case "delete_pods":
                _, listed = await self._send("GET", f"{_PODS}?labelSelector=app%3D{what['name']}")
                names = sorted(one["metadata"]["name"] for one in listed.get("items", ()))
                for name in names[: what["number"]]:
                    await self._send("DELETE", f"{_PODS}/{name}")
            case "policy":
                tiers = staged.tiers(what["name"], what["min"])
                path = f"/apis/fairlead.dev/v1alpha1/placementpolicies/{what['name']}"
                await self._send("PATCH", path, {"spec": {"tiers": tiers}})
                self._stage.tiers[what["name"]] = tiers
            case "cordon":
                await self._send("PATCH", _node(what["name"]), {"spec": {"unschedulable": True}})
            case "taint":
                taint = {"key": "soak/closed", "effect": "NoSchedule"}
                await self._send("PATCH", _node(what["name"]), {"spec": {"taints": [taint]}})
            case "open":
                await self._send(
                    "PATCH", _node(what["name"]), {"spec": {"unschedulable": None, "taints": None}}
                )
            case "add_node":
                await self._send("POST", "/api/v1/nodes", staged.node(what["name"], what["pool"]))
            case "remove_node":
                await self._remove_node(what["name"])

    async def _remove_node(self, name: str) -> None:
        await self._send("DELETE", _node(name))
        await self.bury(name)

    async def bury(self, name: str) -> None:
        """Delete what a node ran that is gone, as the garbage collector of pods does after 40 s."""
        _, listed = await self._send("GET", f"{_PODS}?fieldSelector=spec.nodeName%3D{name}")
        for pod in listed.get("items", ()):
            body = {"gracePeriodSeconds": 0, "preconditions": {"uid": pod["metadata"]["uid"]}}
            await self._send("DELETE", f"{_PODS}/{pod['metadata']['name']}", body)

    async def _send(self, method: str, path: str, body: Any = None) -> tuple[int, Manifest]:
        """One request, again while there is no answer or the server says that it cannot."""
        kind = _PATCH if method == "PATCH" else "application/json"
        for attempt in range(_TRIES):
            try:
                status, answer = await self._stage.api.request(method, path, body, content_type=kind)
            except (aiohttp.ClientError, TimeoutError, OSError):
                if attempt == _TRIES - 1:
                    raise
            else:
                if status < 500 and status != 429:
                    if status >= 400 and status not in (404, 409):
                        self._say("refused", path=path, status=status, message=answer.get("message", ""))
                    return status, answer
            await asyncio.sleep(_PAUSE_S)
        return 0, {}

    # Faults

    async def _fault(self, do: str, what: dict[str, Any]) -> None:
        name = what.get("door", "")
        if name == "leader":
            name = self._leader()
        if do in FOR_A_WHILE or do.startswith("watch_") or do == "lease_blocked":
            await self._misbehave(do, name, what["for_s"])
        elif do.startswith("kill_"):
            await self._kill(name, what["away_s"])
        elif do == "freeze":
            await self._freeze(name, what["for_s"])
        elif do == "restart_apiserver":
            await self._stage.restart_apiserver(what["away_s"])
        elif do == "remove_chosen_node":
            await self._remove_chosen(what["name"], what["for_s"])

    async def _misbehave(self, fault: str, name: str, for_s: float) -> None:
        door = self._stage.doors[name]
        door.plan.begin(fault, for_s)
        if fault == "watch_cut":
            door.proxy.cut_all()
        await asyncio.sleep(for_s)
        door.plan.end(fault)
        # A watch that was lied to is broken now, and is resumed or listed again; see fault_plan.
        if fault in ("watch_frozen", "watch_dropped", "watch_delayed"):
            door.proxy.cut_all()

    async def _kill(self, name: str, away_s: float) -> None:
        if self._stage.program(name) is None:
            return
        self._say("killed", door=name)
        await self._stage.kill_door(name)
        await asyncio.sleep(away_s)
        await self._stage.start_door(name)

    async def _freeze(self, name: str, for_s: float) -> None:
        program = self._stage.program(name)
        if program is None:
            return
        self._say("stopped", door=name, for_s=for_s)
        self._stage.doors[name].plan.begin("freeze", for_s)
        _signal(program.pid, signal.SIGSTOP)
        await asyncio.sleep(for_s)
        _signal(program.pid, signal.SIGCONT)
        self._stage.doors[name].plan.end("freeze")

    async def _remove_chosen(self, node: str, for_s: float) -> None:
        held = asyncio.Event()
        plans = [self._stage.doors[name].plan for name in self._stage.doors]
        for plan in plans:
            plan.hold = held
        await asyncio.sleep(for_s / 2)
        await self._send("DELETE", _node(node))
        await asyncio.sleep(for_s / 2)
        for plan in plans:
            if plan.hold is held:
                plan.hold = None
        held.set()
        await asyncio.sleep(3)
        await self.bury(node)


def manifests(what: dict[str, Any]) -> list[tuple[str, Manifest]]:
    """The objects of a workload, each with the path at which it is created."""
    name, kind = what["name"], what["kind"]
    annotations = {"priority": str(what["priority"])}
    if kind in ("gang", "gangjob", "urgentgang"):
        annotations |= {"pod-group": name, "pod-group-min-member": str(what["replicas"])}
    if kind == "exclusive":
        annotations["fairlead.dev/capacity"] = "exclusive"
    labels = {"app": name, **({"tier": kind} if kind in ("split", "kube") else {})}
    spec: Manifest = {
        "schedulerName": "default-scheduler" if kind == "kube" else "fairlead",
        "nodeSelector": {"soak/side": what["pool"]},
        "terminationGracePeriodSeconds": 1,
        "containers": [
            {
                "name": "main",
                "image": "image",
                "resources": {"requests": {"cpu": f"{what['cpu']}m", "memory": "64Mi"}},
            }
        ],
    }
    if "runs_s" in what:
        annotations["pod-complete.stage.kwok.x-k8s.io/delay"] = f"{what['runs_s']}s"
        template = {
            "metadata": {"labels": labels, "annotations": annotations},
            "spec": {**spec, "restartPolicy": "Never"},
        }
        job = {
            "parallelism": what["replicas"],
            "completions": what["replicas"],
            "backoffLimit": 1000,
            "podReplacementPolicy": "Failed",
            "ttlSecondsAfterFinished": 10,
            "template": template,
        }
        made = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": job}
        return [(_job(""), made)]
    template = {"metadata": {"labels": labels, "annotations": annotations}, "spec": spec}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "replicas": what["replicas"],
            "revisionHistoryLimit": 0,
            "selector": {"matchLabels": {"app": name}},
            "template": template,
        },
    }
    found = [(_deployment(""), deployment)]
    if "budget" in what:
        budget = {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": name},
            "spec": {"minAvailable": what["budget"], "selector": {"matchLabels": {"app": name}}},
        }
        found.insert(0, (_budget(""), budget))
    return found


def _signal(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):  # it was killed meanwhile
        os.kill(pid, number)


def _deployment(name: str) -> str:
    return f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/{name}".rstrip("/")


def _job(name: str) -> str:
    return f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs/{name}".rstrip("/")


def _budget(name: str) -> str:
    return f"/apis/policy/v1/namespaces/{NAMESPACE}/poddisruptionbudgets/{name}".rstrip("/")


def _node(name: str) -> str:
    return f"/api/v1/nodes/{name}"
