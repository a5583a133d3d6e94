"""What Fairlead's accounts may change of pods, as a real API server judges it; others may what they could."""

from __future__ import annotations

import itertools
import json
import subprocess
import time
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from tools.shipped_rights import DEPLOY, NAMESPACE, shipped_objects, shipped_rights

from fairlead.engine.snapshot.evicted import CONDITION
from fairlead.rig.controlplane import ControlPlane
from support.rig import programs
from support.wire import PATIENCE_S

pytestmark = pytest.mark.real

DOORS = ("scheduler", "burst", "extender", "rebalance", "serve", "webhook")
OURS = f"system:serviceaccount:{NAMESPACE}:fairlead"
DENIED = "fairlead-pods"
TOLERATION = {"key": "mine", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60}

Obj = dict[str, Any]
Patch = Obj | list[Obj]


def pod(name: str, **metadata: Any) -> Obj:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "labels": {"app": "web"},
            "annotations": {"note": "mine", "fairlead.dev/capacity": "exclusive"},
            **metadata,
        },
        "spec": {
            "schedulerName": "fairlead",
            "schedulingGates": [{"name": "example.com/gate"}],
            "tolerations": [TOLERATION],
            "containers": [{"name": "main", "image": "image"}],
        },
    }


def condition(kind: str, status: str = "True") -> Obj:
    return {"type": kind, "status": status, "reason": "Tested", "message": "as a test"}


STARTED = {
    "phase": "Pending",
    "conditions": [condition("Ready", "False"), condition("PodScheduled", "Unknown")],
    "nominatedNodeName": "node-0",
}


@pytest.fixture(scope="module")
def fenced() -> Iterator[ControlPlane]:
    """An API server that enforces the fence. Nobody else is there to write pods or remove them."""
    programs("etcd", "kube-apiserver", "kube-controller-manager", "kubectl")
    with ControlPlane() as plane:
        install(plane)
        yield plane


def install(plane: ControlPlane) -> None:
    rights = [*shipped_rights(), *shipped_objects(*(f"{door}/rbac.yaml" for door in DOORS[1:]))]
    text = yaml.safe_dump_all([*rights, *every_right()])
    plane.kubectl("apply", "--validate=strict", "-f", "-", stdin=text)
    plane.kubectl("create", "namespace", "fenced")
    plane.kubectl("create", "serviceaccount", "default", "--namespace=fenced")
    create(plane, pod("probe"))
    deadline = time.monotonic() + PATIENCE_S
    others = (f"other-{number}" for number in itertools.count())
    while DENIED not in write(plane, "probe", {"metadata": {"labels": {"app": next(others)}}}).stderr:
        assert time.monotonic() < deadline, "the API server does not know of the policy"
        time.sleep(0.1)


def every_right() -> list[Obj]:
    """The right to write pods, for accounts whose own roles do not have it."""
    rule = {"apiGroups": [""], "resources": ["pods", "pods/status"], "verbs": ["get", "update", "patch"]}
    role = {"kind": "ClusterRole", "metadata": {"name": "fence-test"}, "rules": [rule]}
    subjects = [
        {"kind": "Group", "name": f"system:serviceaccounts:{NAMESPACE}", "apiGroup": RBAC},
        {"kind": "User", "name": "somebody", "apiGroup": RBAC},
    ]
    reference = {"apiGroup": RBAC, "kind": "ClusterRole", "name": "fence-test"}
    binding = {"kind": "ClusterRoleBinding", "metadata": {"name": "fence-test"}}
    binding |= {"roleRef": reference, "subjects": subjects}
    return [{"apiVersion": f"{RBAC}/v1", **one} for one in (role, binding)]


RBAC = "rbac.authorization.k8s.io"


def create(plane: ControlPlane, *pods: Obj) -> None:
    plane.kubectl("create", "--namespace=fenced", "-f", "-", stdin=yaml.safe_dump_all(pods))
    for one in pods:
        done = write(plane, one["metadata"]["name"], {"status": STARTED}, status=True, user="")
        assert done.returncode == 0, done.stderr


def write(
    plane: ControlPlane,
    name: str,
    patch: Patch,
    *,
    status: bool = False,
    user: str = OURS,
    how: str = "strategic",
) -> subprocess.CompletedProcess[str]:
    """Patch a pod, as the account; a list is a JSON patch."""
    how = "json" if isinstance(patch, list) else how
    arguments = [f"--as={user}"] if user else []
    if status:
        arguments.append("--subresource=status")
    text = json.dumps(patch)
    return plane.kubectl(
        "patch", "pod", name, "--namespace=fenced", f"--type={how}", "-p", text, *arguments, check=False
    )


_NAMES = (f"web-{number}" for number in itertools.count())


@pytest.fixture
def name(fenced: ControlPlane) -> str:
    """A pod of the test's own."""
    found = next(_NAMES)
    create(fenced, pod(found))
    return found


OWN_WRITES: dict[str, tuple[Obj, bool]] = {
    "slot": (
        {
            "metadata": {
                "annotations": {
                    "fairlead.dev/slot": "3",
                    "fairlead.dev/capacity": None,
                    "controller.kubernetes.io/pod-deletion-cost": "-3",
                }
            }
        },
        False,
    ),
    "condition": ({"status": {"conditions": [condition("PodScheduled", "False")]}}, True),
    "promise": ({"status": {"nominatedNodeName": "node-1"}}, True),
    "promise taken back": ({"status": {"nominatedNodeName": None}}, True),
    "eviction": ({"status": {"conditions": [condition("DisruptionTarget"), condition(CONDITION)]}}, True),
}


@pytest.mark.parametrize(("patch", "status"), OWN_WRITES.values(), ids=OWN_WRITES)
def test_what_fairlead_writes_passes(fenced: ControlPlane, name: str, patch: Obj, status: bool) -> None:
    done = write(fenced, name, patch, status=status)
    assert (done.returncode, done.stderr) == (0, "")
    assert "no change" not in done.stdout


def test_an_added_toleration_passes(fenced: ControlPlane, name: str) -> None:
    now = json.loads(fenced.kubectl("get", "pod", name, "--namespace=fenced", "-o", "json").stdout)
    tolerations = [*now["spec"]["tolerations"], {"key": "tier", "operator": "Exists"}]
    done = write(fenced, name, {"spec": {"tolerations": tolerations}}, how="merge")
    assert (done.returncode, done.stderr) == (0, "")
    assert "no change" not in done.stdout


def test_a_pod_that_is_being_deleted_may_be_marked(fenced: ControlPlane) -> None:
    create(fenced, pod("leaving", finalizers=["example.com/kept"]))
    fenced.kubectl("delete", "pod", "leaving", "--namespace=fenced", "--wait=false")
    done = write(fenced, "leaving", OWN_WRITES["eviction"][0], status=True)
    assert (done.returncode, done.stderr) == (0, "")


OTHER_WRITES: dict[str, tuple[Patch, bool]] = {
    "image": ({"spec": {"containers": [{"name": "main", "image": "other"}]}}, False),
    "deadline": ({"spec": {"activeDeadlineSeconds": 1}}, False),
    "gate": ({"spec": {"schedulingGates": [{"$patch": "delete", "name": "example.com/gate"}]}}, False),
    "toleration": ([{"op": "replace", "path": "/spec/tolerations/0/tolerationSeconds", "value": 1}], False),
    "label": ({"metadata": {"labels": {"app": "other"}}}, False),
    "label removed": ({"metadata": {"labels": None}}, False),
    "finalizer": ({"metadata": {"finalizers": ["example.com/mine"]}}, False),
    "owner": (
        {"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u"}]}},
        False,
    ),
    "annotation": ({"metadata": {"annotations": {"other": "yes"}}}, False),
    "annotation changed": ({"metadata": {"annotations": {"note": "ours"}}}, False),
    "annotation removed": ({"metadata": {"annotations": {"note": None}}}, False),
    "annotation like ours": ({"metadata": {"annotations": {"fairlead.developer/x": "yes"}}}, False),
    "annotation by status": ({"metadata": {"annotations": {"fairlead.dev/slot": "1"}}}, True),
    "label by status": ({"metadata": {"labels": {"app": "other"}}}, True),
    "phase": ({"status": {"phase": "Running"}}, True),
    "address": ({"status": {"hostIP": "10.0.0.1"}}, True),
    "condition": ({"status": {"conditions": [condition("Ready")]}}, True),
    "new condition": ({"status": {"conditions": [condition("example.com/Other")]}}, True),
    "condition removed": ({"status": {"conditions": [{"$patch": "delete", "type": "Ready"}]}}, True),
}


@pytest.mark.parametrize(("patch", "status"), OTHER_WRITES.values(), ids=OTHER_WRITES)
def test_another_change_is_denied_to_fairlead_and_nobody_else(
    fenced: ControlPlane, name: str, patch: Patch, status: bool
) -> None:
    refused = write(fenced, name, patch, status=status)
    assert refused.returncode != 0, refused.stdout
    assert DENIED in refused.stderr
    done = write(fenced, name, patch, status=status, user="somebody")
    assert (done.returncode, done.stderr) == (0, "")
    assert "no change" not in done.stdout


@pytest.mark.parametrize("door", DOORS)
def test_the_account_of_every_component_is_fenced_in(fenced: ControlPlane, name: str, door: str) -> None:
    file = "rbac.yaml" if door == "scheduler" else f"{door}/rbac.yaml"
    (account,) = [one["metadata"]["name"] for one in shipped_objects(file) if one["kind"] == "ServiceAccount"]
    user = f"system:serviceaccount:{NAMESPACE}:{account}"
    patch = {"metadata": {"labels": {"app": "other"}}}
    assert DENIED in write(fenced, name, patch, user=user).stderr


def test_a_large_pod_is_within_the_limits_of_what_an_expression_may_cost(fenced: ControlPlane) -> None:
    large = pod("large")
    environment = [{"name": f"VARIABLE_{index}", "value": "x" * 100} for index in range(100)]
    large["spec"]["containers"] = [
        {"name": f"container-{index}", "image": "image", "env": environment} for index in range(40)
    ]
    large["spec"]["tolerations"] = [{"key": f"key-{index}", "operator": "Exists"} for index in range(200)]
    large["metadata"]["annotations"] = {f"example.com/annotation-{index}": "x" * 200 for index in range(1000)}
    create(fenced, large)
    conditions = [condition(f"example.com/condition-{index}") for index in range(200)]
    filled = write(fenced, "large", {"status": {"conditions": conditions}}, status=True, user="")
    assert filled.returncode == 0, filled.stderr
    for patch, status in OWN_WRITES.values():
        done = write(fenced, "large", patch, status=status)
        assert (done.returncode, done.stderr) == (0, "")
    for patch, status in (OTHER_WRITES["label"], OTHER_WRITES["phase"]):
        assert DENIED in write(fenced, "large", patch, status=status).stderr


def test_its_expressions_are_of_the_right_types(fenced: ControlPlane) -> None:
    """The controller manager checks them against the types of pods, and reports in the status."""
    fenced.start_controller_manager()
    deadline = time.monotonic() + PATIENCE_S
    path = f"/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/{DENIED}"
    while not (status := fenced.api.get(path).get("status", {})).get("observedGeneration"):
        assert time.monotonic() < deadline, "nobody checks the policy"
        time.sleep(0.1)
    assert status.get("typeChecking", {}) == {}


def test_the_fence_is_part_of_what_every_component_needs() -> None:
    assert "fence.yaml" in yaml.safe_load((DEPLOY / "policies/kustomization.yaml").read_text())["resources"]
