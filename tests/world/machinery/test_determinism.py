"""Two virtual clusters that are given the same things go through the same history, byte for byte."""

from __future__ import annotations

import hashlib
import os
import random
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta

import msgspec

from fairlead.world.autoscaler import Pacing
from fairlead.world.spot import Supply
from fairlead.world.world import World
from support.manifests import budget, deployment, job, stateful_set
from support.worlds import asking, group, history, names, node, seconds


def live(seed: int) -> bytes:
    """A busy hour: rollouts, failures, scaling, dying and interrupted nodes."""
    dice = random.Random(seed)
    cluster = World(
        [node(f"n{n}", cpu=4) for n in range(4)],
        groups=[
            group("spot", cpu=2, max=4, desired=2, bootS=40, volatile=True),
            group("spare", cpu=4, max=3),
        ],
        autoscaler=Pacing(),
        notice=seconds(120),
    )
    seen = history(cluster)
    supply = [Supply(timedelta(minutes=n * 7), dice.randint(0, 4)) for n in range(8)]
    cluster.spot.follow("spot", supply, cluster.clock.now())
    cluster.create(deployment("web", 6, pods=asking("500m")))
    cluster.create(stateful_set("db", 3, pods=asking("500m")))
    cluster.create(budget("web", {"app": "web"}, maxUnavailable="30%"))
    for number in range(12):
        cluster.run_until(timedelta(minutes=5))
        match dice.randrange(5):
            case 0:
                cluster.patch("Deployment", "web", {"spec": {"replicas": dice.randint(1, 12)}})
            case 1:
                containers = asking("500m")["containers"]
                containers[0]["image"] = f"image:{number}"
                cluster.patch(
                    "Deployment", "web", {"spec": {"template": {"spec": {"containers": containers}}}}
                )
            case 2:
                cluster.kill_node(dice.choice(names(cluster.all("Node"))))
            case 3:
                item = job(f"j{number}", spec={"completions": 3, "parallelism": 2})
                cluster.create(item)
            case 4:
                pods = names(cluster.all("Pod"))
                cluster.delete("Pod", dice.choice(pods))
    return msgspec.json.encode(seen)


def live_elsewhere(seed: int, hash_seed: int) -> str:
    """The digest of an hour lived in a process of its own, where sets and dicts hash differently."""
    search = os.pathsep.join(path for path in sys.path if path)
    done = subprocess.run(
        [sys.executable, __file__, str(seed)],
        env={**os.environ, "PYTHONHASHSEED": str(hash_seed), "PYTHONPATH": search},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def test_the_same_hour_lived_twice_leaves_the_same_history(count: Callable[[int, int], int]) -> None:
    for seed in range(count(3, 30)):
        first = live(seed)
        assert len(first) > 100_000
        assert live(seed) == first


def test_the_history_does_not_depend_on_how_a_process_hashes() -> None:
    assert live_elsewhere(0, 1) == live_elsewhere(0, 2) == hashlib.sha256(live(0)).hexdigest()


if __name__ == "__main__":
    sys.stdout.write(hashlib.sha256(live(int(sys.argv[1]))).hexdigest())
