"""Every shipped Deployment runs as its manifest says, on a real control plane, and does its work.

A start on a developer's machine never misses what a manifest forbids: a writable root, a home directory, an
environment. Here each door's objects are applied as they are. The pod that the API server admits for the
Deployment is run as `support.container` describes until its readiness probe succeeds, and then takes a real
decision. Where pods are admitted, ``--url`` stands in for the network of Services; one test does without it.
"""

from __future__ import annotations

import base64
import http.client
import re
import shlex
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from tools.shipped_rights import DEPLOY, NAMESPACE, shipped_objects

from fairlead.client.authority import Authority
from fairlead.doors.extender.configuration import Wanted, extender_entry
from fairlead.errors import ApiError
from fairlead.install.rendering import render
from fairlead.install.values import read_values
from fairlead.rig.nodes import create_nodes, node_object
from support.admission import TIER
from support.balancer import Balancer
from support.container import Container, confined_here
from support.extender import calling
from support.image import Image
from support.manifests import pod
from support.policies import ON_DEMAND, SPOT, plain_policy
from support.shipped import Obj, Shipped, shipped_on
from support.wire import PATIENCE_S

pytestmark = [pytest.mark.real, pytest.mark.slow]

VIRTUAL = "virtual-node"  # as burst.yaml names it

Report = Callable[[Container, float, str], None]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Shipped]:
    confined_here()
    # To Services the API server talks through their endpoints: there is no kube-proxy here.
    with shipped_on(0, apiserver_args=["--enable-aggregator-routing"]) as found:
        for tier in ("spot", "on-demand"):
            found.plane.add_nodes(2, prefix=tier, labels={"capacity": tier})
        found.plane.start_scheduler()
        yield found


@pytest.fixture
def report(record_property: Callable[[str, object], None]) -> Report:
    """Write a row of the table at the end of the run."""

    def write(container: Container, ready_after_s: float, decision: str) -> None:
        name = container.spec["name"]
        record_property("as shipped", (name, container.constraints, f"{ready_after_s:.1f} s", decision))

    return write


def manifest_of(door: str) -> str:
    """The file with a door's Deployment."""
    door = door.removesuffix("-mtls")
    return str(DEPLOY / "scheduler.yaml" if door == "scheduler" else DEPLOY / door / f"{door}.yaml")


@contextmanager
def running(cluster: Shipped, door: str, *arguments: str) -> Iterator[Container]:
    """Install a door as its kustomization says, and run a pod of it; ready, and alive to the end.

    `arguments` stand in for what this machine does not have, such as a network of Services.
    """
    kubectl, since = cluster.plane.kubectl, cluster.mark()
    for command in installing(door):
        kubectl(*command, "--validate=strict")
    own = Container(cluster.plane, admitted(cluster, manifest_of(door)), *arguments)
    try:
        yield own
        assert own.probe("livenessProbe")
        assert own.probe("readinessProbe")
        assert own.stop() == 0
        assert not {right for right, granted in cluster.asked(since) if not granted}
    except Exception as error:
        error.add_note(own.text())
        raise
    finally:
        own.close()
        shared = ("-f", str(DEPLOY / "configuration.yaml"), "--ignore-not-found")
        kubectl("delete", "-f", manifest_of(door), *shared)
        kubectl("delete", "leases", "--all", f"--namespace={NAMESPACE}")


def installing(door: str) -> list[list[str]]:
    """What to call kubectl with, as the first line of the kustomization says."""
    folder = DEPLOY if door == "scheduler" else DEPLOY / door
    line = (folder / "kustomization.yaml").read_text().splitlines()[0]
    commands = [shlex.split(part) for part in line.removeprefix("# ").split(";")]
    assert all(command[:2] == ["kubectl", "apply"] for command in commands)
    return [[re.sub(r"^deploy\b", str(DEPLOY), word) for word in command[1:]] for command in commands]


def admitted(cluster: Shipped, file: str) -> Obj:
    """A pod of the file's Deployment, as the API server has made it."""
    with open(file) as text:
        (wanted,) = [one for one in yaml.safe_load_all(text) if one["kind"] == "Deployment"]
    label = wanted["spec"]["selector"]["matchLabels"]["app"]
    path = f"/api/v1/namespaces/{NAMESPACE}/pods?labelSelector=app={label}"

    def look() -> list[Obj]:
        items: list[Obj] = cluster.plane.api.get(path)["items"]
        return [one for one in items if "deletionTimestamp" not in one["metadata"]]

    found: Obj = cluster.wait(look, f"a pod of {label}")[0]
    return found


@contextmanager
def governed(cluster: Shipped, name: str, **spec: Any) -> Iterator[str]:
    """A namespace of its own with a policy over it: spot first, 30% on demand."""
    with cluster.namespace(name) as namespace:
        cluster.apply(plain_policy(name, SPOT, ON_DEMAND, match={"namespaces": [name]}, **spec))
        try:
            yield namespace
        finally:
            cluster.plane.kubectl("delete", "placementpolicy", name)


def deployment(namespace: str, name: str, replicas: int, **spec: Any) -> Obj:
    labels = {"app": name}
    spec = {
        "terminationGracePeriodSeconds": 0,
        "containers": [{"name": "main", "image": "image"}],
        **spec,
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }


def tiers_of(cluster: Shipped, namespace: str, number: int) -> dict[str, int] | None:
    """How many pods lie on which tier, once that many are bound."""
    nodes = cluster.nodes_of(namespace).values()
    if len(nodes) != number or not all(nodes):
        return None
    names = [node.rpartition("-")[0] for node in nodes]
    return {name: names.count(name) for name in sorted(set(names))}


def split(cluster: Shipped, namespace: str, **wanted: int) -> None:
    """Wait until the pods of a namespace lie like this."""
    tiers = {name.replace("_", "-"): number for name, number in wanted.items()}
    total = sum(tiers.values())
    cluster.wait(lambda: tiers_of(cluster, namespace, total) == tiers, f"pods to lie {tiers}")


def admits(cluster: Shipped, namespace: str) -> Obj:
    """Wait until the API server calls the webhook, and return a pod as it is admitted then."""
    path = f"/api/v1/namespaces/{namespace}/pods?dryRun=All"

    def look() -> Obj | None:
        try:
            made = cluster.plane.api.create(path, pod("probe"))
        except ApiError:
            return None  # it is called, but not as its certificate says
        return made if TIER in made["metadata"].get("annotations", {}) else None

    found: Obj = cluster.wait(look, "pods to be given a tier")
    return found


def out_of_balance(cluster: Shipped, namespace: str) -> None:
    """Four pods on spot, of which the policy wants two on demand, where there is room again."""
    cluster.plane.kubectl("cordon", "on-demand-0", "on-demand-1")
    cluster.apply(deployment(namespace, "web", 4))
    split(cluster, namespace, spot=4)
    cluster.plane.kubectl("uncordon", "on-demand-0", "on-demand-1")


AT_ONCE = {"minPodAge": "0s", "stabilize": "0s", "perMinute": 60}


def test_the_scheduler_binds_a_pod(cluster: Shipped, report: Report) -> None:
    with cluster.namespace("scheduled") as namespace, running(cluster, "scheduler") as own:
        ready_after_s = own.wait_ready()
        cluster.apply(deployment(namespace, "web", 1, schedulerName="fairlead"))
        (node,) = cluster.wait(
            lambda: [node for node in cluster.nodes_of(namespace).values() if node], "a bound pod"
        )
    report(own, ready_after_s, f"bound a pod to {node}")


def test_the_webhook_patches_a_pod_that_the_api_server_asks_it_about(
    cluster: Shipped, report: Report
) -> None:
    with (
        Balancer() as balancer,
        governed(cluster, "hooked") as namespace,
        running(cluster, "webhook", f"--url={balancer.url}") as own,
    ):
        balancer.ports.append(own.port)
        ready_after_s = own.wait_ready()
        made = admits(cluster, namespace)
        assert made["spec"]["affinity"]["nodeAffinity"]
        cluster.apply(deployment(namespace, "web", 10))
        split(cluster, namespace, spot=7, on_demand=3)
    report(own, ready_after_s, "admitted 10 pods: 7 to spot, 3 to on-demand")


def test_the_webhook_serves_a_certificate_of_cert_manager(cluster: Shipped, report: Report) -> None:
    values = read_values([], ["components.scheduler.enabled=false,components.webhook.enabled=true"])
    values["certManager"]["enabled"] = True
    # This test stands in for cert-manager: it fills the Secret and injects the authority.
    issued = ("Issuer", "Certificate", "CustomResourceDefinition")
    objects = [one for one in render(values, NAMESPACE) if one["kind"] not in issued]
    authority = Authority()
    server = authority.server((), ("127.0.0.1",))
    pair = secret("fairlead-webhook-tls", {"tls.crt": server.public, "tls.key": server.private})
    with Balancer() as balancer, governed(cluster, "issued") as namespace:
        cluster.apply(*shipped_objects("namespace.yaml"), pair, *objects)
        own = Container(cluster.plane, admitted(cluster, manifest_of("webhook")), f"--url={balancer.url}")
        try:
            balancer.ports.append(own.port)
            ready_after_s = own.wait_ready()
            path = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/fairlead"
            registered = cluster.wait(lambda: cluster.plane.api.get(path).get("webhooks"), "a registration")
            bundle = base64.b64encode(authority.pair.public).decode()
            registered[0]["clientConfig"]["caBundle"] = bundle
            cluster.plane.api.patch(path, {"webhooks": registered})
            admits(cluster, namespace)
            assert own.stop() == 0
        except Exception as error:
            error.add_note(own.text())
            raise
        finally:
            own.close()
            cluster.plane.kubectl("delete", "-f", manifest_of("webhook"), "--ignore-not-found")
    report(own, ready_after_s, "admitted a pod, with another authority's certificate")


def test_the_api_server_reaches_the_webhook_as_its_service(cluster: Shipped) -> None:
    address = own_address()
    cluster.plane.kubectl(
        "cordon", "--selector=capacity"
    )  # simulated pods of the Deployment would not answer
    try:
        with governed(cluster, "called") as namespace, running(cluster, "webhook") as own:
            cluster.apply(endpoint("fairlead-webhook", address, own.port))
            own.wait_ready()
            admits(cluster, namespace)
    finally:
        cluster.plane.kubectl("uncordon", "--selector=capacity")
        cluster.plane.kubectl(
            "delete", "endpointslice", "here", f"--namespace={NAMESPACE}", "--ignore-not-found"
        )


def own_address() -> str:
    """An address of this machine that an endpoint may have: not one of the loopback."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as choosing:
        try:
            choosing.connect(("192.0.2.1", 9))  # for documentation only, and nothing is sent
        except OSError as error:
            pytest.skip(f"no endpoint can be on this machine, which has the loopback only: {error}")
        return str(choosing.getsockname()[0])


def endpoint(service: str, address: str, port: int) -> Obj:
    """What makes a port of this machine an endpoint of a Service."""
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": "here",
            "namespace": NAMESPACE,
            "labels": {
                "kubernetes.io/service-name": service,
                "endpointslice.kubernetes.io/managed-by": "fairlead.dev",
            },
        },
        "addressType": "IPv4",
        "ports": [{"name": "https", "port": port}],
        "endpoints": [{"addresses": [address], "conditions": {"ready": True}}],
    }


def test_the_extender_splits_what_kube_scheduler_places(cluster: Shipped, report: Report) -> None:
    with governed(cluster, "extended") as namespace, running(cluster, "extender") as own:
        ready_after_s = own.wait_ready()
        with calling(cluster.plane, own.port):
            cluster.apply(deployment(namespace, "web", 10))
            split(cluster, namespace, spot=7, on_demand=3)
    report(own, ready_after_s, "filtered for kube-scheduler: 7 to spot, 3 to on-demand")


def test_the_extender_with_mutual_tls_answers_a_kube_scheduler_that_shows_its_certificate(
    cluster: Shipped, report: Report, tmp_path: Path
) -> None:
    name = f"fairlead-extender.{NAMESPACE}.svc"
    authority = Authority()
    client = authority.client("kube-scheduler")
    for file, content in (
        ("ca.pem", authority.pair.public),
        ("client.crt", client.public),
        ("client.key", client.private),
    ):
        (tmp_path / file).write_bytes(content)
    server = authority.server((name,), ())
    cluster.apply(
        *shipped_objects("namespace.yaml"),
        secret("fairlead-extender-tls", {"tls.crt": server.public, "tls.key": server.private}),
        secret("fairlead-extender-callers", {"ca.crt": authority.pair.public}),
    )
    entry = extender_entry(
        Wanted(
            "https://127.0.0.1:1",
            ca_file=str(tmp_path / "ca.pem"),
            cert_file=str(tmp_path / "client.crt"),
            key_file=str(tmp_path / "client.key"),
            server_name=name,
        )
    )
    with governed(cluster, "certified") as namespace, running(cluster, "extender-mtls") as own:
        ready_after_s = own.wait_ready()
        assert filtering(own.port) == 401
        with calling(cluster.plane, own.port, **(entry | {"urlPrefix": f"https://127.0.0.1:{own.port}"})):
            cluster.apply(deployment(namespace, "web", 10))
            split(cluster, namespace, spot=7, on_demand=3)
    report(own, ready_after_s, "filtered for a kube-scheduler with a certificate")


def secret(name: str, data: dict[str, bytes]) -> Obj:
    plain = {key: value.decode() for key, value in data.items()}
    metadata = {"name": name, "namespace": NAMESPACE}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": plain}


def filtering(port: int) -> int:
    """How a caller without a certificate is answered who asks to filter."""
    unchecked = ssl._create_unverified_context()
    connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=PATIENCE_S, context=unchecked)
    try:
        connection.request("POST", "/filter", b"{}", {"Content-Type": "application/json"})
        return connection.getresponse().status
    finally:
        connection.close()


def test_the_rebalancer_moves_pods_back(cluster: Shipped, report: Report) -> None:
    with governed(cluster, "balanced", rebalance=AT_ONCE) as namespace:
        out_of_balance(cluster, namespace)
        before = set(cluster.nodes_of(namespace))
        with running(cluster, "rebalance") as own:
            ready_after_s = own.wait_ready()
            cluster.wait(lambda: not before <= set(cluster.nodes_of(namespace)), "a pod to be moved")
    report(own, ready_after_s, "evicted a pod from spot, for its place in on-demand")


def test_burst_sends_the_eleventh_pod_to_the_virtual_node(cluster: Shipped, report: Report) -> None:
    taint = {"key": "virtual-kubelet.io/provider", "value": "test", "effect": "NoSchedule"}
    create_nodes(cluster.plane.api, [node_object(VIRTUAL, taints=[taint])])
    with cluster.namespace("bursting") as namespace, running(cluster, "burst") as own:
        ready_after_s = own.wait_ready()
        cluster.apply(deployment(namespace, "web", 12, schedulerName="fairlead"))

        def look() -> bool:
            nodes = list(cluster.nodes_of(namespace).values())
            return len(nodes) == 12 and all(nodes) and nodes.count(VIRTUAL) == 2

        cluster.wait(look, f"two of twelve pods on {VIRTUAL}")
    report(own, ready_after_s, f"bound 10 of 12 pods to base nodes, 2 to {VIRTUAL}")


def test_several_doors_in_one_admit_bind_and_move(cluster: Shipped, report: Report) -> None:
    with Balancer() as balancer, governed(cluster, "served", rebalance=AT_ONCE) as namespace:
        out_of_balance(cluster, namespace)
        with running(cluster, "serve", f"--url={balancer.url}") as own:
            balancer.ports.append(own.port)
            ready_after_s = own.wait_ready()
            admits(cluster, namespace)
            split(cluster, namespace, spot=2, on_demand=2)
            cluster.apply(deployment(namespace, "ours", 10, schedulerName="fairlead"))
            split(cluster, namespace, spot=9, on_demand=5)
    report(own, ready_after_s, "moved 2 pods to on-demand, admitted and bound 10: 7 to spot, 3 to on-demand")


LOOK = """
import errno, json, os, pathlib, resource, sys, tempfile

def refusal(path):
    try:
        pathlib.Path(path, "new").write_text("")
    except OSError as error:
        return errno.errorcode[error.errno]

status = dict(line.split(":", 1) for line in open("/proc/self/status"))
account = pathlib.Path("/var/run/secrets/kubernetes.io/serviceaccount")
print(json.dumps({
    "event": "looked",
    "ids": [*os.getresuid(), *os.getresgid(), *os.getgroups(), os.getpid()],
    "capabilities": {name: int(value, 16) for name, value in status.items() if name.startswith("Cap")},
    "no_new_privs": status["NoNewPrivs"].strip(),
    "hostname": os.uname().nodename,
    "env": dict(os.environ),
    "root": sorted(os.listdir("/")),
    "refusals": {path: refusal(path) for path in sys.argv[1:]},
    "files": {path: pathlib.Path(path).read_text() for path in ("/config/key", "/secret/key")},
    "account": sorted(name for name in os.listdir(account) if not name.startswith("..")),
    "namespace": (account / "namespace").read_text(),
    "token_mode": oct((account / "token").stat().st_mode & 0o777),
    "data": resource.getrlimit(resource.RLIMIT_DATA),
}))
"""


def test_a_container_of_these_tests_may_do_no_more_than_its_manifest_says(cluster: Shipped) -> None:
    with cluster.namespace("confined") as namespace:
        held = {"metadata": {"name": "held", "namespace": namespace}, "apiVersion": "v1"}
        cluster.apply(
            {**held, "kind": "ConfigMap", "data": {"key": "plain"}},
            {**held, "kind": "Secret", "stringData": {"key": "secret"}},
        )
        image = Image.current()
        forbidden = ["/", "/tmp", "/usr", "/dev", "/config", "/secret", *image.code]
        container = {
            "name": "main",
            "image": "image",
            "command": [image.python, "-c", LOOK, *forbidden, "/scratch"],
            "env": [
                {"name": "ME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                {"name": "APP", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['app']"}}},
                {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "held", "key": "key"}}},
            ],
            "resources": {"limits": {"memory": "256Mi"}},
            "securityContext": {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
                "runAsUser": 4321,
                "runAsGroup": 1234,
            },
            "volumeMounts": [
                {"name": name, "mountPath": f"/{name}"} for name in ("config", "secret", "scratch")
            ],
        }
        volumes = [
            {"name": "config", "configMap": {"name": "held"}},
            {"name": "secret", "secret": {"secretName": "held"}},
            {"name": "scratch", "emptyDir": {}},
        ]
        spec = {"containers": [container], "volumes": volumes}
        made = cluster.plane.api.create(
            f"/api/v1/namespaces/{namespace}/pods", pod("looking", spec=spec, labels={"app": "look"})
        )
        own = Container(cluster.plane, made)
        try:
            assert own.ended() == 0, own.text()
            (seen,) = own.log("looked")
        finally:
            own.close()
    assert seen["ids"] == [4321] * 3 + [1234] * 3 + [1]  # no further groups, and the first process of its own
    assert seen["capabilities"] == dict.fromkeys(("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"), 0)
    assert seen["no_new_privs"] == "1"
    assert seen["hostname"] == "looking"
    assert seen["env"].items() >= {"ME": "looking", "APP": "look", "KEY": "secret"}.items()
    assert not seen["env"].keys() & {"HOME", "USER", "KUBECONFIG", "VIRTUAL_ENV", "PYTHONPATH", "TMPDIR"}
    if image.tree is None:
        assert not {"home", "opt", "srv", "mnt", "sys", "run", ".old"} & set(seen["root"])
    else:
        shipped = {path.name for path in image.tree.iterdir()}
        assert set(seen["root"]) == shipped | {"config", "secret", "scratch"}
    assert seen["refusals"].pop("/scratch") is None
    assert set(seen["refusals"].values()) == {"EROFS"}
    assert seen["files"] == {"/config/key": "plain", "/secret/key": "secret"}
    assert seen["account"] == ["ca.crt", "namespace", "token"]
    assert seen["namespace"] == namespace
    assert seen["token_mode"] == "0o600"
    assert seen["data"] == [256 * 2**20] * 2
