"""Each invariant, broken by events made by hand: the observer says so, and says nothing where it holds."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tools.soak.observer.audit import Write, read
from tools.soak.observer.invariants import Observer, Patience
from tools.soak.observer.quiet import findings
from tools.soak.observer.tiers import split

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "tools" / "soak" / "observer"
A, B = "soak-scheduler-a", "soak-scheduler-b"
LEASE = "fairlead-scheduler"
TIERS = [
    {"name": "spot", "nodes": {"pool": "spot"}},
    {"name": "safe", "nodes": {"pool": "safe"}, "min": "30%"},
]
EXCLUSIVE = {"fairlead.dev/capacity": "exclusive"}

Manifest = dict[str, Any]


class Cluster:
    """An observer, and events in the words of these tests. Each is a second after the one before."""

    def __init__(self, **more: Any) -> None:
        patience = Patience(gang=60, slot=20, cordon=30)
        self.observer = Observer(leaders={A: LEASE, B: LEASE}, patience=patience, **more)
        self.now = 1000.0
        self.pods: dict[str, Manifest] = {}

    def node(self, name: str, *, cpu: int = 4, pool: str = "spot", unschedulable: bool = False) -> None:
        self._see(
            "Node",
            {
                "metadata": {"name": name, "uid": name, "labels": {"pool": pool}},
                "spec": {"unschedulable": True} if unschedulable else {},
                "status": {"allocatable": {"cpu": str(cpu), "pods": "110"}},
            },
        )

    def pod(self, name: str, *, cpu: str = "1", marks: dict[str, str] | None = None, **more: Any) -> None:
        """A pod; `more` are annotations of gangs and priorities, `marks` any others."""
        annotations = {key.replace("_", "-"): str(value) for key, value in more.items()} | (marks or {})
        self.pods[name] = {
            "metadata": {
                "name": name,
                "namespace": "soak",
                "uid": f"uid-{name}",
                "annotations": annotations,
                "labels": {"app": name.partition("-")[0]},
            },
            "spec": {"schedulerName": "fairlead", "containers": [{"resources": {"requests": {"cpu": cpu}}}]},
            "status": {"phase": "Pending"},
        }
        self._see("Pod", self.pods[name])

    def bind(self, name: str, node: str, by: str = A) -> None:
        self.write("create", "pods/binding", name, by=by, body={"metadata": {"uid": f"uid-{name}"}})
        self.pods[name] = {**self.pods[name], "spec": {**self.pods[name]["spec"], "nodeName": node}}
        self._see("Pod", self.pods[name])

    def leave(self, name: str) -> None:
        self._see("Pod", self.pods.pop(name), "DELETED")

    def evict(self, name: str, by: str = A, **body: Any) -> None:
        preconditions = {"deleteOptions": {"preconditions": {"uid": f"uid-{name}"}}}
        self.write("create", "pods/eviction", name, by=by, body=preconditions)

    def lead(self, user: str) -> None:
        self.write("update", "leases", LEASE, by=user, body={"spec": {"holderIdentity": user}})

    def write(
        self, verb: str, resource: str, name: str, *, by: str = A, body: Manifest | None = None
    ) -> None:
        self.now += 1
        written = Write(by, verb, resource, "soak", name, 201, self.now, self.now + 0.01, body or {})
        self.observer.wrote(written, self.now)

    def wait(self, seconds: float) -> None:
        self.now += seconds
        self.observer.tick(self.now)

    def see(self, kind: str, obj: Manifest) -> None:
        self._see(kind, obj)

    def violated(self) -> list[str]:
        self.wait(5)
        return [one.invariant for one in self.observer.violations]

    def at_rest(self) -> list[str]:
        return [invariant for invariant, _, _ in findings(self.observer, {"web": TIERS})]

    def _see(self, kind: str, obj: Manifest, what: str = "MODIFIED") -> None:
        self.now += 1
        self.observer.see(what, kind, obj, self.now)


@pytest.fixture
def cluster() -> Cluster:
    own = Cluster()
    own.lead(A)
    own.node("n1")
    own.node("n2", pool="safe")
    return own


def test_a_node_that_is_just_full_is_fine(cluster: Cluster):
    for index in range(4):
        cluster.pod(f"a-{index}")
        cluster.bind(f"a-{index}", "n1")
    assert cluster.violated() == []


def test_a_bind_beyond_what_a_node_has_is_reported(cluster: Cluster):
    for index in range(5):
        cluster.pod(f"a-{index}")
        cluster.bind(f"a-{index}", "n1")
    assert cluster.violated() == ["no node beyond allocatable"]
    assert "soak/a-4" in str(cluster.observer.violations[0])


def test_room_is_free_again_when_a_pod_has_left(cluster: Cluster):
    cluster.pod("a", cpu="4")
    cluster.bind("a", "n1")
    cluster.leave("a")
    cluster.pod("b", cpu="4")
    cluster.bind("b", "n1")
    assert cluster.violated() == []


def test_a_bind_on_a_watch_that_was_made_to_lie_is_excused_and_counted():
    cluster = Cluster(stale=lambda user, at: user == A)
    cluster.lead(A)
    cluster.node("n1")
    for name in ("a", "b"):
        cluster.pod(name, cpu="3")
        cluster.bind(name, "n1")
    assert cluster.violated() == []
    assert cluster.observer.excused == {"no node beyond allocatable": 1}


def test_a_pod_that_changes_its_node_is_reported(cluster: Cluster):
    cluster.pod("a")
    cluster.bind("a", "n1")
    cluster.bind("a", "n2")
    assert "a pod is bound once" in cluster.violated()


def test_a_bind_without_a_uid_is_reported(cluster: Cluster):
    cluster.pod("a")
    cluster.write("create", "pods/binding", "a", body={"metadata": {}})
    assert cluster.violated() == ["decisions carry the UID"]


def test_a_second_pod_on_an_exclusive_pods_node_is_reported(cluster: Cluster):
    cluster.pod("a", marks=EXCLUSIVE)
    cluster.bind("a", "n1")
    cluster.pod("b")
    cluster.bind("b", "n1")
    assert cluster.violated() == ["exclusive nodes"]


def test_an_exclusive_pod_on_a_node_that_is_in_use_is_reported(cluster: Cluster):
    cluster.pod("b")
    cluster.bind("b", "n1")
    cluster.pod("a", marks=EXCLUSIVE)
    cluster.bind("a", "n1")
    assert cluster.violated() == ["exclusive nodes"]


def test_a_bind_to_a_node_that_was_cordoned_long_ago_is_reported(cluster: Cluster):
    cluster.node("n1", unschedulable=True)
    cluster.pod("a")
    cluster.wait(31)
    cluster.bind("a", "n1")
    assert cluster.violated() == ["no bind to a cordoned node"]


def gang(cluster: Cluster, number: int = 3, **marks: Any) -> None:
    for index in range(number):
        cluster.pod(f"g-{index}", pod_group="g", pod_group_min_member=number, **marks)


def test_a_gang_that_stays_partly_started_is_reported_once_its_time_is_over(cluster: Cluster):
    gang(cluster)
    cluster.bind("g-0", "n1")
    cluster.wait(40)
    assert cluster.violated() == []
    cluster.wait(40)
    assert cluster.violated() == ["no gang stays partly started"]


def test_a_gang_that_becomes_whole_or_is_released_in_time_is_fine(cluster: Cluster):
    gang(cluster)
    for index in range(3):
        cluster.bind(f"g-{index}", "n1")
    cluster.leave("g-2")  # and heals, whenever there is room
    cluster.wait(100)
    assert cluster.violated() == []


def test_a_gang_of_which_some_members_are_evicted_and_others_stay_is_reported(cluster: Cluster):
    gang(cluster, priority=0)
    for index in range(3):
        cluster.bind(f"g-{index}", "n1")
    cluster.pod("urgent", priority=10)
    cluster.evict("g-0")
    cluster.leave("g-0")
    cluster.wait(70)
    assert cluster.violated() == ["a gang is evicted whole"]


def test_a_victim_of_equal_priority_is_reported(cluster: Cluster):
    cluster.pod("a", priority=10)
    cluster.bind("a", "n1")
    cluster.pod("b", priority=10)
    cluster.evict("a")
    assert cluster.violated() == ["victims are of strictly lower priority"]


def test_a_victim_of_lower_priority_is_fine(cluster: Cluster):
    cluster.pod("a", priority=9)
    cluster.bind("a", "n1")
    cluster.pod("b", priority=10)
    cluster.evict("a")
    assert cluster.violated() == []


def test_a_pod_under_a_budget_that_is_deleted_by_a_component_is_reported(cluster: Cluster):
    cluster.see(
        "PodDisruptionBudget",
        {"metadata": {"name": "a", "uid": "budget"}, "spec": {"selector": {"matchLabels": {"app": "a"}}}},
    )
    cluster.pod("a")
    cluster.write("delete", "pods", "a")
    assert cluster.violated() == []  # it had no node: nothing was disrupted
    cluster.bind("a", "n1")
    cluster.write("delete", "pods", "a")
    assert cluster.violated() == ["budgets hold"]


def test_a_write_of_a_replica_that_does_not_lead_any_more_is_reported(cluster: Cluster):
    cluster.pod("a")
    cluster.pod("b")
    cluster.lead(B)
    cluster.bind("b", "n1", by=B)
    cluster.wait(1)
    cluster.bind("a", "n1", by=A)
    assert cluster.violated() == ["only the leader writes"]


def test_bytes_that_were_on_the_wire_when_the_lease_changed_hands_are_fine(cluster: Cluster):
    cluster.pod("a")
    cluster.lead(B)
    cluster.bind("a", "n1", by=A)
    assert cluster.violated() == []


def ledger(cluster: Cluster, name: str, *lines: str) -> None:
    spec = {"slots": [f"{line} 2026-01-01T00:00:00Z" for line in lines]}
    cluster.see(
        "PlacementLedger", {"metadata": {"name": name, "namespace": "soak", "uid": name}, "spec": spec}
    )


def test_two_pods_that_keep_one_slot_of_a_ledger_are_reported(cluster: Cluster):
    cluster.pod("a", marks={"fairlead.dev/slot-token": "t1"})
    cluster.pod("b")
    ledger(cluster, "web", "1 spot t1", "1 spot uid-b")
    cluster.wait(5)
    assert cluster.violated() == []
    cluster.wait(30)
    assert cluster.violated() == ["slots are unique"]


def test_two_pods_that_keep_one_token_are_reported(cluster: Cluster):
    for name in ("a", "b"):
        cluster.pod(name, marks={"fairlead.dev/slot-token": "t1"})
    ledger(cluster, "web", "1 spot t1")
    cluster.wait(5)
    cluster.wait(30)
    assert cluster.violated() == ["slots are unique"]


def test_a_mark_that_the_ledger_does_not_know_counts_for_nothing(cluster: Cluster):
    for name, token in (("a", "t1"), ("b", "forgotten")):
        cluster.pod(name, marks={"fairlead.dev/slot": "1", "fairlead.dev/slot-token": token})
    ledger(cluster, "web", "1 spot t1", "2 spot uid-b")
    cluster.wait(60)
    assert cluster.violated() == []


def test_the_same_slot_of_two_revisions_is_two_slots(cluster: Cluster):
    for name in ("a", "b"):
        cluster.pod(name)
        ledger(cluster, f"web-{name}", f"1 spot uid-{name}")
    cluster.wait(60)
    assert cluster.violated() == []


def test_a_pod_that_fits_and_waits_is_found_at_a_quiet_point(cluster: Cluster):
    cluster.pod("a")
    assert cluster.at_rest() == ["what fits is placed"]
    cluster.bind("a", "n1")
    assert cluster.at_rest() == []


def test_a_pod_that_fits_nowhere_may_wait(cluster: Cluster):
    cluster.pod("a", cpu="5")
    assert cluster.at_rest() == []


def test_a_gang_that_would_fit_only_in_part_may_wait(cluster: Cluster):
    gang(cluster, 3, cpu="3")
    assert cluster.at_rest() == []


def workload(cluster: Cluster, replicas: int) -> None:
    template = {"metadata": {"labels": {"app": "web", "tier": "web"}}}
    cluster.see(
        "Deployment",
        {
            "metadata": {"name": "web", "namespace": "soak", "uid": "web"},
            "spec": {"replicas": replicas, "template": template},
        },
    )


def test_a_split_that_is_off_by_one_is_found_at_a_quiet_point(cluster: Cluster):
    workload(cluster, 4)
    for index, node in enumerate(("n1", "n1", "n1", "n2")):
        cluster.pod(f"web-{index}", cpu="100m")
        cluster.bind(f"web-{index}", node)
    ledger(cluster, "web", *(f"{index + 1} spot uid-web-{index}" for index in range(4)))
    assert cluster.at_rest() == ["tiers are split exactly"]


def test_an_exact_split_is_fine(cluster: Cluster):
    workload(cluster, 4)
    for index, node in enumerate(("n1", "n1", "n2", "n2")):
        cluster.pod(f"web-{index}", cpu="100m")
        cluster.bind(f"web-{index}", node)
    ledger(cluster, "web", *(f"{index + 1} spot uid-web-{index}" for index in range(4)))
    assert cluster.at_rest() == []


def test_a_pod_without_a_slot_is_found_at_a_quiet_point(cluster: Cluster):
    workload(cluster, 1)
    cluster.pod("web-0")
    cluster.bind("web-0", "n2")
    assert cluster.at_rest() == ["every pod has its slot"]


def test_a_pod_on_a_node_that_is_gone_is_found_at_a_quiet_point(cluster: Cluster):
    cluster.pod("a")
    cluster.bind("a", "lost")
    assert cluster.at_rest() == ["no pod stays on a node that is gone"]


def test_the_rule_is_computed_for_min_and_max():
    assert split(5, [{"name": "a", "max": "40%"}, {"name": "b", "min": 1}]) == {"a": 2, "b": 3}
    assert split(0, TIERS) == {}


def test_a_line_of_the_audit_log_is_read():
    line = (
        '{"stage":"ResponseComplete","verb":"create","user":{"username":"soak-scheduler-a"},'
        '"objectRef":{"resource":"pods","subresource":"binding","namespace":"soak","name":"a"},'
        '"responseStatus":{"code":201},"requestObject":{"metadata":{"uid":"u"}},'
        '"requestReceivedTimestamp":"2026-01-01T00:00:00.5Z","stageTimestamp":"2026-01-01T00:00:01Z"}'
    )
    write = read(line)
    assert write is not None
    assert (write.resource, write.applied, write.answered_at - write.received_at) == (
        "pods/binding",
        True,
        0.5,
    )


def test_the_observer_imports_nothing_of_fairlead_nor_of_the_rest_of_the_soak():
    allowed = {"tools.soak.observer", "aiohttp", *sys.stdlib_module_names}
    for file in FOLDER.glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            names: list[str] = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{file.name}: a relative import hides where it leads"
                names = [node.module or ""]
            for name in names:
                fine = name.startswith("tools.soak.observer.") or name.partition(".")[0] in allowed
                assert fine, f"{file.name} imports {name}"


def test_nothing_of_fairlead_is_loaded_with_the_observer():
    modules = ", ".join(f"tools.soak.observer.{file.stem}" for file in FOLDER.glob("[a-z]*.py"))
    program = f"import sys, {modules}; print([one for one in sys.modules if one.startswith('fairlead')])"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
