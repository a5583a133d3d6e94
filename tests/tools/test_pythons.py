"""The fast tests on other versions of Python: where interpreters come from, and what is said without one."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from tools.pythons import CARRIED, ROOT, installed, unpack


def test_this_interpreter_is_found_where_it_is_on_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    version = f"3.{sys.version_info.minor}"
    (tmp_path / f"python{version}").symlink_to(sys.executable)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))

    assert list(installed(version)) == [tmp_path / f"python{version}"]


def test_a_program_that_is_there_but_does_not_run_is_no_interpreter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "python3.13").write_text("#!/bin/sh\nexit 127\n")
    (tmp_path / "python3.13").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin")
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))

    assert list(installed("3.13")) == []


def test_an_interpreter_is_unpacked_as_the_module_lists_it(tmp_path: Path) -> None:
    carried = tmp_path / "carried"
    (carried / "bin").mkdir(parents=True)
    (carried / "bin" / "python3.14.gz").write_bytes(gzip.compress(b"program"))
    (carried / "LICENSE").write_text("words")
    files = [
        {"name": "bin", "perm": (1 << 31) | 0o755},
        {"name": "bin/python3.14", "perm": 0o755, "compressed": True},
        {"name": "bin/python3", "perm": 1 << 27, "symlink": "python3.14"},
        {"name": "LICENSE", "perm": 0o644},
    ]
    (carried / "files.json").write_text(json.dumps({"files": files}))

    unpack(carried, tmp_path / "home")

    assert (tmp_path / "home" / "bin" / "python3").read_bytes() == b"program"
    assert os.access(tmp_path / "home" / "bin" / "python3", os.X_OK)
    assert (tmp_path / "home" / "LICENSE").read_text() == "words"


def test_a_version_that_cannot_be_had_is_said_and_when_none_ran_that_is_a_failure(tmp_path: Path) -> None:
    cut_off = {"XDG_CACHE_HOME": str(tmp_path), "GOMODCACHE": str(tmp_path), "GOPROXY": "off"}
    without_pip = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": ""}

    done = subprocess.run(
        [sys.executable, "-m", "tools.pythons", "--fetched", "3.14"],
        cwd=ROOT,
        env={**os.environ, **cut_off, **without_pip},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 1
    assert "not found: " in done.stdout
    assert done.stdout.rstrip().endswith("not run")
    assert "Traceback" not in done.stderr


def test_the_supported_versions_are_those_that_the_package_declares() -> None:
    declared = (ROOT / "pyproject.toml").read_text()
    prefix = "Programming Language :: Python :: 3."
    lines = [line.strip().rstrip(",") for line in declared.splitlines() if prefix in line]

    assert [yaml.safe_load(line).rpartition(" ")[2] for line in lines] == list(CARRIED)
