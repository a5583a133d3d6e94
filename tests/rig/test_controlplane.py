"""The launcher gives a control plane that behaves as a real one: RBAC, tokens, controllers, kubelets."""

from __future__ import annotations

import asyncio
import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
import yaml

from fairlead.cloud.kwok import config_maps
from fairlead.errors import RigError
from fairlead.nodegroups import GROUP_LABEL, read_groups
from fairlead.rig import build
from fairlead.rig.controlplane import ControlPlane
from fairlead.rig.processes import wait_until
from support.rig import programs
from support.versions import POD_GROUPS, pod_groups_on

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    programs("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok", "kubectl")
    with ControlPlane() as running:
        running.start_controller_manager()
        running.start_kwok()
        running.start_scheduler()
        running.add_nodes(3)
        yield running


def items(plane: ControlPlane, *arguments: str) -> list[dict[str, Any]]:
    found = json.loads(plane.kubectl("get", *arguments, "-o", "json").stdout)["items"]
    assert isinstance(found, list)
    return found


def deployment(name: str, replicas: int) -> str:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    return yaml.safe_dump(
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}
    )


def test_nodes_are_ready_named_and_untainted(plane: ControlPlane) -> None:
    nodes = items(plane, "nodes")

    assert sorted(node["metadata"]["name"] for node in nodes) == ["node-0", "node-1", "node-2"]
    for node in nodes:
        assert node["metadata"]["labels"]["kubernetes.io/hostname"] == node["metadata"]["name"]
        assert "taints" not in node["spec"]
        assert {"type": "InternalIP", "address": "127.0.0.2"} in node["status"]["addresses"]


def test_a_node_that_comes_without_a_hostname_gets_one_before_it_is_ready(plane: ControlPlane) -> None:
    bare = {"metadata": {"name": "bare", "annotations": {"kwok.x-k8s.io/node": "fake"}}}
    plane.api.create("/api/v1/nodes", bare)

    def ready() -> bool:
        node = plane.api.get("/api/v1/nodes/bare")
        conditions = node["status"].get("conditions", [])
        is_ready = any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
        assert not is_ready or node["metadata"]["labels"]["kubernetes.io/hostname"] == "bare"
        return is_ready

    wait_until(ready, "the node to be Ready", timeout_s=30)
    plane.kubectl("delete", "node", "bare")


def test_no_pod_is_put_on_a_node_of_an_autoscaler_before_it_has_its_hostname(plane: ControlPlane) -> None:
    """Two pods with anti-affinity on the hostname would both be put on a node without that label."""
    groups = read_groups([{"name": "made", "taints": [{"key": "own", "effect": "NoSchedule"}]}])
    [template] = yaml.safe_load(config_maps(groups, "kube-system")[1]["data"]["templates"])["items"]
    # Many of them: KWOK picks at random among the stages that match a node.
    names = [f"made-{number}" for number in range(20)]
    for name in names:
        plane.api.create("/api/v1/nodes", template | {"metadata": template["metadata"] | {"name": name}})

    def started(name: str) -> bool:
        node = plane.api.get(f"/api/v1/nodes/{name}")
        keys = [taint["key"] for taint in node["spec"].get("taints", [])]
        free = not any(key.startswith("startup-taint.cluster-autoscaler.kubernetes.io/") for key in keys)
        assert not free or node["metadata"]["labels"]["kubernetes.io/hostname"] == name
        assert "own" in keys
        return keys == ["own"]

    for name in names:
        wait_until(partial(started, name), "the node to be usable", timeout_s=30)
    plane.kubectl("delete", "node", *names)


def test_a_deployments_pods_run_and_are_gone_after_its_deletion(plane: ControlPlane) -> None:
    plane.kubectl("apply", "-f", "-", stdin=deployment("web", 4))
    plane.kubectl("rollout", "status", "deployment/web", "--timeout=60s")
    pods = items(plane, "pods", "-l", "app=web")
    assert [pod["status"]["phase"] for pod in pods] == ["Running"] * 4
    assert all(pod["spec"]["nodeName"].startswith("node-") for pod in pods)

    plane.kubectl("delete", "deployment/web", "--cascade=foreground", "--timeout=60s")

    assert items(plane, "pods", "-l", "app=web") == []


def test_a_job_succeeds(plane: ControlPlane) -> None:
    plane.kubectl("create", "job", "sum", "--image=i")
    plane.kubectl("wait", "--for=condition=complete", "job/sum", "--timeout=60s")

    assert [pod["status"]["phase"] for pod in items(plane, "pods", "-l", "job-name=sum")] == ["Succeeded"]


def test_a_service_account_is_who_its_token_says_and_may_what_rbac_says(plane: ControlPlane) -> None:
    plane.kubectl("create", "serviceaccount", "robot")
    token = plane.kubectl("create", "token", "robot").stdout.strip()
    pods = f"{plane.url}/api/v1/namespaces/default/pods"

    status, answer = as_bearer(plane, token, pods)
    assert status == 403
    assert 'User "system:serviceaccount:default:robot" cannot list' in answer["message"]

    plane.kubectl("create", "rolebinding", "robot", "--clusterrole=view", "--serviceaccount=default:robot")
    wait_until(
        lambda: as_bearer(plane, token, pods)[0] == 200, "the role binding to take effect", timeout_s=30
    )
    assert as_bearer(plane, token + "x", pods)[0] == 401


def as_bearer(plane: ControlPlane, token: str, url: str) -> tuple[int, dict[str, Any]]:
    tls = ssl.create_default_context(cafile=plane.ca_file)
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"})
    try:
        with urllib.request.urlopen(request, context=tls) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


def test_a_user_whom_rbac_gives_nothing_is_refused(plane: ControlPlane) -> None:
    stranger = plane.kubeconfig_for("stranger", ["nobodies"])

    refused = plane.kubectl("get", "pods", f"--kubeconfig={stranger}", check=False)

    assert refused.returncode == 1
    assert 'User "stranger" cannot list resource "pods"' in refused.stderr


def test_what_runs_already_is_not_started_twice(plane: ControlPlane) -> None:
    with pytest.raises(RigError, match="kwok is running already"):
        plane.start_kwok()


async def test_it_is_an_asynchronous_context_manager_too() -> None:
    programs("etcd", "kube-apiserver")
    async with ControlPlane() as plane:
        url = plane.url
        assert plane.api.exists("/api/v1/namespaces/default")
        folder = plane.folder
        with pytest.raises(RigError, match="nodes become Ready only with KWOK"):
            plane.add_nodes(1)

    assert url.startswith("https://127.0.0.1:")
    assert not folder.exists()
    with pytest.raises(RigError, match="not running"):
        plane.api.get("/api")


async def test_cancelled_half_way_it_leaves_nothing_behind() -> None:
    programs("etcd", "kube-apiserver")
    plane = ControlPlane()
    starting = asyncio.ensure_future(plane.__aenter__())
    await asyncio.sleep(0)  # it is on its way, in a thread of its own

    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting

    assert not plane.folder.exists()
    with pytest.raises(RigError, match="not running"):
        plane.api.get("/api")


def test_an_api_server_that_is_restarted_is_where_it_was_with_what_was_stored(plane: ControlPlane) -> None:
    name, url = "/api/v1/namespaces/default/configmaps/kept", plane.url
    plane.api.create("/api/v1/namespaces/default/configmaps", {"metadata": {"name": "kept"}})
    before = plane.programs["kube-apiserver"].pid
    plane.restart_apiserver()
    assert plane.programs["kube-apiserver"].pid != before
    assert plane.url == url
    assert plane.api.exists(name)
    # Its other clients find it again: a controller still works.
    plane.kubectl("apply", "-f", "-", stdin=deployment("after", 1))
    plane.kubectl("wait", "--for=condition=Available", "deployment/after", "--timeout=60s")


@pytest.mark.slow
def test_gates_and_apis_that_are_off_by_default_can_be_switched_on() -> None:
    programs("etcd", "kube-apiserver", "kubectl")
    if POD_GROUPS is None:
        pytest.skip("this version of Kubernetes has no PodGroups")
    with ControlPlane(**pod_groups_on()) as plane:
        resources = plane.api.get(f"/apis/{POD_GROUPS}")["resources"]

    assert {"podgroups", "workloads"} <= {resource["name"] for resource in resources}


NODE_POOL = """
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: small}
spec:
  limits: {nodes: 2}
  template:
    spec:
      nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}
      requirements:
      - {key: karpenter.kwok.sh/instance-cpu, operator: In, values: ["2"]}
      - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
"""


@pytest.mark.slow
def test_karpenter_brings_nodes_from_zero() -> None:
    programs(
        "etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok", "kubectl", "karpenter"
    )
    with ControlPlane() as plane:
        plane.start_controller_manager()
        plane.start_kwok()
        plane.start_scheduler()
        plane.start_karpenter()
        plane.kubectl("apply", "-f", "-", stdin=NODE_POOL)
        plane.kubectl("apply", "-f", "-", stdin=deployment("web", 2))
        plane.kubectl("rollout", "status", "deployment/web", "--timeout=90s")

        names = {node["metadata"]["labels"]["karpenter.sh/nodepool"] for node in items(plane, "nodes")}

    assert names == {"small"}


@pytest.mark.slow
def test_cluster_autoscaler_brings_nodes_from_zero() -> None:
    if build.cluster_autoscaler() is None:
        pytest.skip("FAIRLEAD_CLUSTER_AUTOSCALER names no program")
    programs("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok", "kubectl")
    size = {"capacity": {"cpu": "2", "memory": "4Gi"}}
    groups = read_groups([{"name": "small", "max": 2, "instanceTypes": [size]}])
    with ControlPlane() as plane:
        plane.start_controller_manager()
        plane.start_kwok()
        plane.start_scheduler()
        for config_map in config_maps(groups, "kube-system"):
            plane.api.create("/api/v1/namespaces/kube-system/configmaps", config_map)
        plane.start_cluster_autoscaler()
        plane.kubectl("apply", "-f", "-", stdin=deployment("web", 1))
        plane.kubectl("rollout", "status", "deployment/web", "--timeout=90s")

        found = {node["metadata"]["labels"][GROUP_LABEL] for node in items(plane, "nodes")}

    assert found == {"small"}
