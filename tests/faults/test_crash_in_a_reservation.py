"""A webhook killed at any write of a ledger: each pod has a slot of its own, and none is left out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

import pytest

from fairlead.policy.names import LEDGERS, TOKEN_ANNOTATION
from fairlead.policy.slots.ledger import Ledger
from support.admission import SLOT, TIER, exact, tiered
from support.cluster import Cluster
from support.crash_points import Dies, Outcome, Story
from support.workloads import is_ready

pytestmark = [pytest.mark.real, pytest.mark.slow]


class Reservation(Story):
    """A Deployment grows to three pods; each is admitted with a slot that was reserved for it just before.

    While there is no webhook, pods are refused, and their controller tries again. So a slot that was reserved
    for a pod that was never made must become another's.
    """

    name = "slots are reserved, pods created"
    heart = "PUT placementledgers"
    sizes: ClassVar[tuple[int, ...]] = (1, 2, 3)  # one by one, so that every play has the same writes

    def __init__(self, cluster: Cluster, kubeconfig: Path, folder: Path, plan: Dies) -> None:
        super().__init__(cluster, kubeconfig, folder, plan)
        self.corner = self.ends.enter_context(tiered(cluster))
        cluster.kubeconfig = kubeconfig

    def prepare(self) -> None:
        self.corner.nodes(spot=1, on_demand=1)

    def start(self) -> None:
        self.corner.balancer.ports.clear()
        if self.corner.replicas:
            self.corner.add_replica(*self.corner.arguments)
        else:
            self.corner.run(arguments=("--failure-policy=Fail",))

    def kill(self) -> None:
        self.corner.replicas[-1].kill()

    def act(self) -> None:
        self.corner.deploy("web", 0)
        for number in self.sizes:
            self.corner.scale("web", number)
            self.until(lambda n=number: self.corner.is_settled("web", n, exact(n)), "every pod in its tier")
            self.until(self._is_known, "the ledger to say what the pods say")

    def outcome(self) -> Outcome:
        pods = self.corner.pods("web")
        marks = [one["metadata"]["annotations"] for one in pods]
        slots = [int(mark[SLOT]) for mark in marks]
        costs = [int(mark["controller.kubernetes.io/pod-deletion-cost"]) for mark in marks]
        return {
            "pods": sorted(zip(slots, (mark[TIER] for mark in marks), costs, strict=True)),
            "where": self.corner.split(pods),
            "ready": sum(map(is_ready, pods)),
            "ledgers": [[(each.slot, each.tier) for each in one.entries] for one in self._ledgers()],
        }

    def _ledgers(self) -> list[Ledger]:
        return [Ledger.from_object(one) for one in self.cluster.list(LEDGERS)["items"]]

    def _is_known(self) -> bool:
        """Whether ledger and pods say the same."""
        said = sorted((each.slot, each.token) for one in self._ledgers() for each in one.entries)
        marks = [one["metadata"]["annotations"] for one in self.corner.pods("web")]
        return said == sorted((int(mark[SLOT]), mark[TOKEN_ANNOTATION]) for mark in marks)


class ReservedAndFreed(Reservation):
    """And it shrinks again. A webhook that never saw the last pod frees its slot after a minute."""

    name = "slots are reserved, pods created, one slot freed"
    sizes = (*Reservation.sizes, 2)


def test_a_webhook_that_dies_at_any_write_of_a_ledger_costs_no_pod_its_slot(
    crash_everywhere: Callable[..., None], count: Callable[[int, int], int]
) -> None:
    crash_everywhere(ReservedAndFreed if count(0, 1) else Reservation, varying=("PUT placementledgers",))
