"""setup.sh, as far as it can be seen without a cluster: its dry run, its messages, what it renders.

The tools it looks for are stubs here that only exist (and succeed): `--dry-run` runs none of their work.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
BASE_TOOLS = ("bash", "cat", "dirname", "mktemp", "rm", "sed")

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def setup(tmp_path: Path) -> Run:
    """Runs setup.sh where nothing is installed but a few basic tools and stubs of the named ones."""
    found = tmp_path / "bin"
    found.mkdir()
    for tool in BASE_TOOLS:
        path = shutil.which(tool)
        assert path is not None
        (found / tool).symlink_to(path)

    def run(*arguments: str, tools: str = "", **scripts: str) -> subprocess.CompletedProcess[str]:
        for tool in tools.split():
            stub = found / tool
            stub.write_text(f"#!/bin/bash\n{scripts.get(tool, 'exit 0')}\n")
            stub.chmod(0o755)
        return subprocess.run(
            ["bash", str(ROOT / "setup.sh"), *arguments],
            env={"PATH": str(found), "HOME": str(tmp_path), "TMPDIR": str(tmp_path)},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    return run


def steps(done: subprocess.CompletedProcess[str]) -> list[str]:
    assert done.returncode == 0, done.stderr
    return [line[2:] for line in done.stdout.splitlines() if line.startswith("+ ")]


def test_docker_and_minikube(setup: Run) -> None:
    assert steps(setup("--dry-run", tools="kubectl docker minikube")) == [
        f"docker build --build-arg BASE=python:3.13-slim --tag fairlead:local {ROOT}",
        "minikube --profile=minikube image load fairlead:local",
        "kubectl --context=minikube get namespace fairlead-system"
        " || kubectl --context=minikube apply -f deploy/namespace.yaml  # as fairlead-system",
        "kubectl --context=minikube apply -f deploy/"
        "{crds/placementledgers,crds/placementpolicies,policies/rbac,policies/marks,policies/fence,rbac,configuration,scheduler}.yaml"
        "  # for fairlead-system and fairlead:local",
        "kubectl --context=minikube --namespace=fairlead-system"
        " rollout status deployment/fairlead --timeout=180s",
    ]


@pytest.mark.parametrize(
    ("doors", "parts", "waits"),
    [
        ("webhook", "webhook/rbac,webhook/webhook", ["rollout status deployment/fairlead-webhook"]),
        (
            "extender",
            "extender/rbac,extender/extender",
            ["wait deployment/fairlead-extender --for=jsonpath=\\{.status.readyReplicas\\}"],
        ),
        ("burst", "burst/rbac,burst/burst", ["rollout status deployment/fairlead-burst"]),
        ("serve", "configuration,serve/rbac,serve/serve", ["rollout status deployment/fairlead-serve"]),
        (
            "scheduler,webhook,rebalance",
            "rbac,configuration,scheduler,webhook/rbac,webhook/webhook,rebalance/rbac,rebalance/rebalance",
            [
                f"rollout status deployment/{name}"
                for name in ("fairlead", "fairlead-webhook", "fairlead-rebalance")
            ],
        ),
    ],
)
def test_doors_are_picked(setup: Run, doors: str, parts: str, waits: list[str]) -> None:
    found = steps(setup("--dry-run", "--doors", doors, tools="kubectl docker minikube"))
    shared = "crds/placementledgers,crds/placementpolicies,policies/rbac,policies/marks,policies/fence"
    assert f"apply -f deploy/{{{shared},{parts}}}.yaml" in found[3]
    prefix = "kubectl --context=minikube --namespace=fairlead-system"
    assert found[4:] == [f"{prefix} {wait} --timeout=180s" for wait in waits]


@pytest.mark.parametrize("doors", ["webhook", "scheduler,webhook", "serve", "scheduler"])
def test_who_installs_a_webhook_and_only_they_are_told_how_to_take_it_away(setup: Run, doors: str) -> None:
    out = setup("--dry-run", f"--doors={doors}", tools="kubectl docker minikube").stdout
    assert ("delete mutatingwebhookconfiguration fairlead" in out) is (doors != "scheduler")


def test_a_dry_run_needs_no_container_engine(setup: Run) -> None:
    found = steps(setup("--dry-run", tools="kubectl kind"))
    assert found[0] == f"docker build --build-arg BASE=python:3.13-slim --tag fairlead:local {ROOT}"
    found = steps(setup("--dry-run", "--engine=podman", tools="kubectl kind"))
    assert found[0] == f"podman build --build-arg BASE=python:3.13-slim --tag localhost/fairlead:local {ROOT}"


def test_docker_and_kind_with_all_arguments(setup: Run) -> None:
    found = steps(setup("--dry-run", "placing", "mine:v3", "lab", tools="kubectl docker kind"))
    assert found[0] == f"docker build --build-arg BASE=python:3.13-slim --tag mine:v3 {ROOT}"
    assert found[1] == "kind load docker-image --name=lab mine:v3"
    assert found[3].endswith("# for placing and mine:v3")
    assert all("--context=kind-lab" in line for line in found[2:])
    assert "--namespace=placing" in found[4]


@pytest.mark.parametrize(
    ("cluster", "load"),
    [("minikube", "minikube --profile=minikube image load"), ("kind", "kind load image-archive --name=kind")],
)
def test_podman_hands_the_image_over_as_a_file(setup: Run, cluster: str, load: str) -> None:
    found = steps(setup("--dry-run", tools=f"kubectl podman {cluster}"))
    assert found[0].startswith(
        "podman build --build-arg BASE=python:3.13-slim --tag localhost/fairlead:local "
    )
    assert found[1].startswith("podman save --format=docker-archive --output=")
    tar = found[1].split()[3].removeprefix("--output=")
    assert found[2] == f"{load} {tar}"


@pytest.mark.parametrize(
    ("image", "known_as"),
    [
        ("fairlead:1", "localhost/fairlead:1"),
        ("team/fairlead:1", "localhost/team/fairlead:1"),
        ("quay.io/team/fairlead:1", "quay.io/team/fairlead:1"),
        ("registry:5000/fairlead:1", "registry:5000/fairlead:1"),
        ("localhost/fairlead:1", "localhost/fairlead:1"),
    ],
)
def test_nodes_are_told_the_name_under_which_podman_keeps_an_image(
    setup: Run, image: str, known_as: str
) -> None:
    found = steps(setup("--dry-run", "fairlead-system", image, tools="kubectl podman minikube"))
    assert found[0] == f"podman build --build-arg BASE=python:3.13-slim --tag {known_as} {ROOT}"
    assert found[4].endswith(f"and {known_as}")


def test_podman_is_taken_where_dockers_daemon_does_not_answer(setup: Run) -> None:
    tools = "kubectl docker podman minikube"
    assert steps(setup("--dry-run", tools=tools, docker="exit 1"))[0].startswith("podman build")
    assert steps(setup("--dry-run", tools=tools))[0].startswith("docker build")
    assert steps(setup("--dry-run", "--engine", "podman", tools=tools))[0].startswith("podman build")


def test_with_both_installed_the_current_context_decides(setup: Run) -> None:
    tools = "kubectl docker minikube kind"
    assert steps(setup("--dry-run", tools=tools, kubectl="echo kind-lab"))[1].startswith("kind load")
    assert steps(setup("--dry-run", tools=tools, kubectl="echo minikube"))[1].startswith("minikube")
    assert steps(setup("--dry-run", "--cluster=kind", tools=tools))[1].startswith("kind load")


def test_the_next_steps_name_the_cluster_and_the_namespace(setup: Run) -> None:
    out = setup("--dry-run", "placing", tools="kubectl docker kind").stdout
    assert "kubectl --context=kind-kind apply -f examples/priorities.yaml" in out
    assert "kubectl --context=kind-kind --namespace=placing logs -l app=fairlead" in out


@pytest.mark.parametrize(
    ("tools", "arguments", "says"),
    [
        ("docker minikube", (), "kubectl is not installed"),
        ("kubectl minikube", (), "neither docker nor podman is installed"),
        ("kubectl docker", (), "neither minikube nor kind is installed"),
        ("kubectl docker minikube", ("--cluster", "kind"), "kind is not installed"),
        ("kubectl docker minikube", ("--engine", "podman"), "podman is not installed"),
    ],
)
def test_a_missing_tool_is_named(setup: Run, tools: str, arguments: tuple[str, ...], says: str) -> None:
    done = setup(*arguments, tools=tools)
    assert done.returncode == 1
    assert done.stderr.startswith("error: ")
    assert says in done.stderr


def test_it_says_which_context_it_is_about_to_change_unless_it_is_a_dry_run(setup: Run) -> None:
    done = setup("x", "y:1", "lab", tools="kubectl docker kind", kubectl="exit 0")
    assert 'About to change the cluster of context "kind-lab"' in done.stderr
    done = setup("--dry-run", "x", "y:1", "lab", tools="kubectl docker kind")
    assert "About to change" not in done.stderr


def test_a_cluster_that_does_not_answer_is_named_with_the_way_to_make_one(setup: Run) -> None:
    done = setup("x", "y:1", "lab", tools="kubectl docker kind", kubectl="exit 1")
    assert done.returncode == 1
    assert "no cluster answers under the context kind-lab" in done.stderr
    assert "kind create cluster --name lab" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("Not_A_Namespace",), "cannot be a namespace"),
        (("ns", "untagged"), "is not an image with a tag"),
        (("ns", "fairlead:latest"), "makes a node pull the image"),
        (("a", "b:c", "d", "e"), "too many arguments"),
        (("--dryrun",), "there is no option --dryrun"),
        (("--cluster",), "--cluster needs a value"),
        (("--cluster=k3s",), "--cluster is minikube or kind"),
        (("--engine=buildah",), "--engine is docker or podman"),
        (("--doors=window",), 'there is no door "window"'),
        (("--doors=",), "--doors needs at least one door"),
        (("--doors=webhook,webhook",), "webhook is named twice"),
        (("--doors=serve,webhook",), "serve already does what webhook does"),
        (("--doors=burst,scheduler",), "burst already does what scheduler does"),
    ],
)
def test_a_bad_argument_is_refused_before_anything_runs(
    setup: Run, arguments: tuple[str, ...], says: str
) -> None:
    done = setup(*arguments, tools="kubectl docker minikube")
    assert done.returncode == 2
    assert says in done.stderr
    assert done.stdout == ""


def test_help_states_the_defaults(setup: Run) -> None:
    done = setup("--help")
    assert done.returncode == 0
    for default in ("fairlead-system", "fairlead:local", "minikube", "--dry-run", "--render"):
        assert default in done.stdout


def test_everything_is_run_in_order_and_again_without_harm(setup: Run, tmp_path: Path) -> None:
    log = tmp_path / "log"
    note = f'echo "${{0##*/}} $*" >> {log}; [[ ! -p /dev/stdin ]] || cat > /dev/null'
    scripts = {
        "docker": f'{note}; [[ $1 != image ]] || echo "sha256:0123"',
        "minikube": note,
        "kubectl": f'echo "kubectl $*" >> {log}; [[ $* != *"-f -"* ]] || cat >> {tmp_path}/applied',
    }
    runs = []
    for _ in range(2):
        done = setup(tools="kubectl docker minikube", **scripts)
        assert done.returncode == 0, done.stderr
        runs.append(log.read_text().splitlines())
        log.unlink()
    assert runs[0] == runs[1]
    assert [line.split()[0] for line in runs[0]] == [
        *("docker", "kubectl", "docker", "docker", "minikube", "kubectl", "kubectl", "kubectl")
    ]
    applied = list(yaml.safe_load_all((tmp_path / "applied").read_text()))
    deployment = next(one for one in applied if one and one["kind"] == "Deployment")
    assert deployment["spec"]["template"]["metadata"]["annotations"] == {
        "fairlead.dev/image-id": "sha256:0123"  # a rebuilt image is rolled out, the same one is not
    }


def test_a_namespace_that_is_there_keeps_its_labels(setup: Run, tmp_path: Path) -> None:
    scripts = {"kubectl": f'[[ $* != *"-f -"* ]] || cat >> {tmp_path}/applied'}
    assert setup("theirs", tools="kubectl docker minikube", **scripts).returncode == 0
    kinds = [one["kind"] for one in yaml.safe_load_all((tmp_path / "applied").read_text()) if one]
    assert "Deployment" in kinds
    assert "Namespace" not in kinds


def test_a_missing_namespace_is_made(setup: Run, tmp_path: Path) -> None:
    scripts = {
        "kubectl": f'case "$*" in *"get namespace"*) exit 1;; *"-f -"*) cat >> {tmp_path}/applied;; esac'
    }
    assert setup("ours", tools="kubectl docker minikube", **scripts).returncode == 0
    first = next(one for one in yaml.safe_load_all((tmp_path / "applied").read_text()) if one)
    assert (first["kind"], first["metadata"]["name"]) == ("Namespace", "ours")


def test_the_script_is_executable() -> None:
    assert os.access(ROOT / "setup.sh", os.X_OK)
