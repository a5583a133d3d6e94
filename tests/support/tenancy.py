"""``fairlead tenant`` on a cluster, as a user runs it, with types whose pods go to the test's own nodes."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import yaml

from fairlead.client.api import Client
from fairlead.client.config import load
from fairlead.client.connection import Connection
from fairlead.kube.resources import known
from fairlead.tenants.live_objects import is_going
from fairlead.tenants.manifests import KINDS
from support.cluster import Cluster
from support.command import run_command
from support.faults import Faithful, FaultProxy, RequestFault
from support.tenants import Obj, plain_types
from support.wire import PATIENCE_S

__all__ = ["Recorder", "Tenancy", "run_through", "through"]


class Tenancy:
    """The command, a folder for its files, and what it left on the cluster."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self.cluster = cluster
        self.folder = folder
        self.home = cluster.namespace
        self.kubeconfig = cluster.kubeconfig
        self.types_file = folder / "types.yaml"
        self.write_types()

    def write_types(self, **fields: Any) -> None:
        """The one type, small, for the test's own nodes; `fields` come on top, None takes one away."""
        whole = {
            "name": "small",
            "image": "image",
            "exclusive": True,
            "nodeLabels": {"test": self.home},
            "ports": [{"name": "http", "port": 80}],
            "parameters": {"config": {}, "secret": {}, "replicas": 1},
            "config": "${config}",
            "secret": "${secret}",
            "replicas": "${replicas}",
            **fields,
        }
        kept = {key: value for key, value in whole.items() if value is not None}
        self.write_documents(kept)

    def write_documents(self, *types: Obj) -> None:
        self.types_file.write_text(yaml.safe_dump(plain_types(*types)))

    def write(self, name: str, content: Any) -> Path:
        path = self.folder / name
        path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
        return path

    def tenants_file(self, *tenants: Obj, name: str = "tenants.yaml") -> Path:
        document = {"apiVersion": "fairlead.dev/v1alpha1", "kind": "Tenants", "tenants": list(tenants)}
        return self.write(name, document)

    def arguments(self, verb: str, *arguments: str, kubeconfig: Path | None = None) -> list[str]:
        """The command line; -n and --types are the test's unless they are said."""
        given = [*arguments]
        if verb in ("create", "apply") and "--types" not in arguments:
            given += ["--types", str(self.types_file)]
        if (
            verb in ("create", "apply")
            and "-n" not in arguments
            and "--namespace-per-tenant" not in arguments
        ):
            given += ["-n", self.home]
        config = kubeconfig or self.kubeconfig
        return ["tenant", verb, f"--kubeconfig={config}", *given]

    def run(
        self, verb: str, *arguments: str, stdin: str | None = None, kubeconfig: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        words = self.arguments(verb, *arguments, kubeconfig=kubeconfig)
        return run_command(*words, input=stdin, timeout=4 * PATIENCE_S, cwd=self.folder)

    def ok(self, verb: str, *arguments: str, stdin: str | None = None) -> str:
        """What it printed; it must have worked."""
        done = self.run(verb, *arguments, stdin=stdin)
        assert done.returncode == 0, f"{done.returncode}: {done.stdout}{done.stderr}"
        return done.stdout

    def fails(self, code: int, verb: str, *arguments: str) -> str:
        """What it said on standard error as it ended with this code; never a traceback."""
        done = self.run(verb, *arguments)
        assert done.returncode == code, f"{done.returncode}: {done.stdout}{done.stderr}"
        assert "Traceback" not in done.stderr, done.stderr
        assert "error: " in done.stderr
        return done.stderr

    def create(self, *names: str, more: tuple[str, ...] = ()) -> str:
        named = [part for name in names for part in ("--name", name)]
        return self.ok("create", "-t", "small", *named, *more)

    def listed(self, *arguments: str) -> dict[str, Obj]:
        """The tenants of the test's namespace by name, as ``list`` has them."""
        found = json.loads(self.ok("list", "-o", "json", *(arguments or ("-n", self.home))))
        return {one["name"]: one for one in found}

    def objects(self, tenant: str = "", *, namespace: str = "") -> dict[str, Obj]:
        """What the cluster holds of a tenant (of all), by ``Kind/name``; nothing that a controller made."""
        selector = f"fairlead.dev/tenant={tenant}" if tenant else "fairlead.dev/tenant"
        found = {}
        for _, kind in (*KINDS, ("batch/v1", "Job"), ("batch/v1", "CronJob")):
            if not known(kind).namespaced:
                continue
            items = self.cluster.list(kind, namespace=namespace or self.home, labelSelector=selector)["items"]
            for item in items:
                if not item["metadata"].get("ownerReferences"):
                    found[f"{kind}/{item['metadata']['name']}"] = item
        return found

    def versions(self, tenant: str = "") -> dict[str, str]:
        """The version of every object but those that controllers write to."""
        return {
            ref: item["metadata"]["resourceVersion"]
            for ref, item in self.objects(tenant).items()
            if not ref.startswith(("Deployment/", "PodDisruptionBudget/", "Job/"))
        }

    def settled(self, tenant: str = "") -> dict[str, Obj]:
        """What `objects` has once nothing is on its way out.

        What is deleted waits for the garbage collector, which is another process on a real cluster.
        """

        def nothing_goes() -> dict[str, Obj] | None:
            held = self.objects(tenant)
            return None if any(is_going(item) for item in held.values()) else held

        return self.cluster.wait(nothing_goes, "nothing on its way out")

    def outcome(self, tenant: str = "") -> dict[str, Obj]:
        """All there is to compare between two ways to the same end, once nothing is on its way out."""
        found = {}
        for ref, item in self.settled(tenant).items():
            metadata = item["metadata"]
            annotations = {
                key: value
                for key, value in (metadata.get("annotations") or {}).items()
                if not key.startswith("deployment.kubernetes.io/")
            }
            spec = dict(item.get("spec") or {})
            for assigned in ("clusterIP", "clusterIPs"):
                spec.pop(assigned, None)
            found[ref] = {
                "labels": metadata["labels"],
                "annotations": annotations,
                "spec": spec,
                "data": item.get("data"),
            }
        return found


class Recorder(Faithful):
    """Notes writes that are no trials; a fault befalls the nth of them and, if asked, all after it."""

    def __init__(self, fault: RequestFault | None = None, at: int = -1, *, for_good: bool = False) -> None:
        self.writes: list[str] = []
        self._fault = fault
        self._at = at
        self._for_good = for_good
        self._down = False

    def on_request(self, method: str, path: str) -> RequestFault | None:
        if method != "GET" and "dryRun" not in path:
            self.writes.append(f"{method} {path.partition('?')[0]}")
            if len(self.writes) - 1 == self._at:
                self._down = self._for_good
                return self._fault
        return self._fault if self._down else None

    def refs(self) -> list[str]:
        """The writes as ``METHOD plural/name``."""
        return [f"{line.split()[0]} {'/'.join(line.split('/')[-2:])}" for line in self.writes]


@asynccontextmanager
async def through(cluster: Cluster, plan: Recorder) -> AsyncIterator[Client]:
    """A client that asks once and gives up, behind a proxy that does what `plan` says."""
    from random import Random

    from fairlead.client.retry import Retry

    async with FaultProxy(load(cluster.kubeconfig), plan) as proxy, Connection(proxy.target) as connection:
        yield Client(connection, retry=Retry(Random(1), attempts=1))


async def run_through(tenancy: Tenancy, plan: Recorder, verb: str, *arguments: str) -> tuple[int, str]:
    """The command behind a proxy; its exit code, and all it said."""
    async with FaultProxy(load(tenancy.cluster.kubeconfig), plan) as proxy:
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": proxy.url}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": ""}}],
        }
        path = tenancy.write("proxied.kubeconfig", config)
        done = await asyncio.to_thread(tenancy.run, verb, *arguments, kubeconfig=path)
        return done.returncode, done.stdout + done.stderr
