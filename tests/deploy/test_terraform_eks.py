"""The root module for EKS: parsed, formatted, whole; and that its groups are those of the example."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import botocore.session
import pytest

from fairlead.cloud.terraform import terraform
from fairlead.nodegroups.aws import Version
from fairlead.nodegroups.file import read_file
from support.command import run_command
from support.terraform import Module, misformatted, parsed

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "deploy" / "terraform" / "eks"
FILES = sorted([*FOLDER.glob("**/*.tf"), *FOLDER.glob("*.tfvars.example")])
FOLDERS = [FOLDER, FOLDER / "node-groups"]


@pytest.fixture(scope="module")
def root() -> Module:
    return Module.of(FOLDER)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(FOLDER)))
def test_a_file_is_formatted_and_can_be_parsed(path: Path) -> None:
    assert misformatted(path.read_text()) == []
    assert parsed(path.read_text())


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_all_that_is_named_is_declared_and_all_that_is_declared_is_used(folder: Path) -> None:
    module = Module.of(folder)
    assert module.undeclared() == []
    assert module.unused_variables() == []
    for kind in ("variable", "output"):
        assert all(body.get("description") for body in module.named(kind).values())


def test_the_groups_are_what_the_command_makes_of_the_example() -> None:
    groups = read_file((ROOT / "examples" / "node-groups.yaml").read_text(), "example")
    made = terraform(groups, cluster=None, note=pytest.fail)
    assert (FOLDER / "node-groups" / "main.tf").read_text() == made


def test_the_groups_get_every_variable_that_they_need_and_no_other(root: Module) -> None:
    inner = Module.of(FOLDER / "node-groups")
    given = set(root.named("module")["node_groups"]) - {"source"}
    variables = inner.named("variable")
    assert given <= set(variables)
    assert {name for name, body in variables.items() if "default" not in body} <= given
    asked = set(re.findall(r"module\.node_groups\.(\w+)", root.text))
    assert asked <= set(inner.named("output"))


def test_both_groups_start_from_nothing(root: Module) -> None:
    made = Module.of(FOLDER / "node-groups").resources("aws_eks_node_group")
    assert {
        name: (body["instance_types"], body["scaling_config"][0]["min_size"]) for name, body in made.items()
    } == {"medium": (["t3a.medium"], 0), "large": (["t3a.xlarge"], 0)}


def test_the_autoscaler_has_a_node_that_it_need_not_bring_itself(root: Module) -> None:
    system = root.resources("aws_eks_node_group")["system"]
    assert system["scaling_config"][0]["min_size"] == 1
    assert "taint" not in system
    assert system["lifecycle"] == [{"ignore_changes": ["${scaling_config[0].desired_size}"]}]
    release = root.resources("helm_release")["autoscaler"]
    assert "${aws_eks_node_group.system}" in release["depends_on"]


def test_the_autoscaler_finds_the_groups_by_their_tags_and_forgets_their_last_node(root: Module) -> None:
    release = root.resources("helm_release")["autoscaler"]
    said = str(release["values"])
    assert "autoDiscovery" in said
    assert "node-info-cache-expire-time" in said
    assert "module.node_groups.autoscaler_role_arn" in said
    assert "autoscalingGroups" not in said


def test_its_version_is_one_that_reads_EKS_taints_right(root: Module) -> None:
    variable = root.named("variable")["autoscaler_version"]
    assert not Version.read(variable["default"]).misreads_effects
    (rule,) = re.findall(r'regex\("(\^1\S+)", var\.autoscaler_version', root.text)
    allowed = re.compile(rule.replace("\\\\", "\\"))
    for minor in range(20, 60):
        version = f"1.{minor}.0"
        assert bool(allowed.match(version)) == (not Version.read(version).misreads_effects and minor > 30)
    # The autoscaler simulates the scheduler of its own version.
    assert variable["default"].startswith(root.named("variable")["kubernetes_version"]["default"] + ".")


@pytest.mark.parametrize(
    ("variable", "switched"),
    [
        ("create_cluster", ["aws_eks_cluster.this", "aws_iam_role.cluster"]),
        ("oidc_provider_arn", ["aws_iam_openid_connect_provider.this"]),
    ],
)
def test_what_is_taken_is_not_made(root: Module, variable: str, switched: list[str]) -> None:
    for each in switched:
        kind, name = each.split(".")
        assert f"var.{variable}" in root.resources(kind)[name]["count"]


def test_a_VPC_is_made_only_where_none_is_taken(root: Module) -> None:
    counts = {
        f"{kind}.{name}": body["count"]
        for kind in (
            "aws_vpc",
            "aws_subnet",
            "aws_nat_gateway",
            "aws_internet_gateway",
            "aws_eip",
            "aws_route_table",
        )
        for name, body in root.resources(kind).items()
    }
    assert len(counts) == 8
    assert all("local.create_vpc" in count or "local.vpc_zones" in count for count in counts.values())


def test_a_VPC_that_is_made_has_no_subnet_where_EKS_takes_none(root: Module) -> None:
    zones = root.resources("aws_availability_zones", of="data")["available"]
    assert set(zones["exclude_zone_ids"]) == {"use1-az3", "usw1-az2", "cac1-az3"}
    places = [body["availability_zone"] for body in root.resources("aws_subnet").values()]
    assert places == ["${data.aws_availability_zones.available.names[count.index]}"] * 2


class TestReadme:
    """Its commands, as far as they can be judged without an account."""

    text = (FOLDER / "README.md").read_text()

    def commands(self, program: str) -> list[list[str]]:
        blocks = re.findall(r"^```sh\n(.*?)^```", self.text, flags=re.DOTALL | re.MULTILINE)
        lines = [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]
        return [shlex.split(line, comments=True) for line in lines if line.startswith(f"{program} ")]

    def test_it_goes_from_what_is_needed_to_taking_all_away(self) -> None:
        headings = re.findall(r"^## (.*)$", self.text, flags=re.MULTILINE)
        assert headings[0] == "What you need"
        assert headings[-2:] == ["Take it away", "Out of scope"]
        assert "GKE" in self.text.rpartition("## Out of scope")[2]

    def test_terraform_is_told_of_variables_that_exist(self, root: Module) -> None:
        calls = self.commands("terraform")
        assert {words[1] for words in calls} >= {"init", "validate", "plan", "apply", "destroy"}
        for words in calls:
            for at, word in enumerate(words):
                if word == "-var":
                    assert words[at + 1].partition("=")[0] in root.named("variable")

    def test_it_says_how_to_raise_a_minimum_that_EKS_would_refuse(self) -> None:
        [words] = [each for each in self.commands("aws") if "update-nodegroup-config" in each]
        [sizes] = [word for word in words if "=" in word]
        given = dict(each.split("=") for each in sizes.split(","))
        api = botocore.session.get_session().get_service_model("eks")
        assert given.keys() <= api.shape_for("NodegroupScalingConfig").members.keys()
        assert int(given["minSize"]) <= int(given["desiredSize"])

    def test_every_variable_and_output_is_explained(self, root: Module) -> None:
        for name in (*root.named("variable"), *root.named("output")):
            assert f"`{name}`" in self.text

    def test_the_commands_of_ours_work(self, tmp_path: Path) -> None:
        calls = self.commands("fairlead")
        assert calls
        (tmp_path / "node-groups").mkdir()
        (tmp_path / "my-groups.yaml").write_text((ROOT / "examples" / "node-groups.yaml").read_text())
        for words in calls:
            if "--aws" in words:
                continue
            out = tmp_path / words[words.index(">") + 1] if ">" in words else tmp_path / "out"
            arguments = words[1 : words.index(">")] if ">" in words else words[1:]
            done = run_command(*arguments, cwd=tmp_path)
            assert done.returncode == 0, done.stderr
            out.write_text(done.stdout)
        assert (tmp_path / "node-groups" / "main.tf").read_text() == (
            FOLDER / "node-groups" / "main.tf"
        ).read_text()
