"""Whatever is done to a cluster, and however often its controllers' writes fail, it ends as was asked."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from fairlead.errors import ApiError
from fairlead.world.admission import AdmissionRequest
from fairlead.world.world import World
from support.manifests import budget, deployment, job, stateful_set
from support.worlds import Obj, active, asking, conditions, names, pods, ready, seconds, status, world


class Trouble:
    """Admission that refuses some writes, as a busy API server would."""

    def __init__(self, dice: random.Random, share: float) -> None:
        self._dice = dice
        self._share = share
        self.on = False
        self.made = 0

    def __call__(self, request: AdmissionRequest) -> Obj | None:
        if self.on and self._dice.random() < self._share:
            self.made += 1
            code, reason = self._dice.choice(
                [(409, "Conflict"), (500, "InternalError"), (429, "TooManyRequests")]
            )
            raise ApiError.of(code, reason, "trouble was asked for")
        return None


class Life:
    """A cluster with one of each workload, and what can befall it."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.trouble = Trouble(self.dice, 0.15)
        self.cluster = world(5, cpu=16, hooks=[self.trouble])
        self.image = "image"
        self.sizes = {"web": 5, "db": 3}
        self.cluster.create(deployment("web", 5, pods=asking()))
        self.cluster.create(stateful_set("db", 3, pods=asking()))
        self.cluster.create(budget("web", {"app": "web"}, maxUnavailable="40%"))
        self.dead: list[str] = []
        self.jobs = 0

    def befall(self) -> None:
        """One thing, at random."""
        dice, cluster = self.dice, self.cluster
        self.trouble.on = False  # what the test itself does must be done
        match dice.randrange(8):
            case 0:
                self.sizes["web"] = dice.randint(0, 9)
                cluster.patch("Deployment", "web", {"spec": {"replicas": self.sizes["web"]}})
            case 1:
                self.sizes["db"] = dice.randint(0, 5)
                cluster.patch("StatefulSet", "db", {"spec": {"replicas": self.sizes["db"]}})
            case 2:
                self.image = f"image:{dice.randint(2, 4)}"
                containers = [{**asking()["containers"][0], "image": self.image}]
                for kind, name in (("Deployment", "web"), ("StatefulSet", "db")):
                    cluster.patch(kind, name, {"spec": {"template": {"spec": {"containers": containers}}}})
            case 3 if pods(cluster):
                cluster.delete("Pod", dice.choice(names(pods(cluster))))
            case 4 if len(self.dead) < 3:
                self.dead.append(dice.choice([n for n in names(cluster.all("Node")) if n not in self.dead]))
                cluster.kill_node(self.dead[-1])
            case 5 if self.dead:
                cluster.revive_node(self.dead.pop())
            case 6 if cluster.all("ReplicaSet"):
                propagation = dice.choice(["Background", "Foreground"])
                cluster.delete(
                    "ReplicaSet", dice.choice(names(cluster.all("ReplicaSet"))), propagation=propagation
                )
            case 7:
                self.jobs += 1
                spec = {"completions": 3, "parallelism": 2, "backoffLimit": 50}
                cluster.create(job(f"j{self.jobs}", spec=spec, pods={"schedulerName": "default-scheduler"}))
        self.trouble.on = True

    def calm(self) -> None:
        """Dead nodes come back, writes succeed again, and an hour passes."""
        self.trouble.on = False
        for name in self.dead:
            self.cluster.revive_node(name)
        self.cluster.run_until(seconds(3600))


def images(cluster: World, **labels: str) -> list[str]:
    return [pod["spec"]["containers"][0]["image"] for pod in ready(cluster, **labels)]


@pytest.mark.slow
def test_a_troubled_cluster_ends_as_was_asked(count: Callable[[int, int], int]) -> None:
    for seed in range(count(12, 150)):
        life = Life(seed)
        cluster = life.cluster
        for _ in range(25):
            cluster.run_until(seconds(life.dice.choice([0, 1, 7, 60, 400])))
            life.befall()
        life.calm()
        assert life.trouble.made > 20
        assert images(cluster, app="web") == [life.image] * life.sizes["web"], seed
        assert len(active(cluster, app="web")) == life.sizes["web"], seed
        assert images(cluster, app="db") == [life.image] * life.sizes["db"], seed
        assert names(active(cluster, app="db")) == [f"db-{n}" for n in range(life.sizes["db"])], seed
        for number in range(1, life.jobs + 1):
            assert conditions(cluster, "Job", f"j{number}")["Complete"][0] == "True", seed
            assert status(cluster, "Job", f"j{number}")["succeeded"] == 3, seed
        said = status(cluster, "PodDisruptionBudget", "web")
        assert said["currentHealthy"] == said["expectedPods"] == life.sizes["web"], seed
        before = cluster.store.rv
        cluster.run_until(seconds(86400))
        assert cluster.store.rv == before, seed
