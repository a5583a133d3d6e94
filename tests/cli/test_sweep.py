"""``fairlead sweep``: what it prints, with which code it ends, and what it makes of bad input."""

from __future__ import annotations

import csv
import io
import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from fairlead.cli.sweep import command
from fairlead.errors import BadInput
from support.command import run_command
from support.sweeps import SCENARIO

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "simulate"
NODES = ("--vary", "nodeGroups.big.nodes=2,4")


@pytest.fixture
def scenario(tmp_path: Path) -> str:
    path = tmp_path / "tiny.yaml"
    path.write_text(SCENARIO)
    return str(path)


def refused(*arguments: str) -> str:
    """What is said of a sweep that cannot be; nothing has been played, and nothing written."""
    with pytest.raises(BadInput) as error:
        CliRunner().invoke(command, arguments, catch_exceptions=False)
    said = str(error.value)
    assert "\n" not in said
    return said


def test_the_formats_say_the_same(scenario: str) -> None:
    arguments = ("sweep", scenario, *NODES, "--vary", "seed=1,2", "--columns", "cost,pods.placed")
    lines = [json.loads(line) for line in run_command(*arguments, "-o", "json").stdout.splitlines()]
    rows = list(csv.DictReader(io.StringIO(run_command(*arguments, "-o", "csv").stdout)))
    table = run_command(*arguments).stdout.splitlines()
    assert [row["nodeGroups.big.nodes"] for row in rows] == ["2", "4"]
    assert table[0].split() == ["nodeGroups.big.nodes", "runs", "cost", "pods.placed"]
    for line, row, shown in zip(lines, rows, table[1:], strict=True):
        assert line["parameters"] == {"nodeGroups.big.nodes": int(row["nodeGroups.big.nodes"])}
        assert (line["runs"], line["failed"]) == (int(row["runs"]), int(row["failed"])) == (2, 0)
        assert shown.split()[:2] == [row["nodeGroups.big.nodes"], "2"]
        for column in ("cost", "pods.placed"):
            assert line["results"][column] == {
                part: float(row[f"{column}.{part}"]) for part in ("mean", "min", "max")
            }
    # More nodes cost more, and take more pods.
    assert lines[0]["results"]["cost"]["mean"] * 2 == lines[1]["results"]["cost"]["mean"]
    assert lines[0]["results"]["pods.placed"]["mean"] < lines[1]["results"]["pods.placed"]["mean"]


def test_availability_is_shown_where_a_workload_has_a_minimum() -> None:
    varied = ("--vary", "policies.web.spec.tiers.on-demand.min=0,pdb", "--vary", "duration=1h")
    done = run_command("sweep", EXAMPLES / "spot.yaml", *varied, "-o", "csv")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0].split(",")[-1] == "workloads.web.availability"
    assert len(done.stdout.splitlines()) == 3


@pytest.mark.parametrize(
    ("varied", "said"),
    [
        ("workloads.web.replicas=1", "spec.workloads has no item 'web'; it has none"),
        (
            "arrivals.train.perHou=1",
            "--vary arrivals.train.perHou=1: there is no such field; did you mean perHour?",
        ),
        ("plannin.ranking=pack", "spec.plannin: there is no such field; did you mean planning?"),
        ("spec.seed=1", "spec.spec: there is no such field"),
        (
            "planning.ranking=pack,packed",
            "--vary planning.ranking=packed: 'packed' is not allowed; allowed are spread, pack",
        ),
        (
            "arrivals.train.perHour=10,0",
            "--vary arrivals.train.perHour=0: 0 is not allowed; allowed is a number above 0",
        ),
        ("arrivals.train.requests.cpu=1,x", "--vary arrivals.train.requests.cpu=x: 'x' is not a quantity"),
        ("arrivals.train.trace=a.csv", "a.csv cannot be read: No such file"),
        ("arrivals.train=1", "--vary arrivals.train=1: 1 is not allowed; allowed are the fields name,"),
        (
            "nodeGroups.big.nodes=2,-1",
            "--vary nodeGroups.big.nodes=-1: -1 is not allowed; allowed is a whole number",
        ),
        ("nodeGroups.big.nods=2", "--vary nodeGroups.big.nods=2: there is no such field"),
        ("seed=1,x", "--vary seed=x: 'x' is not allowed; allowed is a whole number"),
        ("duration=1h,0s", "--vary duration=0s: must be longer than nothing"),
        (
            'nodeGroups.big.resources."a.b/c"=1,x',
            """--vary nodeGroups.big.resources."a.b/c"=x: 'x' is not a""",
        ),
        ("seed", "is not PATH=VALUES"),
    ],
)
def test_what_cannot_be_varied_is_a_line_before_anything_is_played(
    scenario: str, tmp_path: Path, varied: str, said: str
) -> None:
    assert said in refused(scenario, "--vary", varied, "--out", str(tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def test_one_place_is_varied_by_one_parameter(scenario: str) -> None:
    said = refused(scenario, "--vary", "nodeGroups.0.nodes=1", "--vary", "nodeGroups.big.nodes=2")
    assert said == "--vary nodeGroups.big.nodes: is given twice"
    said = refused(scenario, "--vary", "planning=null", "--vary", "planning.ranking=pack")
    assert said == "--vary planning.ranking: lies within planning, or the other way round; vary one"


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ("cost,cost", "'cost' is given twice"),
        ("cst", "there is no 'cst'; there are version, seed, durationS, pods, waits, cost,"),
        ("waits", "wants one of mean, p50, p95, p99, max behind it"),
        ("groups", "wants a name behind it"),
        ("groups.bg.cost", "there is no 'bg'; there are big"),
        ("workloads.web.waits.p95", "there is no 'web'; there are train"),
        ("scenario", "is not a number of a result"),
        ("cost.x", "is not a number of a result"),
        ("a..b", "is not a path like cost or waits.p95"),
    ],
)
def test_a_column_that_cannot_be_is_a_line_before_anything_is_played(
    scenario: str, columns: str, said: str
) -> None:
    assert said in refused(scenario, *NODES, "--columns", columns)


def test_files_and_folders_that_cannot_be_used_are_named(scenario: str, tmp_path: Path) -> None:
    assert "cannot be read" in refused(str(tmp_path / "none.yaml"), *NODES)
    (tmp_path / "file").write_text("")
    assert refused(scenario, *NODES, "--out", str(tmp_path / "file")).startswith(f"--out {tmp_path}/file: ")
    (tmp_path / "bad.yaml").write_text(SCENARIO.replace("duration: 2h", "duration: long"))
    said = refused(str(tmp_path / "bad.yaml"), *NODES)
    assert said.startswith(f"{tmp_path}/bad.yaml:6: spec.duration: 'long' is not allowed")
    assert "a Dask cluster has its own" in refused(scenario, *NODES, "--workers", "2", "--dask", "tcp://a:1")


def test_a_sweep_with_failed_runs_ends_with_1_and_names_them(scenario: str, tmp_path: Path) -> None:
    # What no lint finds before it is played: a pod that asks for a quantity that is none, deep in its spec.
    path = Path(scenario)
    container = "{name: main, resources: {requests: {memory: 1Gi}}}"
    path.write_text(SCENARIO.replace("requests: {cpu: 1}", f"spec: {{initContainers: [{container}]}}"))
    broken = "arrivals.train.spec.initContainers.main.resources.requests.memory=1Gi,nonsense"
    done = run_command("sweep", path, "--vary", broken, "-o", "csv", "--columns", "cost")
    assert done.returncode == 1
    assert [line.split(",")[1:] for line in done.stdout.splitlines()[1:]] == [["1", "0", "2"], ["1", "1", ""]]
    assert "'nonsense' is not a quantity" in done.stderr
    assert done.stderr.endswith("error: 1 of 2 runs failed; rows are of the others\n")


def test_the_whole_sweep_is_one_page_and_the_same_bytes_again(scenario: str, tmp_path: Path) -> None:
    one, other = tmp_path / "one.html", tmp_path / "other.html"
    arguments = ("sweep", scenario, *NODES, "--vary", "seed=1,2", "--columns", "cost,waits.p95", "-o", "csv")
    done = run_command(*arguments, "--report", one, "--workers", "1")
    again = run_command(*arguments, "--report", other, "--workers", "2")
    assert (done.returncode, done.stdout) == (0, run_command(*arguments).stdout)
    assert one.read_bytes() == other.read_bytes(), again.stderr
    assert "<li><strong>nodeGroups.big.nodes</strong>: 2, 4</li>" in one.read_text()


def test_without_the_extra_or_a_folder_nothing_is_played(
    scenario: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    page = tmp_path / "gone" / "page.html"
    said = refused(scenario, *NODES, "--out", str(out), "--report", str(page))
    assert said == f"--report {page}: cannot be written: there is no folder {page.parent}"
    said = refused(scenario, *NODES, "--out", str(out), "--report", str(tmp_path))
    assert said == f"--report {tmp_path}: cannot be written: Is a directory"
    monkeypatch.setitem(sys.modules, "plotly", None)
    monkeypatch.setitem(sys.modules, "plotly.offline", None)
    said = refused(scenario, *NODES, "--out", str(out), "--report", str(tmp_path / "page.html"))
    assert said == "reports need plotly: pip install 'fairlead[report]'"
    assert not out.exists()
