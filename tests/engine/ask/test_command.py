"""``fairlead explain`` on files."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
import yaml

from support.command import run_command
from support.units import budget, node, pod

STATE = [
    node("a", taints=[{"key": "size", "value": "large", "effect": "NoSchedule"}]),
    node("b", 1),
    pod("x", 2),
    pod("y", 1, namespace="shop"),
]
LIST = {"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": ""}, "items": STATE}


def run(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return run_command("explain", *arguments, input=stdin)


@pytest.fixture
def state(tmp_path: Path) -> str:
    file = tmp_path / "state.yaml"
    file.write_text(yaml.safe_dump(LIST))
    return str(file)


def test_a_table_says_what_was_decided_why_and_what_would_help(state: str) -> None:
    done = run("x", "-f", state)
    assert done.returncode == 0
    assert done.stdout.splitlines()[0] == (
        "default/x is pending: 0/2 nodes are available: "
        "1 Insufficient cpu, 1 node(s) had untolerated taint(s)."
    )
    assert "a     no    TaintToleration   node(s) had untolerated taint(s)" in done.stdout
    assert "would help: tolerate size=large:NoSchedule on a" in done.stdout


def test_json_is_the_explanation_as_plain_data(state: str) -> None:
    done = run("shop/y", "-f", state, "-o", "json")
    assert json.loads(done.stdout)["feasible"] == ["b"]


def test_standard_input_json_streams_and_several_files_are_read(tmp_path: Path) -> None:
    other = tmp_path / "more.json"
    other.write_text(json.dumps(node("c", 4)))
    for text in (json.dumps(LIST), yaml.safe_dump_all(STATE), json.dumps(STATE)):
        done = run("x", "-f", "-", "-f", str(other), "-o", "json", stdin=text)
        assert json.loads(done.stdout)["feasible"] == ["c"], done.stderr


def test_the_namespace_can_be_said_apart(state: str) -> None:
    said = run("y", "-n", "shop", "-f", state).stdout
    assert said.startswith("shop/y is pending: it would go to b now; the scheduler has not placed it yet\n")
    assert "fits       on 1 of 2 nodes, b best" in said


def test_what_is_not_on_a_terminal_is_never_wrapped(tmp_path: Path) -> None:
    long = "a-node-with-quite-a-long-name." + "x" * 200
    file = tmp_path / "state.yaml"
    file.write_text(yaml.safe_dump_all([node(long), pod("x")]))
    assert any(line.startswith(f"{long}  yes") for line in run("x", "-f", str(file)).stdout.splitlines())


@pytest.mark.parametrize(
    ("arguments", "stdin", "words"),
    [
        (["z", "-f", "-"], "{}", "kind: is missing"),
        (["z", "-f", "-"], "a: [1", "standard input: is neither YAML nor JSON"),
        (["z", "-f", "-"], "hello", "standard input: holds str where an object should be"),
        (["z", "-f", "/does/not/exist"], "", "/does/not/exist: cannot be read: No such file"),
        (["z", "-f", "-"], "", "no objects in standard input"),
        (["z", "-f", "-"], "a: &a [*a]", "standard input: is nested too deeply, or refers to itself"),
        (["bad", "-f", "-"], yaml.safe_dump(pod("bad", "-1")), "Pod default/bad: spec.containers"),
    ],
)
def test_bad_input_ends_with_a_message_and_two(arguments: list[str], stdin: str, words: str) -> None:
    done = run(*arguments, stdin=stdin)
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_budgets_are_looked_at_as_the_plan_would_look_at_them() -> None:
    things = [
        node("n", 1),
        budget("b", {"app": "web"}, 0),
        pod("low", on="n", labels={"app": "web"}),
        pod("high", priority=5),
    ]
    text = json.dumps(things)
    held = run("high", "-f", "-", stdin=text).stdout
    assert "preempting default/low on n would, but its budget does not allow it\n" in held
    assert (
        "preempting default/low on n would\n"
        in run("high", "-f", "-", "--pdb", "best-effort", stdin=text).stdout
    )


def test_json_documents_may_follow_each_other() -> None:
    for glue in ("\n", "", "\n\n  "):
        text = glue.join(json.dumps(thing, indent=2 if glue else None) for thing in STATE)
        done = run("shop/y", "-f", "-", "-o", "json", stdin=text)
        assert json.loads(done.stdout)["feasible"] == ["b"]


def test_deeply_nested_json_ends_with_a_message() -> None:
    done = run("x", "-f", "-", stdin='{"kind":' * 100_000)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "error: standard input: is nested too deeply, or refers to itself\n"


def test_anchors_that_unfold_to_too_much_are_refused() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 10)]
    done = run("x", "-f", "-", stdin="\n".join(["kind: Pod", *lines]))
    assert (done.returncode, done.stderr) == (2, "error: standard input: its anchors unfold to too much\n")


def test_merge_keys_that_unfold_to_too_much_are_refused() -> None:
    lines = [f"a0: &a0 {{{', '.join(f'k{i}: v' for i in range(10))}}}"]
    lines += [f"a{i}: &a{i} {{<<: [{', '.join([f'*a{i - 1}'] * 10)}]}}" for i in range(1, 10)]
    done = run("x", "-f", "-", stdin="\n".join(["kind: Pod", *lines]))
    assert done.returncode == 2
    assert "its merge keys (<<) unfold to too much" in done.stderr


def test_ordinary_anchors_and_merge_keys_are_read() -> None:
    text = """
kind: List
items:
- &n {kind: Node, metadata: {name: a}, status: {allocatable: &room {cpu: 4, pods: 10}}}
- {kind: Node, metadata: {name: b}, status: {allocatable: {<<: *room, cpu: 1}}}
- {kind: Pod, metadata: {name: x}, spec: {containers: [{name: c, resources: {requests: {cpu: 2}}}]}}
"""
    assert json.loads(run("x", "-f", "-", "-o", "json", stdin=text).stdout)["feasible"] == ["a"]


GROUPS = """
apiVersion: fairlead.dev/v1alpha1
kind: NodeGroups
groups:
- {name: big, instanceTypes: [big], resources: {cpu: 8, memory: 128Gi, pods: 20}, max: 3}
"""


def test_an_autoscaler_is_said_to_bring_a_node_or_why_it_would_not(tmp_path: Path) -> None:
    groups = tmp_path / "groups.yaml"
    groups.write_text(GROUPS)
    text = json.dumps([node("n", 1), pod("fits", 4), pod("too-big", 16)])
    fits = run("fits", "-f", "-", "--node-groups", str(groups), stdin=text).stdout
    assert "autoscaler: would bring a node of big" in fits
    too_big = run("too-big", "-f", "-", "--node-groups", str(groups), stdin=text).stdout
    assert "autoscaler: brings no node: big: Insufficient cpu" in too_big
    nothing = run("too-big", "-f", "-", stdin=text).stdout
    assert "autoscaler: nothing is known of any: there is no NodePool" in nothing


def test_help_has_an_example() -> None:
    assert "kubectl get nodes,pods" in run("--help").stdout
