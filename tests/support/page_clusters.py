"""The clusters that pages of the documentation are run on, by the name in a page's comment.

Without one a page has nothing, or `kubectl` and `helm` if it uses them.

`empty` is one of four nodes, `embedded` the same with Fairlead's scheduler and its shipped configuration;
`spot` and `burst` have the nodes and components that the page has installed; `tenants` grows the example's
node groups from zero; `aws` is a served AWS account in which the tags of these groups are not as they should
be. On `dev` the page itself starts a real control plane with ``fairlead dev up``.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, Protocol

import yaml
from msgspec.structs import replace

from fairlead.nodegroups.file import read_file
from fairlead.rig.build import karpenter_crds
from fairlead.rig.nodes import is_ready, node_object
from fairlead.rig.toolchain import cache_root
from fairlead.world.autoscaler import Pacing
from support.balancer import Balancer
from support.cluster import REAL_PROGRAMS, Cluster, EmbeddedHost
from support.door import DoorProcess
from support.pages import ROOT
from support.rig import programs
from support.scheduler import SchedulerProcess

__all__ = ["CLUSTERS", "REAL"]

NODES = 4


class Started(Protocol):
    """Start a cluster; it keeps files in the folder, and yields the environment in which it is found."""

    def __call__(self, folder: Path) -> AbstractContextManager[dict[str, str]]: ...


@contextmanager
def _nowhere(folder: Path) -> Iterator[dict[str, str]]:
    yield {}


@contextmanager
def _kubectl(folder: Path) -> Iterator[dict[str, str]]:
    yield _tools(folder)


@contextmanager
def _empty(folder: Path) -> Iterator[dict[str, str]]:
    """A cluster of four nodes and nothing else."""
    with _cluster_of(*(node_object(f"node-{index}") for index in range(NODES))) as cluster:
        yield _environment(cluster, folder)


@contextmanager
def _embedded(folder: Path) -> Iterator[dict[str, str]]:
    """A cluster with a scheduler and its configuration as shipped."""
    shipped = [
        yaml.safe_load((ROOT / "deploy" / f"{name}.yaml").read_text())
        for name in ("namespace", "configuration")
    ]
    config = folder / "fairlead.yaml"
    config.write_text(shipped[1]["data"]["fairlead.yaml"])
    with _cluster_of(*(node_object(f"node-{index}") for index in range(NODES))) as cluster:
        for one in shipped:
            cluster.create(one)
        scheduler = SchedulerProcess(cluster.kubeconfig, "--leader-elect=false", f"--config={config}")
        try:
            scheduler.wait_for("synced")
            yield _environment(cluster, folder)
        finally:
            scheduler.close()


@contextmanager
def _spot(folder: Path) -> Iterator[dict[str, str]]:
    """The nodes of the example, with webhook and rebalancer as `setup.sh` installs them."""
    with _cluster_of(*_kind_nodes("spot")) as cluster, Balancer() as balancer:
        door = DoorProcess(
            cluster.kubeconfig,
            "serve",
            "--doors=webhook,rebalance",
            "--listen=127.0.0.1:0",
            f"--url={balancer.url}",
            "--register",
        )
        try:
            (said,) = door.wait_for("listening")
            balancer.ports.append(int(said["url"].rpartition(":")[2]))
            door.wait_for("registered")
            yield _environment(cluster, folder)
        finally:
            door.close()


@contextmanager
def _burst(folder: Path) -> Iterator[dict[str, str]]:
    """The nodes of the example, to which the page adds the virtual one, and `fairlead burst` as deployed."""
    (deployed,) = (
        one
        for one in yaml.safe_load_all((ROOT / "deploy" / "burst" / "burst.yaml").read_text())
        if one["kind"] == "Deployment"
    )
    (container,) = deployed["spec"]["template"]["spec"]["containers"]
    flags = [flag for flag in container["args"][1:] if not flag.startswith("--listen")]
    with _cluster_of(*_kind_nodes("burst")) as cluster:
        door = DoorProcess(cluster.kubeconfig, "burst", *flags)
        try:
            door.wait_for("synced")
            yield _environment(cluster, folder)
        finally:
            door.close()


@contextmanager
def _tenants(folder: Path) -> Iterator[dict[str, str]]:
    """No nodes, an autoscaler that may bring those of the example's groups, and the kind NodePool."""
    groups = ROOT / "examples" / "node-groups.yaml"
    ready = [replace(group, boot_s=0) for group in read_file(groups.read_text(), groups.name)]
    pacing = Pacing(scan=timedelta(seconds=0.5))
    with _cluster_of(groups=ready, autoscaler=pacing) as cluster:
        for file in sorted(karpenter_crds().glob("*.yaml")):
            for definition in yaml.safe_load_all(file.read_text()):
                cluster.create(definition)
        yield _environment(cluster, folder)


@contextmanager
def _aws(folder: Path) -> Iterator[dict[str, str]]:
    """The example's groups: one's tags are only on the EKS node group, the other's effect is misspelt."""
    from support.aws import TEMPLATE, Aws, template_tags

    account = Aws()
    try:
        account.reset()
        account.group("large", tags=template_tags("large"))
        misspelt = {**template_tags("medium"), TEMPLATE + "taint/size": "medium:NO_SCHEDULE"}
        account.group("medium", instance_type="t3a.medium", asg_tags=misspelt)
        yield account.env
    finally:
        account.close()


@contextmanager
def _dev(folder: Path) -> Iterator[dict[str, str]]:
    """Nothing yet: what the page needs is at hand, and it starts the rest."""
    programs(*REAL_PROGRAMS)
    yield {**_tools(folder), "XDG_CACHE_HOME": str(cache_root().parent)}


CLUSTERS: dict[str, Started] = {
    "": _nowhere,
    "kubectl": _kubectl,
    "aws": _aws,
    "empty": _empty,
    "embedded": _embedded,
    "spot": _spot,
    "burst": _burst,
    "tenants": _tenants,
    "dev": _dev,
}
REAL = ("dev",)


def _kind_nodes(example: str) -> list[dict[str, Any]]:
    """The worker nodes of an example's kind configuration."""
    config = yaml.safe_load((ROOT / "examples" / example / "kind.yaml").read_text())
    workers = [node for node in config["nodes"] if node["role"] == "worker"]
    return [node_object(f"worker-{n}", labels=node.get("labels")) for n, node in enumerate(workers)]


@contextmanager
def _cluster_of(*nodes: dict[str, Any], **shape: Any) -> Iterator[Cluster]:
    """An embedded cluster with these nodes, Ready."""
    host = EmbeddedHost(**shape)
    try:
        cluster = Cluster(host)
        for node in nodes:
            cluster.create(node)
        cluster.wait(
            lambda: all(is_ready(node, untainted=True) for node in cluster.list("Node")["items"]),
            "the nodes to be Ready",
        )
        try:
            yield cluster
        finally:
            cluster.close()
    finally:
        host.stop()


def _environment(cluster: Cluster, folder: Path) -> dict[str, str]:
    """In which `kubectl` and `fairlead` find the cluster."""
    return {**_tools(folder), "KUBECONFIG": str(cluster.kubeconfig)}


def _tools(folder: Path) -> dict[str, str]:
    tools = folder / "tools"
    tools.mkdir()
    for program in programs("kubectl", "helm"):
        (tools / program.name).symlink_to(program)
    python = Path(sys.executable).parent
    return {
        "KUBECACHEDIR": str(folder / "cache"),
        "PATH": f"{tools}{os.pathsep}{python}{os.pathsep}{os.environ['PATH']}",
    }
