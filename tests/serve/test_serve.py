"""``fairlead serve``: several doors in one process, on one port, each doing what its own command does."""

from __future__ import annotations

import http.client
import json
import ssl
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from fairlead.policy.names import POLICIES
from support.admission import Tiered, exact
from support.balancer import Balancer
from support.cluster import Cluster
from support.command import run_command
from support.door import DoorProcess, kubeconfig_of
from support.line import Line
from support.policies import add_policy, plain_policy, serve_policies
from support.wire import PATIENCE_S

NOWHERE = "http://127.0.0.1:1"


class Served(Tiered):
    """A test's own corner before which one process has several doors."""

    doors = "webhook,extender,scheduler,rebalance"

    def add_replica(self, *arguments: str) -> DoorProcess:
        replica = DoorProcess(
            self.cluster.kubeconfig,
            "serve",
            f"--doors={self.doors}",
            "--listen=127.0.0.1:0",
            f"--url={self.balancer.url}",
            f"--system-namespace={self.system}",
            f"--scheduler-name={self.scheduler}",
            "--register",
            *arguments,
        )
        self.replicas.append(replica)
        (said,) = replica.wait_for("listening")
        self.balancer.ports.append(int(said["url"].rpartition(":")[2]))
        return replica

    @property
    def scheduler(self) -> str:
        return f"fairlead-{self.cluster.namespace}"

    def ask(self, path: str, body: Any = None) -> tuple[int, str]:
        """Call the port as anybody may; its certificate is the webhook tests' matter."""
        loose = ssl.create_default_context()
        loose.check_hostname, loose.verify_mode = False, ssl.CERT_NONE
        port = self.balancer.ports[-1]
        connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=PATIENCE_S, context=loose)
        try:
            connection.request(
                "POST" if body is not None else "GET", path, json.dumps(body) if body else None
            )
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def ready(self) -> str:
        """Wait until it is; what it says about each check."""
        self.cluster.wait(lambda: self.ask("/readyz")[0] == 200, "it to be ready")
        return self.ask("/readyz?verbose")[1]


@pytest.fixture
def corner(cluster: Cluster) -> Iterator[Served]:
    with Balancer() as balancer:
        own = Served(cluster, balancer)
        try:
            yield own
        finally:
            own.close()


@pytest.mark.slow
def test_every_door_works_and_one_port_answers_for_all(corner: Served) -> None:
    corner.nodes()
    corner.run()
    said = corner.ready()
    for check in ("policies", "webhook-informer-sync", "extender-leading", "scheduler-session", "rebalance-"):
        assert f"[+]{check}" in said

    # The webhook steers pods of kube-scheduler ...
    corner.deploy("theirs", 10)
    assert corner.settled("theirs", 10) == exact(10)
    # ... the scheduler places its own by the same policy ...
    corner.deploy("ours", 5, pods={"schedulerName": corner.scheduler})
    assert corner.settled("ours", 5) == exact(5)
    # ... and the extender answers on the same port.
    pod = corner.pods("theirs")[0]
    status, text = corner.ask("/filter", {"Pod": pod, "Nodes": None, "NodeNames": [pod["spec"]["nodeName"]]})
    assert status == 200, text
    assert json.loads(text)["Error"] == ""

    families = list(text_string_to_metric_families(corner.ask("/metrics")[1]))
    assert max(Counter(family.name for family in families).values()) == 1
    names = " ".join(family.name for family in families)
    for part in ("fairlead_admissions", "fairlead_extender", "scheduler_", "fairlead_rebalanc"):
        assert part in names

    (replica,) = corner.replicas
    assert replica.stop() == 0


@pytest.mark.slow
def test_all_doors_of_a_process_share_one_watch_of_each_kind(cluster: Cluster, tmp_path: Path) -> None:
    direct, line = cluster.kubeconfig, Line(cluster)
    with line.served() as url, Balancer() as balancer:
        corner = Served(cluster, balancer)
        try:
            corner.nodes()
            serve_policies(cluster)
            name = add_policy(cluster, corner.policy())["metadata"]["name"]
            cluster.kubeconfig = kubeconfig_of(url, tmp_path)
            corner.add_replica()
            cluster.kubeconfig = direct
            corner.ready()
            corner.deploy("theirs", 10)
            assert corner.settled("theirs", 10) == exact(10)
            # The status of the policy is written by the same process, which watches pods for it.
            cluster.wait(
                lambda: "spot 7, on-demand 3" in str(cluster.get(POLICIES, name).get("status")),
                "the policy's status",
            )
        finally:
            corner.close()
    asked = [urlsplit(path) for path in line.requests]
    watched = Counter(
        (one.path, parse_qs(one.query).get("fieldSelector", [""])[0])
        for one in asked
        if "watch" in parse_qs(one.query)
    )
    for path in ("/api/v1/pods", "/api/v1/nodes", "/apis/apps/v1/replicasets", "/apis/batch/v1/jobs"):
        assert watched[path, ""] == 1
    assert {kind: number for kind, number in watched.items() if number > 1} == {}


@pytest.mark.slow
def test_policies_of_the_cluster_are_followed_and_their_status_is_kept(corner: Served) -> None:
    corner.nodes()
    serve_policies(corner.cluster)
    name = add_policy(corner.cluster, corner.policy())["metadata"]["name"]
    corner.doors = "webhook,rebalance"
    corner.add_replica()
    corner.called()
    corner.deploy("web", 10)
    assert corner.settled("web", 10) == exact(10)

    def counted() -> bool:
        row = corner.cluster.kubectl("get", "placementpolicies", name, "--no-headers").stdout
        return "spot 7, on-demand 3   spot 7, on-demand 3   0" in row

    corner.cluster.wait(counted, "the status to tell desired and actual")


def test_doors_that_nobody_calls_need_no_port(corner: Served) -> None:
    process = DoorProcess(
        corner.cluster.kubeconfig,
        "serve",
        "--doors=scheduler,rebalance",
        f"--system-namespace={corner.system}",
        f"--scheduler-name={corner.scheduler}",
    )
    corner.replicas.append(process)
    process.wait_for("synced")
    assert process.log("listening") == []
    assert process.stop() == 0


@pytest.mark.parametrize(
    ("doors", "says"),
    [
        ("window", "there is no component 'window'; there are webhook, extender, scheduler, rebalance"),
        ("", "at least one of webhook"),
        ("webhook,webhook", "names a component twice"),
    ],
)
def test_a_bad_set_of_doors_is_refused(doors: str, says: str) -> None:
    done = run_command("serve", f"--doors={doors}")
    assert done.returncode == 2
    assert says in done.stderr


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--doors=rebalance", "--register"], "--register is for webhook"),
        (["--doors=scheduler", "--tls-cert-file=a"], "--tls-cert-file is for webhook and extender"),
        (["--doors=rebalance", "--client-ca-file=a"], "--client-ca-file is for webhook and extender"),
        (["--doors=extender", "--client-ca-file=a"], "--client-ca-file needs --tls-cert-file"),
        (["--doors=webhook", "--service=a:b"], "is not NAME or NAME:PORT"),
        (["--doors=webhook", "--service=a:"], "is not NAME or NAME:PORT"),
    ],
)
def test_a_flag_for_a_door_that_is_not_there_is_refused(flags: list[str], says: str) -> None:
    done = run_command("serve", *flags)
    assert done.returncode == 2
    assert says in done.stderr


@pytest.mark.parametrize("command", [["extender", "config"], ["webhook", "--unregister"]], ids=" ".join)
def test_what_is_said_meanwhile_is_no_part_of_the_output(command: list[str], tmp_path: Path) -> None:
    file = kubeconfig_of(NOWHERE, tmp_path)
    done = run_command(*command, f"--kubeconfig={file}")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines()[-1].startswith("error: ")


def test_a_file_that_cannot_be_read_is_named_with_its_flag(tmp_path: Path) -> None:
    (tmp_path / "policies.yaml").write_text(yaml.safe_dump(plain_policy()))
    flags = [f"--kubeconfig={kubeconfig_of(NOWHERE, tmp_path)}", f"--policies={tmp_path / 'policies.yaml'}"]
    done = run_command("extender", *flags, "--tls-cert-file=/no", "--tls-key-file=/no")
    assert done.returncode == 2
    assert "--tls-cert-file /no: " in done.stderr
