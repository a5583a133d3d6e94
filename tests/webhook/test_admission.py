"""What a pod is given, and what it keeps."""

from __future__ import annotations

from typing import Any

from fairlead.policy.names import LEDGERS
from fairlead.policy.slots.ledger import Entry, Ledger
from support.admission import SLOT, TIER, Tiered, exact
from support.manifests import (
    config_map,
    deployment,
    owned_by,
    pod,
    replica_set,
    scheduled_pod,
    stateful_set,
)
from support.webhook import allow, webhook

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def terms(made: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = made["spec"]["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
    return found


def ledgers(corner: Tiered) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = corner.cluster.list(LEDGERS)["items"]
    return found


def test_a_dry_run_is_answered_and_leaves_no_trace(corner: Tiered) -> None:
    corner.run()
    made = corner.cluster.create(deployment("web", 0))
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": made["metadata"]["uid"]}
    for _ in range(3):
        tried = corner.cluster.create(pod("a", ownerReferences=[owner | {"controller": True}]), dryRun="All")
        assert tried["metadata"]["annotations"][SLOT] == "1"
        assert tried["metadata"]["annotations"][TIER] == "on-demand"

    assert ledgers(corner) == []


def test_a_pod_with_an_ordinal_beyond_all_reason_is_answered_at_once(corner: Tiered) -> None:
    corner.run()
    owner = owned_by(corner.cluster.create(stateful_set("x", 0)), controller=True)
    made = corner.cluster.create(pod("x-999999999", ownerReferences=[owner]), dryRun="All")
    assert made["metadata"]["annotations"][SLOT] == "1"


def test_a_pod_of_an_owner_that_does_not_exist_takes_no_slot(corner: Tiered) -> None:
    corner.run()
    real = owned_by(corner.cluster.create(replica_set("web", 0)), controller=True)
    for claimed in (real | {"name": "other"}, real | {"uid": "another-one"}):
        made = corner.cluster.create(pod(generateName="web-", ownerReferences=[claimed]))
        assert SLOT not in made["metadata"].get("annotations", {})
    assert ledgers(corner) == []

    made = corner.cluster.create(pod(generateName="web-", ownerReferences=[real]))
    assert made["metadata"]["annotations"][SLOT] == "1"


def test_existing_affinity_is_kept_and_narrowed_term_by_term(corner: Tiered) -> None:
    corner.run()
    zones = [
        {"matchExpressions": [{"key": "zone", "operator": "In", "values": [zone]}]} for zone in ("a", "b")
    ]
    weak = [{"weight": 7, "preference": zones[0]}]
    affinity = {
        "nodeAffinity": {
            REQUIRED: {"nodeSelectorTerms": zones},
            "preferredDuringSchedulingIgnoredDuringExecution": weak,
        },
        "podAntiAffinity": {REQUIRED: [{"topologyKey": "zone", "labelSelector": {}}]},
    }
    made = corner.cluster.create(
        pod("a", spec={"affinity": affinity, "nodeSelector": {"disk": "ssd"}}), dryRun="All"
    )

    own = corner.tier("on-demand")["nodes"]
    added = [{"key": key, "operator": "In", "values": [value]} for key, value in sorted(own.items())]
    found = terms(made)
    assert [term["matchExpressions"][0] for term in found] == [zone["matchExpressions"][0] for zone in zones]
    assert all(sorted(term["matchExpressions"][1:], key=lambda e: e["key"]) == added for term in found)
    kept = made["spec"]["affinity"]
    assert kept["podAntiAffinity"] == affinity["podAntiAffinity"]
    assert weak[0] in kept["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    assert made["spec"]["nodeSelector"] == {"disk": "ssd"}


def test_a_pod_that_others_change_after_us_keeps_its_slot(corner: Tiered) -> None:
    def meddle(request: dict[str, Any]) -> dict[str, Any]:
        if request["kind"]["kind"] != "Pod":
            return allow()
        if "meddled" in request["object"]["metadata"]["labels"]:
            return allow()
        return allow({"op": "add", "path": "/metadata/labels/meddled", "value": "yes"})

    corner.nodes()
    corner.run(replicas=2)
    with webhook(corner.cluster, meddle) as hook:
        # By name it comes after ours, so that ours is asked again.
        hook.register(corner.cluster, resources=["pods"])
        hook.wait_called(corner.cluster)
        corner.deploy("web", 10)
        split = corner.settled("web", 10)
        slots = sorted(int(one["metadata"]["annotations"][SLOT]) for one in corner.pods("web"))
        labels = [one["metadata"]["labels"] for one in corner.pods("web")]

    assert all(found.get("meddled") == "yes" for found in labels)
    assert slots == list(range(1, 11))
    assert split == exact(10)


def test_pods_of_our_own_scheduler_get_a_slot_but_no_affinity(corner: Tiered) -> None:
    spot = corner.tier("spot", tolerations=[{"key": "spot", "operator": "Exists"}])
    corner.run(corner.policy("web", spot), arguments=("--scheduler-name=ours", "--scheduler-name=more"))
    for name, steered in (("ours", False), ("more", False), ("others", True)):
        made = corner.cluster.create(pod(name, spec={"schedulerName": name}), dryRun="All")
        assert made["metadata"]["annotations"][TIER] == "spot"
        assert ("affinity" in made["spec"]) == steered
        assert any(one.get("key") == "spot" for one in made["spec"]["tolerations"])


def test_what_slipped_through_is_adopted_by_the_tier_of_its_node(corner: Tiered) -> None:
    corner.nodes()
    for tier, number in (("spot", 4), ("on-demand", 1)):
        spec = corner.here({"nodeSelector": corner.tier(tier)["nodes"]})
        for index in range(number):
            labels = {"app": "web"}
            corner.cluster.create(scheduled_pod(f"{tier}-{index}", labels=labels, spec=spec))
    assert corner.settled("web", 5) == {"spot": 4, "on-demand": 1}

    corner.run(corner.policy("web", groupBy="policy"))

    def adopted() -> tuple[Entry, ...] | None:
        found = ledgers(corner)
        return slots if found and len(slots := Ledger.from_object(found[0]).entries) == 5 else None

    slots = corner.cluster.wait(adopted, "the ledger of five")
    assert slots is not None
    held = [(one.slot, one.tier) for one in slots]
    assert held == [(1, "on-demand"), *((slot, "spot") for slot in range(2, 6))]
    # Who comes next is counted with them.
    made = corner.cluster.create(scheduled_pod("next", labels={"app": "web"}, spec=corner.here()))
    assert made["metadata"]["annotations"][SLOT] == "6"


def test_a_pod_of_more_than_a_mebibyte_is_admitted_like_any_other(corner: Tiered) -> None:
    corner.run()
    large = pod("large", spec={"containers": [{"name": "main", "image": "image", "args": ["x" * 1_100_000]}]})

    made = corner.cluster.create(large)

    assert made["metadata"]["annotations"][TIER] == "on-demand"
    assert len(made["spec"]["containers"][0]["args"][0]) == 1_100_000


def test_of_fifty_policies_the_most_specific_decides(corner: Tiered) -> None:
    own = corner.cluster.namespace
    policies = [
        corner.policy(
            f"p{number:02}",
            corner.tier(f"tier-{number}"),
            match={"namespaces": [own], "labels": {"team": str(number)}},
        )
        for number in range(49)
    ]
    corner.run(*policies, corner.policy("all", corner.tier("rest")))
    for number in (0, 17, 48):
        made = corner.cluster.create(pod(f"a{number}", labels={"team": str(number)}), dryRun="All")
        assert made["metadata"]["annotations"][TIER] == f"tier-{number}"
    made = corner.cluster.create(pod("b", labels={"team": "none"}), dryRun="All")
    assert made["metadata"]["annotations"][TIER] == "rest"


def test_only_pods_are_asked_about(corner: Tiered) -> None:
    corner.run()

    assert "annotations" not in corner.cluster.create(config_map("a"))["metadata"]
