"""An extender beside a cluster whose kube-scheduler calls it."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import yaml

from fairlead.doors.extender.configuration import Wanted, extender_entry
from fairlead.rig.controlplane import ControlPlane
from support.admission import Manifest, Tiered
from support.balancer import Balancer
from support.cluster import Cluster
from support.door import DoorProcess
from support.manifests import deployment
from support.wire import PATIENCE_S

__all__ = ["Extended", "calling", "extended"]


@contextmanager
def calling(plane: ControlPlane, port: int, **entry: Any) -> Iterator[None]:
    """Have the control plane's kube-scheduler call an extender on `port`; afterwards it is as before."""
    config = {
        "percentageOfNodesToScore": 100,
        "extenders": [extender_entry(Wanted(f"http://127.0.0.1:{port}")) | entry],
        # Who was refused is tried again when it is nudged, not seconds later.
        "podInitialBackoffSeconds": 1,
        "podMaxBackoffSeconds": 2,
    }
    plane.stop_program("kube-scheduler")
    plane.start_scheduler(config, qps=500)
    try:
        yield
    finally:
        plane.stop_program("kube-scheduler")
        plane.start_scheduler(qps=500)


class Extended(Tiered):
    """A test's own corner, with an extender that kube-scheduler knows instead of a webhook."""

    def __init__(self, cluster: Cluster, balancer: Balancer, port: int) -> None:
        super().__init__(cluster, balancer)
        self.port = port
        self._file = self.folder / "policies.yaml"

    def run(
        self, *policies: Manifest, replicas: int = 1, wait: bool = True, arguments: tuple[str, ...] = ()
    ) -> None:
        """Start the extender with these policies in a file, and wait until it answers."""
        self.use(*(policies or (self.policy(),)))
        self.arguments = arguments
        self.start()

    def use(self, *policies: Manifest) -> None:
        """From now on these policies are in the file."""
        self._file.write_text(yaml.safe_dump_all(policies))

    def start(self, port: int | None = None) -> DoorProcess:
        """One more extender process; on the port that kube-scheduler calls unless told otherwise."""
        found = DoorProcess(
            self.cluster.kubeconfig,
            "extender",
            f"--listen=127.0.0.1:{self.port if port is None else port}",
            f"--system-namespace={self.system}",
            f"--policies={self._file}",
            *self.arguments,
        )
        self.replicas.append(found)
        found.wait_for("listening")
        if port is None:
            found.wait_for("answering")
        return found

    def post(self, verb: str, body: bytes | Manifest) -> tuple[int, Any]:
        """Call as kube-scheduler would; the status, and what was said."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        try:
            raw = body if isinstance(body, bytes) else json.dumps(body).encode()
            connection.request("POST", f"/{verb}", raw, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        finally:
            connection.close()

    def read(self, path: str) -> tuple[int, str]:
        """Health and metrics."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def deployment(self, name: str, replicas: int) -> Manifest:
        """A Deployment on this test's nodes, to be changed before it is made."""
        return deployment(name, replicas, pods=self.here())

    def nodes(self, spot: int = 2, on_demand: int = 2, **shape: Any) -> None:
        """Roomy nodes of both tiers; `labels` are added to the tier's."""
        more = shape.pop("labels", {})
        shape = {"cpu": 64, "pods": 500} | shape
        for tier, number in (("spot", spot), ("on-demand", on_demand)):
            if number:
                for name in self.cluster.add_nodes(number, labels={"capacity": tier, **more}, **shape):
                    self._tier_of[name] = tier

    def of_tier(self, tier: str) -> list[str]:
        """The names of a tier's nodes."""
        return [name for name, own in self._tier_of.items() if own == tier]

    def cordon(self, tier: str, cordoned: bool) -> None:
        for name in self.of_tier(tier):
            self.cluster.patch("Node", name, {"spec": {"unschedulable": cordoned}})

    def until_split(self, app: str, wanted: dict[str, int]) -> None:
        """Wait until a workload's Ready pods lie like this."""
        self.cluster.wait(lambda: dict(self.serving(self.pods(app))) == wanted, f"{app} to lie as {wanted}")


@contextmanager
def extended(cluster: Cluster, port: int) -> Iterator[Extended]:
    """A corner that is tidied up when the test is over."""
    with Balancer() as balancer:
        own = Extended(cluster, balancer, port)
        try:
            yield own
        finally:
            own.close()
