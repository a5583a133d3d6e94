"""The verbs, on both kinds of cluster; and what becomes of writes whose answer is lost."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import pytest

from fairlead.client.discovery import served
from fairlead.client.retry import is_budget_refusal
from fairlead.errors import Conflict, Invalid, NotFound, TooManyRequests, Unreachable
from fairlead.kube.patch import JsonPatch
from fairlead.kube.pod import Pod
from fairlead.kube.resources import Resource, known
from support.faults import Answer, LoseReply, LoseRequest, Script

if TYPE_CHECKING:
    from client.conftest import Through

PODS, MAPS, SECRETS = known("Pod"), known("ConfigMap"), known("Secret")


def config_map(through: Through, name: str, **data: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": through.namespace}, "data": data}


def pod(through: Through, name: str = "a", **metadata: Any) -> dict[str, Any]:
    named = {"generateName": "made-"} if metadata.pop("generate", False) else {"name": name}
    return {
        "metadata": {**named, "namespace": through.namespace, **metadata},
        "spec": {"schedulerName": "nobody", "containers": [{"name": "c", "image": "registry.example/c:1"}]},
    }


async def names(through: Through, resource: Resource = MAPS) -> list[str]:
    listing = await through.client.list(resource, through.namespace)
    return sorted(item["metadata"]["name"] for item in listing.items)


class TestVerbs:
    async def test_what_is_created_can_be_read_plainly_and_typed(self, through: Through) -> None:
        made = await through.client.create(PODS, pod(through), kind=Pod)
        read = await through.client.get(PODS, "a", through.namespace, kind=Pod)
        plain = await through.client.get(PODS, "a", through.namespace)
        assert made.metadata.uid == read.metadata.uid == plain["metadata"]["uid"]
        assert plain["kind"] == "Pod"

    async def test_a_list_is_read_page_by_page(self, through: Through) -> None:
        for number in range(7):
            await through.client.create(MAPS, config_map(through, f"m{number}"))
        listing = await through.client.list(MAPS, through.namespace, page=3)
        found = [
            item["metadata"]["name"] for item in listing.items if item["metadata"]["name"].startswith("m")
        ]
        assert found == [f"m{number}" for number in range(7)]
        assert listing.resource_version.isdecimal()

    async def test_a_list_can_be_narrowed(self, through: Through) -> None:
        await through.client.create(PODS, pod(through, "a", labels={"app": "web"}))
        await through.client.create(PODS, pod(through, "b"))
        labelled = await through.client.list(PODS, through.namespace, kind=Pod, labels="app=web")
        named = await through.client.list(PODS, through.namespace, kind=Pod, fields="metadata.name=b")
        assert [p.metadata.name for p in labelled.items] == ["a"]
        assert [p.metadata.name for p in named.items] == ["b"]

    async def test_replacing_a_stale_version_is_a_conflict(self, through: Through) -> None:
        made = await through.client.create(MAPS, config_map(through, "m", a="1"))
        await through.client.replace(MAPS, {**made, "data": {"a": "2"}})
        with pytest.raises(Conflict):
            await through.client.replace(MAPS, {**made, "data": {"a": "3"}})
        assert (await through.client.get(MAPS, "m", through.namespace))["data"] == {"a": "2"}

    async def test_the_three_patches(self, through: Through) -> None:
        await through.client.create(MAPS, config_map(through, "m", a="1", b="1"))
        merged = await through.client.patch(MAPS, "m", through.namespace, {"data": {"a": None, "c": "1"}})
        assert merged["data"] == {"b": "1", "c": "1"}
        steps = JsonPatch().test(("data", "b"), "1").replace(("data", "b"), "2")
        assert (await through.client.patch(MAPS, "m", through.namespace, steps))["data"]["b"] == "2"
        with pytest.raises(Invalid):  # the test no longer holds
            await through.client.patch(MAPS, "m", through.namespace, steps)

    async def test_a_strategic_patch_of_the_status_merges_conditions_by_type(self, through: Through) -> None:
        await through.client.create(PODS, pod(through))
        for kind in ("PodScheduled", "Other"):
            patch = {"status": {"conditions": [{"type": kind, "status": "False", "reason": "Because"}]}}
            patched = await through.client.patch(
                PODS, "a", through.namespace, patch, how="strategic", subresource="status", kind=Pod
            )
        assert {c.type for c in patched.status.conditions} >= {"PodScheduled", "Other"}

    async def test_applying_twice_is_applying_once(self, through: Through) -> None:
        body = config_map(through, "m", a="1")
        first = await through.client.apply(MAPS, body, manager="tests")
        again = await through.client.apply(MAPS, body, manager="tests")
        assert first["metadata"]["resourceVersion"] == again["metadata"]["resourceVersion"]

    async def test_deleting_with_another_uid_deletes_nothing(self, through: Through) -> None:
        made = await through.client.create(MAPS, config_map(through, "m"))
        with pytest.raises(Conflict):
            await through.client.delete(MAPS, "m", through.namespace, uid="another")
        await through.client.delete(MAPS, "m", through.namespace, uid=made["metadata"]["uid"])
        with pytest.raises(NotFound):
            await through.client.delete(MAPS, "m", through.namespace, uid=made["metadata"]["uid"])

    async def test_a_pod_is_bound_once_by_its_uid_and_annotations_come_along(self, through: Through) -> None:
        (node,) = through.cluster.add_nodes()
        made = await through.client.create(PODS, pod(through), kind=Pod)
        with pytest.raises(Conflict):
            await through.client.bind("a", through.namespace, node, uid="another")
        await through.client.bind(
            "a", through.namespace, node, uid=made.metadata.uid, annotations={"fairlead.dev/slot": "3"}
        )
        bound = await through.client.get(PODS, "a", through.namespace, kind=Pod)
        assert bound.spec.node_name == node
        assert bound.metadata.annotations["fairlead.dev/slot"] == "3"
        with pytest.raises(Conflict, match="already assigned"):
            await through.client.bind("a", through.namespace, node, uid=made.metadata.uid)

    async def test_a_budgets_no_is_told_at_once(self, through: Through) -> None:
        (node,) = through.cluster.add_nodes()
        made = await through.client.create(PODS, pod(through, labels={"app": "web"}), kind=Pod)
        await through.client.bind("a", through.namespace, node, uid=made.metadata.uid)
        budget = {"metadata": {"name": "b", "namespace": through.namespace}}
        budget["spec"] = {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}  # type: ignore[assignment]
        await through.client.create(known("PodDisruptionBudget"), budget)
        through.cluster.wait(
            lambda: (
                through.cluster.get("PodDisruptionBudget", "b").get("status", {}).get("currentHealthy") == 1
            ),
            "the budget to count its pod",
        )
        before = through.proxy.requests
        with pytest.raises(TooManyRequests) as caught:
            await through.faulty.evict("a", through.namespace, uid=made.metadata.uid)
        assert is_budget_refusal(caught.value)
        assert through.proxy.requests == before + 1

    async def test_odd_names_do_not_leave_their_path(self, through: Through) -> None:
        with pytest.raises(NotFound):
            await through.client.get(MAPS, "../../../../api/v1/namespaces", through.namespace)

    async def test_what_is_served_is_found_out(self, through: Through) -> None:
        found = await served(through.client)
        assert known("Pod") in found
        assert known("Deployment") in found
        assert known("Lease") in found
        assert not any("/" in resource.plural for resource in found)


class TestLostAnswers:
    """The proxy passes a write on, then breaks the connection: applied, but nobody says so."""

    def lose_reply_of(self, through: Through, what: str, times: int = 1) -> None:
        through.proxy.plan = Script([(what, LoseReply())] * times)

    @pytest.mark.parametrize("generate", [False, True])
    async def test_a_creation_is_not_repeated(self, through: Through, generate: bool) -> None:
        self.lose_reply_of(through, "POST", times=3)
        with pytest.raises(Unreachable):
            await through.faulty.create(PODS, pod(through, "a", generate=generate))
        assert through.proxy.injected["LoseReply"] == 1
        assert len(await names(through, PODS)) == 1

    async def test_a_bind_is_resolved(self, through: Through) -> None:
        (node,) = through.cluster.add_nodes()
        made = await through.client.create(PODS, pod(through), kind=Pod)
        self.lose_reply_of(through, "/binding", times=2)
        await through.faulty.bind("a", through.namespace, node, uid=made.metadata.uid)
        assert through.proxy.injected["LoseReply"] == 2
        assert (await through.client.get(PODS, "a", through.namespace, kind=Pod)).spec.node_name == node

    async def test_a_bind_to_where_somebody_else_put_the_pod_is_a_conflict(self, through: Through) -> None:
        ours, theirs = through.cluster.add_nodes(2)
        made = await through.client.create(PODS, pod(through), kind=Pod)
        await through.client.bind("a", through.namespace, theirs, uid=made.metadata.uid)
        self.lose_reply_of(through, "/binding")
        with pytest.raises(Conflict):
            await through.faulty.bind("a", through.namespace, ours, uid=made.metadata.uid)

    async def test_a_bind_that_never_arrived_is_sent_again(self, through: Through) -> None:
        (node,) = through.cluster.add_nodes()
        made = await through.client.create(PODS, pod(through), kind=Pod)
        through.proxy.plan = Script([("/binding", LoseRequest())])
        await through.faulty.bind("a", through.namespace, node, uid=made.metadata.uid)
        assert (await through.client.get(PODS, "a", through.namespace, kind=Pod)).spec.node_name == node

    async def test_a_deletion_by_uid_is_done(self, through: Through) -> None:
        made = await through.client.create(MAPS, config_map(through, "m"))
        self.lose_reply_of(through, "DELETE")
        await through.faulty.delete(MAPS, "m", through.namespace, uid=made["metadata"]["uid"])
        assert "m" not in await names(through)

    async def test_a_deletion_by_name_alone_is_not_repeated(self, through: Through) -> None:
        await through.client.create(MAPS, config_map(through, "m"))
        self.lose_reply_of(through, "DELETE", times=3)
        with pytest.raises(Unreachable):
            await through.faulty.delete(MAPS, "m", through.namespace)
        assert through.proxy.injected["LoseReply"] == 1

    async def test_an_eviction_is_done(self, through: Through) -> None:
        made = await through.client.create(PODS, pod(through), kind=Pod)
        self.lose_reply_of(through, "/eviction")
        await through.faulty.evict("a", through.namespace, uid=made.metadata.uid)
        assert await names(through, PODS) == []

    async def test_a_compare_and_swap_is_repeated_and_fails_if_it_had_worked(self, through: Through) -> None:
        made = await through.client.create(MAPS, config_map(through, "m", a="1"))
        self.lose_reply_of(through, "PUT")
        with pytest.raises(Conflict):
            await through.faulty.replace(MAPS, {**made, "data": {"a": "2"}})
        assert (await through.client.get(MAPS, "m", through.namespace))["data"] == {"a": "2"}

    async def test_a_patch_that_adds_is_not_repeated(self, through: Through) -> None:
        await through.client.create(PODS, pod(through, finalizers=["a.example/x"]))
        self.lose_reply_of(through, "PATCH", times=3)
        with pytest.raises(Unreachable):
            await through.faulty.patch(
                PODS, "a", through.namespace, JsonPatch().add(("metadata", "finalizers", "-"), "a.example/y")
            )
        read = await through.client.patch(PODS, "a", through.namespace, {"metadata": {"finalizers": None}})
        assert through.proxy.injected["LoseReply"] == 1
        assert read["metadata"]["name"] == "a"

    async def test_an_apply_is_repeated(self, through: Through) -> None:
        self.lose_reply_of(through, "PATCH")
        await through.faulty.apply(MAPS, config_map(through, "m", a="1"), manager="tests")
        assert "m" in await names(through)

    async def test_reads_are_repeated(self, through: Through) -> None:
        await through.client.create(MAPS, config_map(through, "m"))
        through.proxy.plan = Script(
            [
                ("GET", LoseReply()),
                ("GET", LoseRequest()),
                ("GET", Answer(500, "InternalError")),
                ("GET", LoseReply()),
            ]
        )
        assert (await through.faulty.get(MAPS, "m", through.namespace))["metadata"]["name"] == "m"

    async def test_flow_control_is_waited_out_even_by_creations(self, through: Through) -> None:
        through.proxy.plan = Script([("POST", Answer(429, "TooManyRequests", retry_after="0"))] * 2)
        await through.faulty.create(MAPS, config_map(through, "m"))
        assert through.proxy.injected["Answer"] == 2

    async def test_a_server_error_without_a_word_on_coming_back_is_not_repeated(
        self, through: Through
    ) -> None:
        through.proxy.plan = Script([("POST", Answer(500, "InternalError"))])
        with pytest.raises(Exception, match="500"):
            await through.faulty.create(MAPS, config_map(through, "m"))
        assert "m" not in await names(through)


class TestLargeObjects:
    async def test_more_than_a_mebibyte_goes_in_and_comes_out(self, through: Through) -> None:
        blob = base64.b64encode(b"x" * 760_000).decode()
        body = {"metadata": {"name": "big", "namespace": through.namespace}, "data": {"blob": blob}}
        await through.client.create(SECRETS, body)
        read = await through.client.get(SECRETS, "big", through.namespace)
        assert read["data"]["blob"] == blob
        listed = await through.client.list(SECRETS, through.namespace)
        assert any(item["metadata"]["name"] == "big" for item in listed.items)
