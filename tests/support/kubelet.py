"""A node whose pods run: each as the container that its manifest describes, Ready when its probe succeeds.

The node is not one of KWOK's, so that a rollout waits for what the processes do, and a pod that is deleted is
there until its process has ended. Everything happens in one thread, turn by turn.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Self

from fairlead.errors import ApiError
from fairlead.rig.controlplane import ControlPlane
from fairlead.rig.nodes import KWOK_ANNOTATION, node_object
from support.balancer import Balancer
from support.container import Container

Obj = dict[str, Any]

_TURN_S = 0.1
_LEASE_S = 10.0


class Kubelet:
    """Runs what is bound to its node. `calls` gets the ports of the ready pods with `called` as their app."""

    def __init__(
        self, plane: ControlPlane, name: str, labels: Mapping[str, str], *, called: str, calls: Balancer
    ) -> None:
        self._plane = plane
        self._api = plane.api.another()
        self._name = name
        self._labels = labels
        self._called = called
        self._calls = calls
        self._running: dict[str, Container] = {}
        self._ready: set[str] = set()
        self._ended = threading.Event()
        self._renewed_at = 0.0
        self.error: BaseException | None = None
        self.ran: list[str] = []
        self._thread = threading.Thread(target=self._live, daemon=True)

    def __enter__(self) -> Self:
        node = node_object(self._name, labels=self._labels)
        del node["metadata"]["annotations"][KWOK_ANNOTATION]
        node["status"]["conditions"] = [{"type": "Ready", "status": "True", "reason": "KubeletReady"}]
        self._api.create("/api/v1/nodes", node)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        for own in self._running.values():
            own.close()
        self._api.close()

    def said(self) -> str:
        """The logs of what runs."""
        return "\n\n".join(f"{name}:\n{own.text()}" for name, own in self._running.items())

    def _live(self) -> None:
        try:
            while not self._ended.wait(_TURN_S):
                self._renew()
                self._turn()
        except BaseException as error:  # noqa: BLE001 (the test that runs it raises this)
            self.error = error

    def _renew(self) -> None:
        if time.monotonic() - self._renewed_at < _LEASE_S:
            return
        path = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec = {"holderIdentity": self._name, "leaseDurationSeconds": 40, "renewTime": now}
        lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": self._name}}
        if self._renewed_at:
            self._api.patch(f"{path}/{self._name}", {"spec": spec})
        else:
            self._api.create(path, lease | {"spec": spec})
        self._renewed_at = time.monotonic()

    def _turn(self) -> None:
        listed = self._api.get(f"/api/v1/pods?fieldSelector=spec.nodeName={self._name}")["items"]
        for pod in listed:
            uid = pod["metadata"]["uid"]
            if "deletionTimestamp" in pod["metadata"]:
                self._end(pod)
            elif uid not in self._running:
                self._running[uid] = Container(self._plane, pod)
                self.ran.append(pod["metadata"]["name"])
            elif pod["spec"]["restartPolicy"] == "Never":
                self._may_be_over(pod)
            elif uid not in self._ready and self._running[uid].probe("readinessProbe"):
                self._is_ready(pod)

    def _is_ready(self, pod: Obj) -> None:
        uid = pod["metadata"]["uid"]
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        conditions = [
            {"type": kind, "status": "True", "lastTransitionTime": now}
            for kind in ("PodScheduled", "Initialized", "ContainersReady", "Ready")
        ]
        self._api.patch(f"{_path(pod)}/status", {"status": {"phase": "Running", "conditions": conditions}})
        self._ready.add(uid)
        if pod["metadata"]["labels"]["app"] == self._called:
            self._calls.ports.append(self._running[uid].port)

    def _may_be_over(self, pod: Obj) -> None:
        code = self._running[pod["metadata"]["uid"]].code
        if code is not None and pod["status"]["phase"] not in ("Succeeded", "Failed"):
            phase = "Failed" if code else "Succeeded"
            self._api.patch(f"{_path(pod)}/status", {"status": {"phase": phase}})

    def _end(self, pod: Obj) -> None:
        uid = pod["metadata"]["uid"]
        own = self._running.pop(uid, None)
        if own is not None:
            # As EndpointSlices do, calls stop before the process does.
            if uid in self._ready and pod["metadata"]["labels"]["app"] == self._called:
                self._calls.ports.remove(own.port)
            code, said = own.stop(), own.text()
            own.close()
            assert code == 0, said
        try:
            self._api.request("DELETE", f"{_path(pod)}?gracePeriodSeconds=0")
        except ApiError as error:
            if error.code != 404:
                raise


def _path(pod: Obj) -> str:
    metadata = pod["metadata"]
    return f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"
