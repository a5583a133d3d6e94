"""Kubernetes' own scheduling specs with Fairlead in kube-scheduler's place, and how their report is read."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tools.e2e import Outcome

from fairlead.errors import RigError
from support.rig import programs
from tools import e2e

_PROGRAMS = (
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kwok",
    "kubectl",
    "e2e.test",
)

# Of the specs, those that say most about placement and wait for nothing.
QUICK = "NodeSelector is respected|non-empty schedulingGates|4 pods with MaxSkew=1"


@pytest.mark.real
@pytest.mark.slow
def test_fairlead_passes_every_spec_that_kube_scheduler_passes(
    tmp_path: Path, count: Callable[[int, int], int]
) -> None:
    """All of them where the promised counts are run; else a few, which kube-scheduler is known to pass."""
    programs(*_PROGRAMS)
    if count(0, 1):
        outcomes = {scheduler: e2e.run(scheduler, folder=tmp_path) for scheduler in e2e.SCHEDULERS}
        print("\n".join(e2e.table(outcomes)))  # noqa: T201 (the report lists both side by side)
        assert sum(one.passed for one in outcomes["kube-scheduler"].values()) >= 20
        assert e2e.lost(outcomes) == []
    else:
        found = e2e.run("fairlead", focus=QUICK, folder=tmp_path)
        assert len(found) == 4
        assert {name: one.message for name, one in found.items() if not one.passed} == {}


def report(*specs: tuple[str, str], reasons: list[str] | None = None) -> bytes:
    """As ginkgo writes it, with more fields than are read."""
    found: list[dict[str, Any]] = [
        {
            "ContainerHierarchyTexts": ["[sig-scheduling] Some", "[Serial]"],
            "LeafNodeType": "It",
            "LeafNodeText": name,
            "State": state,
            "RunTime": 1_500_000_000,
            "NumAttempts": 1,
            **({"Failure": {"Message": "why", "Location": {}}} if state == "failed" else {}),
        }
        for name, state in specs
    ]
    before = {
        "LeafNodeType": "BeforeSuite",
        "LeafNodeText": "",
        "State": "passed",
        "ContainerHierarchyTexts": None,
    }
    return json.dumps(
        [{"SpecReports": [before, *found], "SpecialSuiteFailureReasons": reasons, "SuitePath": "x"}]
    ).encode()


class TestReadingAReport:
    def test_specs_that_ran_are_kept_under_their_full_name(self) -> None:
        found = e2e.read_report(report(("binds", "passed"), ("waits", "failed")))
        assert found == {
            "[sig-scheduling] Some [Serial] binds": Outcome("passed", 1.5),
            "[sig-scheduling] Some [Serial] waits": Outcome("failed", 1.5, "why"),
        }

    @pytest.mark.parametrize("state", ["skipped", "pending"])
    def test_specs_that_did_not_run_are_left_out(self, state: str) -> None:
        assert len(e2e.read_report(report(("binds", "passed"), ("other", state)))) == 1

    def test_a_focus_that_matches_nothing_is_an_error(self) -> None:
        with pytest.raises(RigError, match="no spec of upstream's suite matches nonsense"):
            e2e.read_report(report(("binds", "skipped")), focus="nonsense")

    def test_a_suite_that_broke_before_its_specs_says_why(self) -> None:
        with pytest.raises(RigError, match="did not run: no nodes"):
            e2e.read_report(report(reasons=["no nodes"]))


class TestComparing:
    kube = {"a": Outcome("passed", 1), "b": Outcome("passed", 2), "c": Outcome("failed", 3, "no")}

    def test_a_spec_that_both_pass_or_that_kube_scheduler_fails_is_not_lost(self) -> None:
        ours = {"a": Outcome("passed", 1), "b": Outcome("passed", 9), "c": Outcome("failed", 3)}
        assert e2e.lost({"kube-scheduler": self.kube, "fairlead": ours}) == []

    @pytest.mark.parametrize("state", ["failed", "panicked", "timedout", "interrupted"])
    def test_a_spec_that_only_kube_scheduler_passes_is_lost(self, state: str) -> None:
        ours = {"a": Outcome(state, 1), "b": Outcome("passed", 2)}
        assert e2e.lost({"kube-scheduler": self.kube, "fairlead": ours}) == ["a"]

    def test_a_spec_that_never_ran_with_fairlead_is_lost(self) -> None:
        assert e2e.lost({"kube-scheduler": self.kube, "fairlead": {"a": Outcome("passed", 1)}}) == ["b"]

    def test_the_table_has_both_side_by_side(self) -> None:
        lines = e2e.table({"kube-scheduler": self.kube, "fairlead": {"a": Outcome("failed", 61)}})
        assert [line.split("  ")[0] for line in lines] == ["spec", "a", "b", "c", "passed"]
        assert lines[1].split()[1:] == ["passed", "1", "s", "failed", "61", "s"]
        assert lines[2].endswith("not run")
        assert lines[4].split()[1:] == ["2", "of", "3", "0", "of", "1"]


class TestTheCommand:
    def test_an_earlier_report_can_stand_in_for_kube_scheduler(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        earlier = tmp_path / "kube-scheduler.json"
        earlier.write_bytes(report(("binds", "passed"), ("waits", "failed")))
        arguments = ["--scheduler", "kube-scheduler", "--compare-with", str(earlier)]
        assert e2e.main(arguments) == 1  # one scheduler alone fails with what it fails
        out = capsys.readouterr().out
        assert "1 of 2" in out
        assert "why" in out

    def test_an_unreadable_report_is_an_error_in_words(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert e2e.main(["--compare-with", str(tmp_path / "none.json")]) == 1
        assert "error: " in capsys.readouterr().err
