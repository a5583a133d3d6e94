"""``fairlead nodegroups terraform|kwok|karpenter`` as a user calls them."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.command import run_command
from support.terraform import Module

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "node-groups.yaml"
EVERY = ["terraform", "kwok", "karpenter"]


def run(*words: str, given: str | None = None, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return run_command("nodegroups", *words, input=given, cwd=cwd, timeout=60)


def written(folder: Path, **more: Any) -> str:
    """A file of one group."""
    group = {"name": "medium", "instanceTypes": ["t3a.medium"], "max": 5, **more}
    document = {"apiVersion": "fairlead.dev/v1alpha1", "kind": "NodeGroups", "groups": [group]}
    path = folder / "groups.yaml"
    path.write_text(yaml.safe_dump(document))
    return str(path)


def test_terraform_is_only_HCL() -> None:
    done = run("terraform", "-f", str(EXAMPLE), "--cluster", "prod")
    assert (done.returncode, done.stderr) == (0, "")
    assert list(Module(done.stdout).resources("aws_autoscaling_group_tag")) == ["medium", "large"]


def test_kwok_is_only_YAML() -> None:
    done = run("kwok", "-f", str(EXAMPLE), "--namespace", "scaling")
    assert (done.returncode, done.stderr) == (0, "")
    made = list(yaml.safe_load_all(done.stdout))
    assert [(each["kind"], each["metadata"]["name"], each["metadata"]["namespace"]) for each in made] == [
        ("ConfigMap", "kwok-provider-config", "scaling"),
        ("ConfigMap", "kwok-provider-templates", "scaling"),
    ]
    assert yaml.safe_load(made[1]["data"]["templates"])["kind"] == "List"


@pytest.mark.parametrize(("provider", "kind"), [("aws", "EC2NodeClass"), ("kwok", "KWOKNodeClass")])
def test_karpenter_is_only_YAML(provider: str, kind: str) -> None:
    done = run("karpenter", "-f", str(EXAMPLE), "--provider", provider)
    assert (done.returncode, done.stderr) == (0, "")
    made = list(yaml.safe_load_all(done.stdout))
    assert [(each["kind"], each["metadata"]["name"]) for each in made] == [
        ("NodePool", "medium"),
        ("NodePool", "large"),
    ]
    assert {each["spec"]["template"]["spec"]["nodeClassRef"]["kind"] for each in made} == {kind}


@pytest.mark.parametrize("command", EVERY)
def test_the_file_may_come_from_standard_input(command: str) -> None:
    assert (
        run(command, "-f", "-", given=EXAMPLE.read_text()).stdout == run(command, "-f", str(EXAMPLE)).stdout
    )


@pytest.mark.parametrize("command", EVERY)
def test_the_same_file_gives_the_same_text(command: str) -> None:
    assert run(command, "-f", str(EXAMPLE)).stdout == run(command, "-f", str(EXAMPLE)).stdout


def test_what_is_only_worth_noting_is_beside_the_answer(tmp_path: Path) -> None:
    done = run("karpenter", "-f", written(tmp_path, desired=1))
    assert done.returncode == 0
    assert done.stderr.startswith("note: node group medium: desired: 1 is left out")
    assert [each["kind"] for each in yaml.safe_load_all(done.stdout)] == ["NodePool"]


@pytest.mark.parametrize("command", EVERY)
@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (
            {"taints": ["size=medium:NO_SCHEDULE"]},
            "node group medium: taints[0].effect: NO_SCHEDULE is the EKS",
        ),
        ({"size": 3}, "node group medium: Object contains unknown field `size`"),
        ({"instanceTypes": ["z9.tiny"]}, "'z9.tiny' is not in our catalogue; say what it has: resources:"),
    ],
    ids=["effect", "field", "type"],
)
def test_a_bad_group_ends_with_one_line_and_nothing_else(
    command: str, wrong: dict[str, Any], said: str, tmp_path: Path
) -> None:
    done = run(command, "-f", written(tmp_path, **wrong))
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert done.stderr.startswith("error: ")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("command", EVERY)
@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "cannot be read: No such file"),
        ("", "no objects in groups.yaml"),
        ("kind: Deployment\napiVersion: apps/v1\n", "kind: 'Deployment' is not 'NodeGroups'"),
        ("groups: [", "is neither YAML nor JSON"),
    ],
    ids=["absent", "empty", "another", "broken"],
)
def test_a_file_that_cannot_be_used_says_why(
    command: str, text: str | None, said: str, tmp_path: Path
) -> None:
    if text is not None:
        (tmp_path / "groups.yaml").write_text(text)
    done = run(command, "-f", "groups.yaml", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_what_a_target_cannot_do_is_refused_with_the_reason(tmp_path: Path) -> None:
    floor = run("karpenter", "-f", written(tmp_path, min=1))
    assert (floor.returncode, floor.stdout) == (2, "")
    assert "node group medium: min: 1: Karpenter brings nodes only for pods that wait" in floor.stderr
    typeless = run(
        "terraform", "-f", written(tmp_path, instanceTypes=[], resources={"cpu": 2, "memory": "4Gi"})
    )
    assert (typeless.returncode, typeless.stdout) == (2, "")
    assert "node group medium: instanceTypes: is missing" in typeless.stderr


def test_a_group_that_only_says_its_resources_is_enough_without_a_cloud(tmp_path: Path) -> None:
    file = written(tmp_path, instanceTypes=[], resources={"cpu": 2, "memory": "4Gi", "pods": 20})
    assert run("kwok", "-f", file).returncode == 0
    assert run("karpenter", "-f", file, "--provider", "kwok").returncode == 0


@pytest.mark.parametrize("command", EVERY)
def test_without_a_file_it_says_what_is_missing(command: str) -> None:
    done = run(command)
    assert done.returncode == 2
    assert "Missing option '-f'" in done.stderr


@pytest.mark.parametrize(
    "words",
    [
        ("kwok", "--namespace", "My Namespace"),
        ("kwok", "--namespace", ""),
        ("karpenter", "--node-class", "Default"),
        ("terraform", "--cluster", "prod ${x}"),
    ],
    ids=lambda words: "-".join(words[:2]),
)
def test_a_name_that_can_be_none_is_refused(words: tuple[str, ...]) -> None:
    done = run(*words, "-f", str(EXAMPLE))
    assert (done.returncode, done.stdout) == (2, "")
    assert f"{words[2]!r} is no such name" in done.stderr
