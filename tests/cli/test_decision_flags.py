"""The flags and the configuration file of every command that decides, and what they make of its answer."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from fairlead.cli import burst, explain, gangs, plan, queue, scheduler, serve, status
from fairlead.errors import BadInput
from support.units import budget, node, pod

HEAD = "apiVersion: fairlead.dev/v1alpha1\nkind: FairleadConfiguration\n"
LABEL = "fairlead.dev/priority-annotation"
SHIPPED = (
    f"priorityAnnotation: {{namespaceSelector: {{matchLabels: {{{LABEL}: honour}}}}, max: 1000000000}}\n"
)
NAMESPACES = "--priority-annotation-namespaces"
DECIDES = {
    "scheduler": (scheduler.command, []),
    "serve": (serve.command, ["--doors=scheduler"]),
    "burst": (burst.command, ["--burst-node=virtual", "--burst-value=1"]),
    "plan": (plan.command, ["-f", "-"]),
    "explain": (explain.command, ["a", "-f", "-"]),
    "status": (status.command, ["-f", "-"]),
    "queue": (queue.command, ["-f", "-"]),
    "gangs": (gangs.command, ["-f", "-"]),
}

Command = tuple[click.Command, list[str]]


def namespace(name: str = "default", **labels: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def honouring(name: str = "default") -> dict[str, Any]:
    made = namespace(name)
    made["metadata"]["labels"] = {LABEL: "honour"}
    return made


@pytest.fixture
def config(tmp_path: Path) -> Callable[[str], str]:
    """Writes a configuration file, and says with which flag it is read."""

    def write(text: str) -> str:
        path = tmp_path / "fairlead.yaml"
        path.write_text(HEAD + text)
        return f"--config={path}"

    return write


def planned(things: list[dict[str, Any]], *flags: str) -> tuple[dict[str, str], list[str]]:
    """What would be bound where, and what would be evicted."""
    found = json.loads(asked(plan.command, things, *flags).stdout)
    binds = {one["pod"].partition("/")[2]: one["node"] for one in found["binds"]}
    return binds, [one["pod"].partition("/")[2] for one in found["evictions"]]


def asked(command: click.Command, things: list[dict[str, Any]], *flags: str) -> Result:
    arguments = [*flags, "-f", "-", "-o", "json"]
    return CliRunner().invoke(command, arguments, input=json.dumps(things), catch_exceptions=False)


@pytest.mark.parametrize("named", DECIDES)
def test_every_command_that_decides_can_be_told_where_and_how_far_the_annotation_counts(named: str) -> None:
    help_of = CliRunner().invoke(DECIDES[named][0], ["--help"]).output
    assert f"{NAMESPACES} SELECTOR" in help_of
    assert "--priority-annotation-max N" in help_of


@pytest.mark.parametrize("named", DECIDES)
def test_a_selector_that_cannot_be_read_is_named_with_its_flag(named: str) -> None:
    command, arguments = DECIDES[named]
    done = CliRunner().invoke(command, [*arguments, NAMESPACES, "team in"], input="{}")
    assert isinstance(done.exception, BadInput)
    assert f"{NAMESPACES}: label selector 'team in': cannot read 'team in'" in str(done.exception)


@pytest.mark.parametrize("named", ["scheduler", "serve", "plan", "explain", "status", "queue", "gangs"])
def test_a_mistake_in_the_configuration_file_is_named(named: str, config: Callable[[str], str]) -> None:
    command, arguments = DECIDES[named]
    done = CliRunner().invoke(command, [*arguments, config("capacity: shared\n")], input="{}")
    assert isinstance(done.exception, BadInput)
    assert "fairlead.yaml: capacity: " in str(done.exception)


@pytest.mark.parametrize("flag", [f"{NAMESPACES}=a=b", "--priority-annotation-max=1"])
def test_the_annotation_cannot_be_restricted_where_no_scheduler_of_ours_runs(flag: str) -> None:
    command, arguments = DECIDES["burst"]
    done = CliRunner().invoke(command, [*arguments, "--via=webhook", "--listen=:0", flag])
    assert "go with --via scheduler" in str(done.exception)
    done = CliRunner().invoke(serve.command, ["--doors=webhook,rebalance", flag])
    assert f"{flag.partition('=')[0]} is for scheduler" in str(done.exception)


class TestPlan:
    room_for_one = node("n", cpu=1)
    wanted = (pod("old"), pod("high", annotations={"priority": "9"}, created=9))

    def test_by_hand_the_annotation_counts_in_every_namespace(self) -> None:
        assert planned([self.room_for_one, *self.wanted]) == ({"high": "n"}, [])
        assert planned([self.room_for_one, namespace(), *self.wanted]) == ({"high": "n"}, [])

    @pytest.mark.parametrize("by", ["file", "flag"])
    def test_it_is_restricted_to_labelled_namespaces(self, by: str, config: Callable[[str], str]) -> None:
        flag = config(SHIPPED) if by == "file" else f"{NAMESPACES}={LABEL}=honour"
        assert planned([self.room_for_one, namespace(), *self.wanted], flag) == ({"old": "n"}, [])
        assert planned([self.room_for_one, honouring(), *self.wanted], flag) == ({"high": "n"}, [])

    @pytest.mark.parametrize("by", ["file", "flag"])
    def test_it_is_capped(self, by: str, config: Callable[[str], str]) -> None:
        things = [node("n", cpu=1), pod("low", on="n", priority=5), self.wanted[1]]
        assert planned(things)[1] == ["low"]
        flag = config("priorityAnnotation: {max: 5}\n") if by == "file" else "--priority-annotation-max=5"
        assert planned(things, flag)[1] == []

    def test_an_empty_selector_lifts_the_restriction_of_the_file(self, config: Callable[[str], str]) -> None:
        things = [self.room_for_one, namespace(), *self.wanted]
        assert planned(things, config(SHIPPED), f"{NAMESPACES}=") == ({"high": "n"}, [])

    def test_what_is_ignored_is_said_beside_the_plan_with_what_to_do(
        self, config: Callable[[str], str]
    ) -> None:
        things = [node("n"), namespace(), *self.wanted, pod("also", annotations={"priority": "9"})]
        done = asked(plan.command, things, config(SHIPPED))
        assert done.stderr == (
            "warning: default/also: annotation priority is ignored in namespace default: use a PriorityClass"
            f", or label the namespace so that it matches {LABEL}=honour; using 0\n"
        )
        assert asked(plan.command, [node("n"), honouring(), *self.wanted], config(SHIPPED)).stderr == ""

    def test_a_state_without_the_namespace_is_said_to_lack_it(self, config: Callable[[str], str]) -> None:
        done = asked(plan.command, [node("n"), *self.wanted], config(SHIPPED))
        assert done.stderr == (
            "warning: default/high: annotation priority: "
            "the state has no Namespace default, whose labels count\n"
        )
        assert asked(plan.command, [node("n"), *self.wanted]).stderr == ""

    def test_pods_of_other_schedulers_are_not_warned_of(self, config: Callable[[str], str]) -> None:
        theirs = pod("a", annotations={"priority": "9"}, scheduler="default-scheduler")
        assert asked(plan.command, [node("n"), namespace(), theirs], config(SHIPPED)).stderr == ""

    def test_the_order_is_that_of_the_file(self, config: Callable[[str], str]) -> None:
        gang = [pod(name, gang="g", minimum=2) for name in ("g0", "g1")]
        things = [node("n", cpu=2), *gang, pod("single", created=9)]
        assert list(planned(things)[0]) == ["single"]
        assert list(planned(things, config("queue: {order: fifo}\n"))[0]) == ["g0", "g1"]

    def test_the_capacity_is_that_of_the_file_unless_a_flag_says_otherwise(
        self, config: Callable[[str], str]
    ) -> None:
        things = [node("n"), pod("a"), pod("b")]
        flag = config("capacity: exclusive\n")
        assert len(planned(things, flag)[0]) == 1
        assert len(planned(things, flag, "--capacity=resources")[0]) == 2

    def test_budgets_are_respected_as_in_the_file_unless_a_flag_says_otherwise(
        self, config: Callable[[str], str]
    ) -> None:
        low = pod("low", on="n", labels={"app": "web"})
        things = [node("n", cpu=1), budget("b", {"app": "web"}, 0), low, pod("high", priority=5)]
        flag = config("preemption: {pdb: best-effort}\n")
        assert planned(things, flag)[1] == ["low"]
        assert planned(things, flag, "--pdb=respect")[1] == []

    def test_other_schedulers_pods_are_evicted_only_where_the_file_says_so(
        self, config: Callable[[str], str]
    ) -> None:
        theirs = pod("theirs", on="n", scheduler="default-scheduler")
        things = [node("n", cpu=1), theirs, pod("high", priority=5)]
        assert planned(things)[1] == []
        assert planned(things, config("preemption: {others: true}\n"))[1] == ["theirs"]

    def test_pods_are_those_of_the_files_schedulers_and_namespaces(
        self, config: Callable[[str], str]
    ) -> None:
        things = [
            node("n"),
            pod("ours", scheduler="a", namespace="shop"),
            pod("elsewhere", scheduler="a"),
            pod("theirs", namespace="shop"),
        ]
        flag = config("schedulerNames: [a, b]\nnamespaces: [shop]\n")
        assert planned(things, flag)[0] == {"ours": "n"}
        assert planned(things, flag, "--scheduler-name=fairlead")[0] == {"theirs": "n"}


class TestExplain:
    def said(self, things: list[dict[str, Any]], *flags: str) -> str:
        return asked(explain.command, things, "high", *flags).stdout

    @pytest.mark.parametrize("by", ["file", "flag"])
    def test_the_priority_that_counts_is_the_schedulers(self, by: str, config: Callable[[str], str]) -> None:
        things = [node("n", cpu=1), pod("low", on="n"), pod("high", annotations={"priority": "9"})]
        flag = config(SHIPPED) if by == "file" else f"{NAMESPACES}={LABEL}=honour"
        would = '"preempting default/low on n would"'
        assert would in self.said([*things, namespace()])
        assert would not in self.said([*things, namespace()], flag)
        assert would in self.said([*things, honouring()], flag)

    def test_what_is_ignored_is_said_beside_the_explanation(self, config: Callable[[str], str]) -> None:
        things = [node("n"), namespace(), pod("high", annotations={"priority": "9"})]
        done = asked(explain.command, things, "high", config(SHIPPED))
        assert done.stderr.startswith("warning: default/high: annotation priority is ignored in namespace ")
        assert json.loads(done.stdout)["feasible"] == ["n"]

    def test_capacity_and_schedulers_are_those_of_the_file(self, config: Callable[[str], str]) -> None:
        things = [node("n"), pod("there", on="n", scheduler="a"), pod("high", scheduler="a")]
        assert '"feasible": [\n    "n"\n  ]' in self.said(things)
        assert '"feasible": []' in self.said(things, config("capacity: exclusive\nschedulerNames: [a]\n"))
        assert '"feasible": [\n    "n"\n  ]' in self.said(things, config("capacity: exclusive\n"))

    def test_a_pod_outside_of_the_files_namespaces_is_explained_all_the_same(
        self, config: Callable[[str], str]
    ) -> None:
        assert '"n"' in self.said([node("n"), pod("high")], config("namespaces: [shop]\n"))
