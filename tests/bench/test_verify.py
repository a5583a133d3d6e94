"""What `make verify` takes for success: something ran, and none of it failed."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.verify import PROMISED, ROOT, folder_row, version_rows

SKIPPED = "import pytest\n\n@pytest.mark.skip(reason='no program')\ndef test_skipped():\n    pass\n"
PASSED = "def test_passed():\n    pass\n"
FAILED = "def test_failed():\n    raise ValueError\n"


@pytest.mark.parametrize(
    ("files", "ok", "measured"),
    [
        ([SKIPPED], False, "1 skipped"),
        ([SKIPPED, PASSED], True, "1 passed, 1 skipped"),
        ([PASSED], True, "1 passed"),
        ([PASSED, FAILED], False, "1 failed, 1 passed"),
        ([""], False, "nothing ran"),
    ],
    ids=["all skipped", "some skipped", "all passed", "one failed", "no test"],
)
def test_a_folder_counts_as_passed_only_when_a_test_passed_and_none_failed(
    tmp_path: Path, files: list[str], ok: bool, measured: str
) -> None:
    for number, text in enumerate(files):
        (tmp_path / f"test_{number}.py").write_text(text)
    row = folder_row(tmp_path)
    assert row.ok is ok
    assert row.measured.startswith(f"{measured} in ")


def test_a_name_that_is_no_folder_and_no_benchmark_is_refused() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.verify", "bench_nothing"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "no such test folder or benchmark: bench_nothing" in done.stderr


def test_a_version_of_kubernetes_that_cannot_be_built_is_a_row_that_is_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {
        "XDG_CACHE_HOME": str(tmp_path),
        "GOMODCACHE": str(tmp_path),
        "GOPROXY": "off",
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", "")

    (row,) = version_rows("1.35")

    assert (row.name, row.measured, row.ok) == ("Kubernetes v1.35.4", "could not be built", False)


def test_what_is_promised_on_other_versions_are_folders_of_tests() -> None:
    assert all((ROOT / "tests" / name).is_dir() for names in PROMISED.values() for name in names)


@pytest.mark.parametrize("path", sorted((ROOT / "benchmarks").glob("bench_*.py")), ids=lambda path: path.stem)
def test_every_benchmark_can_be_imported_and_has_a_run(path: Path) -> None:
    assert callable(importlib.import_module(f"benchmarks.{path.stem}").run)
