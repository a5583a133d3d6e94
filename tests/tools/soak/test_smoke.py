"""A short soak from its first action to its last, on the real control plane."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from support.rig import programs

ROOT = Path(__file__).parents[3]

pytestmark = [pytest.mark.real, pytest.mark.slow]


def test_a_short_soak_finds_nothing_and_leaves_a_log_and_a_report(
    tmp_path: Path, count: Callable[[int, int], int]
):
    if not count(0, 1):
        pytest.skip("takes two minutes: only with the counts of `make verify`")
    programs("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok", "kubectl")
    command = [
        sys.executable,
        "-m",
        "tools.soak",
        "--seed=1",
        "--minutes=0.5",
        "--storm=20",
        f"--out={tmp_path}",
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [json.loads(line) for line in (tmp_path / "soak-1.jsonl").read_text().splitlines()]
    assert any(line["kind"] == "quiet" and line["cycle"] == 0 for line in lines)
    assert lines[-1]["kind"] == "end"
    assert lines[-1]["binds"] > 0
    assert "No invariant was violated" in (tmp_path / "soak-1.html").read_text()
