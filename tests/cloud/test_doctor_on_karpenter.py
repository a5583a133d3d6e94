"""The doctor on a cluster where Karpenter itself runs: what it says, Karpenter bears out."""

from __future__ import annotations

import json
from typing import Any

import pytest

from support.cluster import Cluster
from support.command import run_command
from support.doctor import GROUPS, waiting

pytestmark = [pytest.mark.real, pytest.mark.slow]

POOLS = "/apis/karpenter.sh/v1/nodepools"


def pool(
    cluster: Cluster, called: str, *, cpu: str = "4", node_class: str = "default", limit: str = "100"
) -> str:
    """A NodePool of one size, for pods that ask for its label and tolerate its taint."""
    name = cluster.unique(called)
    reference = {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": node_class}
    made = {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": name},
        "spec": {
            "limits": {"cpu": limit},
            "template": {
                "metadata": {"labels": {"size": name}},
                "spec": {
                    "nodeClassRef": reference,
                    "taints": [{"key": "size", "value": name, "effect": "NoSchedule"}],
                    "requirements": [
                        {"key": "karpenter.kwok.sh/instance-cpu", "operator": "In", "values": [cpu]},
                        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
                    ],
                },
            },
        },
    }
    cluster.wire.request("POST", POOLS, made).ok()
    cluster.owns(f"{POOLS}/{name}")
    return name


def wants(cluster: Cluster, called: str, size: str, **changes: Any) -> str:
    """A pod for a pool's nodes: its namespace/name."""
    given = waiting(size=size, **changes)
    made = cluster.create({**given, "metadata": {"name": called}, "status": {}})
    return f"{made['metadata']['namespace']}/{made['metadata']['name']}"


def told(cluster: Cluster, pod: str) -> dict[str, str]:
    """What the doctor finds, as cause → subject."""
    words = ["-f", str(GROUPS), "--kubeconfig", str(cluster.kubeconfig), "--pod", pod, "-o", "json"]
    done = run_command("nodegroups", "doctor", *words, timeout=120)
    assert done.returncode in (0, 1), done.stderr
    return {each["cause"]: each["group"] or each["pod"] for each in json.loads(done.stdout)["findings"]}


def bound(cluster: Cluster, pod: str) -> bool:
    return bool(cluster.get("Pod", pod.partition("/")[2])["spec"].get("nodeName"))


def test_what_is_wrong_with_pools_is_named_and_what_is_not_gets_its_node(own: Cluster) -> None:
    # A node class that is not there yet would say so of every pod: first the pools, then what waits.
    well, none = pool(own, "well"), pool(own, "none", cpu="3")
    full, lost = pool(own, "full", limit="3"), pool(own, "lost", node_class="lost")
    own.wait(lambda: _condition(own, lost, "NodeClassReady") == "False", "Karpenter to miss the node class")
    own.wait(lambda: _condition(own, well, "Ready") == "True", "the NodePool to be ready")
    pods = {name: wants(own, f"for-{name}", name) for name in (none, full, lost)}
    big, stranger = wants(own, "big", well, cpu="5"), wants(own, "stranger", well, tolerates="other")
    for pod in (*pods.values(), big, stranger):
        own.wait(lambda pod=pod: _unschedulable(own, pod), f"{pod} to be unschedulable")
    assert told(own, pods[none])["nodepool-without-types"] == f"NodePool {none}"
    assert told(own, pods[full])["nodepool-limit-reached"] == f"NodePool {full}"
    assert told(own, pods[lost])["node-class-not-ready"] == f"NodePool {lost}"
    assert told(own, big)["pod-too-big"] == big
    assert told(own, stranger)["taint-not-tolerated"] == stranger
    fine = wants(own, "fine", well)
    own.wait(lambda: bound(own, fine), "Karpenter to bring a node")
    assert not any(bound(own, pod) for pod in (*pods.values(), big, stranger))


def _condition(cluster: Cluster, pool: str, kind: str) -> str:
    found: dict[str, Any] = cluster.wire.request("GET", f"{POOLS}/{pool}").ok()
    conditions = found.get("status", {}).get("conditions", [])
    return next((str(each["status"]) for each in conditions if each["type"] == kind), "")


def _unschedulable(cluster: Cluster, pod: str) -> bool:
    conditions = cluster.get("Pod", pod.partition("/")[2]).get("status", {}).get("conditions", [])
    return any(each["type"] == "PodScheduled" and each["status"] == "False" for each in conditions)
