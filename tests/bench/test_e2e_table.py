"""The end-to-end benchmark's table: what it compares, and when a target counts as missed."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from benchmarks.bench_e2e import LARGE, SMALL, Backlog, Targets, arguments_of, backlog_rows
from benchmarks.e2e_accounts import Requests
from benchmarks.rows import Row

PODS = 1000
CEILING = Backlog(
    pods=PODS,
    last_bind_s=1.0,
    last_event_s=1.0,
    with_event=0,
    cpu_s=0.5,
    memory_mb=50.0,
    all_cpu_s=1.0,
    requests=Requests("workload-high", PODS + 2, 0),
)
THEIRS = dataclasses.replace(CEILING, last_bind_s=4.0, last_event_s=4.0, with_event=PODS)
OURS = dataclasses.replace(CEILING, last_bind_s=1.25, last_event_s=2.0, with_event=PODS)


def table(theirs: Backlog = THEIRS, ours: Backlog = OURS, targets: Targets = LARGE) -> list[Row]:
    found = {"ceiling": [CEILING], "kube-scheduler": [theirs], "fairlead": [ours]}
    return backlog_rows(found, "size", targets)


def missed(rows: list[Row]) -> list[tuple[str, str, str]]:
    return [(row.name.strip(), row.measured, row.target) for row in rows if not row.ok]


def test_the_headline_is_the_rate_to_the_last_event() -> None:
    rows = table()
    assert [(row.name, row.measured, row.target) for row in rows[:3]] == [
        ("to the last event, size, kube-scheduler", "250 pods/s", ""),
        ("to the last event, size, fairlead", "500 pods/s", ""),
        ("  fairlead against kube-scheduler", "2.00x", "≥ 2x"),
    ]
    assert missed(rows) == []


def test_the_bind_rate_is_compared_with_kube_scheduler_and_with_the_ceiling() -> None:
    rows = {row.name.strip(): row for row in table()[3:]}
    assert rows["to the last bind, size, ceiling"].measured == "1000 pods/s"
    assert rows["to the last bind, size, kube-scheduler"].measured == "250 pods/s"
    assert rows["to the last bind, size, fairlead"].measured == "800 pods/s"
    assert rows["fairlead against kube-scheduler"].measured == "3.20x"
    assert rows["fairlead against the bind-only ceiling"].measured == "80%"


VERSUS = "fairlead against kube-scheduler"


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        (
            {"last_bind_s": 1.34},
            [(VERSUS, "2.99x", "≥ 3x"), ("fairlead against the bind-only ceiling", "75%", "≥ 75%")],
        ),
        ({"last_event_s": 2.02}, [(VERSUS, "1.98x", "≥ 2x")]),
        ({"last_bind_s": 0.9}, [("last event of fairlead, in bind times", "2.2x", "≤ 2x")]),
        ({"with_event": 999}, [("pods with a Scheduled event, fairlead", "999 of 1000", "all")]),
        (
            {"requests": Requests("exempt, workload-high", 2 * PODS, 0)},
            [
                (
                    "priority level of fairlead",
                    "exempt, workload-high: 2000 requests, 0 rejected",
                    "workload-high",
                )
            ],
        ),
        (
            {"requests": Requests("workload-high", 20, 0)},
            [("priority level of fairlead", "workload-high: 20 requests, 0 rejected", "workload-high")],
        ),
    ],
    ids=["binds", "events", "event lag", "a dropped event", "another level", "requests elsewhere"],
)
def test_a_target_that_is_not_reached_is_missed(
    changed: dict[str, Any], expected: list[tuple[str, str, str]]
) -> None:
    assert missed(table(ours=dataclasses.replace(OURS, **changed))) == expected


def test_a_smaller_cluster_asks_for_a_smaller_lead_to_the_last_bind_only() -> None:
    slower = dataclasses.replace(OURS, last_bind_s=1.3)
    assert missed(table(dataclasses.replace(THEIRS, last_bind_s=3.3), slower, SMALL)) == []
    assert missed(table(dataclasses.replace(THEIRS, last_event_s=3.9), slower, SMALL)) == [
        (VERSUS, "1.95x", "≥ 2x")
    ]


def test_the_table_says_which_account_and_limit_each_contender_had() -> None:
    rows = {row.name.strip(): row.measured for row in table()}
    assert rows["account and limit of ceiling"] == "kube-system/ceiling, no rate limit, 64 binds in flight"
    assert rows["account and limit of kube-scheduler"].endswith(", 5000 requests/s, burst 10000")
    assert rows["account and limit of fairlead"] == "kube-system/fairlead, no rate limit, 64 binds in flight"


def test_events_that_kube_scheduler_drops_are_reported_and_no_target_of_ours() -> None:
    rows = table(theirs=dataclasses.replace(THEIRS, with_event=900))
    (row,) = [row for row in rows if row.name == "  pods with a Scheduled event, kube-scheduler"]
    assert (row.measured, row.target, row.ok) == ("900 of 1000", "", True)


def test_the_worst_round_counts_for_events_and_the_median_for_rates() -> None:
    rounds = [OURS, dataclasses.replace(OURS, with_event=998, last_event_s=2.4), OURS]
    rows = backlog_rows({"kube-scheduler": [THEIRS] * 3, "fairlead": rounds}, "size", LARGE)
    assert missed(rows) == [("pods with a Scheduled event, fairlead", "998 of 1000", "all")]


def test_a_contender_alone_is_compared_with_none() -> None:
    for name, result in (("ceiling", CEILING), ("kube-scheduler", THEIRS), ("fairlead", OURS)):
        rows = backlog_rows({name: [result]}, "size", LARGE)
        assert not [row for row in rows if "against" in row.name]
        assert missed(rows) == []


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([], {"workload": "plain", "nodes": 5000, "pods": 10_000, "rate": None}),
        (["--workload", "constrained"], {"workload": "constrained"}),
        (["--rate", "max"], {"rate": 0.0}),
        (["--rate", "100", "--workload=constrained"], {"rate": 100.0, "workload": "constrained"}),
        (["--gangs", "10"], {"gangs": 10}),
    ],
    ids=" ".join,
)
def test_arguments_that_go_together(given: list[str], expected: dict[str, Any]) -> None:
    found = vars(arguments_of(given))
    assert {key: found[key] for key in expected} == expected


@pytest.mark.parametrize(
    "given",
    [
        ["--rate", "fast"],
        ["--rate", "0"],
        ["--rate", "-5"],
        ["--rate", "nan"],
        ["--only", "fairlead", "--rate", "max"],
        ["--workload", "other"],
        ["--workload", "constrained", "--gangs", "10"],
        ["--workload", "constrained", "--preemption"],
        ["--gangs", "10", "--preemption"],
    ],
    ids=" ".join,
)
def test_arguments_that_mean_nothing_are_refused(
    given: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        arguments_of(given)
    assert ended.value.code == 2
    assert "usage: python -m benchmarks.bench_e2e" in capsys.readouterr().err
