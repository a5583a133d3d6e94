"""``fairlead scenario``: lint, schema and import as a user calls them."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
import yaml

from support.command import run_command
from support.pages import ROOT

EXAMPLES = ROOT / "examples" / "simulate"
TRACES = EXAMPLES / "traces"


def wrong(folder: Path) -> Path:
    path = folder / "wrong.yaml"
    text = (EXAMPLES / "batch.yaml").read_text()
    path.write_text(text.replace("perHour: 30", "perHor: 30").replace("nodes: 20", "nodes: many"))
    return path


def test_lint_ends_with_0_when_there_is_no_mistake() -> None:
    done = run_command("scenario", "lint", str(EXAMPLES / "batch.yaml"), str(EXAMPLES / "spot.yaml"))
    assert (done.returncode, done.stdout) == (0, "2 scenarios, no mistakes\n")


def test_lint_prints_every_mistake_and_ends_with_2(tmp_path: Path) -> None:
    done = run_command("scenario", "lint", str(wrong(tmp_path)), str(EXAMPLES / "spot.yaml"))
    lines = done.stdout.splitlines()
    assert done.returncode == 2
    assert lines[0].startswith(f"{tmp_path}/wrong.yaml:7: spec.nodeGroups[0].nodes: 'many' is not allowed")
    assert lines[1].startswith(f"{tmp_path}/wrong.yaml:9: spec.arrivals[0].perHor: there is no such field")
    assert lines[-1] == "2 mistakes in 1 of 2 scenarios"


def test_lint_prints_mistakes_as_data(tmp_path: Path) -> None:
    done = run_command("scenario", "lint", str(wrong(tmp_path)), "-o", "json")
    first, second = json.loads(done.stdout)
    assert done.returncode == 2
    assert (first["line"], first["field"]) == (7, "spec.nodeGroups[0].nodes")
    assert (second["line"], second["field"]) == (9, "spec.arrivals[0].perHor")


def test_lint_names_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    done = run_command("scenario", "lint", "none.yaml", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stdout.splitlines()[0] == "none.yaml:1: cannot be read: No such file or directory"


def test_simulate_says_every_mistake_and_plays_nothing(tmp_path: Path) -> None:
    done = run_command("simulate", str(wrong(tmp_path)))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"error: {tmp_path}/wrong.yaml:7: ")
    assert len(done.stderr.splitlines()) == 2


def test_schema_is_printed_as_json() -> None:
    done = run_command("scenario", "schema")
    assert done.returncode == 0
    jsonschema.validate(yaml.safe_load((EXAMPLES / "spot.yaml").read_text()), json.loads(done.stdout))


OPENB = ("openb", "--nodes", str(TRACES / "nodes.csv"), "--pods", str(TRACES / "pods.csv"))
IMPORTS = {
    "openb": (*OPENB, "-o", "out"),
    "openb that fills": (*OPENB, "--until-full", "--shuffle", "1", "--fill", "2", "-o", "out"),
    "spot-trace": ("spot-trace", str(TRACES / "zone-a.json"), "--group", "g", "-o", "out/scenario.yaml"),
    "dump": ("dump", str(ROOT / "examples" / "whatif" / "cluster.yaml"), "-o", "out"),
    "recording": ("recording", str(ROOT / "tests/scheduler/recordings/format-2.jsonl"), "-o", "out"),
}


@pytest.mark.parametrize("case", IMPORTS)
def test_an_import_writes_a_scenario_without_mistakes_and_says_what_it_chose(
    case: str, tmp_path: Path
) -> None:
    done = run_command("scenario", "import", *IMPORTS[case], cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "out" / "scenario.yaml").read_text()
    comments = " ".join(line.removeprefix("# ") for line in text.splitlines() if line.startswith("#"))
    for line in done.stdout.splitlines()[1:]:
        assert line.removeprefix("note: ") in comments
    linted = run_command("scenario", "lint", "out/scenario.yaml", cwd=tmp_path)
    assert linted.stdout == "1 scenario, no mistakes\n"


def test_an_import_replaces_files_only_when_that_is_asked_for(tmp_path: Path) -> None:
    mine = tmp_path / "out" / "scenario.yaml"
    mine.parent.mkdir()
    mine.write_text("mine")
    refused = run_command("scenario", "import", *IMPORTS["dump"], cwd=tmp_path)
    assert refused.returncode == 2
    assert refused.stderr == "error: out/scenario.yaml: is there already; --force replaces it\n"
    assert mine.read_text() == "mine"
    assert [path.name for path in mine.parent.iterdir()] == ["scenario.yaml"]
    assert run_command("scenario", "import", *IMPORTS["dump"], "--force", cwd=tmp_path).returncode == 0
    assert mine.read_text() != "mine"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((*OPENB, "--fill", "2", "-o", "out"), "--shuffle and --fill go with --until-full"),
        (("dump", "-o", "out", "--duration", "soon", "x"), "--duration: 'soon' is not a duration like 90s"),
        (("recording", "none", "-o", "out"), "none: there is no such recording"),
        (("spot-trace", "none.json", "--group", "g", "-o", "x.yaml"), "spot trace none.json: No such file"),
    ],
)
def test_what_cannot_be_imported_is_said_and_nothing_is_written(
    words: tuple[str, ...], said: str, tmp_path: Path
) -> None:
    done = run_command("scenario", "import", *words, cwd=tmp_path)
    assert done.returncode == 2
    assert said in done.stderr
    assert not list(tmp_path.iterdir())
