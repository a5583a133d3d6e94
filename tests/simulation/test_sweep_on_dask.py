"""Sweeps on a Dask cluster: a scheduler and workers as processes of this machine, some lost, some unfit."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.command import run_command
from support.sweeps import SCENARIO, kept, started, table_of, varied, wait_until

pytestmark = pytest.mark.slow

DASK = Path(sys.executable).parent / "dask"


class DaskCluster:
    """A scheduler on loopback, and the workers that a test starts."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file = folder / "scheduler.json"
        self._processes: list[subprocess.Popen[bytes]] = []
        self.scheduler = self._start("scheduler", "scheduler", "--port", "0")
        wait_until(self._file.exists, "the Dask scheduler")
        self.address: str = json.loads(self._file.read_text())["address"]

    def worker(self, name: str, **env: str) -> subprocess.Popen[bytes]:
        """A worker that has joined."""
        local = ("--nthreads", "1", "--no-nanny", "--local-directory", str(self._folder / name))
        found = self._start(name, "worker", *local, **env)
        log = self._folder / f"{name}.log"
        wait_until(lambda: "Registered to" in log.read_text(), f"worker {name}")
        return found

    def close(self) -> None:
        for process in self._processes:
            process.kill()
            process.wait()

    def _start(self, name: str, *arguments: str, **env: str) -> subprocess.Popen[bytes]:
        with (self._folder / f"{name}.log").open("wb") as log:
            command = [str(DASK), *arguments, "--scheduler-file", str(self._file)]
            process = subprocess.Popen(
                [*command, "--host", "127.0.0.1", "--no-dashboard"],
                cwd=self._folder,
                env={**os.environ, **env},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self._processes.append(process)
        return process


@contextmanager
def dask_cluster(folder: Path) -> Iterator[DaskCluster]:
    found = DaskCluster(folder)
    try:
        yield found
    finally:
        found.close()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[DaskCluster]:
    with dask_cluster(tmp_path) as found:
        yield found


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.yaml"
    path.write_text(SCENARIO + "  - {name: traced, trace: pods.csv}\n")
    (tmp_path / "pods.csv").write_text("at,runs_for,cpu\n5,600,1\n")
    return path


def test_a_worker_that_is_killed_changes_nothing_in_the_table(
    cluster: DaskCluster, scenario: Path, tmp_path: Path, count: Callable[[int, int], int]
) -> None:
    runs = count(24, 200)
    first, _ = cluster.worker("one"), cluster.worker("two")
    out = tmp_path / "out"
    with started(scenario, *varied(runs), "--out", out, "--dask", cluster.address) as (
        command,
        printed,
        errors,
    ):
        wait_until(lambda: len(kept(out)) >= 4 or command.poll() is not None, "the first results")
        first.kill()
        code = command.wait(600)
        errors.seek(0)
        assert code == 0, errors.read()
        assert errors.read() == b""
        printed.seek(0)
        assert printed.read().decode() == table_of(scenario, *varied(runs))
    assert len(kept(out)) == runs


def test_a_sweep_outlives_its_scheduler_in_its_folder(
    cluster: DaskCluster, scenario: Path, tmp_path: Path
) -> None:
    cluster.worker("one")
    out = tmp_path / "out"
    with started(scenario, *varied(24), "--out", out, "--dask", cluster.address) as (command, _, errors):
        wait_until(lambda: len(kept(out)) >= 2 or command.poll() is not None, "the first results")
        cluster.scheduler.kill()
        assert command.wait(600) == 1
        errors.seek(0)
        said = errors.read().decode()
    assert said == f"error: --dask {cluster.address}: the scheduler was lost, or gave the runs up\n"
    assert 2 <= len(kept(out)) < 24
    assert table_of(scenario, *varied(24), "--out", out) == table_of(scenario, *varied(24))


def test_ctrl_c_ends_a_sweep_that_waits_for_workers(
    cluster: DaskCluster, scenario: Path, tmp_path: Path
) -> None:
    with started(scenario, *varied(2), "--dask", cluster.address) as (command, _, errors):
        log = tmp_path / "scheduler.log"
        wait_until(lambda: "Receive client connection" in log.read_text(), "the sweep to connect")
        command.send_signal(signal.SIGINT)
        assert command.wait(60) == 1
        errors.seek(0)
        assert errors.read() == b"error: interrupted: 0 of 2 runs were played; --out would have kept them\n"


def test_a_worker_of_another_version_is_refused(cluster: DaskCluster, scenario: Path, tmp_path: Path) -> None:
    about = tmp_path / "other" / "fairlead-9.9.9.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: fairlead\nVersion: 9.9.9\n")

    # One that joins later says so when it gets a run.
    with started(scenario, *varied(2), "--dask", cluster.address) as (command, _, errors):
        log = tmp_path / "scheduler.log"
        wait_until(lambda: "Receive client connection" in log.read_text(), "the sweep to connect")
        cluster.worker("other", PYTHONPATH=str(tmp_path / "other"))
        assert command.wait(60) == 2
        errors.seek(0)
        assert " has fairlead 9.9.9, and this is " in errors.read().decode()

    done = run_command("sweep", scenario, *varied(2), "--dask", cluster.address)
    assert done.returncode == 2
    assert " has fairlead 9.9.9, and this is " in done.stderr
    assert done.stderr.startswith(f"error: --dask {cluster.address}: ")
    assert done.stderr.count("\n") == 1


def test_without_a_scheduler_a_line_says_so(scenario: Path) -> None:
    done = run_command("sweep", scenario, *varied(2), "--dask", "nowhere://a")
    assert done.returncode == 2
    assert done.stderr.startswith("error: --dask nowhere://a: no Dask scheduler answers there: ")
    assert done.stderr.count("\n") == 1


def test_without_the_extra_a_line_says_what_to_install(scenario: Path, tmp_path: Path) -> None:
    (tmp_path / "distributed.py").write_text("raise ImportError('not installed')")
    done = subprocess.run(
        [sys.executable, "-m", "fairlead", "sweep", str(scenario), *varied(2), "--dask", "tcp://127.0.0.1:1"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr == "error: --dask needs dask and distributed: pip install 'fairlead[dist]'\n"
