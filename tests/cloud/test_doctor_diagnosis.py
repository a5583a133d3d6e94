"""The diagnosis as a function: what needs no account to be told."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from fairlead.cloud.doctor import CaSettings, Report, diagnose, read_log
from fairlead.nodegroups.aws import AutoScalingGroup, CloudState, EksNodegroup, EksTaint, Version
from fairlead.nodegroups.group import NodeGroup, read_groups
from support.aws import DISCOVERY, TEMPLATE, template_tags
from support.doctor import REFUSED, event, waiting

LARGE = "eks-large-56c9efb8-09b4-a2a8-50c7-7a370d197f3a"
SMALL = "eks-small-56c9efb8-09b4-a2a8-50c7-7a370d197f3a"


def group(name: str = "large", *, tainted: bool = True) -> NodeGroup:
    taint = {"key": "size", "value": name, "effect": "NoSchedule"}
    kind = {"name": "t3a.xlarge", "capacity": {"cpu": "4", "memory": "16Gi", "pods": "58"}}
    taints = [taint] if tainted else []
    [made] = read_groups(
        [{"name": name, "labels": {"size": name}, "taints": taints, "instanceTypes": [kind], "max": 3}]
    )
    return made


def asg(name: str = LARGE, size: str = "large", **tags: str) -> AutoScalingGroup:
    own = {"eks:cluster-name": "prod", "eks:nodegroup-name": size}
    every = {**own, **DISCOVERY, **template_tags(size), **tags}
    return AutoScalingGroup(name, every, max=3, zones=("eu-west-1a",))


def nodegroup(size: str = "large", **more: Any) -> EksNodegroup:
    made = EksNodegroup(size, "prod", labels={"size": size}, taints=(EksTaint("size", "NO_SCHEDULE", size),))
    return msgspec.structs.replace(made, **more)


def state(*groups: AutoScalingGroup, **more: Any) -> CloudState:
    made = CloudState("prod", "eu-west-1", auto_scaling_groups=groups, nodegroups=(nodegroup(),))
    return msgspec.structs.replace(made, **more)


def wrong(report: Report) -> list[tuple[str, str]]:
    return [(each.subject, each.cause) for each in report.findings if each.severity == "wrong"]


def test_a_group_as_it_should_be() -> None:
    report = diagnose([group()], state(asg()))
    assert (report.findings, report.wrong, report.groups[0].works) == ((), False, True)


class TestWhoseAnAutoScalingGroupIs:
    """An account has groups of others: by its name alone none is taken for the cluster's, or changed."""

    @pytest.mark.parametrize("name", ["large", "billing-database-large", "large-cache", LARGE])
    @pytest.mark.parametrize("tags", [{}, {"kubernetes.io/cluster/other": "owned"}])
    def test_one_that_merely_has_the_name_is_left_alone(self, name: str, tags: dict[str, str]) -> None:
        foreign = AutoScalingGroup(name, tags, max=9, desired=9)
        report = diagnose([group()], CloudState("prod", "eu-west-1", auto_scaling_groups=(foreign,)))
        assert wrong(report) == [("large", "group-missing")]
        assert report.tags == ()
        assert (
            f"{name} has the name, but nothing says that it is the cluster's" in report.findings[0].evidence
        )

    @pytest.mark.parametrize(
        "tags",
        [
            {"eks:cluster-name": "prod"},
            {"kubernetes.io/cluster/prod": "owned"},
            {"k8s.io/cluster-autoscaler/prod": "owned"},
        ],
    )
    def test_its_tags_say_whose_it_is(self, tags: dict[str, str]) -> None:
        report = diagnose(
            [group()], CloudState("prod", auto_scaling_groups=(AutoScalingGroup("large", tags, max=3),))
        )
        assert ("large", "group-missing") not in wrong(report)
        assert {change.asg for change in report.tags} == {"large"}

    def test_eks_says_whose_it_is(self) -> None:
        managed = nodegroup(auto_scaling_groups=("large",))
        report = diagnose([group()], state(AutoScalingGroup("large", max=3), nodegroups=(managed,)))
        assert {change.asg for change in report.tags} == {"large"}

    def test_the_autoscaler_is_given_it_by_name(self) -> None:
        settings = CaSettings(flags={"nodes": ("0:3:large",)})
        given = CloudState(
            "prod", auto_scaling_groups=(AutoScalingGroup("large", template_tags("large"), max=3),)
        )
        assert diagnose([group()], given, settings=settings).findings == ()

    def test_without_a_clusters_name_no_tag_is_demanded_that_would_have_it(self) -> None:
        unnamed = state(asg(), cluster="")
        assert diagnose([group()], unnamed).findings == ()


class TestWhatManagedNodesHaveOfTheirOwn:
    """Labels that EKS makes up, and a disk: on every node, whatever the file says of them."""

    def told(self, pod: dict[str, Any], *tags: tuple[str, str], **more: Any) -> Report:
        managed = nodegroup(capacity_type="SPOT", labels={"size": "large", "team": "blue"}, disk_size=30)
        managed = msgspec.structs.replace(managed, **more.pop("nodegroup", {}))
        return diagnose([group()], state(asg(**dict(tags)), nodegroups=(managed,), **more), [pod])

    @pytest.mark.parametrize(
        ("key", "value"),
        [
            ("eks.amazonaws.com/nodegroup", "large"),
            ("eks.amazonaws.com/capacityType", "SPOT"),
            ("team", "blue"),
        ],
    )
    def test_a_pod_may_select_it(self, key: str, value: str) -> None:
        report = self.told(waiting(selector={key: value}))
        assert (report.findings, report.pods[0].works) == ((), True)
        other = self.told(waiting(selector={key: "other"}))
        assert wrong(other) == [("pod default/test-1", "affinity-unmet")]

    def test_an_autoscaler_that_may_not_ask_needs_a_tag_for_it(self) -> None:
        pod = waiting(selector={"eks.amazonaws.com/nodegroup": "large"})
        report = self.told(pod, describe_nodegroup="denied")
        assert wrong(report) == [("large", "label-tag-missing")]
        tags = [(change.key, change.value) for change in report.tags]
        assert tags == [(TEMPLATE + "label/eks.amazonaws.com/nodegroup", "large")]
        assert wrong(self.told(pod, *tags, describe_nodegroup="denied")) == []

    def test_a_pod_may_ask_for_disk_and_a_tag_must_say_it(self) -> None:
        report = self.told(asking("8Gi"))
        assert wrong(report) == [("large", "resource-tag-missing")]
        tags = [(change.key, change.value) for change in report.tags]
        assert tags == [(TEMPLATE + "resources/ephemeral-storage", "30Gi")]
        assert self.told(asking("8Gi"), *tags).findings == ()

    def test_a_disk_that_nobody_knows_is_not_tagged(self) -> None:
        report = self.told(asking("8Gi"), nodegroup={"disk_size": None})
        assert wrong(report) == [("large", "resource-tag-missing")]
        assert report.tags == ()
        assert "resources: {ephemeral-storage: 20Gi}" in report.findings[0].fix

    def test_a_pod_may_ask_for_too_much_of_it(self) -> None:
        report = self.told(asking("31Gi"))
        assert wrong(report) == [("pod default/test-1", "pod-too-big")]
        assert "31Gi ephemeral-storage where the node has 30Gi" in report.findings[0].says
        assert "larger disk" in report.findings[0].fix

    def test_by_the_file_alone_a_disk_is_there(self) -> None:
        assert diagnose([group()], None, [asking("8Gi")]).pods[0].works


def asking(disk: str) -> dict[str, Any]:
    pod = waiting()
    pod["spec"]["containers"][0]["resources"]["requests"]["ephemeral-storage"] = disk
    return pod


def test_a_wrong_taint_tag_stands_beside_that_of_eks_and_is_wrong_even_if_eks_is_heard() -> None:
    tag = {"k8s.io/cluster-autoscaler/node-template/taint/size": "small:NoSchedule"}
    report = diagnose([group()], state(asg(**tag), describe_nodegroup="allowed"))
    assert wrong(report) == [("large", "taint-tag-wrong")]


@pytest.mark.parametrize(
    ("kind", "others"),
    [
        ("label", {"labels": {"size": "big"}}),
        ("taint", {"taints": (EksTaint("size", "NO_SCHEDULE", "big"),)}),
    ],
)
def test_a_tag_that_eks_would_overrule_is_not_asked_for(kind: str, others: dict[str, Any]) -> None:
    tags = {key: value for key, value in asg().tags.items() if f"/{kind}/" not in key}
    untagged = msgspec.structs.replace(asg(), tags=tags)
    report = diagnose([group()], state(untagged, nodegroups=(nodegroup(**others),)))
    assert wrong(report) == [("large", "overridden-by-eks")]
    assert report.tags == ()


def test_a_misspelt_tag_is_only_a_risk_while_eks_is_heard() -> None:
    tag = {"k8s.io/cluster-autoscaler/node-template/taint/size": "large:NO_SCHEDULE"}
    report = diagnose([group()], state(asg(**tag), describe_nodegroup="allowed"))
    assert [(each.cause, each.severity) for each in report.findings] == [("effect-misspelt", "risk")]
    assert not report.wrong


def test_a_taint_that_only_a_tag_has_keeps_the_groups_own_pods_away() -> None:
    tag = {"k8s.io/cluster-autoscaler/node-template/taint/other": "x:NoSchedule"}
    report = diagnose([group()], state(asg(**tag)))
    assert wrong(report) == [("large", "taint-not-tolerated")]
    assert (
        report.findings[0].says == "a pod that it is for does not tolerate other=x:NoSchedule of group large."
    )


def test_a_node_group_that_is_not_well() -> None:
    ill = nodegroup(status="DEGRADED", issues=("AsgInstanceLaunchFailures: no capacity",))
    report = diagnose([group()], state(asg(), nodegroups=(ill,)))
    assert wrong(report) == [("large", "nodegroup-unhealthy")]
    assert report.findings[0].evidence == ("AsgInstanceLaunchFailures: no capacity",)


class TestAFullGroup:
    """In full use, or too small: only who waits for it can tell."""

    def full(self, most: int = 3) -> CloudState:
        return state(msgspec.structs.replace(asg(), max=most, desired=most))

    def test_it_is_wrong_only_if_somebody_waits_for_it(self) -> None:
        report = diagnose([group()], self.full())
        assert [(each.cause, each.severity) for each in report.findings] == [("max-reached", "risk")]
        assert report.groups[0].works
        assert wrong(diagnose([group()], self.full(), [waiting()])) == [("large", "max-reached")]
        line = f"I1219 17:02:40.7 1 o.go:1] Skipping node group {LARGE} - max size reached"
        assert wrong(diagnose([group()], self.full(), evidence=read_log(line))) == [("large", "max-reached")]

    def test_the_way_out_is_the_files_maximum_or_another_one(self) -> None:
        [found] = diagnose([group()], self.full(2), [waiting()]).findings
        assert found.fix.endswith("--scaling-config maxSize=3")
        assert found.fix.startswith("aws eks update-nodegroup-config")
        [found] = diagnose([group()], self.full(3), [waiting()]).findings
        assert found.fix.startswith("if it may have more than the file's max of 3, raise that, and aws eks")
        assert found.fix.endswith("maxSize=4")


def test_an_autoscaler_that_may_not_look_at_all() -> None:
    denied = {"autoscaling:DescribeAutoScalingGroups": "denied"}
    assert wrong(diagnose([group()], state(asg(), permissions=denied))) == [
        ("autoscaler", "auto-scaling-denied")
    ]


@pytest.mark.parametrize(
    ("line", "cause"),
    [
        (
            f"W1 1 o.go:1] Node group {LARGE} is not ready for scaleup - backoff with status: {{}}",
            "in-backoff",
        ),
        (f'E1 1 a.go:1] ASG "{LARGE}" uses the unknown EC2 instance type "x9.huge"', "type-unknown"),
        (f"I1 1 o.go:1] Skipping node group {LARGE} - max size reached", None),
    ],
)
def test_what_only_the_log_knows(line: str, cause: str | None) -> None:
    report = diagnose([group()], state(asg()), evidence=read_log(line))
    assert wrong(report) == ([("large", cause)] if cause else [])  # the group may have grown since


AFFINITY = "node(s) didn't match Pod's node affinity/selector"
UNTOLERATED = "node(s) had untolerated taint {size: large}"


class TestANoToAPodForWhichAllIsWell:
    """Only what every group must have said, and says still, shows that the autoscaler goes by an old node."""

    def told(self, *said: str, small: AutoScalingGroup | None = None, **more: Any) -> Report:
        both = state(asg(), small or asg(SMALL, "small"), nodegroups=(nodegroup(), nodegroup("small")))
        message = f"pod didn't trigger scale-up: {', '.join(said)}"
        objects = [waiting(), event("NotTriggerScaleUp", message, at="2026-03-01T12:00:00Z")]
        return diagnose([group(), group("small")], both, [*objects, *more.pop("objects", ())], **more)

    @pytest.mark.parametrize(
        "said",
        [
            (f"2 {AFFINITY}",),
            (f"1 {AFFINITY}", f"1 {UNTOLERATED}"),
            ("2 Insufficient cpu", "1 Insufficient memory"),
        ],
    )
    def test_no_group_takes_it(self, said: tuple[str, ...]) -> None:
        report = self.told(*said)
        assert wrong(report) == [("large", "stale-node-info")]
        assert not report.findings[0].certain
        assert str(report.pods[0]) == "perhaps not"

    @pytest.mark.parametrize(
        "said",
        [
            (f"1 {UNTOLERATED}",),
            ("1 max node group size reached",),
            ("1 max node group size reached", f"1 {UNTOLERATED}"),
            ("1 Insufficient cpu", "1 Insufficient memory"),
            ("2 max cluster cpu limit reached",),
            (),
        ],
    )
    def test_it_may_be_another_groups_no(self, said: tuple[str, ...]) -> None:
        report = self.told(*said)
        assert (report.findings, report.pods[0].works) == ((), True)

    def test_the_other_group_is_full_and_was_not_tried(self) -> None:
        full = msgspec.structs.replace(asg(SMALL, "small"), desired=3)
        report = self.told("1 max node group size reached", f"1 {AFFINITY}", small=full)
        assert wrong(report) == [("large", "stale-node-info")]

    def test_it_waits_after_a_failure(self) -> None:
        report = self.told("1 in backoff after failed scale-up", f"1 {UNTOLERATED}")
        assert wrong(report) == [("large", "in-backoff")]
        assert "describe-scaling-activities" in report.findings[0].fix

    def test_what_is_no_longer_said_counts_for_nothing(self) -> None:
        noon = datetime(2026, 3, 1, 12, tzinfo=UTC)
        soon, later = noon + timedelta(minutes=9), noon + timedelta(minutes=11)
        assert wrong(self.told(f"2 {AFFINITY}", now=soon)) == [("large", "stale-node-info")]
        assert self.told(f"2 {AFFINITY}", now=later).findings == ()

    def test_in_files_the_last_event_tells_when_it_was(self) -> None:
        other = event("Scheduled", "x", name="other", at="2026-03-01T12:30:00Z")
        assert self.told(f"2 {AFFINITY}", objects=[other]).findings == ()

    def test_a_line_that_the_log_does_not_repeat_counts_for_nothing(self) -> None:
        line = REFUSED.format(pod="default/test-1", asg=LARGE)
        later = "I1219 17:13:00.0 1 x.go:1] later"
        assert wrong(diagnose([group()], state(asg()), [waiting()], evidence=read_log(line))) == [
            ("large", "stale-node-info")
        ]
        for objects in ([waiting()], []):
            heard = read_log(f"{line}\n{later}")
            assert diagnose([group()], state(asg()), objects, evidence=heard).findings == ()

    def test_a_rule_that_asks_about_other_pods_proves_less(self) -> None:
        line = REFUSED.format(pod="default/test-1", asg=LARGE).replace("NodeAffinity", "InterPodAffinity")
        report = diagnose([group()], state(asg()), [waiting()], evidence=read_log(line))
        assert [(each.cause, each.certain) for each in report.findings] == [("stale-node-info", False)]


class TestRefusalsOfPodsThatWeDoNotHave:
    """Every group refuses most pods: only what cannot be normal is worth a word."""

    def told(self, *groups: NodeGroup, refused_on: tuple[str, ...], rule: str = "NodeAffinity") -> Report:
        line = REFUSED.replace("NodeAffinity", rule)
        log = "\n".join(line.format(pod="default/x", asg=asg) for asg in refused_on)
        both = (asg(), asg(SMALL, "small"))
        if not groups[0].taints:
            both = tuple(map(untainted, both))
        return diagnose(groups, state(*both, nodegroups=()), evidence=read_log(log))

    def test_who_passed_the_taints_was_meant_for_the_group(self) -> None:
        report = self.told(group(), group("small"), refused_on=(LARGE,))
        assert wrong(report) == [("large", "stale-node-info")]

    def test_who_did_not_is_somebody_elses(self) -> None:
        report = self.told(group(), group("small"), refused_on=(LARGE,), rule="TaintToleration")
        assert report.findings == ()

    def test_without_taints_one_groups_refusal_is_normal(self) -> None:
        plain = group(tainted=False), group("small", tainted=False)
        assert self.told(*plain, refused_on=(SMALL,)).findings == ()

    def test_that_of_all_groups_is_not(self) -> None:
        plain = group(tainted=False), group("small", tainted=False)
        report = self.told(*plain, refused_on=(SMALL, LARGE))
        assert ("large", "stale-node-info") in wrong(report)

    def test_too_big_by_its_own_word(self) -> None:
        report = self.told(group(), group("small"), refused_on=(LARGE,), rule="NodeResourcesFit")
        assert wrong(report) == [("large", "pod-too-big")]
        assert not report.findings[0].certain


def untainted(group: AutoScalingGroup) -> AutoScalingGroup:
    tags = {key: value for key, value in group.tags.items() if "/taint/" not in key}
    return msgspec.structs.replace(group, tags=tags)


class TestWithoutAWordFromTheAccount:
    def test_a_pod_fits_by_the_file(self) -> None:
        report = diagnose([group()], None, [waiting()])
        assert (report.findings, report.pods[0].works, report.pods[0].where) == ((), True, "large")

    def test_a_pod_fits_nowhere_by_the_file(self) -> None:
        said = "pod didn't trigger scale-up: 1 Insufficient cpu"
        report = diagnose([group()], None, [waiting(cpu="8"), event("NotTriggerScaleUp", said)])
        assert wrong(report) == [("pod default/test-1", "pod-too-big")]
        assert f"event NotTriggerScaleUp: {said}" in report.findings[0].evidence

    def test_failed_questions_speak_for_themselves(self) -> None:
        line = (
            "E1 1 m.go:1] Failed to get labels from EKS DescribeNodegroup API for nodegroup large in cluster "
            "prod because AccessDeniedException."
        )
        assert wrong(diagnose([group()], None, evidence=read_log(line))) == [
            ("autoscaler", "describe-nodegroup-denied")
        ]


def test_pods_of_one_owner_are_looked_at_once() -> None:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "u", "controller": True}
    pods = [waiting(f"p{n}") for n in range(3)]
    for pod in pods:
        pod["metadata"]["ownerReferences"] = [owner]
    assert len(diagnose([group()], state(asg()), pods).pods) == 1


def test_pods_that_nobody_scales_for_are_passed_over() -> None:
    daemon = waiting("daemon")
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "u", "controller": True}
    daemon["metadata"]["ownerReferences"] = [owner]
    gated = waiting("gated", schedulingGates=[{"name": "g"}])
    done = waiting("done")
    done["status"] = {"phase": "Succeeded"}
    assert diagnose([group()], state(asg()), [daemon, gated, done]).pods == ()


def test_the_same_input_gives_the_same_words() -> None:
    bare = msgspec.structs.replace(asg(), tags={"eks:cluster-name": "prod"})
    broken = state(bare, nodegroups=(nodegroup(auto_scaling_groups=(LARGE,)),), describe_nodegroup="denied")
    settings = CaSettings(version=Version(1, 27, 5))
    first, second = (diagnose([group()], broken, [waiting()], settings=settings) for _ in range(2))
    assert list(map(str, first.findings)) == list(map(str, second.findings))
    assert all("\n" not in str(finding) for finding in first.findings)
