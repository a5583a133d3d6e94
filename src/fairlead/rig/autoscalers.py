"""The autoscalers that act on a rig's pending pods, each with a provider that makes KWOK nodes.

Both keep their own idea of time; the arguments here make them look every second, for tests.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import yaml

from fairlead.errors import TooManyRequests
from fairlead.rig.api import Api
from fairlead.rig.processes import Program, answers, wait_until

_NAMESPACE = "kube-system"
_CRDS_PATH = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


class Run(Protocol):
    """Starts a program and returns when it is ready."""

    def __call__(
        self, name: str, binary: Path, *arguments: str, ready: Any, env: Mapping[str, str] | None = None
    ) -> Program: ...


def run_karpenter(
    run: Run,
    api: Api,
    binary: Path,
    crds: Path,
    *,
    kubeconfig: Path,
    ports: list[int],
    env: Mapping[str, str],
) -> Program:
    """Karpenter with its KWOK provider. A group's maximum is its NodePool's ``limits.nodes``."""
    install_crds(api, crds)
    node_class = "/apis/karpenter.kwok.sh/v1alpha1/kwoknodeclasses"
    if not api.exists(f"{node_class}/default"):
        api.create(
            node_class,
            {
                "apiVersion": "karpenter.kwok.sh/v1alpha1",
                "kind": "KWOKNodeClass",
                "metadata": {"name": "default"},
            },
        )
    own = {
        "KUBECONFIG": str(kubeconfig),
        "SYSTEM_NAMESPACE": _NAMESPACE,
        "DISABLE_LEADER_ELECTION": "true",
        "HEALTH_PROBE_PORT": str(ports[0]),
        "METRICS_PORT": str(ports[1]),
        "BATCH_IDLE_DURATION": "500ms",
    }
    return run("karpenter", binary, ready=lambda: answers(ports[0], "/readyz"), env=own | dict(env))


def run_cluster_autoscaler(
    run: Run,
    binary: Path,
    *,
    namespace: str,
    kubeconfig: Path,
    ports: list[int],
    arguments: Sequence[str] = (),
) -> Program:
    """Cluster Autoscaler with its KWOK provider, which reads its ConfigMaps from `namespace` once."""
    own = {"POD_NAMESPACE": namespace, "KWOK_PROVIDER_MODE": "local", "KUBECONFIG": str(kubeconfig)}
    return run(
        "cluster-autoscaler",
        binary,
        "--cloud-provider=kwok",
        f"--kubeconfig={kubeconfig}",
        f"--namespace={namespace}",
        f"--address=127.0.0.1:{ports[0]}",
        "--leader-elect=false",
        "--scan-interval=1s",
        "--scale-down-unneeded-time=5s",
        "--scale-down-delay-after-add=5s",
        # Five minutes by default, which hides every scale-down from a test.
        "--unremovable-node-recheck-timeout=5s",
        # The provider makes no node of its own accord, not even a group's minimum.
        "--enforce-node-group-min-size=true",
        *arguments,
        ready=lambda: answers(ports[0], "/health-check"),
        env=own,
    )


def install_crds(api: Api, folder: Path) -> None:
    """Create every CustomResourceDefinition in `folder`, and return when all are served."""
    paths = []
    for file in sorted(folder.glob("*.yaml")):
        for crd in yaml.safe_load_all(file.read_text()):
            if not crd:
                continue
            if not api.exists(f"{_CRDS_PATH}/{crd['metadata']['name']}"):
                api.create(_CRDS_PATH, crd)
            spec = crd["spec"]
            paths += [
                f"/apis/{spec['group']}/{version['name']}/{spec['names']['plural']}"
                for version in spec["versions"]
                if version["served"]
            ]

    # Asked of the paths themselves: a definition says Established a moment before they answer.
    wait_until(
        lambda: all(_is_served(api, path) for path in paths),
        "CustomResourceDefinitions to be served",
        timeout_s=60,
    )


def _is_served(api: Api, path: str) -> bool:
    try:
        return api.exists(path)
    except TooManyRequests:
        return False  # "storage is (re)initializing": it was found, and is about to answer
