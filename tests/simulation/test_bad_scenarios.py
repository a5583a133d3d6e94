"""Mistakes in scenarios are said with file, line, field and what is allowed there, all of them at once."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from fairlead.errors import BadInput
from fairlead.simulation.scenario.material import load
from fairlead.simulation.scenario.mistakes import BadScenario

GOOD = """\
apiVersion: fairlead.dev/v1alpha1
kind: Scenario
metadata: {name: good}
spec:
  duration: 1h
  seed: 7
  components: [scheduler]
  planning: {ranking: pack}
  autoscaler: {scan: 10s}
  nodeGroups:
  - {name: big, nodes: 2, resources: {cpu: 16, memory: 64Gi}}
  - {name: spot, max: 3, resources: {cpu: 4, memory: 8Gi}, zones: [a], volatile: true}
  workloads:
  - {name: web, replicas: 3, minAvailable: 50%, requests: {cpu: 1}, scale: [{at: 10m, replicas: 5}]}
  arrivals:
  - {name: jobs, every: 5m, requests: {cpu: 500m}, runsFor: 2m}
  markets:
  - {groups: [spot], up: 8h, down: 30m}
  policies:
  - {metadata: {name: web}, spec: {tiers: [{name: all}]}}
  faults:
  - {at: 30m, action: kill, node: big-1}
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "s.yaml"
    path.write_text(text)
    return path


def mistakes(folder: Path, text: str) -> list[str]:
    with pytest.raises(BadScenario) as raised:
        load(written(folder, text))
    return str(raised.value).replace(f"{folder}/", "").splitlines()


def test_the_good_one_has_no_mistakes(tmp_path: Path) -> None:
    assert load(written(tmp_path, GOOD)).scenario.metadata.name == "good"


DURATION = "a duration like 90s, 10m, 1h30m or 7d"
NAME = "lower case letters, digits and -, at most 63, with a letter or digit at both ends"
CASES = {
    "an unknown field": (
        "seed: 7",
        "sead: 7",
        "6: spec.sead: there is no such field; did you mean seed?; allowed are duration, seed, sampleEvery,",
    ),
    "a field of a list's item": (
        "runsFor: 2m",
        "runFor: 2m",
        "16: spec.arrivals[0].runFor: there is no such field; did you mean runsFor?; allowed are name,",
    ),
    "a required field": ("  duration: 1h\n", "", f"4: spec: lacks duration, which is required: {DURATION}"),
    "a required field of an item": (
        "{at: 30m, action: kill",
        "{action: kill",
        f"22: spec.faults[0]: lacks at, which is required: {DURATION}",
    ),
    "no duration": (
        "duration: 1h",
        "duration: soon",
        f"5: spec.duration: 'soon' is not allowed; allowed is {DURATION}",
    ),
    "an endless duration": (
        "duration: 1h",
        "duration: .inf",
        f"5: spec.duration: Infinity is not allowed; allowed is {DURATION}",
    ),
    "a duration of nothing": (
        "duration: 1h",
        "duration: 0s",
        "5: spec.duration: must be longer than nothing",
    ),
    "a choice": (
        "ranking: pack",
        "ranking: packed",
        "8: spec.planning.ranking: 'packed' is not allowed; allowed are spread, pack",
    ),
    "a choice in a list": (
        "[scheduler]",
        "[scheduler, rebalanser]",
        "7: spec.components[1]: 'rebalanser' is not allowed; allowed are scheduler, webhook,",
    ),
    "a name": (
        "name: web, replicas",
        "name: Web_1, replicas",
        f"14: spec.workloads[0].name: 'Web_1' is not allowed; allowed is {NAME}",
    ),
    "no number": (
        "seed: 7",
        "seed: seven",
        "6: spec.seed: 'seven' is not allowed; allowed is a whole number",
    ),
    "a number out of range": (
        "replicas: 3",
        "replicas: -3",
        "14: spec.workloads[0].replicas: -3 is not allowed; allowed is a whole number from 0 to",
    ),
    "a number for a text": (
        "node: big-1",
        "node: 1",
        "22: spec.faults[0].node: 1 is not allowed; allowed is text; put it in quotes",
    ),
    "a list for a part": (
        "autoscaler: {scan: 10s}",
        "autoscaler: []",
        "9: spec.autoscaler: a list is not allowed; allowed are the fields scan, scaleDownAfter,",
    ),
    "a part for a list": (
        "markets:\n  - {groups: [spot], up: 8h, down: 30m}",
        "markets: {groups: [spot], up: 8h, down: 30m}",
        "17: spec.markets: a value with fields is not allowed; allowed is a list of fields",
    ),
    "an amount": (
        "requests: {cpu: 500m}",
        "requests: {cpu: 500q}",
        "16: spec.arrivals[0].requests.cpu: '500q' is not a quantity; allowed is an amount like 2, 500m",
    ),
    "an amount with a long name": (
        "requests: {cpu: 500m}",
        "requests: {nvidia.com/gpu: []}",
        "16: spec.arrivals[0].requests[nvidia.com/gpu]: a list is not allowed; allowed is an amount",
    ),
    "a percentage": (
        "50%",
        "150%",
        "14: spec.workloads[0].minAvailable: '150%' is not allowed; allowed is a number or a percentage",
    ),
    "a field of a node group": (
        "max: 3",
        "most: 3",
        "12: spec.nodeGroups[1].most: there is no such field; allowed are name, instanceTypes, resources,",
    ),
    "resources of a node group": (
        "resources: {cpu: 16, memory: 64Gi}",
        "resources: {cpu: 16}",
        "11: spec.nodeGroups[0].instanceTypes: is missing; name one, or give cpu and memory under resources",
    ),
    "nodes and max": (
        "nodes: 2",
        "nodes: 2, max: 5",
        "11: spec.nodeGroups[0].max: is what nodes says already; give nodes, or min, desired and max",
    ),
    "a field of a policy": (
        "[{name: all}]",
        "[{name: all, nods: {a: b}}]",
        "20: spec.policies[0].spec.tiers[0].nods: there is no such field; did you mean nodes?; allowed are",
    ),
    "an amount of a policy": (
        "[{name: all}]",
        "[{name: all, min: lots}]",
        "20: spec.policies[0].spec.tiers[0].min: 'lots' is not a number, a percentage up to 100% or pdb",
    ),
    "a name given twice": (
        "name: jobs",
        "name: web",
        "16: spec.arrivals[0].name: 'web' is given twice",
    ),
    "a group given twice": (
        "name: spot, max",
        "name: big, max",
        "12: spec.nodeGroups[1].name: 'big' is given twice",
    ),
    "a group that is not there": (
        "groups: [spot]",
        "groups: [sport]",
        "18: spec.markets[0].groups[0]: there is no node group 'sport'; there are big, spot",
    ),
    "a zone that is not there": (
        "groups: [spot], up",
        "groups: [spot], zone: b, up",
        "18: spec.markets[0].zone: 'b' is not a zone of spot; it has a",
    ),
    "a market of two kinds": (
        "up: 8h, down: 30m",
        "up: 8h, down: 30m, trace: t.json",
        "18: spec.markets[0]: give either a trace, or up and down",
    ),
    "no time to come": (
        "every: 5m, ",
        "",
        "16: spec.arrivals[0]: does not say when pods come; give one of at, every,",
    ),
    "two times to come": (
        "every: 5m, ",
        "every: 5m, perHour: 3, ",
        "16: spec.arrivals[0]: says by every and perHour when pods come; give one of at, every,",
    ),
    "a trace that is not there": (
        "every: 5m, ",
        "trace: pods.csv, ",
        "16: spec.arrivals[0].trace: pods.csv cannot be read: No such file or directory",
    ),
    "after the end": (
        "{at: 10m, replicas: 5}",
        "{at: 10h, replicas: 5}",
        "14: spec.workloads[0].scale[0].at: is after the end (spec.duration)",
    ),
    "a fault without its node": (
        ", node: big-1",
        "",
        "22: spec.faults[0]: kill wants a node, and no zone",
    ),
    "another version": (
        "fairlead.dev/v1alpha1",
        "fairlead.dev/v2",
        "1: apiVersion: 'fairlead.dev/v2' is not allowed; allowed is fairlead.dev/v1alpha1",
    ),
    "a key given twice": ("  seed: 7\n", "  seed: 7\n  seed: 8\n", "7: 'seed' is given twice"),
    "no YAML": (
        "metadata: {name: good}",
        "metadata: {name: good",
        "4: is not YAML: while parsing a flow mapping",
    ),
    "two documents": (
        "apiVersion",
        "---\na: 1\n---\napiVersion",
        "1: holds 2 documents where one Scenario should be",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_mistake_is_said_with_line_field_and_what_is_allowed(case: str, tmp_path: Path) -> None:
    right, wrong, said = CASES[case]
    assert GOOD.count(right) >= 1
    found = mistakes(tmp_path, GOOD.replace(right, wrong, 1))
    assert any(line.startswith(f"s.yaml:{said}") for line in found), found


def test_every_mistake_is_found_at_once_in_the_order_of_lines(tmp_path: Path) -> None:
    wrong = GOOD
    for right, other in (
        ("duration: 1h", "duration: x"),
        ("pack", "packed"),
        ("max: 3", "most: 3"),
        ("name: all", "nam: all"),
        ("action: kill", "action: kil"),
    ):
        wrong = wrong.replace(right, other)
    found = mistakes(tmp_path, wrong)
    assert [line.split(": ")[0] + ": " + line.split(": ")[1] for line in found] == [
        "s.yaml:5: spec.duration",
        "s.yaml:8: spec.planning.ranking",
        "s.yaml:12: spec.nodeGroups[1].most",
        "s.yaml:20: spec.policies[0].spec.tiers[0].nam",
        "s.yaml:20: spec.policies[0].spec.tiers[0]",
        "s.yaml:22: spec.faults[0].action",
    ]


def test_what_does_not_fit_together_is_found_at_once_too(tmp_path: Path) -> None:
    wrong = (
        GOOD.replace("at: 10m", "at: 10h")
        .replace("groups: [spot]", "groups: [x]")
        .replace("at: 30m", "at: 3h")
    )
    assert len(mistakes(tmp_path, wrong)) == 3


def test_a_mistake_in_a_trace_is_said_with_both_places(tmp_path: Path) -> None:
    (tmp_path / "pods.csv").write_text("at,cpu\n0,1\nlater,1\n")
    (found,) = mistakes(tmp_path, GOOD.replace("every: 5m", "trace: pods.csv"))
    assert found == ("s.yaml:16: spec.arrivals[0].trace: pods.csv:3: at: 'later' is not a number of seconds")


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (("a", "b", "a"), "pods.csv: 'a' is given twice in namespace default"),
        (("a", "B"), f"pods.csv: name: 'B' is not allowed; allowed is {NAME}"),
    ],
)
def test_pods_of_a_trace_that_cannot_be_told_apart_are_said(
    names: tuple[str, ...], said: str, tmp_path: Path
) -> None:
    (tmp_path / "pods.csv").write_text("at,name,cpu\n" + "".join(f"0,{name},1\n" for name in names))
    (found,) = mistakes(tmp_path, GOOD.replace("every: 5m", "trace: pods.csv"))
    assert found == f"s.yaml:16: spec.arrivals[0].trace: {said}"


def test_a_file_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"none.yaml: cannot be read: No such file"):
        load(tmp_path / "none.yaml")


def test_the_mistakes_reach_another_process_whole(tmp_path: Path) -> None:
    with pytest.raises(BadScenario) as raised:
        load(written(tmp_path, GOOD.replace("seed: 7", "sead: 7")))
    again = pickle.loads(pickle.dumps(raised.value))
    assert (again.mistakes, str(again)) == (raised.value.mistakes, str(raised.value))
