"""The leader tells its queue, read-only, to callers who may get the pod, and to no others."""

from __future__ import annotations

import json
import os
import re
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from support.cluster import Cluster, Host
from support.command import run_command
from support.scheduler import SchedulerProcess, Shop


@pytest.fixture
def url(cluster: Cluster) -> Iterator[str]:
    own = Shop(cluster)
    try:
        process = own.run("--listen=127.0.0.1:0")
        cluster.add_nodes(cpu=2)
        for name, cpu in (("first", "3"), ("second", "4")):
            own.add(name, cpu=cpu)
            own.held(name)
        yield listening(process)
    finally:
        own.close()


def listening(process: SchedulerProcess) -> str:
    found: str = process.wait_for("listening")[0]["url"]
    return found


def ask(url: str, pod: str, token: str = "") -> tuple[int, str]:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    try:
        with urllib.request.urlopen(urllib.request.Request(f"{url}/queue/{pod}", headers=headers)) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def token_of(cluster: Cluster) -> str:
    user = yaml.safe_load(cluster.kubeconfig.read_text())["users"][0]["user"]
    return str(user.get("token") or "any: the embedded cluster knows nobody by it")


def test_a_caller_who_may_get_the_pod_learns_its_place(cluster: Cluster, url: str) -> None:
    status, said = ask(url, f"{cluster.namespace}/second", token_of(cluster))
    assert status == 200, said
    found = json.loads(said)
    assert (found["unit"], found["position"]) == (f"{cluster.namespace}/second", 2)
    assert found["ahead"] == [f"{cluster.namespace}/first"]
    assert found["attempts"] >= 1


def test_without_a_token_nothing_is_told(cluster: Cluster, url: str) -> None:
    assert ask(url, f"{cluster.namespace}/second") == (401, "send a bearer token of this cluster")


def test_a_pod_that_does_not_wait_is_said_not_to(cluster: Cluster, url: str) -> None:
    status, said = ask(url, f"{cluster.namespace}/other", token_of(cluster))
    assert (status, said) == (404, f"pod {cluster.namespace}/other does not wait for this scheduler")


@pytest.mark.real
def test_a_token_that_the_api_server_does_not_know_is_refused(real_host: Host) -> None:
    cluster = Cluster(real_host)
    own = Shop(cluster)
    try:
        where = listening(own.run("--listen=127.0.0.1:0"))
        status, said = ask(where, f"{cluster.namespace}/x", "made-up")
        assert status == 401
        assert said.startswith("the API server does not accept the token")
    finally:
        own.close()
        cluster.close()


@pytest.mark.real
def test_a_caller_without_the_right_is_told_which_it_needs(real_host: Host) -> None:
    cluster = Cluster(real_host)
    own = Shop(cluster)
    try:
        where = listening(own.run("--listen=127.0.0.1:0"))
        path = cluster.path("ServiceAccount", "default", "token")
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        token = cluster.wire.request("POST", path, request).ok()["status"]["token"]
        status, said = ask(where, f"{cluster.namespace}/x", token)
        who = f"system:serviceaccount:{cluster.namespace}:default"
        assert status == 403
        assert said == f'user "{who}" needs the right to get pod x in namespace {cluster.namespace}'
    finally:
        own.close()
        cluster.close()


def test_a_standby_sends_callers_to_the_leader(cluster: Cluster) -> None:
    own = Shop(cluster)
    try:
        own.run(elect=True).wait_for("synced")
        standby = own.run("--listen=127.0.0.1:0", elect=True)
        standby.wait_for("standing_by")
        status, said = ask(listening(standby), f"{cluster.namespace}/x", token_of(cluster))
        assert (status, said) == (503, "this replica does not lead; the lease names the one that does")
    finally:
        own.close()


def test_explain_shows_the_leaders_queue(cluster: Cluster, url: str, tmp_path: Path) -> None:
    done = explained(cluster, tmp_path, url)
    assert re.search(rf"leader +place 2, after {cluster.namespace}/first; tried \d+ times?", done)


def test_explain_says_why_the_leaders_queue_is_unknown(cluster: Cluster, url: str, tmp_path: Path) -> None:
    nobody = url.rpartition(":")[0] + ":1"
    assert f"unknown: {nobody} does not answer" in explained(cluster, tmp_path, nobody)


def test_a_token_is_sent_over_no_open_network(tmp_path: Path) -> None:
    done = run_command("explain", "x", "--scheduler-url", "http://scheduler.example.com")
    assert done.returncode == 2
    assert "a token is sent over https or to this machine only" in done.stderr


def explained(cluster: Cluster, folder: Path, url: str) -> str:
    kubeconfig = yaml.safe_load(cluster.kubeconfig.read_text())
    user = kubeconfig["users"][0]["user"]
    user.setdefault("token", token_of(cluster))
    file = folder / "kubeconfig"
    file.write_text(yaml.safe_dump(kubeconfig))
    config = folder / "fairlead.yaml"
    names = [f"fairlead-{cluster.namespace}"]
    head = {"apiVersion": "fairlead.dev/v1alpha1", "kind": "FairleadConfiguration"}
    config.write_text(yaml.safe_dump({**head, "schedulerNames": names}))
    words = ["explain", "second", "-n", cluster.namespace, f"--config={config}", f"--scheduler-url={url}"]
    done = run_command(*words, env={**os.environ, "KUBECONFIG": str(file)})
    assert done.returncode == 0, done.stderr
    return done.stdout
