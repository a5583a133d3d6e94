"""setup.sh run in earnest against a real control plane; only docker and minikube are stubs.

The image is never built and KWOK plays the nodes, so the scheduler's pods run nothing. What is shown is that
the script installs, waits, can be run again and tells how to remove what it installed.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from fairlead.rig.controlplane import ControlPlane
from support.rig import programs

pytestmark = [pytest.mark.real, pytest.mark.slow]

ROOT = Path(__file__).resolve().parents[2]
CONTEXT = "lab"


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    programs("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok", "kubectl")
    with ControlPlane() as found:
        found.start_controller_manager()
        found.start_kwok()
        found.start_scheduler()
        found.add_nodes(2)
        yield found


Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def setup(plane: ControlPlane, tmp_path: Path) -> Run:
    """Runs setup.sh with a kubeconfig whose context is called as minikube would call it."""
    config = yaml.safe_load(plane.kubeconfig.read_text())
    config["contexts"][0]["name"] = config["current-context"] = CONTEXT
    (tmp_path / "config").write_text(yaml.safe_dump(config))
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "kubectl").symlink_to(programs("kubectl")[0])

    def run(*arguments: str, image_id: str = "sha256:1") -> subprocess.CompletedProcess[str]:
        for tool, text in (("docker", f'[ "$1" != image ] || echo {image_id}'), ("minikube", "exit 0")):
            (tools / tool).write_text(f"#!/bin/sh\n{text}\n")
            (tools / tool).chmod(0o755)
        return subprocess.run(
            ["bash", str(ROOT / "setup.sh"), "--cluster=minikube", "--engine=docker", *arguments],
            env={
                "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}",
                "HOME": str(tmp_path),
                "KUBECONFIG": str(tmp_path / "config"),
            },
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    return run


def replica_sets(plane: ControlPlane, namespace: str) -> int:
    return len(plane.api.get(f"/apis/apps/v1/namespaces/{namespace}/replicasets")["items"])


def test_it_installs_is_run_again_without_harm_and_can_be_removed(plane: ControlPlane, setup: Run) -> None:
    first = setup("placing", "fairlead:v1", CONTEXT)
    assert first.returncode == 0, first.stderr
    assert "successfully rolled out" in first.stdout
    assert replica_sets(plane, "placing") == 1

    assert setup("placing", "fairlead:v1", CONTEXT).returncode == 0
    assert replica_sets(plane, "placing") == 1, "an unchanged image is not rolled out again"

    assert setup("placing", "fairlead:v1", CONTEXT, image_id="sha256:2").returncode == 0
    assert replica_sets(plane, "placing") == 2, "a rebuilt one is"

    lines = first.stdout.splitlines()
    at = next(number for number, line in enumerate(lines) if "delete -l" in line)
    removal = f"{lines[at].strip().removesuffix(chr(92))} {lines[at + 1].strip()}".split()
    assert removal[:2] == ["kubectl", f"--context={CONTEXT}"]
    plane.kubectl(*removal[2:])
    assert (
        plane.kubectl("get", "clusterroles,clusterrolebindings", "-o", "name").stdout.count("fairlead") == 0
    )
    left = plane.kubectl(
        "get", "deployments,configmaps,roles,rolebindings,pdb", "-n", "placing", "-o", "name"
    )
    assert "fairlead" not in left.stdout


@pytest.mark.parametrize("doors", ["webhook,extender,rebalance", "burst", "serve"])
def test_any_doors_are_installed_and_removed(plane: ControlPlane, setup: Run, doors: str) -> None:
    namespace = doors.replace(",", "-")
    done = setup("--doors", doors, namespace, "fairlead:v1", CONTEXT)
    assert done.returncode == 0, done.stderr
    listed = plane.kubectl("get", "deployments", "-n", namespace, "-o", "name").stdout.split()
    assert listed == [f"deployment.apps/fairlead-{door}" for door in sorted(doors.split(","))]
    lines = done.stdout.splitlines()
    at = next(number for number, line in enumerate(lines) if "delete -l" in line)
    removal = f"{lines[at].strip().removesuffix(chr(92))} {lines[at + 1].strip()}".split()
    plane.kubectl(*removal[2:])
    assert plane.kubectl("get", "deployments,services", "-n", namespace, "-o", "name").stdout == ""
    # Policies are their users': what defines them stays.
    assert plane.kubectl("get", "crd", "placementpolicies.fairlead.dev", "-o", "name").stdout


def test_without_a_cluster_under_the_profile_nothing_is_built(setup: Run) -> None:
    done = setup("placing", "fairlead:v1", "nowhere")
    assert done.returncode == 1
    assert "no cluster answers under the context nowhere" in done.stderr
    assert "Build the image" not in done.stdout
