"""A real Kubernetes control plane on this machine: etcd and kube-apiserver, and on request the rest.

RBAC and TLS are on, everything listens on the loopback, and each start has a folder and ports of its
own: on SIGTERM the API server would drain open watches for up to a minute, so it is killed, and nothing
of it is reused. Usable with ``with`` and with ``async with``; see `processes` for how it ends.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import yaml

from fairlead.client.authority import KeyPair
from fairlead.errors import RigError
from fairlead.rig import arguments as command
from fairlead.rig import build
from fairlead.rig.api import Api
from fairlead.rig.autoscalers import run_cluster_autoscaler, run_karpenter
from fairlead.rig.components import SYSTEM_NAMESPACE, run_extender, run_webhook
from fairlead.rig.identity import Identity
from fairlead.rig.launcher import READY_S, Launcher
from fairlead.rig.nodes import create_nodes, node_object, ready_nodes
from fairlead.rig.processes import Program, answers, wait_until


class ControlPlane:
    """A running control plane. Nothing runs before `start`; after `stop` nothing is left.

    `feature_gates` and `runtime_config` go to every program that has them, e.g.
    ``feature_gates={"GenericWorkload": True}, runtime_config={"scheduling.k8s.io/v1alpha2": True}``.
    A given `folder` is kept, with logs and keys; otherwise there is a temporary one.
    """

    def __init__(
        self,
        *,
        feature_gates: Mapping[str, bool] | None = None,
        runtime_config: Mapping[str, bool] | None = None,
        apiserver_args: Sequence[str] = (),
        folder: Path | None = None,
    ) -> None:
        self._feature_gates = dict(feature_gates or {})
        self._runtime_config = dict(runtime_config or {})
        self._apiserver_args = list(apiserver_args)
        self._given_folder = folder
        self._up: Launcher | None = None
        self._api: Api | None = None

    def start(self) -> Self:
        """Start etcd and the API server, and return when it answers."""
        # Build before anything runs: a build may take minutes, and fails more often than a start.
        etcd, apiserver = build.binary("etcd"), build.binary("kube-apiserver")
        if self._up is not None:
            raise RigError("this control plane is running already")
        if self._given_folder is not None:
            self.folder = self._given_folder
            self.folder.mkdir(parents=True, exist_ok=True)
        else:
            self.folder = Path(tempfile.mkdtemp(prefix="fairlead-rig-"))
        self._up = Launcher(self.folder, remove=self._given_folder is None)
        try:
            self._identity = Identity(self.folder)
            self._up.launch("etcd", 2, lambda ports: self._run_etcd(etcd, ports))
            self._up.launch("kube-apiserver", 1, lambda ports: self._run_apiserver(apiserver, ports))
            self.kubeconfig = self.kubeconfig_for("fairlead-admin", ["system:masters"])
            wait_until(
                lambda: self.api.exists("/api/v1/namespaces/default"),
                "the namespace default to appear",
                timeout_s=READY_S,
            )
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Kill every program; with a folder of our own, remove it. Stopping twice is fine."""
        if self._api is not None:
            self._api.close()
        if self._up is not None:
            self._up.close()
        self._up = self._api = None

    @property
    def url(self) -> str:
        """Where the API server listens."""
        return f"https://127.0.0.1:{self.port('kube-apiserver')}"

    @property
    def api(self) -> Api:
        """A blocking client, as system:masters."""
        if self._api is None:
            raise RigError("this control plane is not running")
        return self._api

    @property
    def programs(self) -> Mapping[str, Program]:
        """What runs here, by name."""
        return self._launcher.programs

    @property
    def ca_file(self) -> Path:
        """The authority that signed every serving certificate here; webhooks may use it too."""
        return self._identity.public("ca")

    def port(self, program: str) -> int:
        """The port on which `program` serves."""
        return self._launcher.port(program)

    def stop_program(self, name: str) -> None:
        """Kill one program, e.g. ``kube-scheduler``; it may be started again."""
        self._launcher.stop(name)

    def restart_apiserver(self) -> Program:
        """Kill the API server and start it again where it was: clients reconnect, what is stored stays."""
        binary = build.binary("kube-apiserver")
        if self._api is not None:
            self._api.close()
        return self._launcher.restart("kube-apiserver", lambda ports: self._run_apiserver(binary, ports))

    def serving_pair(self) -> KeyPair:
        """A certificate for a loopback server of the caller's, such as a webhook."""
        return self._identity.loopback_server()

    def kubeconfig_for(self, user: str, groups: Sequence[str] = ()) -> Path:
        """A kubeconfig whose certificate says `user` in `groups`; RBAC decides what that may do."""
        return self._identity.kubeconfig(self.url, user, groups)

    def kubectl(
        self, *arguments: str, stdin: str | None = None, check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        """Run kubectl as system:masters; with `check`, a failure is a `RigError` with what it said."""
        done = subprocess.run(
            [build.binary("kubectl"), "--cache-dir", str(self.folder / "kubectl-cache"), *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, **command.KUBECTL_ENV, "KUBECONFIG": str(self.kubeconfig)},
        )
        if check and done.returncode != 0:
            raise RigError(
                f"kubectl {' '.join(arguments)} ended with {done.returncode}: {done.stderr.strip()}"
            )
        return done

    def start_controller_manager(self, *arguments: str) -> Program:
        """Start kube-controller-manager, and return when its controllers have begun to work.

        Their first visible deed is the default ServiceAccount, without which no pod is admitted.
        """
        binary = build.binary("kube-controller-manager")
        kubeconfig = self.kubeconfig_for("system:kube-controller-manager")

        def run(ports: list[int]) -> Program:
            return self._launcher.run(
                "kube-controller-manager",
                binary,
                *command.controller_manager(self._identity, kubeconfig, ports[0]),
                *self._gates,
                *arguments,
                ready=lambda: answers(ports[0], "/healthz", tls=self._identity.tls()),
                env=command.GO_ENV,
            )

        program = self._launcher.launch("kube-controller-manager", 1, run)
        program.wait_ready(
            lambda: self.api.exists("/api/v1/namespaces/default/serviceaccounts/default"), timeout_s=READY_S
        )
        return program

    def start_scheduler(
        self,
        config: Mapping[str, Any] | None = None,
        *,
        qps: float = 50,
        burst: int | None = None,
        arguments: Sequence[str] = (),
    ) -> Program:
        """Start kube-scheduler; `config` is merged into its KubeSchedulerConfiguration.

        50 requests a second, then 100 in a burst, is upstream's default; benchmarks ask for more.
        """
        binary = build.binary("kube-scheduler")
        kubeconfig = self.kubeconfig_for("system:kube-scheduler")
        base = command.scheduler_config(kubeconfig, qps=qps, burst=int(2 * qps) if burst is None else burst)
        file = self.folder / "scheduler.yaml"
        file.write_text(yaml.safe_dump(base | dict(config or {})))

        def run(ports: list[int]) -> Program:
            return self._launcher.run(
                "kube-scheduler",
                binary,
                *command.scheduler(self._identity, kubeconfig, file, ports[0]),
                *self._gates,
                *arguments,
                ready=lambda: answers(ports[0], "/readyz", tls=self._identity.tls()),
            )

        return self._launcher.launch("kube-scheduler", 1, run)

    def start_kwok(self, *, stages: Sequence[Path] = ()) -> Program:
        """Start KWOK, which plays the kubelets of nodes annotated ``kwok.x-k8s.io/node: fake``.

        `stages` replace the ones shipped here, in which a pod runs at once and a Job's pod ends well.
        """
        binary = build.binary("kwok")
        kubeconfig = self.kubeconfig_for("fairlead-kwok", ["system:masters"])
        played = stages or command.stages(self.folder / "stages", self.api.get("/version")["gitVersion"])

        def run(ports: list[int]) -> Program:
            return self._launcher.run(
                "kwok",
                binary,
                *command.kwok(kubeconfig, played, ports[0]),
                ready=lambda: answers(ports[0], "/readyz"),
            )

        return self._launcher.launch("kwok", 1, run)

    def start_karpenter(self, *, env: Mapping[str, str] | None = None) -> Program:
        """Start Karpenter with its KWOK provider, its CRDs and one KWOKNodeClass called ``default``.

        NodePools are the caller's to create. KWOK must run beside it, to play the kubelets.
        """
        binary, crds = build.binary("karpenter"), build.karpenter_crds()
        kubeconfig = self.kubeconfig_for("fairlead-karpenter", ["system:masters"])
        return self._launcher.launch(
            "karpenter",
            2,
            lambda ports: run_karpenter(
                self._launcher.run, self.api, binary, crds, kubeconfig=kubeconfig, ports=ports, env=env or {}
            ),
        )

    def start_cluster_autoscaler(
        self, *, namespace: str = "kube-system", arguments: Sequence[str] = ()
    ) -> Program:
        """Start the Cluster Autoscaler that the environment names, with its KWOK provider.

        The provider's two ConfigMaps are the caller's to create, in that namespace, before.
        """
        binary = build.cluster_autoscaler()
        if binary is None:
            raise RigError("no Cluster Autoscaler: set FAIRLEAD_CLUSTER_AUTOSCALER to its program")
        kubeconfig = self.kubeconfig_for("fairlead-cluster-autoscaler", ["system:masters"])
        return self._launcher.launch(
            "cluster-autoscaler",
            1,
            lambda ports: run_cluster_autoscaler(
                self._launcher.run,
                binary,
                namespace=namespace,
                kubeconfig=kubeconfig,
                ports=ports,
                arguments=arguments,
            ),
        )

    def add_system_namespace(self) -> None:
        """Create the namespace in which Fairlead's components keep their leases."""
        if not self.api.exists(f"/api/v1/namespaces/{SYSTEM_NAMESPACE}"):
            self.api.create("/api/v1/namespaces", {"metadata": {"name": SYSTEM_NAMESPACE}})

    def start_extender(self) -> Program:
        """Start ``fairlead extender``; `components.extender_config` makes kube-scheduler call it."""
        self.add_system_namespace()
        kubeconfig = self.kubeconfig_for("fairlead-extender", ["system:masters"])
        return self._launcher.launch(
            "fairlead-extender",
            1,
            lambda ports: run_extender(self._launcher.run, kubeconfig=kubeconfig, port=ports[0]),
        )

    def start_webhook(self) -> Program:
        """Start ``fairlead webhook``, and return when it is registered."""
        self.add_system_namespace()
        kubeconfig = self.kubeconfig_for("fairlead-webhook", ["system:masters"])
        return self._launcher.launch(
            "fairlead-webhook",
            1,
            lambda ports: run_webhook(
                self._launcher.run, self._identity, kubeconfig=kubeconfig, port=ports[0]
            ),
        )

    def add_nodes(
        self,
        number: int,
        *,
        prefix: str = "node",
        cpu: str | int = 4,
        memory: str = "16Gi",
        pods: int = 110,
        extended: Mapping[str, str | int] | None = None,
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        taints: Sequence[Mapping[str, str]] = (),
        wait: bool = True,
        timeout_s: float = READY_S,
    ) -> list[str]:
        """Create nodes ``prefix-0…``; with `wait`, return once all are Ready and free of start-up taints."""
        nodes = [
            node_object(
                f"{prefix}-{index}",
                cpu=cpu,
                memory=memory,
                pods=pods,
                extended=extended,
                labels=labels,
                annotations=annotations,
                taints=taints,
            )
            for index in range(number)
        ]
        return self.add_these_nodes(nodes, wait=wait, timeout_s=timeout_s)

    def add_these_nodes(
        self, nodes: Sequence[dict[str, Any]], *, wait: bool = True, timeout_s: float = READY_S
    ) -> list[str]:
        """Create nodes as `node_object` makes them; returns their names, `wait` as for `add_nodes`."""
        if wait and "kwok" not in self.programs:
            raise RigError("nodes become Ready only with KWOK: start_kwok() first, or do not wait")
        names: list[str] = [node["metadata"]["name"] for node in nodes]
        create_nodes(self.api, nodes)
        if wait:
            # Only a controller manager takes the taint off that every new node gets.
            untainted = "kube-controller-manager" in self.programs
            wait_until(
                lambda: ready_nodes(self.api, untainted=untainted).issuperset(names),
                f"{len(names)} nodes to be Ready",
                timeout_s=timeout_s,
            )
        return names

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        """Start in a thread. Cancelled half-way, it ends what has been started before it raises."""
        starting = asyncio.ensure_future(asyncio.to_thread(self.start))
        try:
            return await asyncio.shield(starting)
        except asyncio.CancelledError:
            await asyncio.wait({starting})
            if starting.exception() is None:
                await asyncio.to_thread(self.stop)
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.stop)

    @property
    def _launcher(self) -> Launcher:
        if self._up is None:
            raise RigError("this control plane is not running")
        return self._up

    @property
    def _gates(self) -> list[str]:
        return command.switches("feature-gates", self._feature_gates)

    def _run_etcd(self, binary: Path, ports: list[int]) -> Program:
        data = self.folder / "etcd"
        shutil.rmtree(data, ignore_errors=True)
        arguments = command.etcd(data, *ports)
        return self._launcher.run(
            "etcd", binary, *arguments, ready=lambda: answers(ports[0], "/health"), env=command.GO_ENV
        )

    def _run_apiserver(self, binary: Path, ports: list[int]) -> Program:
        tls = self._identity.admin_tls()
        self._api = Api(ports[0], tls)
        return self._launcher.run(
            "kube-apiserver",
            binary,
            *command.apiserver(self._identity, self.port("etcd"), ports[0]),
            *command.switches("runtime-config", self._runtime_config),
            *self._gates,
            *self._apiserver_args,
            ready=lambda: answers(ports[0], "/readyz", tls=tls),
            env=command.GO_ENV,
        )
