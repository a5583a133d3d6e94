"""What burst's flags stand for, and what it says to those that cannot be used."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from fairlead.cli import serve
from fairlead.cli.burst import command
from fairlead.errors import BadInput
from fairlead.policy.rule.burst import burst_policy
from fairlead.policy.rule.model import ByLabel
from support.burst import Bursting


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--burst-value=0",), "at least 1"),
        (("--burst-value=-3",), "at least 1"),
        (("--burst-value=1", "-n", "shop", "-A"), "one or the other"),
        (("--burst-value=1", "--burst-node=Not_A_Node"), "is not the name of a node"),
        (("--burst-value=1", "--return-after=soon"), "--return-after"),
        (("--burst-value=1", "--via=webhook"), "--listen"),
        (("--burst-value=1", "--via=webhook", "--listen=:0", "--scheduler-name=x"), "--scheduler-name"),
        (("--burst-value=1", "--url=https://h:1"), "--via webhook"),
        (("--burst-value=1", "--client-ca-file=ca.pem"), "--via webhook"),
        *(
            (("--burst-value=1", f"--namespace={name}"), "--namespace: ")
            for name in ("Bad_NS", "a.b", "-a", "a" * 64, "a\n")
        ),
        *(
            (("--burst-value=1", f"--group-label={key}"), "--group-label: ")
            for key in ("a b", "app=web", "/app", "a/b/c", "Team.io/app", "a..b/app", "a" * 64)
        ),
        *(
            (("--burst-value=1", f"--scheduler-name={name}"), "cannot be part of a lease's name")
            for name in ("My_Sched", "", "a..b", "a-", "*", "a" * 151)
        ),
    ],
)
def test_flags_that_cannot_be_used_are_refused_with_words(flags: tuple[str, ...], said: str):
    result = CliRunner().invoke(command, ["--burst-node=virtual", *flags])
    assert isinstance(result.exception, BadInput)
    assert said in str(result.exception)


def test_both_spellings_of_node_and_value_are_known():
    result = CliRunner().invoke(command, ["--burstNode=virtual", "--burstValue=0"])
    assert "at least 1, not 0" in str(result.exception)


@pytest.mark.parametrize("registers", [command, serve.command], ids=["burst", "serve"])
def test_whoever_registers_a_webhook_says_how_to_take_it_away(registers: click.Command):
    assert "    fairlead webhook --unregister\n" in CliRunner().invoke(registers, ["--help"]).output


def test_it_is_a_policy_of_two_tiers():
    spec = burst_policy("virtual", 10, namespace="shop").spec
    assert [(tier.name, tier.max, tier.names) for tier in spec.tiers] == [
        ("base", 10, ()),
        ("burst", None, ("virtual",)),
    ]
    assert spec.group_by == "policy"
    assert spec.match.namespaces == ("shop",)
    assert [one.key for one in spec.tiers[1].tolerations] == ["virtual-kubelet.io/provider"]


def test_a_label_makes_groups():
    assert burst_policy("virtual", 1, group_label="app").spec.group_by == ByLabel("app")


def test_two_namespaces_burst_at_once_with_one_scheduler_name(ours: Bursting):
    virtual = ours.nodes()
    other = ours.cluster.add_namespace()
    ours.pod("early")
    ours.cluster.namespace = ours.home
    ours.run(virtual, 1)
    ours.deploy("web", 2)
    ours.lies("web", base=1, virtual=1)
    (early,) = ours.living("early", namespace=other)
    assert "nodeName" not in early["spec"]
    assert "conditions" not in early["status"]  # not even looked at
    ours.run(virtual, 2, f"--namespace={other}")
    ours.lies("early", namespace=other, base=1)
    ours.cluster.namespace = other
    ours.deploy("web", 2)
    ours.lies("web", namespace=other, base=1, virtual=1)
    ours.lies("web", namespace=ours.home, base=1, virtual=1)


@pytest.mark.parametrize(
    ("flags", "name"),
    [
        (("-A",), "burst"),  # deploy/burst/rbac.yaml has the leases of this one
        (("-A", "--scheduler-name=x"), "burst-x"),
        ((), "default.burst"),
        (("-n", "x"), "x.burst"),
        (("-n", "x", "--scheduler-name=y"), "x.burst-y"),
        (("-n", "0-x", "--scheduler-name=y.z", "--group-label=example.com/My_app"), "0-x.burst-y.z"),
    ],
)
def test_leases_are_named_after_namespace_and_scheduler(
    flags: tuple[str, ...], name: str, monkeypatch: pytest.MonkeyPatch
):
    run: list[str] = []
    monkeypatch.setattr(
        "fairlead.doors.process.run_doors",
        lambda *_, fixed, **__: run.extend(policy.name for policy in fixed),
    )
    CliRunner().invoke(command, ["--burst-node=virtual", "--burst-value=1", *flags], catch_exceptions=False)
    assert run == [name]


def test_the_kubeconfig_flag_may_be_spelt_like_the_other_two(tmp_path: Path) -> None:
    flags = ["--burstNode=virtual", "--burstValue=1", f"--kubeConfig={tmp_path / 'none'}"]
    result = CliRunner().invoke(command, flags)
    assert "No such option" not in result.output
    assert str(tmp_path / "none") in str(result.exception)
