"""The command lines of the control plane's programs, and why each flag that is not obvious is there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from fairlead.rig.identity import Identity
from fairlead.rig.nodes import KWOK_ANNOTATION

# Memory is cheaper here than time: collect garbage when the heap is five times what is in use, not twice.
GO_ENV = {"GOGC": "400"}
# And kubectl ends before what it has thrown away would matter: a third of its CPU time.
KUBECTL_ENV = {"GOGC": "off", "GOMAXPROCS": "1"}

_STAGES = Path(__file__).parent / "stages"
_NODE_ADDRESS = "127.0.0.2"  # not 127.0.0.1: an upstream host-port test binds that one too
_SERVICES = "10.0.0.0/16"
_PODS = "10.244.0.0/16"


def switches(flag: str, values: Mapping[str, bool]) -> list[str]:
    """``--feature-gates`` or ``--runtime-config``.

    >>> switches("feature-gates", {"GenericWorkload": True, "Other": False})
    ['--feature-gates=GenericWorkload=true,Other=false']
    >>> switches("feature-gates", {})
    []
    """
    spelt = ",".join(f"{name}={str(on).lower()}" for name, on in values.items())
    return [f"--{flag}={spelt}"] if spelt else []


def etcd(data: Path, client_port: int, peer_port: int) -> list[str]:
    """A single member whose data need not outlive the machine."""
    client, peer = f"http://127.0.0.1:{client_port}", f"http://127.0.0.1:{peer_port}"
    return [
        f"--data-dir={data}",
        "--unsafe-no-fsync",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
        "--log-level=warn",
    ]


def apiserver(identity: Identity, etcd_port: int, port: int) -> list[str]:
    """As kubeadm sets it up: RBAC, the node authorizer, and NodeRestriction beside the default plugins."""
    return [
        f"--etcd-servers=http://127.0.0.1:{etcd_port}",
        "--bind-address=127.0.0.1",
        "--advertise-address=127.0.0.1",
        # It would refuse to publish a loopback address as an endpoint, and nothing here looks for one.
        "--endpoint-reconciler-type=none",
        f"--secure-port={port}",
        *_certificate(identity),
        f"--client-ca-file={identity.public('ca')}",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
        f"--service-account-key-file={identity.public('sa')}",
        f"--service-account-signing-key-file={identity.private('sa')}",
        f"--service-cluster-ip-range={_SERVICES}",
        "--allow-privileged=true",
    ]


def controller_manager(identity: Identity, kubeconfig: Path, port: int) -> list[str]:
    """Every controller; request rates are lifted, because tests wait for them."""
    return [
        *_serving(identity, kubeconfig, port),
        f"--kubeconfig={kubeconfig}",
        "--leader-elect=false",
        # Its own user may do little: each controller acts as its own account, as on a real cluster.
        "--use-service-account-credentials=true",
        f"--root-ca-file={identity.public('ca')}",
        f"--cluster-signing-cert-file={identity.public('ca')}",
        f"--cluster-signing-key-file={identity.private('ca')}",
        f"--service-account-private-key-file={identity.private('sa')}",
        "--kube-api-qps=2000",
        "--kube-api-burst=4000",
        "--concurrent-deployment-syncs=10",
        "--concurrent-gc-syncs=20",
    ]


def scheduler(identity: Identity, kubeconfig: Path, config: Path, port: int) -> list[str]:
    """kube-scheduler with a configuration file."""
    return [*_serving(identity, kubeconfig, port), f"--config={config}"]


def scheduler_config(kubeconfig: Path, *, qps: float, burst: int) -> dict[str, Any]:
    """The KubeSchedulerConfiguration that others are merged into."""
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"kubeconfig": str(kubeconfig), "qps": qps, "burst": burst},
    }


def stages(folder: Path, release: str) -> list[Path]:
    """The stages shipped here, written to `folder`: kubelets of that release of Kubernetes."""
    folder.mkdir(exist_ok=True)
    written = [folder / shipped.name for shipped in sorted(_STAGES.glob("*.yaml"))]
    for stage in written:
        stage.write_text((_STAGES / stage.name).read_text().replace('"KUBERNETES"', f'"{release}"'))
    return written


def registration_stages() -> list[dict[str, Any]]:
    """The stages in which an autoscaler's node gets its hostname label and then loses its start-up taint."""
    every = yaml.safe_load_all((_STAGES / "node.yaml").read_text())
    return [one for one in every if one["metadata"]["name"] in ("node-register", "node-start")]


def kwok(kubeconfig: Path, stages: Sequence[Path], port: int) -> list[str]:
    """KWOK for annotated nodes; it refuses to run without stages."""
    return [
        f"--kubeconfig={kubeconfig}",
        *(f"--config={stage}" for stage in stages),
        f"--manage-nodes-with-annotation-selector={KWOK_ANNOTATION}=fake",
        f"--cidr={_PODS}",
        f"--node-ip={_NODE_ADDRESS}",
        "--node-lease-duration-seconds=40",
        f"--server-address=127.0.0.1:{port}",
    ]


def _serving(identity: Identity, kubeconfig: Path, port: int) -> list[str]:
    return [
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        *_certificate(identity),
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
    ]


def _certificate(identity: Identity) -> list[str]:
    return [
        f"--tls-cert-file={identity.public('server')}",
        f"--tls-private-key-file={identity.private('server')}",
    ]
