"""``fairlead report`` and ``fairlead simulate --report``: files, and what they make of bad input."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from fairlead.cli import report, simulate
from fairlead.errors import BadInput
from support.command import run_command
from support.simulated import told

SCENARIO = """\
apiVersion: fairlead.dev/v1alpha1
kind: Scenario
metadata: {name: small}
spec:
  duration: 1h
  nodeGroups:
  - {name: big, nodes: 2, resources: {cpu: 4, memory: 16Gi}, pricePerHour: 0.5}
  arrivals:
  - {name: batch, every: 1m, requests: {cpu: 1, memory: 1Gi}, runsFor: 10m}
"""


def run(*arguments: str) -> str:
    done = CliRunner().invoke(report.command, arguments, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


@pytest.fixture
def result(tmp_path: Path) -> Path:
    file = tmp_path / "result.json"
    file.write_bytes(told().encode())
    return file


def test_a_simulation_writes_the_report_that_its_result_gives(tmp_path: Path) -> None:
    (tmp_path / "small.yaml").write_text(SCENARIO)
    out, direct, later = (tmp_path / name for name in ("small.json", "direct.html", "later.html"))
    arguments = [str(tmp_path / "small.yaml"), f"--out={out}", f"--report={direct}", "-o", "json"]
    done = CliRunner().invoke(simulate.command, arguments, catch_exceptions=False)
    assert done.exit_code == 0
    assert run(str(out), "-o", str(later)) == f"{later}: small; open it in a browser\n"
    assert direct.read_bytes() == later.read_bytes()
    assert done.stdout.startswith("{")


def test_several_results_are_one_file(tmp_path: Path, result: Path) -> None:
    other = tmp_path / "other.json"
    other.write_bytes(told("mall", price=1.0).encode())
    file = tmp_path / "compared.html"
    assert run(str(result), str(other), "-o", str(file)) == f"{file}: shop and mall; open it in a browser\n"
    assert "<h2>Differences</h2>" in file.read_text()


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "is not the result of a simulation"),
        (b"\xff\xfe", "is not the result of a simulation"),
        (b"[]", "is not the result of a simulation"),
        (b'{"version": 7}', "is a result of version 7; this program reads version 1"),
        (b'{"version": 1, "scenario": 5}', "is not the result of a simulation"),
    ],
)
def test_a_file_that_is_no_result_is_one_line(tmp_path: Path, content: bytes, problem: str) -> None:
    file = tmp_path / "bad.json"
    file.write_bytes(content)
    done = run_command("report", str(file), "-o", str(tmp_path / "report.html"))
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"error: {file}: {problem}")
    assert not (tmp_path / "report.html").exists()


def test_a_file_that_is_not_there_or_cannot_be_written_is_one_line(tmp_path: Path, result: Path) -> None:
    done = run_command("report", "no-such.json", "-o", str(tmp_path / "report.html"))
    assert (done.returncode, done.stderr) == (
        2,
        "error: no-such.json: cannot be read: No such file or directory\n",
    )
    done = run_command("report", str(result), "-o", str(tmp_path / "gone" / "report.html"))
    assert done.returncode == 2
    assert done.stderr.endswith("report.html: cannot be written: No such file or directory\n")


def test_without_the_extra_it_says_what_to_install_before_anything_is_played(
    tmp_path: Path, result: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "plotly", None)
    monkeypatch.setitem(sys.modules, "plotly.offline", None)
    (tmp_path / "small.yaml").write_text(SCENARIO)
    out = tmp_path / "small.json"
    for command, arguments in (
        (report.command, [str(result), "-o", str(tmp_path / "report.html")]),
        (simulate.command, [str(tmp_path / "small.yaml"), f"--out={out}", f"--report={tmp_path}/a.html"]),
    ):
        with pytest.raises(BadInput, match=r"^reports need plotly: pip install 'fairlead\[report\]'$"):
            CliRunner().invoke(command, arguments, catch_exceptions=False)
    assert not out.exists()
