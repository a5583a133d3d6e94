"""``fairlead nodegroups doctor`` as a user calls it: where it looks, what it prints, how it ends."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from fairlead.cloud.doctor import CAUSES
from support.aws import CLUSTER, DISCOVERY, REGION, Aws, refusing, template_tags
from support.cluster import Cluster
from support.command import run_command
from support.doctor import GROUPS, autoscaler, doctor, event, waiting
from support.forbidding import forbidding

EXAMPLES = GROUPS.parent / "doctor"
DUMP, MENDED, LOG = EXAMPLES / "dump.json", EXAMPLES / "mended.json", EXAMPLES / "autoscaler.log"
BARE = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "AWS_EC2_METADATA_DISABLED": "true"}


def run(
    *words: str, env: dict[str, str] | None = None, given: str = "", without: str = ""
) -> subprocess.CompletedProcess[str]:
    """A process of its own; `without` a package that is not installed there."""
    if not without:
        return run_command("nodegroups", "doctor", *words, env=env, input=given, timeout=120)
    start = f"import sys; sys.modules[{without!r}] = None; from fairlead.cli import main; main()"
    return subprocess.run(
        [sys.executable, "-c", start, "nodegroups", "doctor", *words],
        env=env,
        input=given,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def on(*words: str, **more: Any) -> subprocess.CompletedProcess[str]:
    return run("-f", str(GROUPS), *words, **more)


def two_groups(aws: Aws) -> str:
    """One group is well, of the other the tags are missing: its Auto Scaling group."""
    aws.group("medium", instance_type="t3a.medium", asg_tags=template_tags("medium"))
    return aws.group("large")


class TestItCannotLook:
    def test_a_cluster_of_which_it_may_read_nothing_is_no_clean_bill(self, tmp_path: Path) -> None:
        with forbidding(tmp_path) as kubeconfig:
            done = on("--from-file", str(MENDED), "--kubeconfig", str(kubeconfig))
            plain = on("--from-file", str(MENDED), "--kubeconfig", str(kubeconfig), "-o", "json")
        assert done.returncode == 1, done.stderr
        assert "Nothing is wrong" not in done.stdout
        for kind in ("Pod", "Node", "Deployment", "Event"):
            assert f"{kind}: " in done.stdout
        assert plain.returncode == 1
        assert "Pod" in json.loads(plain.stdout)["unread"]

    def test_without_boto3_one_line_says_so(self) -> None:
        done = on("--aws", without="boto3", env=BARE)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr == "error: --aws needs boto3: pip install 'fairlead[aws]'\n"

    @pytest.mark.parametrize(
        ("env", "said"),
        [
            ({}, "no AWS credentials"),
            ({"AWS_PROFILE": "nobody"}, "nobody"),
            ({"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}, "no AWS region"),
        ],
    )
    def test_without_credentials_or_region_one_line_says_so(self, env: dict[str, str], said: str) -> None:
        done = on("--aws", env={**BARE, **env})
        assert (done.returncode, done.stdout) == (2, "")
        assert said in done.stderr
        assert len(done.stderr.splitlines()) == 1

    def test_an_account_that_does_not_answer_is_no_diagnosis(self) -> None:
        env = {
            **BARE,
            "AWS_ACCESS_KEY_ID": "a",
            "AWS_SECRET_ACCESS_KEY": "b",
            "AWS_REGION": REGION,
            "AWS_ENDPOINT_URL": "http://127.0.0.1:9",
        }
        done = on("--aws", "--cluster", "prod", env=env)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.startswith("error: AWS: autoscaling:DescribeAutoScalingGroups: Could not connect")

    def test_the_cluster_must_be_named_when_there_are_several(self, aws: Aws) -> None:
        aws.client("eks").create_cluster(
            name="other",
            roleArn="arn:aws:iam::123456789012:role/x",
            resourcesVpcConfig={"subnetIds": aws.subnets()},
        )
        two_groups(aws)
        env = {**BARE, **aws.env}
        done = on("--aws", env=env)
        assert done.returncode == 2
        assert "there are other, prod" in done.stderr or "there are prod, other" in done.stderr
        assert on("--aws", "--cluster", CLUSTER, "--region", REGION, env=env).returncode == 1

    @pytest.mark.parametrize(
        ("words", "said"),
        [
            ([], "nothing to look at"),
            (["--aws", "--from-file", str(DUMP)], "which of the two"),
            (["--from-file", str(DUMP), "--fix"], "--fix needs --aws"),
            (["--from-file", str(DUMP), "--save", "x"], "--save needs --aws"),
            (["--from-file", str(GROUPS)], "neither a dump"),
            (["--from-file", "/nonexistent"], "cannot be read"),
            (["--ca-log", "/nonexistent"], "cannot be read"),
            (["--from-file", str(DUMP), "--ca-version", "newest"], "does not say a version"),
            (["--from-file", "-", "--ca-log", "-"], "once only"),
            (["--from-file", str(DUMP), "--objects", str(GROUPS), "--pod", "a/b"], "pod a/b is not in the"),
        ],
    )
    def test_bad_input_ends_with_2_and_a_line(self, words: list[str], said: str) -> None:
        done = on(*words, env=BARE)
        assert (done.returncode, done.stdout) == (2, "")
        assert said in done.stderr
        assert "Traceback" not in done.stderr

    @pytest.mark.parametrize(
        ("own", "cause"), [(True, "describe-nodegroup-denied"), (False, "taint-tag-missing")]
    )
    def test_a_refusal_to_the_doctor_itself_is_said(self, aws: Aws, own: bool, cause: str) -> None:
        two_groups(aws)
        flags = ["--as-autoscaler"] if own else []
        with refusing(aws, "/node-groups/", "AccessDeniedException") as url:
            done = on("--aws", *flags, "-o", "json", env={**BARE, **aws.env, "AWS_ENDPOINT_URL": url})
        assert "note: eks:DescribeNodegroup could not be called: AccessDeniedException: " in done.stderr
        last = json.loads(done.stdout)["findings"][-1]
        assert (last["cause"], last["severity"]) == (cause, "wrong")

    def test_without_auto_scaling_groups_there_is_no_diagnosis(self, aws: Aws) -> None:
        with refusing(aws, "/", "AccessDeniedException") as url:
            done = on("--aws", "--cluster", CLUSTER, env={**BARE, **aws.env, "AWS_ENDPOINT_URL": url})
        assert (done.returncode, done.stdout) == (2, "")
        assert "may not call autoscaling:DescribeAutoScalingGroups" in done.stderr
        assert len(done.stderr.splitlines()) == 1


class TestWhatItPrints:
    def test_a_table_and_one_line_for_each_diagnosis(self) -> None:
        done = on("--from-file", str(DUMP), "--ca-log", str(LOG), env=BARE)
        assert (done.returncode, done.stderr) == (1, "")
        table, _, lines = done.stdout.partition("\n\n")
        assert [line.split()[:3] for line in table.splitlines()] == [
            ["GROUP", "FROM", "ZERO"],
            ["medium", "no", "eks-medium-1ac9efb8-77d2-90a1-7c1e-0d7712f2a6b1"],
            ["large", "no", "eks-large-56c9efb8-09b4-a2a8-50c7-7a370d197f3a"],
        ]
        first, second, third = lines.splitlines()
        assert first.startswith("1. large: tags-not-propagated: ")
        assert " Fix (--fix does it): aws autoscaling create-or-update-tags --region eu-west-1" in first
        assert second.startswith("2. medium: effect-misspelt: ")
        assert third.startswith("3. autoscaler: describe-nodegroup-denied: ")

    def test_json_and_yaml_say_the_same(self) -> None:
        words = ("--from-file", str(DUMP), "-o")
        as_json, as_yaml = on(*words, "json", env=BARE), on(*words, "yaml", env=BARE)
        assert json.loads(as_json.stdout) == yaml.safe_load(as_yaml.stdout)

    def test_the_log_may_come_from_a_pipe(self) -> None:
        done = on("--ca-log", "-", given=LOG.read_text(), env=BARE)
        assert done.returncode == 1
        assert "label-tag-missing" in done.stdout

    def test_nothing_wrong_is_said_too(self) -> None:
        done = on("--from-file", str(MENDED), env=BARE)
        assert done.returncode == 0
        assert done.stdout.endswith("\nNothing is wrong.\n")


def test_every_cause_is_in_the_how_to() -> None:
    document = (GROUPS.parents[1] / "docs" / "how-to" / "scale-from-zero.md").read_text()
    assert [cause for cause in CAUSES if f"`{cause}`" not in document] == []


class TestDumps:
    def test_what_was_saved_is_diagnosed_the_same_elsewhere(self, aws: Aws, tmp_path: Path) -> None:
        two_groups(aws)
        dump = str(tmp_path / "dump.json")
        here = doctor("--aws", "--save", dump)
        there = doctor("--from-file", dump)
        assert here.plain == there.plain
        assert here.code == there.code == 1
        assert json.loads(Path(dump).read_text())["account"] == "123456789012"

    def test_the_size_of_an_unusual_type_is_read_from_ec2(self, aws: Aws, tmp_path: Path) -> None:
        aws.group("large", instance_type="x1e.xlarge", asg_tags=template_tags("large"))
        aws.asg("medium", {**DISCOVERY, **template_tags("medium")}, override=False, instance_type="d3.xlarge")
        dump = tmp_path / "dump.json"
        assert doctor("--aws", "--save", str(dump)).findings == []
        saved = {each["name"]: each for each in json.loads(dump.read_text())["autoScalingGroups"]}
        [kind] = saved.pop("medium")["instanceTypes"]
        assert (kind["name"], kind["capacity"]) == ("d3.xlarge", {"cpu": "4", "memory": "32768Mi"})
        [[kind]] = [each["instanceTypes"] for each in saved.values()]
        assert kind["capacity"]["memory"] == "124928Mi"

    def test_groups_of_others_are_neither_looked_at_nor_saved(self, aws: Aws, tmp_path: Path) -> None:
        asg = two_groups(aws)
        aws.asg("billing", {"team": "money"}, override=False)
        aws.asg("theirs", {"kubernetes.io/cluster/other": "owned"}, override=False)
        dump = tmp_path / "dump.json"
        doctor("--aws", "--save", str(dump))
        saved = [each["name"] for each in json.loads(dump.read_text())["autoScalingGroups"]]
        assert len(saved) == 2
        assert asg in saved

    def test_answers_of_the_aws_cli_will_do(self, aws: Aws, tmp_path: Path) -> None:
        two_groups(aws)
        groups = aws.client("autoscaling").describe_auto_scaling_groups()
        managed = [
            aws.client("eks").describe_nodegroup(clusterName=CLUSTER, nodegroupName=name)
            for name in ("medium", "large")
        ]
        dump = tmp_path / "answers.json"
        dump.write_text("\n".join(json.dumps(each, default=str) for each in (groups, *managed)))
        told = doctor("--from-file", str(dump))
        assert told.wrong == [("large", "label-tag-missing"), ("large", "taint-tag-missing")]

    def test_a_dump_must_be_of_a_cluster(self, tmp_path: Path) -> None:
        dump = tmp_path / "answers.json"
        dump.write_text(json.dumps({"AutoScalingGroups": [{"AutoScalingGroupName": "large", "MaxSize": 3}]}))
        done = on("--from-file", str(dump), env=BARE)
        assert (done.returncode, done.stdout) == (2, "")
        assert "name it with --cluster" in done.stderr
        done = on("--from-file", str(dump), "--cluster", "prod", "-o", "json", env=BARE)
        found = json.loads(done.stdout)["findings"]
        assert [each["cause"] for each in found] == ["group-missing", "group-missing"]
        assert "large has the name, but nothing says that it is the cluster's" in found[0]["evidence"]


class TestFixing:
    def test_it_shows_what_it_will_do_and_asks(self, aws: Aws) -> None:
        asg = two_groups(aws)
        told = doctor("--aws", "--fix", given="n\n")
        assert f"set on {asg}: k8s.io/cluster-autoscaler/node-template/label/size=large" in told.stderr
        assert "Set these 2 tags?" in told.stderr
        notice = told.stderr.index('About to change Auto Scaling groups of EKS cluster "')
        assert notice < told.stderr.index("set on ")
        assert told.code == 1
        assert "k8s.io/cluster-autoscaler/node-template/label/size" not in aws.tags_of(asg)
        told = doctor("--aws", "--fix", given="y\n")
        assert (told.code, told.wrong) == (0, [])
        assert template_tags("large").items() <= aws.tags_of(asg).items()
        assert told.plain["set"][0] == {
            "asg": asg,
            "key": "k8s.io/cluster-autoscaler/node-template/label/size",
            "value": "large",
        }

    def test_nobody_answers(self, aws: Aws) -> None:
        asg = two_groups(aws)
        done = on("--aws", "--fix", env={**BARE, **aws.env})
        assert done.returncode == 2
        assert "scripts give --yes" in done.stderr
        assert aws.tags_of(asg).keys() & template_tags("large").keys() == set()

    def test_it_looks_again_and_says_what_it_cannot_do(self, aws: Aws) -> None:
        aws.group("medium", instance_type="t3a.medium", discovery=False, asg_tags=template_tags("medium"))
        aws.group("large", labels={"size": "big"}, asg_tags=template_tags("large"))
        done = on("--aws", "--fix", "--yes", env={**BARE, **aws.env})
        assert done.returncode == 1
        before, _, after = done.stdout.partition("\nAfter the fix:\n")
        assert "discovery-tags-missing" in before
        assert "discovery-tags-missing" not in after
        assert after.endswith("--fix cannot do what is left: overridden-by-eks.\n")

    def test_there_is_nothing_to_set(self, aws: Aws) -> None:
        aws.group("medium", instance_type="t3a.medium", asg_tags=template_tags("medium"))
        aws.group("large", asg_tags=template_tags("large"))
        told = doctor("--aws", "--fix", "--yes")
        assert (told.code, told.plain["set"]) == (0, [])
        assert "nothing that --fix could set" in told.stderr

    def test_a_group_that_merely_has_the_name_is_left_alone(self, aws: Aws) -> None:
        aws.group("medium", instance_type="t3a.medium", asg_tags=template_tags("medium"))
        aws.asg("large", {"team": "money"}, desired=3)
        told = doctor("--aws", "--fix", "--yes")
        assert told.wrong == [("large", "group-missing")]
        assert "large has the name, but nothing says" in told.findings[0]["evidence"][1]
        assert aws.tags_of("large") == {"team": "money"}

    def test_other_tags_stay(self, aws: Aws) -> None:
        aws.group("medium", instance_type="t3a.medium", asg_tags=template_tags("medium"))
        asg = aws.group("large", asg_tags={"team": "blue"})
        doctor("--aws", "--fix", "--yes")
        assert aws.tags_of(asg)["team"] == "blue"
        assert DISCOVERY.items() <= aws.tags_of(asg).items()


def test_it_reads_the_cluster_itself(cluster: Cluster) -> None:
    """Pods, events, the autoscaler's Deployment: here with a dump of the account, from a real API."""
    pod = waiting(cpu="6")
    made = cluster.create({key: pod[key] for key in ("apiVersion", "kind")} | {
        "metadata": {"name": "test-1"}, "spec": pod["spec"] | {"schedulerName": "nobody"},
    })  # fmt: skip
    key = f"{made['metadata']['namespace']}/test-1"
    said = event("NotTriggerScaleUp", "pod didn't trigger scale-up: 2 Insufficient cpu")
    said["metadata"] = {"name": "test-1.1"}
    said["involvedObject"]["namespace"] = made["metadata"]["namespace"]
    cluster.create(said)
    deployment, account = autoscaler("--scale-up-from-zero=false")
    deployment["spec"]["replicas"] = 0
    for each in (deployment, account):
        cluster.create({**each, "metadata": {"name": "cluster-autoscaler"}})
    words = ("--from-file", str(MENDED), "--kubeconfig", str(cluster.kubeconfig), "--pod", key, "-o", "json")
    done = on(*words, env=BARE)
    found = {each["cause"]: each for each in json.loads(done.stdout)["findings"]}
    assert done.returncode == 1
    assert set(found) == {"pod-too-big", "scale-from-zero-forbidden"}
    assert found["pod-too-big"]["pod"] == key
    assert "Insufficient cpu" in found["pod-too-big"]["evidence"][1]
