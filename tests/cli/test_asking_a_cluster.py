"""`fairlead explain` and its like, asked of a live cluster: a scheduler of ours runs there, and pods wait.

Every reason for being pending is made for real: the first line must name it, of a pod of ours and, where it
is a rule's, of one of kube-scheduler's, whose own condition must say the same.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from fairlead.rig.nodes import is_ready, node_object
from support.cluster import Cluster, Host
from support.command import run_command, start_command
from support.door import kubeconfig_of
from support.forbidding import forbidding
from support.manifests import deployment, scheduled_pod
from support.pauses import pause
from support.policies import add_policy, plain_policy, serve_policies
from support.rig import programs
from support.scheduler import SchedulerProcess
from support.wire import PATIENCE_S

ROOT = Path(__file__).resolve().parents[2]
ZONE = "topology.kubernetes.io/zone"
Manifest = dict[str, Any]


class Case(NamedTuple):
    code: str
    words: str
    spec: Manifest = {}
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    node: Manifest | None = None
    """Shape of the node that is the case's own; None: the shared one."""
    others: tuple[Manifest, ...] = ()
    """Pods that run on that node first: name, and more of the spec."""
    twin: bool = True
    """Whether a pod of kube-scheduler's waits for the same reason."""


def cpu(amount: str, **more: str) -> list[Manifest]:
    return [{"name": "main", "image": "i", "resources": {"requests": {"cpu": amount, **more}}}]


def on_host(**labels: str) -> Manifest:
    return {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": labels}}
        ]
    }


def claims(name: str) -> Manifest:
    return {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]}


PORT = [{"name": "main", "image": "i", "ports": [{"containerPort": 80, "hostPort": 8080}]}]
CASES = {
    "gate": Case("gate", "scheduling gate quota", {"schedulingGates": [{"name": "quota"}]}),
    "misspelt": Case(
        "no-scheduler", "no scheduler answers to the name default-schedular",
        {"schedulerName": "default-schedular"}, twin=False,
    ),
    "unheard-of": Case(
        "no-scheduler", "no scheduler answers to the name yunikorn", {"schedulerName": "yunikorn"}, twin=False
    ),
    "incomplete": Case(
        "gang-incomplete", "1 of 3 members are there",
        annotations={"pod-group": "few", "pod-group-min-member": "3"}, twin=False,
    ),
    "groupless": Case(
        "gang-object", "its PodGroup (scheduling.volcano.sh) does not exist",
        labels={"scheduling.volcano.sh/group-name": "nowhere"}, twin=False,
    ),
    "too-large-a-gang": Case(
        "gang-room", "needs 3 places at once", {"containers": cpu("3")},
        annotations={"pod-group": "many", "pod-group-min-member": "3"}, node={"cpu": 4}, twin=False,
    ),
    "beyond-every-max": Case(
        "policy-full", "every tier has reached its max", labels={"governed": "full"}, twin=False
    ),
    "no-node-of-the-tier": Case(
        "policy-tier", "waits for tier far", labels={"governed": "far"}, twin=False
    ),
    "cordoned": Case("NodeUnschedulable", "node(s) were unschedulable", node={"unschedulable": True}),
    "tainted": Case(
        "TaintToleration", "untolerated taint",
        node={"taints": [{"key": "size", "value": "large", "effect": "NoSchedule"}]},
    ),
    "unlabelled": Case("NodeAffinity", "node affinity/selector", {"nodeSelector": {"disk": "nowhere"}}),
    "port-taken": Case(
        "NodePorts", "free ports", {"containers": PORT}, node={}, others=({"containers": PORT},)
    ),
    "no-cpu": Case("NodeResourcesFit", "Insufficient cpu", {"containers": cpu("64")}),
    "no-memory": Case("NodeResourcesFit", "Insufficient memory", {"containers": cpu("1", memory="1Ti")}),
    "no-room-for-pods": Case("NodeResourcesFit", "Too many pods", node={"pods": 1}, others=({},)),
    "no-gpu": Case(
        "NodeResourcesFit", "Insufficient example.com/gpu",
        {"containers": [{"name": "main", "image": "i", "resources": {"limits": {"example.com/gpu": "1"}}}]},
    ),
    "no-claim": Case("VolumeRestrictions", 'persistentvolumeclaim "missing" not found', claims("missing")),
    "unbound-claim": Case("VolumeBinding", "unbound immediate PersistentVolumeClaims", claims("unbound")),
    "claim-elsewhere": Case("VolumeBinding", "PersistentVolume's node affinity", claims("elsewhere")),
    "claim-in-another-zone": Case(
        "VolumeZone", "available volume zone", claims("zoned"), node={"labels": {ZONE: "here"}}
    ),
    "claim-in-use": Case(
        "VolumeRestrictions", "ReadWriteOncePod", claims("only-one"), node={}, others=(claims("only-one"),)
    ),
    "uneven": Case(
        "PodTopologySpread", "topology spread constraints",
        {
            "topologySpreadConstraints": [
                {
                    "maxSkew": 1,
                    "topologyKey": "uneven-zone",
                    "whenUnsatisfiable": "DoNotSchedule",
                    "labelSelector": {"matchLabels": {"spread": "uneven"}},
                }
            ]
        },
    ),
    "nobody-to-be-with": Case(
        "InterPodAffinity", "pod affinity rules", {"affinity": {"podAffinity": on_host(app="nobody")}}
    ),
    "somebody-to-be-apart-from": Case(
        "InterPodAffinity", "pod anti-affinity rules",
        {"affinity": {"podAntiAffinity": on_host(mate="yes")}},
        node={}, others=({"labels": {"mate": "yes"}},),
    ),
    "kept-off-by-another": Case(
        "InterPodAffinity", "existing pods anti-affinity rules", labels={"kept": "off"}, node={},
        others=({"affinity": {"podAntiAffinity": on_host(kept="off")}},),
    ),
    "not-alone": Case(
        "Exclusive", "in use while the pod needs a node to itself",
        annotations={"fairlead.dev/capacity": "exclusive"}, node={}, others=({},), twin=False,
    ),
    "dynamic-resources": Case(
        "DynamicResources", "claim", {"resourceClaims": [{"name": "gpu", "resourceClaimName": "gpu"}]},
        twin=False,
    ),
    "protected": Case(
        "NodeResourcesFit", "Insufficient cpu", {"containers": cpu("3"), "priority": None}, node={"cpu": 4},
        annotations={"priority": "100"}, others=({"containers": cpu("3"), "labels": {"budget": "tight"}},),
        twin=False,
    ),
}  # fmt: skip


class Room:
    """A corner of a cluster in which every case waits, and how it is asked about."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self.cluster = cluster
        self.scheduler = f"fairlead-{cluster.namespace}"
        # Policies govern no pod beside the leases.
        own = cluster.namespace
        self.system, cluster.namespace = cluster.add_namespace(), own
        self._running: list[SchedulerProcess] = []
        self.config = folder / "fairlead.yaml"
        self.config.write_text(
            yaml.safe_dump(
                {
                    "apiVersion": "fairlead.dev/v1alpha1",
                    "kind": "FairleadConfiguration",
                    "schedulerNames": [self.scheduler],
                }
            )
        )

    def run(self) -> SchedulerProcess:
        """Start a scheduler that is elected, and wait until it has seen the cluster."""
        process = SchedulerProcess(
            self.cluster.kubeconfig,
            f"--scheduler-name={self.scheduler}",
            f"--system-namespace={self.system}",
        )
        self._running.append(process)
        process.wait_for("synced")
        return process

    def close(self) -> None:
        for process in self._running:
            process.close()

    def fairlead(self, *arguments: str, kubeconfig: Path | None = None) -> subprocess.CompletedProcess[str]:
        env = {**os.environ, "KUBECONFIG": str(kubeconfig or self.cluster.kubeconfig)}
        return run_command(*arguments, env=env)

    def ask(self, *arguments: str, **how: Any) -> subprocess.CompletedProcess[str]:
        own = (f"--config={self.config}", f"--system-namespace={self.system}")
        return self.fairlead(*arguments, f"--namespace={self.cluster.namespace}", *own, **how)

    def explained(self, name: str) -> Manifest:
        done = self.ask("explain", name, "-o", "json")
        assert done.returncode == 0, done.stderr
        found: Manifest = json.loads(done.stdout)
        return found

    def fill(self) -> None:
        """Create every case."""
        cluster = self.cluster
        own = {"test": cluster.namespace}
        nodes = {"shared": {}} | {name: case.node for name, case in CASES.items() if case.node is not None}
        for name, shape in nodes.items():
            labels = own | {"case": name} | shape.get("labels", {})
            taints = shape.get("taints", [])
            size = {key: value for key, value in shape.items() if key in ("cpu", "pods")}
            made = node_object(self.node_of(name), labels=labels, taints=taints, **size)
            cluster.create(made)
        cluster.wait(
            lambda: all(is_ready(cluster.get("Node", self.node_of(name)), untainted=True) for name in nodes),
            "the nodes to be Ready",
        )
        self._others()
        self._claims()
        self._policies()
        cluster.patch("Node", self.node_of("cordoned"), {"spec": {"unschedulable": True}})
        for name, case in CASES.items():
            cluster.create(self.pod(name, case))
            if case.twin:
                cluster.create(self.pod(f"{name}-twin", case, scheduler="default-scheduler"))
        for number in (2, 3):
            case = CASES["too-large-a-gang"]
            cluster.create(self.pod(f"too-large-a-gang-{number}", case, node="too-large-a-gang"))

    def node_of(self, case: str) -> str:
        return f"{case}-{self.cluster.namespace}"

    def pod(self, name: str, case: Case, *, scheduler: str = "", node: str = "") -> Manifest:
        own = node or name.removesuffix("-twin")
        where = own if case.node is not None else "shared"
        spec = {
            "schedulerName": scheduler or self.scheduler,
            "nodeSelector": {"test": self.cluster.namespace, "case": where},
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "main", "image": "i"}],
        }
        spec |= {key: value for key, value in case.spec.items() if value is not None}
        if scheduler:
            spec["schedulerName"] = scheduler
        metadata = {"name": name, "labels": case.labels, "annotations": case.annotations}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}

    def _others(self) -> None:
        for name, case in CASES.items():
            for number, more in enumerate(case.others):
                spec = {key: value for key, value in more.items() if key != "labels"}
                if "volumes" in spec:
                    continue  # once its claim is there
                self._other(f"{name}-other-{number}", name, more, spec)
        budget = {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "tight"},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"budget": "tight"}}},
        }
        self.cluster.create(budget)

    def _other(self, name: str, case: str, more: Manifest, spec: Manifest) -> None:
        metadata: Manifest = {"name": name, "labels": more.get("labels", {})}
        body = {
            "nodeName": self.node_of(case),
            "schedulerName": self.scheduler,
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "main", "image": "i"}],
        }
        self.cluster.create(
            {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {**body, **spec}}
        )

    def _claims(self) -> None:
        cluster = self.cluster
        zoned = {"labels": {ZONE: "elsewhere"}}
        affinity = {
            "nodeAffinity": {
                "required": {
                    "nodeSelectorTerms": [
                        {"matchExpressions": [{"key": "rack", "operator": "In", "values": ["none"]}]}
                    ]
                }
            }
        }
        for name, mode, metadata, more in (
            ("zoned", "ReadWriteOnce", zoned, {}),
            ("elsewhere", "ReadWriteOnce", {}, affinity),
            ("only-one", "ReadWriteOncePod", {}, {}),
            ("unbound", "ReadWriteOnce", None, {}),
        ):
            volume = f"{name}-{cluster.namespace}"
            spec: Manifest = {
                "accessModes": [mode],
                "resources": {"requests": {"storage": "1Gi"}},
                "storageClassName": "" if metadata is not None else "no-such-class",
            }
            if metadata is not None:
                spec["volumeName"] = volume
                body: Manifest = {
                    "capacity": {"storage": "1Gi"},
                    "accessModes": [mode],
                    "storageClassName": "",
                    "csi": {"driver": "example.com", "volumeHandle": volume},
                    "claimRef": {"namespace": cluster.namespace, "name": name},
                    **more,
                }
                cluster.create(
                    {
                        "apiVersion": "v1",
                        "kind": "PersistentVolume",
                        "metadata": {"name": volume, **metadata},
                        "spec": body,
                    }
                )
            cluster.create(
                {
                    "apiVersion": "v1",
                    "kind": "PersistentVolumeClaim",
                    "metadata": {"name": name},
                    "spec": spec,
                }
            )
            if metadata is not None:
                cluster.wait(
                    lambda name=name: (
                        cluster.get("PersistentVolumeClaim", name)["status"].get("phase") == "Bound"
                    ),
                    f"claim {name} to be bound",
                )
        self._other("claim-in-use-other", "claim-in-use", {}, claims("only-one"))

    def _policies(self) -> None:
        serve_policies(self.cluster)
        here = {"namespaces": [self.cluster.namespace]}
        shared = {"name": "only", "nodes": {"case": "shared"}, "max": 0}
        far = {"name": "far", "nodes": {"case": "not-there"}}
        add_policy(self.cluster, plain_policy("full", shared, match=here | {"labels": {"governed": "full"}}))
        add_policy(self.cluster, plain_policy("far", far, match=here | {"labels": {"governed": "far"}}))

    def told(self, name: str) -> str:
        """What a pod's condition says of why it is not scheduled, "" before it does."""
        conditions = self.cluster.get("Pod", name)["status"].get("conditions", [])
        return next((one.get("message", "") for one in conditions if one["type"] == "PodScheduled"), "")


@pytest.fixture(scope="module")
def room(host: Host, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Room]:
    cluster = Cluster(host)
    found = Room(cluster, tmp_path_factory.mktemp("asked"))
    try:
        found.fill()
        found.run()
        cluster.wait(lambda: found.told("no-cpu"), "our pods to be held")
        cluster.wait(lambda: found.told("no-cpu-twin"), "kube-scheduler's pods to be held")
        yield found
    finally:
        found.close()
        cluster.close()


@pytest.mark.parametrize("name", CASES)
def test_the_first_line_names_the_reason(room: Room, name: str) -> None:
    case = CASES[name]
    found = room.explained(name)
    cause = found["cause"]
    assert cause.get("rule", cause["code"]) == case.code, found["headline"]
    assert case.words in found["headline"]
    shown = room.ask("explain", name).stdout
    assert shown.splitlines()[0] == found["headline"]


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.twin and case.code != "gate"])
def test_it_agrees_with_what_kube_scheduler_says_of_its_own_pod(room: Room, name: str) -> None:
    """Nodes of other tests come and go, and both count them: in the end they agree."""

    def agree() -> bool:
        told, found = room.told(f"{name}-twin"), room.explained(f"{name}-twin")
        return bool(told) and found["message"] is not None and told.startswith(found["message"].rstrip("."))

    room.cluster.wait(agree, f"kube-scheduler to say of {name} what explain says")
    found = room.explained(f"{name}-twin")
    assert (found["cause"].get("rule"), found["scheduler"]["name"]) == (CASES[name].code, "default-scheduler")


@pytest.mark.real
def test_a_workload_whose_pods_a_quota_refuses_says_so(real_host: Host) -> None:
    """The embedded cluster enforces no quota."""
    cluster = Cluster(real_host)
    try:
        quota = {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "none"},
            "spec": {"hard": {"pods": "0"}},
        }
        cluster.create(quota)
        cluster.wait(lambda: "hard" in cluster.get("ResourceQuota", "none").get("status", {}), "the quota")
        cluster.create(deployment("web", 2))
        env = {**os.environ, "KUBECONFIG": str(cluster.kubeconfig)}

        def said() -> str:
            done = run_command("explain", "deploy/web", "-n", cluster.namespace, env=env)
            return done.stdout.partition("\n")[0]

        cluster.wait(lambda: "could not be created" in said(), "the refusal to be reported")
        first = f"Deployment {cluster.namespace}/web: 0 of 2 pods have a node: 2 could not be created: "
        assert said().startswith(first)
        assert "exceeded quota: none" in said()
    finally:
        cluster.close()


def test_a_gang_is_explained_by_its_name(room: Room) -> None:
    done = room.ask("explain", "gang/few")
    assert done.stdout.startswith(
        f"gang {room.cluster.namespace}/few: 0 of 3 pods have a node: 1 of 3 members are there\n"
    )


def test_who_leads_is_said(room: Room) -> None:
    found = room.explained("no-cpu")["scheduler"]
    assert (found["name"], found["runs"]) == (room.scheduler, True)
    assert found["holder"]
    done = room.ask("status")
    assert done.stdout.startswith(f"scheduler {room.scheduler} runs: led by ")


def test_every_view_reads_the_cluster(room: Room) -> None:
    number = len(CASES) + sum(case.twin for case in CASES.values())
    status = json.loads(room.ask("status", "-o", "json").stdout)
    assert sum(one["pods"] for one in status["waiting"]) == number + 2  # a gang of three
    assert {one["name"] for one in status["gangs"]} >= {f"{room.cluster.namespace}/few"}
    nodes = json.loads(room.fairlead("nodes", "-l", f"test={room.cluster.namespace}", "-o", "json").stdout)
    assert len(nodes) == 1 + sum(case.node is not None for case in CASES.values())
    queue = yaml.safe_load(room.ask("queue", "-o", "yaml").stdout)
    assert [one["position"] for one in queue] == sorted(one["position"] for one in queue)
    assert queue[0]["priority"] == 100
    gangs = room.ask("gangs", "-o", "wide")
    assert f"{room.cluster.namespace}/few" in gangs.stdout
    cost = json.loads(room.fairlead("cost", "-o", "json").stdout)
    assert cost["unpricedNodes"]
    plan = room.ask("plan")
    assert "for other schedulers (default-schedular 1, default-scheduler" in plan.stdout


def test_labels_choose_pods(room: Room) -> None:
    status = json.loads(room.ask("status", "-l", "governed=full", "-o", "json").stdout)
    assert [one["kind"] for one in status["waiting"]] == ["policy-full"]


def test_kubectl_finds_it_as_a_plugin(room: Room) -> None:
    (kubectl,) = programs("kubectl")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    env = {**os.environ, "KUBECONFIG": str(room.cluster.kubeconfig), "PATH": path}
    words = ["fairlead", "explain", "gate", "-n", room.cluster.namespace]
    done = subprocess.run([kubectl, *words], env=env, capture_output=True, text=True, check=False)
    assert done.stdout.startswith(f"{room.cluster.namespace}/gate is pending: "), done.stderr


def test_python_reads_the_same(room: Room) -> None:
    import fairlead

    cluster = fairlead.Cluster.from_context(kubeconfig=str(room.cluster.kubeconfig))
    found = cluster.diagnose(f"{room.cluster.namespace}/gate")
    assert found.headline == room.explained("gate")["headline"]


def test_an_unknown_pod_is_answered_with_its_likes(room: Room) -> None:
    done = room.ask("explain", "no-cpo")
    assert (done.returncode, done.stdout) == (2, "")
    assert (
        done.stderr.endswith(
            f"pod {room.cluster.namespace}/no-cpo is not in the cluster; "
            f"there is {room.cluster.namespace}/no-cpu, {room.cluster.namespace}/no-gpu\n"
        )
        or f"there is {room.cluster.namespace}/no-cpu" in done.stderr
    )
    done = room.ask("explain", "deploy/nothing")
    assert (done.returncode, done.stdout) == (2, "")


def test_watching_ends_well_when_told(room: Room, tmp_path: Path) -> None:
    log = tmp_path / "log"
    env = {**os.environ, "KUBECONFIG": str(room.cluster.kubeconfig)}
    with log.open("wb") as out:
        process = start_command(
            "gangs",
            "--watch",
            "-n",
            room.cluster.namespace,
            stdout=out.fileno(),
            stderr=out.fileno(),
            env=env,
        )
        began = time.monotonic()
        while log.read_text().count("---") < 1:
            assert time.monotonic() < began + 2 * PATIENCE_S, log.read_text()
            pause(time.monotonic() - began)
        process.send_signal(signal.SIGINT)
        assert process.wait(2 * PATIENCE_S) == 0
    assert "Traceback" not in log.read_text()


def test_a_scheduler_that_went_away_is_named(host: Host, tmp_path: Path) -> None:
    """Its lease is given back at once; of one that dies it becomes too old."""
    cluster = Cluster(host)
    room = Room(cluster, tmp_path)
    try:
        room.run().stop()
        cluster.create(room.pod("orphan", Case("", "")))
        found = room.explained("orphan")
        assert found["cause"]["code"] == "scheduler-away"
        assert f"scheduler {room.scheduler} does not run: lease " in found["headline"]
    finally:
        room.close()
        cluster.close()


def test_an_empty_cluster_is_said_to_be_one(tmp_path: Path) -> None:
    from support.cluster import EmbeddedHost

    host = EmbeddedHost()
    try:
        env = {**os.environ, "KUBECONFIG": str(host.kubeconfig)}
        for words, expected in (
            (("status",), "0 nodes, 0 pods with a node, 0 waiting"),
            (("nodes",), "0 nodes, 0 that take pods"),
            (("queue",), "0 wait for fairlead"),
            (("gangs",), "0 gangs"),
            (("plan",), "0 to bind, 0 to evict, 0 held"),
            (("cost",), "(all)"),
        ):
            done = run_command(*words, env=env)
            assert done.returncode == 0, done.stderr
            assert expected in done.stdout
    finally:
        host.stop()


# A cluster that cannot be asked


def test_a_cluster_that_refuses_connections_is_one_line(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, and not listening
        config = kubeconfig_of(f"http://127.0.0.1:{taken.getsockname()[1]}", tmp_path)
        done = run_command("status", "--kubeconfig", str(config))
    assert (done.returncode, done.stdout) == (1, "")
    assert len(done.stderr.splitlines()) == 1
    assert "127.0.0.1" in done.stderr


def test_a_cluster_that_never_answers_is_one_line(tmp_path: Path) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        config = kubeconfig_of(f"http://127.0.0.1:{silent.getsockname()[1]}", tmp_path)
        done = run_command("explain", "web", "--kubeconfig", str(config))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.endswith("no answer within 4 s\n")
    assert len(done.stderr.splitlines()) == 1


def test_a_user_without_rights_is_told_which_are_missing(tmp_path: Path) -> None:
    with forbidding(tmp_path) as config:
        done = run_command("status", "--kubeconfig", str(config))
    assert done.returncode == 1
    assert 'User "stranger" cannot read' in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.real
def test_a_user_of_one_namespace_gets_what_can_be_known(real_host: Host, tmp_path: Path) -> None:
    """Pods of that namespace are read; of nodes nothing is known, and no cause is made up from that."""
    cluster = Cluster(real_host)
    try:
        user = cluster.unique("user")
        role = {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "Role",
            "metadata": {"name": "view"},
            "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}],
        }
        cluster.create(role)
        cluster.create(
            {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "RoleBinding",
                "metadata": {"name": "view"},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "view"},
                "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
            }
        )
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "web"},
            "spec": {"nodeSelector": {"no": "where"}, "containers": [{"name": "main", "image": "i"}]},
        }
        cluster.create(pod)
        config = yaml.safe_load(cluster.kubeconfig.read_text())
        config["users"][0]["user"]["as"] = user
        config["contexts"][0]["context"]["namespace"] = cluster.namespace
        file = tmp_path / "kubeconfig"
        file.write_text(yaml.safe_dump(config))
        done = run_command("explain", "web", "--kubeconfig", str(file))
        assert done.returncode == 0, done.stderr
        first = done.stdout.splitlines()[0]
        assert first.startswith(f"{cluster.namespace}/web is pending: why cannot be known: Nodes: ")
        assert f'User "{user}" cannot list resource "nodes"' in first
        assert "not known: Pods: only those of namespace" in done.stdout
    finally:
        cluster.close()


@pytest.mark.real
def test_the_role_for_readers_lets_everything_be_read(real_host: Host, tmp_path: Path) -> None:
    cluster = Cluster(real_host)
    try:
        serve_policies(cluster)
        user = cluster.unique("reader")
        role = yaml.safe_load((ROOT / "examples" / "ask" / "reader.yaml").read_text())
        role["metadata"]["name"] = cluster.unique("reader")
        cluster.create(role)
        cluster.create(
            {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "ClusterRoleBinding",
                "metadata": {"name": role["metadata"]["name"]},
                "roleRef": {
                    "apiGroup": "rbac.authorization.k8s.io",
                    "kind": "ClusterRole",
                    "name": role["metadata"]["name"],
                },
                "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
            }
        )
        cluster.create(scheduled_pod("web", spec={"nodeSelector": {"no": "where"}}))
        config = yaml.safe_load(cluster.kubeconfig.read_text())
        config["users"][0]["user"]["as"] = user
        file = tmp_path / "kubeconfig"
        file.write_text(yaml.safe_dump(config))
        for words in (("status",), ("explain", "web", "-n", cluster.namespace)):
            done = run_command(*words, "--kubeconfig", str(file))
            assert (done.returncode, done.stderr) == (0, "")
    finally:
        cluster.close()


def test_the_shell_completes_commands(tmp_path: Path) -> None:
    python = Path(sys.executable).parent
    env = {**os.environ, "PATH": f"{python}{os.pathsep}{os.environ['PATH']}"}
    script = (
        "source <(fairlead completion bash); COMP_WORDS=(fairlead expl); COMP_CWORD=1; "
        '_fairlead_completion fairlead expl fairlead; echo "${COMPREPLY[@]}"'
    )
    done = subprocess.run(["bash", "-c", script], env=env, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "explain", done.stderr
    for shell in ("zsh", "fish"):
        assert "_FAIRLEAD_COMPLETE" in run_command("completion", shell).stdout
