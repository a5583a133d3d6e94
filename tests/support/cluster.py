"""One cluster for a test: a real control plane or the embedded one, used in the same way.

A test gets a namespace of its own and takes nodes of its own; both are gone afterwards. The real control
plane is shared by the whole run, because a start takes seconds and a namespace milliseconds.
"""

from __future__ import annotations

import asyncio
import base64
import itertools
import os
import secrets
import ssl
import subprocess
import tempfile
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import yaml

from fairlead.client.api import Client
from fairlead.client.authority import Authority, KeyPair
from fairlead.client.config import load
from fairlead.client.connection import Connection
from fairlead.engine.snapshot.snapshot import KINDS
from fairlead.kube.decode import decoder
from fairlead.kube.resources import Resource, known
from fairlead.policy.names import LEDGERS
from fairlead.rig import build
from fairlead.rig.arguments import KUBECTL_ENV
from fairlead.rig.controlplane import ControlPlane
from fairlead.rig.nodes import UNREADY_ANNOTATION, is_ready, node_object
from fairlead.world.clock import WallClock
from fairlead.world.kubelet import Pace
from fairlead.world.world import World
from support.pauses import pause
from support.rig import programs
from support.versions import MINOR
from support.wire import APPLY_PATCH, JSON_PATCH, MERGE_PATCH, PATIENCE_S, STRATEGIC_PATCH, Answer, Wire

T = TypeVar("T")
Names = list[str]  # spelt out, it would mean `Cluster.list` inside that class

# As fast as KWOK with the rig's stages.
PACE = Pace(start=timedelta(), stop=timedelta(), job=timedelta(seconds=0.5))

_CONTENT_TYPES = {
    "json": JSON_PATCH,
    "merge": MERGE_PATCH,
    "strategic": STRATEGIC_PATCH,
    "apply": APPLY_PATCH,
}

# What controllers, kubelets and our own components go on with or follow in all namespaces.
_MET_BY_OTHERS = (
    *map(known, ("Deployment", "StatefulSet", "DaemonSet", "Job", "ReplicaSet", "Pod")),
    *map(known, ("PodDisruptionBudget", "Event")),
    LEDGERS,
)

# What else tenants consist of: commands without a namespace look for them in all.
_OF_TENANTS = tuple(
    map(known, ("ServiceAccount", "ConfigMap", "Secret", "ResourceQuota", "NetworkPolicy", "Service"))
)

REAL_PROGRAMS = (
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kwok",
)


class Host(ABC):
    """What serves the API; one for a whole test run."""

    name: str
    kubernetes: str  # the minor version that it is of
    url: str
    kubeconfig: Path
    ca_pem: bytes

    def __init__(self) -> None:
        self.shared: dict[str, Resource] = {}

    @abstractmethod
    def wire(self) -> Wire:
        """A new connection to it, with every right."""

    @abstractmethod
    def serving_pair(self) -> KeyPair:
        """A certificate for a webhook on the loopback, signed by `ca_pem`."""

    @abstractmethod
    def set_unready(self, node: str) -> None:
        """The node's kubelet says that it is not ready, and goes on saying so."""

    @abstractmethod
    def compact(self) -> None:
        """Forget the past: versions before now can no longer be read."""

    def discard(self, wire: Wire, namespace: str) -> None:
        """Take away a test's namespace, or at least all in it that others would meet."""
        path = f"/api/v1/namespaces/{namespace}"
        wire.request("DELETE", path, {"propagationPolicy": "Background"})
        # A pod whose node goes too would stay: nobody is left to end it.
        wire.request("DELETE", f"{path}/pods", {"gracePeriodSeconds": 0})

    def pass_time(self, waited_s: float) -> None:
        """Let a moment pass between two looks; see `pause`."""
        pause(waited_s)

    @abstractmethod
    def stop(self) -> None:
        """End it."""


class RealHost(Host):
    """Kubernetes' own programs, with KWOK for kubelets."""

    name = "real"
    kubernetes = MINOR

    def __init__(self) -> None:
        super().__init__()
        programs(*REAL_PROGRAMS)
        # Tests are known by a token: a client's certificate is verified again with each of its requests.
        self._token = secrets.token_hex()
        self._folder = tempfile.TemporaryDirectory(prefix="fairlead-host-")
        tokens = Path(self._folder.name) / "tokens.csv"
        tokens.write_text(f'{self._token},fairlead-tests,,"system:masters"\n')
        self.plane = ControlPlane(apiserver_args=[f"--token-auth-file={tokens}"]).start()
        try:
            self.plane.start_controller_manager()
            self.plane.start_kwok()
            self.plane.start_scheduler(qps=500)
        except BaseException:
            self.stop()
            raise
        self.url = self.plane.url
        self.kubeconfig = self._kubeconfig()
        self.ca_pem = self.plane.ca_file.read_bytes()
        self._tls = ssl.create_default_context(cafile=self.plane.ca_file)

    def wire(self) -> Wire:
        return Wire(self.url, self._tls, token=self._token)

    def serving_pair(self) -> KeyPair:
        return self.plane.serving_pair()

    def set_unready(self, node: str) -> None:
        annotations = {UNREADY_ANNOTATION: "told so"}
        self.plane.api.patch(f"/api/v1/nodes/{node}", {"metadata": {"annotations": annotations}})

    def discard(self, wire: Wire, namespace: str) -> None:
        # The end of a namespace takes its controller eighty requests, two for every kind: as many as a test
        # makes. So the namespace stays, until the control plane goes, without what lives or is watched.
        options = {"propagationPolicy": "Background", "gracePeriodSeconds": 0}
        for resource in _MET_BY_OTHERS:
            wire.request("DELETE", resource.path(namespace), options)
        for resource in _OF_TENANTS:
            wire.request("DELETE", f"{resource.path(namespace)}?labelSelector=fairlead.dev/tenant", options)

    def compact(self) -> None:
        etcd = Wire(f"http://127.0.0.1:{self.plane.port('etcd')}")
        now = etcd.request("POST", "/v3/kv/range", {"key": base64.b64encode(b"/").decode()}).ok()
        body = {"revision": now["header"]["revision"], "physical": True}
        etcd.request("POST", "/v3/kv/compaction", body).ok()
        etcd.close()

    def stop(self) -> None:
        self.plane.stop()
        self._folder.cleanup()

    def _kubeconfig(self) -> Path:
        config = yaml.safe_load(self.plane.kubeconfig.read_text())
        config["users"][0]["user"] = {"token": self._token}
        file = Path(self._folder.name) / "kubeconfig"
        file.write_text(yaml.safe_dump(config))
        return file


class EmbeddedHost(Host):
    """Our own `world` on the wall clock, served over HTTP from a thread of its own."""

    name = "embedded"
    kubernetes = build.DEFAULT  # whatever the real control plane is of

    def __init__(self, **shape: Any) -> None:
        """`shape` goes to the world: its node groups' autoscaler, say, or another pace."""
        super().__init__()
        self._shape = shape
        self._authority = Authority()
        self.ca_pem = self._authority.pair.public
        for kind in KINDS.values():
            decoder(kind)  # msgspec crashes when two threads use a type for the first time at once
        self._started: Future[tuple[World, str, Path]] = Future()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._live()), daemon=True)
        self._thread.start()
        self.world, self.url, self.kubeconfig = self._started.result(PATIENCE_S)

    def wire(self) -> Wire:
        return Wire(self.url)

    def serving_pair(self) -> KeyPair:
        return self._authority.server(["localhost"], ["127.0.0.1"])

    def set_unready(self, node: str) -> None:
        self.on_loop(lambda: self.world.unready_node(node))

    def compact(self) -> None:
        self.on_loop(self.world.store.compact)

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._ended.set)
        self._thread.join(PATIENCE_S)

    def on_loop(self, call: Callable[[], T]) -> T:
        """Call it where the world lives, between two of its steps."""

        async def on_loop() -> T:
            return call()

        return asyncio.run_coroutine_threadsafe(on_loop(), self._loop).result(PATIENCE_S)

    async def _live(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._ended = asyncio.Event()
        try:
            serving = await World(clock=WallClock(), **({"pace": PACE} | self._shape)).serve()
        except Exception as error:  # noqa: BLE001 (whatever it is, the waiting thread raises it)
            self._started.set_exception(error)
            return
        async with serving:
            self._started.set_result((serving.world, serving.url, serving.kubeconfig))
            await self._ended.wait()


class Cluster:
    """A cluster as one test sees it.

    `name` says which it is, for messages only: a test that asserts differently on it proves nothing.
    """

    _numbers = itertools.count(1)

    def __init__(self, host: Host) -> None:
        self.host = host
        self.name = host.name
        self.url = host.url
        self.kubeconfig = host.kubeconfig
        self.wire = host.wire()
        self._own: list[str] = []
        self._prefix = f"t{os.getpid()}-{next(self._numbers)}"
        self.namespace = self.add_namespace()

    # Where things are

    def unique(self, name: str) -> str:
        """A name that no other test uses, for what lives in no namespace."""
        return f"{name}-{self._prefix}"

    @property
    def nowhere(self) -> str:
        """A node that there is not: a pod on it has no kubelet. It is the test's own, because pods are
        collected with the whole node once that was missed for 40 s.
        """
        return self.unique("nowhere")

    def path(
        self,
        kind: str | Resource,
        name: str | None = None,
        sub: str | None = None,
        *,
        namespace: str | None = "",
    ) -> str:
        """The path of a kind in the test's namespace (``namespace=None``: in all of them)."""
        resource = known(kind) if isinstance(kind, str) else kind
        return resource.path(self.namespace if namespace == "" else namespace, name, sub)

    # Verbs that must succeed

    def create(self, obj: dict[str, Any], **query: Any) -> dict[str, Any]:
        """Create it and return what the server made of it; without a namespace it goes with the test."""
        return self._made(self.try_create(obj, **query).ok())

    def get(self, kind: str | Resource, name: str, **query: Any) -> dict[str, Any]:
        return self.wire.request("GET", self.path(kind, name), **query).ok()  # type: ignore[no-any-return]

    def list(self, kind: str | Resource, *, namespace: str | None = "", **query: Any) -> dict[str, Any]:
        return self.wire.request("GET", self.path(kind, namespace=namespace), **query).ok()  # type: ignore[no-any-return]

    def names(self, kind: str | Resource, **query: Any) -> Names:
        return [item["metadata"]["name"] for item in self.list(kind, **query)["items"]]

    def update(self, obj: dict[str, Any], sub: str | None = None, **query: Any) -> dict[str, Any]:
        return self.try_update(obj, sub, **query).ok()  # type: ignore[no-any-return]

    def patch(
        self,
        kind: str | Resource,
        name: str,
        patch: Any,
        how: str = "merge",
        sub: str | None = None,
        **query: Any,
    ) -> dict[str, Any]:
        return self.try_patch(kind, name, patch, how, sub, **query).ok()  # type: ignore[no-any-return]

    def delete(self, kind: str | Resource, name: str, **options: Any) -> dict[str, Any]:
        return self.try_delete(kind, name, **options).ok()  # type: ignore[no-any-return]

    # Verbs whose answer is the point

    def try_create(self, obj: dict[str, Any], **query: Any) -> Answer:
        namespace = obj["metadata"].get("namespace", self.namespace)
        return self.wire.request("POST", self.path(obj["kind"], namespace=namespace), obj, **query)

    def try_get(self, kind: str | Resource, name: str, **query: Any) -> Answer:
        return self.wire.request("GET", self.path(kind, name), **query)

    def try_update(self, obj: dict[str, Any], sub: str | None = None, **query: Any) -> Answer:
        return self.wire.request("PUT", self.path(obj["kind"], obj["metadata"]["name"], sub), obj, **query)

    def try_patch(
        self,
        kind: str | Resource,
        name: str,
        patch: Any,
        how: str = "merge",
        sub: str | None = None,
        **query: Any,
    ) -> Answer:
        if how == "apply":
            query.setdefault("fieldManager", "conformance")
        content_type = _CONTENT_TYPES[how]
        return self.wire.request(
            "PATCH", self.path(kind, name, sub), patch, content_type=content_type, **query
        )

    def try_delete(self, kind: str | Resource, name: str, **options: Any) -> Answer:
        body = {"apiVersion": "v1", "kind": "DeleteOptions", **options}
        return self.wire.request("DELETE", self.path(kind, name), body)

    # Waiting

    def wait(self, look: Callable[[], T], what: str, *, patience_s: float = 2 * PATIENCE_S) -> T:
        """What `look` returns once that is true; looked at again and again."""
        began = time.monotonic()
        while not (seen := look()):
            waited_s = time.monotonic() - began
            assert waited_s < patience_s, f"waited in vain on the {self.name} cluster for {what}"
            self.host.pass_time(waited_s)
        return seen

    def gone(self, kind: str | Resource, name: str) -> None:
        """Wait until it is no longer there."""
        self.wait(lambda: self.try_get(kind, name).status == 404, f"{kind} {name} to be gone")

    # Cluster-scoped things

    def add_namespace(self, **metadata: Any) -> str:
        """One more namespace, with all that controllers put into a new one."""
        name = f"{self._prefix}-{next(self._numbers)}"
        self.namespace = name
        self.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, **metadata}})
        for kind, given in (("ServiceAccount", "default"), ("ConfigMap", "kube-root-ca.crt")):
            # A watch or a count of the test's own must not meet it as it comes.
            self.wait(
                lambda kind=kind, given=given: self.try_get(kind, given).status == 200,
                f"{kind} {given} of {name}",
            )
        return name

    def add_nodes(self, number: int = 1, **shape: Any) -> Names:
        """Nodes of the test's own, Ready and free of start-up taints; see `node_object` for `shape`.

        They carry the label ``test`` with the namespace's name, so that pods can ask for them.
        """
        labels = {"test": self.namespace} | shape.pop("labels", {})
        names = [self.unique(f"node{next(self._numbers)}") for _ in range(number)]
        for name in names:
            self.create(node_object(name, labels=labels, **shape))
        self.wait(
            lambda: all(is_ready(self.get("Node", name), untainted=True) for name in names),
            f"{number} nodes to be Ready",
        )
        return names

    def kubectl(self, *arguments: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        """Run the real kubectl in the test's namespace."""
        (kubectl,) = programs("kubectl")
        cache = self.kubeconfig.parent / "kubectl-cache"
        return subprocess.run(
            [kubectl, f"--cache-dir={cache}", f"--namespace={self.namespace}", *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, **KUBECTL_ENV, "KUBECONFIG": str(self.kubeconfig)},
        )

    @asynccontextmanager
    async def client(self) -> AsyncIterator[Client]:
        """Our own client, as whoever the kubeconfig names."""
        async with Connection(load(self.kubeconfig)) as connection:
            yield Client(connection)

    def close(self) -> None:
        """Take away what the test made. Nobody waits: no other test uses these names."""
        for path in reversed(self._own):
            parent, _, name = path.rpartition("/")
            if parent == "/api/v1/namespaces":
                self.host.discard(self.wire, name)
            else:
                self.wire.request("DELETE", path, {"propagationPolicy": "Background"})
        self.wire.close()

    def owns(self, path: str) -> None:
        """What lives at `path` goes with the test."""
        self._own.append(path)

    def _made(self, obj: dict[str, Any]) -> dict[str, Any]:
        if not known(obj["kind"]).namespaced:
            self.owns(known(obj["kind"]).path(None, obj["metadata"]["name"]))
        return obj
