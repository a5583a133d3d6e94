"""Every example in the command's help runs."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from fairlead.cli.extender import command, config
from support.cluster import Cluster, Host
from support.command import run_command
from support.door import DoorProcess
from support.policies import plain_policy


def examples(epilog: str | None) -> list[list[str]]:
    """The commands, as a shell would read them."""
    lines = [line.strip() for line in (epilog or "").replace("\\\n", " ").splitlines()]
    return [shlex.split(line)[1:] for line in lines if line.startswith("fairlead ")]


@pytest.fixture
def cluster(embedded_host: Host) -> Iterator[Cluster]:
    own = Cluster(embedded_host)
    yield own
    own.close()


@pytest.mark.parametrize("words", examples(command.epilog), ids=" ".join)
def test_an_example_of_the_extender_runs(words: list[str], cluster: Cluster, tmp_path: Path) -> None:
    if "config" in words:
        assert "extenders" in said(words, cluster)
        return
    file = tmp_path / "policies.yaml"
    file.write_text(yaml.safe_dump(plain_policy()))
    given = {
        "~/.kube/config": str(cluster.kubeconfig),
        "policies.yaml": str(file),
        "10.0.0.5:9444": "127.0.0.1:0",
    }
    arguments = [given.get(word, word) for word in words[1:]]
    if "--listen" not in arguments:
        arguments.append("--listen=127.0.0.1:0")
    # A namespace of the test's own: the lease of another test's extender may still run.
    process = DoorProcess(cluster.kubeconfig, words[0], *arguments, f"--system-namespace={cluster.namespace}")
    process.wait_for("answering")
    assert process.stop() == 0
    process.close()


@pytest.mark.parametrize("words", examples(config.epilog), ids=" ".join)
def test_an_example_of_its_configuration_runs(words: list[str], cluster: Cluster) -> None:
    text = said([*words[: words.index(">")]] if ">" in words else words, cluster)

    assert next(iter(yaml.safe_load_all(text)))["kind"] == "KubeSchedulerConfiguration"


def said(words: list[str], cluster: Cluster) -> str:
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "fairlead-extender"},
        "spec": {"ports": [{"port": 9444}]},
    }
    cluster.create(service)
    words = [str(cluster.kubeconfig) if word == "~/.kube/config" else word for word in words]
    env = {**os.environ, "KUBECONFIG": str(cluster.kubeconfig)}
    done = run_command(*words, f"--system-namespace={cluster.namespace}", env=env)
    assert done.returncode == 0, done.stderr
    return done.stdout
