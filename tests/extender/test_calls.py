"""Calls as kube-scheduler makes them, answered by a running extender; both clusters, no scheduler needed."""

from __future__ import annotations

import asyncio
import http.client
import json
import random
import ssl
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from fairlead.client.config import load
from fairlead.doors.extender.server import LARGEST
from fairlead.feed.marks_map import MARKS_MAP
from fairlead.kube.resources import known
from fairlead.policy.groups.member import GroupKey
from fairlead.policy.names import (
    DELETION_COST,
    LEDGERS,
    POLICIES,
    POLICY_ANNOTATION,
    SLOT_ANNOTATION,
    TOKEN_ANNOTATION,
)
from fairlead.policy.slots.ledger import Entry, Ledger
from fairlead.rig.processes import free_ports
from support.cluster import Cluster
from support.door import DoorProcess, kubeconfig_of
from support.extender import Extended, extended
from support.faults import Faithful, FaultProxy, RequestFault
from support.manifests import pod as manifest
from support.policies import add_policy, plain_policy, serve_policies
from support.wire import PATIENCE_S


@pytest.fixture
def asked(cluster: Cluster) -> Iterator[Extended]:
    """An extender that nobody but the test calls."""
    (port,) = free_ports(1)
    with extended(cluster, port) as own:
        yield own


def pod(corner: Extended, name: str = "web-1", **metadata: Any) -> dict[str, Any]:
    """A pod that the cluster has, and that no scheduler takes."""
    made = corner.cluster.try_create(manifest(name, spec={"schedulerName": "nobody"}, **metadata))
    return made.ok() if made.status == 201 else corner.cluster.get("Pod", name)


def shared(corner: Extended, **spec: Any) -> dict[str, Any]:
    """A policy under which all pods of the test share their slots."""
    return corner.policy(groupBy="policy", **spec)


def test_filter_returns_the_names_of_one_tier(asked: Extended) -> None:
    asked.nodes()
    asked.run(shared(asked))
    names = asked.of_tier("spot") + asked.of_tier("on-demand")

    tiers = []
    for number in range(10):
        body = {"Pod": pod(asked, f"web-{number}"), "Nodes": None, "NodeNames": names}
        status, answer = asked.post("filter", body)
        assert status == 200
        assert answer["Nodes"] is None
        assert answer["Error"] == ""
        (tier,) = {tier for tier in ("spot", "on-demand") if answer["NodeNames"] == asked.of_tier(tier)}
        tiers.append(tier)
    assert (tiers.count("on-demand"), tiers.count("spot")) == (3, 7)


def test_whole_nodes_are_answered_with_the_same_nodes(asked: Extended) -> None:
    asked.nodes()
    asked.run()
    names = asked.of_tier("spot") + asked.of_tier("on-demand")
    nodes = [asked.cluster.get("Node", name) for name in names]
    body = {"Pod": pod(asked), "Nodes": {"metadata": {}, "items": nodes}, "NodeNames": None}
    status, answer = asked.post("filter", body)

    assert status == 200
    assert answer["NodeNames"] is None
    assert answer["Nodes"]["items"] == [one for one in nodes if one["metadata"]["name"] in names[2:]]


def test_a_pod_that_no_policy_governs_may_go_anywhere(asked: Extended) -> None:
    asked.nodes(1, 1)
    asked.run(asked.policy(match={"namespaces": ["elsewhere"]}))
    names = asked.of_tier("spot") + asked.of_tier("on-demand")
    body = {"Pod": pod(asked), "Nodes": None, "NodeNames": names}

    status, answer = asked.post("filter", body)
    assert (status, answer["NodeNames"]) == (200, names)
    status, answer = asked.post("prioritize", body)
    assert answer == [{"Host": name, "Score": 0} for name in names]


def test_pods_that_do_not_exist_take_no_slots(asked: Extended) -> None:
    asked.nodes(1, 1)
    asked.run(shared(asked))
    names = asked.of_tier("spot") + asked.of_tier("on-demand")
    made = pod(asked)
    for change in ({"name": "web-2"}, {"uid": "another"}, {"namespace": "elsewhere"}):
        stranger = made | {"metadata": made["metadata"] | change}
        for verb in ("filter", "prioritize"):
            status, _ = asked.post(verb, {"Pod": stranger, "Nodes": None, "NodeNames": names})
            assert status == 503

    body = {"Pod": made, "Nodes": None, "NodeNames": names}
    assert asked.post("filter", body)[1]["NodeNames"] == asked.of_tier("on-demand"), "the first slot"
    body = {"Pod": pod(asked, "web-2"), "Nodes": None, "NodeNames": names}
    assert asked.post("filter", body)[1]["NodeNames"] == asked.of_tier("spot"), "the second"


def test_what_a_call_says_of_a_pod_is_not_believed(asked: Extended) -> None:
    asked.nodes(1, 1)
    asked.run(shared(asked, match={"namespaces": [asked.cluster.namespace], "labels": {"tier": "web"}}))
    names = asked.of_tier("spot") + asked.of_tier("on-demand")
    made = pod(asked, labels={"tier": "web"})
    changed = made | {"metadata": made["metadata"] | {"labels": {}, "annotations": marks("7", "0")}}
    body = {"Pod": changed, "Nodes": None, "NodeNames": names}

    assert asked.post("filter", body)[1]["NodeNames"] == asked.of_tier("on-demand")


def test_a_slot_token_counts_only_if_the_ledger_has_it(asked: Extended) -> None:
    serve_policies(asked.cluster)
    asked.nodes(1, 1)
    asked.run(shared(asked))
    names = asked.of_tier("spot") + asked.of_tier("on-demand")
    ledger = Ledger(
        GroupKey("web", asked.cluster.namespace, "*"), (Entry(4, "spot", "given", time.time()),)
    ).to_object()
    asked.cluster.wire.request("POST", LEDGERS.path(asked.cluster.namespace), ledger).ok()
    real, forged = (
        pod(asked, name, annotations=marks("4", "-4") | {TOKEN_ANNOTATION: token})
        for name, token in (("real", "given"), ("forged", "made-up"))
    )

    for _ in range(2):
        answer = asked.post("filter", {"Pod": forged, "Nodes": None, "NodeNames": names})[1]
        assert answer["NodeNames"] == asked.of_tier("on-demand"), "the first slot, not any node"
    answer = asked.post("filter", {"Pod": real, "Nodes": None, "NodeNames": names})[1]
    assert answer["NodeNames"] == names, "its affinity says where it may go"


def test_no_node_of_the_tier_on_offer_is_explained_node_by_node(asked: Extended) -> None:
    asked.nodes(1, 1)
    asked.run()
    names = asked.of_tier("spot")
    _, answer = asked.post("filter", {"Pod": pod(asked), "Nodes": None, "NodeNames": [*names, "unseen"]})

    assert answer["NodeNames"] == []
    assert answer["FailedAndUnresolvableNodes"] == {
        names[0]: "node(s) outside tier on-demand of placement policy web"
    }
    assert list(answer["FailedNodes"]) == ["unseen"]


def test_scores_are_between_zero_and_ten(asked: Extended) -> None:
    asked.nodes()
    asked.run(asked.policy(enforce="preferred"))
    names = asked.of_tier("spot") + asked.of_tier("on-demand")
    body = {"Pod": pod(asked), "Nodes": None, "NodeNames": names}
    _, answer = asked.post("filter", body)
    assert answer["NodeNames"] == names
    _, answer = asked.post("prioritize", body)

    assert [(one["Host"], one["Score"]) for one in answer] == list(zip(names, (0, 0, 10, 10), strict=True))


def test_preemption_drops_candidates_outside_the_tier_and_keeps_victims(asked: Extended) -> None:
    asked.nodes(1, 1)
    asked.run()
    (spot,), (safe,) = asked.of_tier("spot"), asked.of_tier("on-demand")
    victims = {"Pods": [{"UID": "v1"}, {"UID": "v2"}], "NumPDBViolations": 1}
    body = {
        "Pod": pod(asked),
        "NodeNameToVictims": None,
        "NodeNameToMetaVictims": {spot: victims, safe: victims},
    }
    status, answer = asked.post("preempt", body)

    assert status == 200
    assert answer == {"NodeNameToMetaVictims": {safe: victims}}


def test_whatever_comes_as_a_body_gets_a_clean_answer(
    asked: Extended, count: Callable[[int, int], int]
) -> None:
    asked.nodes(1, 1)
    asked.run()
    names = asked.of_tier("spot") + asked.of_tier("on-demand")
    good = {
        "filter": {"Pod": pod(asked), "Nodes": None, "NodeNames": names},
        "prioritize": {"Pod": pod(asked), "Nodes": {"items": [{"metadata": {"name": names[0]}}]}},
        "preempt": {"Pod": pod(asked), "NodeNameToMetaVictims": {names[0]: {"Pods": [{"UID": "u"}]}}},
    }
    rng = random.Random(7)
    connection = http.client.HTTPConnection("127.0.0.1", asked.port, timeout=PATIENCE_S)
    seen = {200: 0, 400: 0, 503: 0}  # the last: a pod that does not exist
    for _ in range(count(200, 2000)):
        verb = rng.choice(list(good))
        connection.request("POST", f"/{verb}", spoilt(good[verb], rng))
        answer = connection.getresponse()
        said = json.loads(answer.read())
        seen[answer.status] += 1
        assert answer.status == 200 or said["Error"], said
    connection.close()

    assert seen[400] > seen[200] > 0
    assert not asked.replicas[0].log("not_decided")
    assert asked.read("/livez") == (200, "ok")


def spoilt(body: dict[str, Any], rng: random.Random) -> bytes:
    """A body with something wrong with it: bytes, types, or parts missing."""
    raw = bytearray(json.dumps(body).encode())
    how = rng.randrange(5)
    if how == 0:
        for _ in range(rng.randrange(1, 8)):
            raw[rng.randrange(len(raw))] = rng.randrange(256)
        return bytes(raw)
    if how == 1:
        return bytes(raw[: rng.randrange(len(raw))])
    if how == 2:
        return rng.randbytes(rng.randrange(200))
    odd: list[Any] = [None, 0, -1, 1e300, "", "x", [], {}, [None], {"a": None}, True, "\ud83d\ude00"]
    changed = json.loads(raw)
    at: Any = changed
    while True:
        keys = list(at) if isinstance(at, dict) else list(range(len(at)))
        if not keys:
            return json.dumps(changed).encode()
        key = rng.choice(keys)
        if how == 3 and isinstance(at, dict) and rng.random() < 0.4:
            del at[key]
            return json.dumps(changed).encode()
        if not isinstance(at[key], dict | list) or rng.random() < 0.3:
            at[key] = rng.choice(odd)
            return json.dumps(changed).encode()
        at = at[key]


def until_nudged(asked: Extended, name: str, why: str) -> None:
    def nudged() -> bool:
        annotations = asked.cluster.get("Pod", name)["metadata"].get("annotations", {})
        return str(annotations.get("fairlead.dev/passed-on", "")).startswith(f"{why} ")

    asked.cluster.wait(nudged, "kube-scheduler to be made to ask again")


def test_a_pod_that_was_refused_asks_again_when_policies_change(asked: Extended) -> None:
    asked.nodes(1, 1)
    asked.run()
    made = asked.cluster.create(manifest("web-1", spec={"schedulerName": "nobody"}))
    body = {"Pod": made, "Nodes": None, "NodeNames": asked.of_tier("spot")}
    assert asked.post("filter", body)[1]["NodeNames"] == []

    # Fewer tiers than it was sent to, and none that refuses it.
    asked.use(asked.policy("web", {"name": "every"}))
    until_nudged(asked, "web-1", "policies-changed")
    assert asked.post("filter", body)[1]["NodeNames"] == asked.of_tier("spot")


def test_a_pod_that_was_refused_before_we_saw_that_there_is_room_asks_again(asked: Extended) -> None:
    asked.nodes(0, 1)
    asked.run(asked.policy("web", asked.tier("on-demand", exclusive=True)))
    (node,) = asked.of_tier("on-demand")
    first, second = (
        asked.cluster.create(manifest(name, spec={"schedulerName": "nobody"})) for name in ("web-1", "web-2")
    )
    assert asked.post("filter", {"Pod": first, "Nodes": None, "NodeNames": [node]})[1]["NodeNames"] == [node]
    body = {"Pod": second, "Nodes": None, "NodeNames": [node]}
    assert asked.post("filter", body)[1]["NodeNames"] == []

    asked.cluster.delete("Pod", "web-1", gracePeriodSeconds=0)
    until_nudged(asked, "web-2", "room-was-made")
    assert asked.post("filter", body)[1]["NodeNames"] == [node]


def test_another_policy_changes_nothing_of_what_was_answered(asked: Extended) -> None:
    serve_policies(asked.cluster)
    asked.nodes()
    asked.run(shared(asked))
    names = asked.of_tier("spot") + asked.of_tier("on-demand")

    tiers = []
    for number in range(10):
        if number == 5:
            add_policy(asked.cluster, plain_policy("late", match={"namespaces": ["elsewhere"]}))
            asked.replicas[0].wait_for("policy_accepted")
        body = {"Pod": pod(asked, f"web-{number}"), "Nodes": None, "NodeNames": names}
        kept = asked.post("filter", body)[1]["NodeNames"]
        tiers += [tier for tier in ("spot", "on-demand") if kept == asked.of_tier(tier)]
    assert (tiers.count("on-demand"), tiers.count("spot")) == (3, 7)


def test_the_users_own_deletion_cost_stands_when_slots_change_after_a_restart(asked: Extended) -> None:
    asked.nodes(1, 1)
    (spot,), (safe,) = asked.of_tier("spot"), asked.of_tier("on-demand")
    # All three are marked with one slot, so that two have to change theirs.
    for name, node, cost in (("a", safe, "-1"), ("b", spot, "100"), ("c", spot, "-1")):
        asked.cluster.create(manifest(name, spec={"nodeName": node}, annotations=marks("1", cost)))
    asked.run(asked.policy(groupBy="policy"))

    assert [slot_and_cost(asked, name, but="1") for name in ("b", "c")] == [("2", "100"), ("3", "-3")]


def test_the_users_own_deletion_cost_stands_on_a_pod_that_asks_with_a_mark(asked: Extended) -> None:
    asked.nodes(0, 1)
    asked.run(asked.policy(groupBy="policy"))
    made = asked.cluster.create(manifest("a", annotations=marks("5", "100")))
    body = {"Pod": made, "Nodes": None, "NodeNames": asked.of_tier("on-demand")}
    (node,) = asked.post("filter", body)[1]["NodeNames"]
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "a"}, "target": {"name": node}}
    asked.cluster.wire.request("POST", asked.cluster.path("Pod", "a", "binding"), binding).ok()

    assert slot_and_cost(asked, "a", but="5") == ("1", "100")


def marks(slot: str, cost: str) -> dict[str, str]:
    return {POLICY_ANNOTATION: "web", SLOT_ANNOTATION: slot, DELETION_COST: cost}


def slot_and_cost(corner: Extended, name: str, *, but: str) -> tuple[str, str]:
    """What a pod is marked with once that is another slot."""

    def look() -> tuple[str, str] | None:
        found = corner.cluster.get("Pod", name)["metadata"]["annotations"]
        slot = found[SLOT_ANNOTATION]
        return (slot, found[DELETION_COST]) if slot != but else None

    found = corner.cluster.wait(look, f"another slot on {name}")
    assert found is not None
    return found


async def test_nodes_are_watched_once(cluster: Cluster, tmp_path: Path) -> None:
    seen: list[str] = []

    class Noting(Faithful):
        def on_request(self, method: str, path: str) -> RequestFault | None:
            seen.append(path)
            return None

    async with FaultProxy(load(str(cluster.kubeconfig)), Noting()) as proxy:
        (tmp_path / "policies.yaml").write_text(yaml.safe_dump(plain_policy()))
        process = DoorProcess(
            kubeconfig_of(proxy.url, tmp_path),
            "extender",
            "--listen=127.0.0.1:0",
            f"--policies={tmp_path / 'policies.yaml'}",
            f"--system-namespace={cluster.namespace}",
        )
        try:
            await asyncio.to_thread(process.wait_for, "answering")
            watches = [path for path in seen if path.startswith("/api/v1/nodes?") and "watch=" in path]
            assert len(watches) == 1
            assert await asyncio.to_thread(process.stop) == 0
        finally:
            process.close()


def test_one_replica_answers_and_the_other_stands_by(asked: Extended) -> None:
    asked.nodes(1, 1)
    asked.run()
    first_port = asked.port
    (asked.port,) = free_ports(1)
    standby = asked.start(asked.port)
    standby.wait_for("synced")
    body = {"Pod": pod(asked), "Nodes": None, "NodeNames": asked.of_tier("on-demand")}

    status, said = asked.read("/readyz")
    assert status == 503
    assert "leading failed: another replica leads" in said
    status, answer = asked.post("filter", body)
    assert status == 503
    assert "another replica leads" in answer["Error"]
    assert "fairlead_extender_never_called 0.0" in asked.read("/metrics")[1], "nobody should call it"
    # Who keeps its connection would never find the one that leads.
    connection = http.client.HTTPConnection("127.0.0.1", asked.port, timeout=PATIENCE_S)
    connection.request("POST", "/filter", json.dumps(body))
    assert connection.getresponse().getheader("Connection") == "close"
    connection.close()

    assert asked.replicas[0].stop() == 0
    standby.wait_for("answering")
    assert asked.read("/readyz") == (200, "ok")
    status, answer = asked.post("filter", body)
    assert (status, answer["NodeNames"]) == (200, asked.of_tier("on-demand"))
    asked.port = first_port


def test_one_pod_waits_for_a_tier_that_lost_its_last_node_once_its_cool_down_is_over(asked: Extended) -> None:
    asked.nodes()
    asked.run(shared(asked, fallback={"after": "5s", "coolDown": "3s"}))
    left = asked.of_tier("on-demand")

    def refused(name: str) -> bool:
        body = {"Pod": pod(asked, name), "Nodes": None, "NodeNames": left}
        status, answer = asked.post("filter", body)
        assert status == 200
        assert answer["NodeNames"] in ([], left)
        return answer["NodeNames"] == []

    for name in asked.of_tier("spot"):
        asked.cluster.delete("Node", name)
    asked.replicas[0].wait_for("marks_written")
    assert not any(refused(f"early-{number}") for number in range(10)), "nobody waits for what was just lost"

    fresh = (f"late-{number}" for number in range(1000))
    trying = asked.cluster.wait(
        lambda: next((name for name in (next(fresh),) if refused(name)), ""), "a pod to try the tier"
    )
    assert not any(refused(next(fresh)) for _ in range(10)), "only one tries"
    assert refused(trying)
    assert not asked.replicas[0].log("passed_on"), "asking again would change nothing yet"

    (said,) = asked.replicas[0].wait_for("passed_on")
    assert said["pod"].endswith(f"/{trying}")
    assert not refused(trying)
    assert asked.replicas[0].log("marks_written")[-1]["marks"]["spot"]["coolDowns"] == 2


def test_a_lost_tier_whose_mark_somebody_took_away_is_waited_for(asked: Extended) -> None:
    asked.nodes()
    asked.run(shared(asked))
    for name in asked.of_tier("spot"):
        asked.cluster.delete("Node", name)
    asked.replicas[0].wait_for("marks_written")
    path = known("ConfigMap").path(asked.system, MARKS_MAP)
    none = {"data": {"web": "{}"}}
    asked.cluster.wire.request("PATCH", path, none, content_type="application/merge-patch+json").ok()
    left = asked.of_tier("on-demand")
    fresh = (f"web-{number}" for number in range(1000))

    def refused() -> bool:
        body = {"Pod": pod(asked, next(fresh)), "Nodes": None, "NodeNames": left}
        return bool(asked.post("filter", body)[1]["NodeNames"] == [])

    asked.cluster.wait(refused, "a pod to wait for the tier")
    assert sum(refused() for _ in range(10)) == 7, "as if nothing had been"


def test_a_tier_that_was_cordoned_before_the_extender_came_is_passed_over(asked: Extended) -> None:
    asked.nodes()
    asked.cordon("spot", True)
    asked.run(shared(asked))
    asked.replicas[0].wait_for("marks_written")
    left = asked.of_tier("on-demand")
    for number in range(5):
        body = {"Pod": pod(asked, f"web-{number}"), "Nodes": None, "NodeNames": left}
        assert asked.post("filter", body)[1]["NodeNames"] == left


def test_a_loss_that_nobody_wrote_down_is_marked_by_the_next_to_lead(asked: Extended) -> None:
    asked.nodes()
    asked.run()
    standby = asked.start(*free_ports(1))
    standby.wait_for("synced")
    asked.replicas[0].kill()
    for name in asked.of_tier("spot"):
        asked.cluster.delete("Node", name)
    asked.free("fairlead-extender")

    # Without a mark there is no cool-down, and so no end to it.
    (said,) = standby.wait_for("marks_written")
    assert said["marks"]["spot"]["interrupted"]


def test_more_than_any_body_can_be_is_refused_unread_and_large_ones_are_not(asked: Extended) -> None:
    asked.nodes(1, 1)
    asked.run()
    connection = http.client.HTTPConnection("127.0.0.1", asked.port, timeout=PATIENCE_S)
    connection.putrequest("POST", "/filter")
    connection.putheader("Content-Length", str(LARGEST + 1))
    connection.endheaders()
    answer = connection.getresponse()
    assert answer.status == 413
    assert "bytes" in json.loads(answer.read())["Error"]
    connection.close()

    names = asked.of_tier("on-demand")
    nodes = [{"metadata": {"name": names[0], "annotations": {"a": "x" * 20_000_000}}}]
    body = {"Pod": pod(asked), "Nodes": {"items": nodes}, "NodeNames": None}
    status, said = asked.post("filter", body)
    assert (status, said["Nodes"]["items"]) == (200, nodes)


def test_https_is_spoken_with_a_certificate(asked: Extended) -> None:
    pair = asked.cluster.host.serving_pair()
    cert, key = asked.folder / "tls.crt", asked.folder / "tls.key"
    cert.write_bytes(pair.public)
    key.write_bytes(pair.private)
    asked.nodes(1, 1)
    asked.run(arguments=(f"--tls-cert-file={cert}", f"--tls-key-file={key}"))
    trusting = ssl.create_default_context(cadata=asked.cluster.host.ca_pem.decode())
    connection = http.client.HTTPSConnection("127.0.0.1", asked.port, context=trusting, timeout=PATIENCE_S)
    names = asked.of_tier("on-demand")
    body = {"Pod": pod(asked), "Nodes": None, "NodeNames": names}
    connection.request("POST", "/filter", json.dumps(body))

    assert json.loads(connection.getresponse().read())["NodeNames"] == names
    connection.close()


def test_that_nobody_ever_called_is_said_in_log_metric_and_status(asked: Extended) -> None:
    serve_policies(asked.cluster)
    made = add_policy(asked.cluster, plain_policy(match={"namespaces": [asked.cluster.namespace]}))
    policies = "/apis/fairlead.dev/v1alpha1/placementpolicies"
    asked.run(arguments=("--report-after=1s",))

    def condition(name: str = made["metadata"]["name"]) -> dict[str, Any]:
        status = asked.cluster.wire.request("GET", f"{policies}/{name}").ok().get("status", {})
        return {one["type"]: one for one in status.get("conditions", [])}.get("ExtenderCalled", {})

    asked.replicas[0].wait_for("never_called")
    asked.cluster.wait(lambda: condition().get("status") == "False", "the condition")
    assert "fairlead_extender_never_called 1.0" in asked.read("/metrics")[1]

    # Whoever sends nonsense is no scheduler.
    assert asked.post("filter", b"hello")[0] == 400
    assert "fairlead_extender_never_called 1.0" in asked.read("/metrics")[1]
    # A policy made since is told, too, not an hour later.
    late = add_policy(asked.cluster, plain_policy("late", match={"namespaces": [asked.cluster.namespace]}))
    asked.cluster.wait(
        lambda: condition(late["metadata"]["name"]).get("status") == "False", "the condition of a late policy"
    )

    asked.post("filter", {"Pod": pod(asked), "Nodes": None, "NodeNames": []})
    asked.cluster.wait(lambda: condition().get("status") == "True", "the condition to change")
    assert "fairlead_extender_never_called 0.0" in asked.read("/metrics")[1]
    # It says of which generation it is, and a new one is no transition.
    before = condition()
    assert before["observedGeneration"] == 1
    asked.cluster.patch(POLICIES, made["metadata"]["name"], {"spec": {"enforce": "preferred"}})
    asked.cluster.wait(lambda: condition() == before | {"observedGeneration": 2}, "the next generation")

    # Restarted in a quiet cluster, it has been called before.
    assert asked.replicas[0].stop() == 0
    again = asked.start()
    asked.cluster.wait(
        lambda: "fairlead_extender_never_called 0.0" in asked.read("/metrics")[1],
        "it to know that it was called",
    )
    assert not again.log("never_called")
    assert condition()["status"] == "True"
