"""`helm upgrade` while pods are created: the webhook answers, the scheduler binds, and no pod is lost.

Fairlead's pods are on a node where each runs as its manifest says, so a rollout takes as long as their
starts, their probes and their ends take.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterator

import pytest

from support.admission import TIER
from support.balancer import Balancer
from support.container import confined_here
from support.installing import CHART, NAMESPACE, Obj, helm, turned_on
from support.kubelet import Kubelet
from support.manifests import deployment
from support.policies import ON_DEMAND, SPOT, plain_policy
from support.shipped import Shipped, shipped_on

pytestmark = [pytest.mark.real, pytest.mark.slow]

RUNS_HERE = {"rig.example.com/runs": "fairlead"}
REPLICAS = 3
AHEAD = 20
LOAD = "loaded"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Shipped]:
    confined_here()
    with shipped_on(0) as found:
        for tier in ("spot", "on-demand"):
            found.plane.add_nodes(4, prefix=tier, labels={"capacity": tier})
        found.plane.start_scheduler()
        yield found


class Load:
    """Creates Deployments, one after the other, until it is ended; half of them ask for Fairlead's scheduler.

    It is never far ahead of what is bound, so that a slow machine has no more to do than a fast one.
    """

    def __init__(self, cluster: Shipped) -> None:
        self._api = cluster.plane.api.another()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._live, daemon=True)
        self.created: list[str] = []
        self._bound = 0
        self._thread.start()

    def end(self) -> None:
        self._ended.set()
        self._thread.join()
        self._api.close()

    def ahead(self) -> int:
        """How many of its pods are not bound, by its last look."""
        return REPLICAS * len(self.created) - self._bound

    def _live(self) -> None:
        pods = f"/api/v1/namespaces/{LOAD}/pods?fieldSelector=spec.nodeName!="
        while not self._ended.wait(0.5):
            self._bound = len(self._api.get(pods)["items"])
            if self.ahead() > AHEAD:
                continue
            name = f"web-{len(self.created)}"
            scheduler = "fairlead" if len(self.created) % 2 else "default-scheduler"
            spec = {"schedulerName": scheduler, "terminationGracePeriodSeconds": 0}
            path = f"/apis/apps/v1/namespaces/{LOAD}/deployments"
            self._api.create(path, deployment(name, REPLICAS, pods=spec))
            self.created.append(name)


def environment(cluster: Shipped) -> dict[str, str]:
    return {"KUBECONFIG": str(cluster.plane.kubeconfig), "HOME": str(cluster.plane.folder)}


def installing(cluster: Shipped, verb: str, values: Obj) -> None:
    flags = ("-n", NAMESPACE, *(("--create-namespace",) if verb == "install" else ()))
    wait = ("--wait", "--timeout=240s")
    helm(verb, "fairlead", CHART, *flags, *wait, "-f", "-", stdin=json.dumps(values), **environment(cluster))


def test_helm_test_passes_when_fairlead_has_placed_its_pod(cluster: Shipped) -> None:
    # A pod of this machine finds no Service by its name, so the scheduler is on its own here.
    values = turned_on("scheduler") | {"nodeSelector": RUNS_HERE, "replicas": 1, "crds": {"install": False}}
    with (
        Balancer() as unused,
        Kubelet(cluster.plane, "tester", RUNS_HERE, called="", calls=unused) as kubelet,
    ):
        installing(cluster, "install", values)
        try:
            said = helm("test", "fairlead", "-n", NAMESPACE, "--timeout=120s", **environment(cluster)).stdout
        except AssertionError as error:
            error.add_note(f"{kubelet.error!r}\n{kubelet.said()}")
            raise
        assert "Phase:          Succeeded" in said
        helm("uninstall", "fairlead", "-n", NAMESPACE, "--wait", **environment(cluster))
    cluster.plane.kubectl("delete", "node", "tester")


def test_helm_upgrade_under_load_loses_no_pod(cluster: Shipped) -> None:
    with (
        Balancer() as balancer,
        Kubelet(cluster.plane, "operator", RUNS_HERE, called="fairlead-webhook", calls=balancer) as kubelet,
        cluster.namespace(LOAD) as namespace,
    ):
        values = turned_on("scheduler", "webhook", webhook={"args": [f"--url={balancer.url}"]})
        # The definitions are there already, and kubectl's.
        values |= {"nodeSelector": RUNS_HERE, "crds": {"install": False}}
        cluster.apply(plain_policy(LOAD, SPOT, ON_DEMAND, match={"namespaces": [LOAD]}))
        installing(cluster, "install", values)
        before = list(kubelet.ran)
        load = Load(cluster)
        try:
            for revision in ("second", "third"):
                # While it is as far ahead as it may be, it creates nothing.
                cluster.wait(lambda: load.ahead() <= AHEAD - REPLICAS, "the load's pods to be bound")
                at = len(load.created)
                installing(cluster, "upgrade", values | {"podAnnotations": {"revision": revision}})
                assert len(load.created) > at, "nothing was created while the release was upgraded"
        except AssertionError as error:
            error.add_note(f"{kubelet.error!r}\n{kubelet.said()}")
            raise
        finally:
            load.end()
        assert kubelet.error is None, kubelet.said()
        assert len(before) == 4
        assert len(kubelet.ran) == 3 * len(before)  # each replica of both components was replaced, twice

        wanted = REPLICAS * len(load.created)
        cluster.wait(
            lambda: (nodes := cluster.nodes_of(namespace)) and len(nodes) == wanted and all(nodes.values()),
            f"{wanted} pods to be bound",
        )
        pods = cluster.plane.api.get(f"/api/v1/namespaces/{namespace}/pods")["items"]
        assert all(TIER in pod["metadata"].get("annotations", {}) for pod in pods)  # none went by unseen
        for name in load.created:
            own = [pod for pod in pods if pod["metadata"]["labels"]["app"] == name]
            split = Counter(pod["spec"]["nodeName"].rpartition("-")[0] for pod in own)
            assert split == {"spot": 2, "on-demand": 1}, name
