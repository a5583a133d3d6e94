"""The examples of ``fairlead webhook --help`` do what they say."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from fairlead.doors.webhook.keyring import SECRET
from fairlead.doors.webhook.registration import CONFIGURATION
from support.admission import Tiered
from support.cluster import Cluster
from support.wire import PATIENCE_S


def examples() -> list[str]:
    """The commands in the help, continued lines joined."""
    shown = subprocess.run(
        [sys.executable, "-m", "fairlead", "webhook", "--help"], capture_output=True, text=True, check=True
    ).stdout
    lines = shown.partition("Examples:")[2].replace("\\\n", " ").splitlines()
    found = [" ".join(line.split()) for line in lines]
    return [line for line in found if line.startswith(("fairlead ", "kubectl "))]


@pytest.fixture
def tidy(cluster: Cluster) -> Iterator[None]:
    """The examples speak of the default system namespace; nothing of theirs may stay."""
    yield
    cluster.wire.request(
        "DELETE", f"/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/{CONFIGURATION}"
    )
    cluster.wire.request("DELETE", f"/api/v1/namespaces/fairlead-system/secrets/{SECRET}")


@pytest.mark.usefixtures("tidy")
def test_the_examples_of_the_help_work(corner: Tiered, tmp_path: Path) -> None:
    inside, outside, away, rotate = examples()
    policies = tmp_path / "policies.yaml"
    policies.write_text(yaml.safe_dump(corner.policy()))

    def words(command: str) -> list[str]:
        said = command.replace("~/.kube/config", str(corner.cluster.kubeconfig))
        said = said.replace("policies.yaml", str(policies)).replace("10.0.0.5", "127.0.0.1")
        # Ports may be taken on the machine of a test.
        said = re.sub(r"--listen \S+", "--listen 127.0.0.1:0", said).removeprefix("fairlead ")
        return [sys.executable, "-m", "fairlead", *shlex.split(said)]

    in_cluster = {**os.environ, "KUBECONFIG": str(corner.cluster.kubeconfig)}
    for command, extra in ((inside, ["--listen", "127.0.0.1:0"]), (outside, [])):
        log = tmp_path / "log"
        with log.open("wb") as file:
            process = subprocess.Popen([*words(command), *extra], env=in_cluster, stderr=file)
        deadline = time.monotonic() + PATIENCE_S
        try:
            while not _said(log, "registered"):
                assert process.poll() is None, log.read_text()
                assert time.monotonic() < deadline, log.read_text()
                time.sleep(0.05)
        finally:
            process.terminate()
            assert process.wait(PATIENCE_S) == 0

    said = shlex.split(rotate)[1:]
    assert corner.cluster.kubectl(*said).returncode == 0

    gone = subprocess.run(words(away), capture_output=True, text=True, check=True).stdout
    assert [line.split()[1] for line in gone.splitlines()] == ["MutatingWebhookConfiguration", "Secret"]


def _said(log: Path, event: str) -> bool:
    lines = [line for line in log.read_text().splitlines() if line.startswith("{") and line.endswith("}")]
    return any(json.loads(line)["event"] == event for line in lines)
