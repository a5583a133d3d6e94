"""Marks as every door sees them: in a policy's status, or in the ConfigMap for all policies of files."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from structlog.testing import capture_logs

from fairlead.client import config as kubeconfig
from fairlead.client.api import Client
from fairlead.client.connection import Connection
from fairlead.feed.marks import LiveMarks
from fairlead.feed.marks_map import MARKS_MAP, key_of
from fairlead.feed.policies import LivePolicies
from fairlead.policy.names import POLICIES
from fairlead.policy.tiers.marks import Marks
from support.cluster import Cluster
from support.faults import Answer, Faithful, FaultProxy, RequestFault
from support.manifests import config_map
from support.policies import add_policy, plain_policy, serve_policies
from support.wire import MERGE_PATCH, PATIENCE_S


class Kept:
    """A policy of a test, from a file or on the cluster, and where its marks are."""

    def __init__(self, cluster: Cluster, kind: str, folder: Path, *others: str) -> None:
        """`others` are the names of more policies in the file."""
        self.cluster = cluster
        self.file = ""
        plain = plain_policy("web", fallback={"coolDown": "1m"})
        serve_policies(cluster)
        if kind == "file":
            plain["metadata"]["name"] = cluster.unique("web")
            written = [plain, *(plain | {"metadata": {"name": other}} for other in others)]
            (folder / "policies.yaml").write_text(yaml.safe_dump_all(written))
            self.file = str(folder / "policies.yaml")
        else:
            add_policy(cluster, plain)
        self.name = plain["metadata"]["name"]

    def stored(self) -> dict[str, Any]:
        """The marks as the API has them."""
        if self.file:
            found = self.cluster.get("ConfigMap", MARKS_MAP)
            marks: dict[str, Any] = json.loads(found.get("data", {}).get(key_of(self.name), "{}"))
            return marks
        return dict(self.status().get("marks") or {})

    def status(self) -> dict[str, Any]:
        """The policy's status."""
        found = self.cluster.wire.request("GET", POLICIES.path(None, self.name)).ok()
        return dict(found.get("status", {}))

    def say(self, status: dict[str, Any]) -> None:
        """Write part of the policy's status."""
        path = POLICIES.path(None, self.name, "status")
        self.cluster.wire.request("PATCH", path, {"status": status}, content_type=MERGE_PATCH).ok()

    @asynccontextmanager
    async def door(self, client: Client) -> AsyncIterator[LiveMarks]:
        """A door's view of the marks, read and followed."""
        policies = LivePolicies(client, file=self.file)
        marks = LiveMarks(client, policies, self.cluster.namespace)
        tasks = [asyncio.ensure_future(policies.run()), asyncio.ensure_future(marks.run())]
        await marks.synced()
        try:
            yield marks
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


@pytest.fixture(params=["cluster", "file"])
def kept(cluster: Cluster, request: pytest.FixtureRequest, tmp_path: Path) -> Kept:
    return Kept(cluster, request.param, tmp_path)


@pytest.fixture
def stored(cluster: Cluster, tmp_path: Path) -> Kept:
    """A policy of the cluster."""
    return Kept(cluster, "cluster", tmp_path)


@pytest.fixture
def filed(cluster: Cluster, tmp_path: Path) -> Kept:
    """A policy of a file."""
    return Kept(cluster, "file", tmp_path)


OTHERS = [f"other-{number}" for number in range(6)]
NO_KEYS = ["Spot / EU", "..", ".", "..hidden", "x" * 254]


@pytest.fixture
def many(cluster: Cluster, tmp_path: Path) -> Kept:
    """Many policies of one file, some of whose names are no keys of a ConfigMap."""
    return Kept(cluster, "file", tmp_path, *OTHERS, *NO_KEYS)


class Counted(Faithful):
    """Counts what is asked of policies one by one, and refuses writes when told to."""

    def __init__(self) -> None:
        super().__init__()
        self.requests: list[str] = []
        self.refuses = False

    def on_request(self, method: str, path: str) -> RequestFault | None:
        if f"{POLICIES.plural}/" in path:
            self.requests.append(method)
            if self.refuses:
                return Answer(403, "Forbidden")
        return None


class Forbidden(Faithful):
    """Nobody may read ConfigMaps."""

    def on_request(self, method: str, path: str) -> RequestFault | None:
        return Answer(403, "Forbidden") if "configmaps" in path else None


class NotCreated(Faithful):
    """Nobody may create ConfigMaps."""

    def on_request(self, method: str, path: str) -> RequestFault | None:
        return Answer(403, "Forbidden") if "configmaps" in path and method == "POST" else None


async def until(marks: LiveMarks, policy: str, holds: Any) -> None:
    """Wait until a door sees marks like this."""
    news = asyncio.Event()
    marks.on_change(news.set)
    async with asyncio.timeout(PATIENCE_S):
        while not holds(marks.of(policy)):
            news.clear()
            await news.wait()


async def test_what_one_door_marks_every_door_sees(kept: Kept) -> None:
    now = time.time()
    async with kept.cluster.client() as client, kept.door(client) as one, kept.door(client) as other:
        await one.change(kept.name, lambda marks: marks.failed("spot", now, reason="nobody came"))
        assert one.unavailable(kept.name) == {"spot"}, "what we wrote ourselves counts at once"
        await until(other, kept.name, lambda marks: marks.get("spot") is not None)
        assert kept.stored()["spot"]["reason"] == "nobody came"
        await other.change(kept.name, lambda marks: marks.cleared("spot"))
        await until(one, kept.name, lambda marks: marks.get("spot") is None)
        assert kept.stored() == {}


async def test_of_many_who_claim_a_probe_at_once_one_gets_it(kept: Kept) -> None:
    now = time.time()
    async with kept.cluster.client() as client, kept.door(client) as one, kept.door(client) as other:
        await one.change(kept.name, lambda marks: marks.failed("spot", now - 100))
        await until(other, kept.name, lambda marks: marks.may_probe("spot", now))
        won = await asyncio.gather(
            *(door.claim_probe(kept.name, "spot", f"pod-{n}", now) for n in range(4) for door in (one, other))
        )
        # Both doors let "pod-0" in if it won: it is one pod.
        winner = kept.stored()["spot"]["probe"]
        assert sum(won) >= 1
        assert [n // 2 for n, got in enumerate(won) if got].count(int(winner[-1])) == sum(won)
        assert await one.claim_probe(kept.name, "spot", winner, now)


async def test_one_claim_answers_for_all_who_ask_at_the_same_time(stored: Kept) -> None:
    upstream, counted, now = kubeconfig.load(stored.cluster.kubeconfig), Counted(), time.time()
    async with (
        FaultProxy(upstream, counted) as proxy,
        Connection(proxy.target) as connection,
        stored.door(Client(connection)) as marks,
    ):
        await marks.change(stored.name, lambda found: found.failed("spot", now - 100))
        counted.requests.clear()
        claims = [marks.claim_probe(stored.name, "spot", f"pod-{n}", now) for n in range(50)]
        assert sum(await asyncio.gather(*claims)) == 1
        assert counted.requests == ["PATCH"]


async def test_a_claim_that_could_not_be_written_is_nobodys_and_the_next_may_try(stored: Kept) -> None:
    upstream, counted, now = kubeconfig.load(stored.cluster.kubeconfig), Counted(), time.time()
    async with (
        FaultProxy(upstream, counted) as proxy,
        Connection(proxy.target) as connection,
        stored.door(Client(connection)) as marks,
    ):
        await marks.change(stored.name, lambda found: found.failed("spot", now - 100))
        counted.refuses = True
        claims = [marks.claim_probe(stored.name, "spot", f"pod-{n}", now) for n in range(5)]
        assert await asyncio.gather(*claims) == [False] * 5
        counted.refuses = False
        assert await marks.claim_probe(stored.name, "spot", "pod-5", now)


async def test_marks_that_do_not_change_are_not_written(kept: Kept) -> None:
    async with kept.cluster.client() as client, kept.door(client) as marks:
        await marks.change(kept.name, lambda found: found.failed("spot", time.time()))
        before = kept.stored()

        def nothing(found: Marks) -> Marks:
            return found.failed("spot", time.time())

        held = await marks.change(kept.name, nothing)
        assert held is not None
        assert kept.stored() == before


async def test_a_change_meets_the_marks_as_they_are_when_it_is_written(kept: Kept) -> None:
    now = time.time()
    async with kept.cluster.client() as client, kept.door(client) as one, kept.door(client) as other:
        await asyncio.gather(
            one.change(kept.name, lambda marks: marks.failed("spot", now)),
            other.change(kept.name, lambda marks: marks.interrupted("on-demand", now)),
        )
        assert sorted(kept.stored()) == ["on-demand", "spot"]


async def test_the_rest_of_a_policy_s_status_is_left_alone(stored: Kept) -> None:
    stored.say({"groups": 3, "desired": "spot 2"})
    async with stored.cluster.client() as client, stored.door(client) as marks:
        await marks.change(stored.name, lambda found: found.failed("spot", time.time()))
        status = stored.status()
        assert (status["groups"], status["desired"]) == (3, "spot 2")
        assert list(status["marks"]) == ["spot"]


async def test_marks_that_nobody_can_read_are_as_none_and_are_replaced(stored: Kept) -> None:
    stored.say({"marks": {"spot": {"until": "some day"}, "old": {"until": "never"}}})
    async with stored.cluster.client() as client, stored.door(client) as marks:
        assert not list(marks.of(stored.name))
        await marks.change(stored.name, lambda found: found.failed("spot", time.time()))
        assert list(stored.stored()) == ["spot"]
        assert "since" in stored.stored()["spot"]


async def test_a_door_that_may_not_read_marks_does_without_and_says_so_once(filed: Kept) -> None:
    upstream = kubeconfig.load(filed.cluster.kubeconfig)
    with capture_logs() as said:
        async with (
            asyncio.timeout(PATIENCE_S),
            FaultProxy(upstream, Forbidden()) as proxy,
            Connection(proxy.target) as connection,
            filed.door(Client(connection)) as marks,
        ):
            await marks.synced()
            assert not list(marks.of(filed.name))
    assert [one["log_level"] for one in said if one["event"] == "marks_unread"] == ["warning"]


def marks_map(kept: Kept) -> dict[str, Any]:
    """The ConfigMap as the API has it."""
    found: dict[str, Any] = kept.cluster.get("ConfigMap", MARKS_MAP)
    return found


def ship(kept: Kept, **data: str) -> None:
    """Create the ConfigMap as the manifests do."""
    kept.cluster.create(config_map(MARKS_MAP, data=data, labels={"shipped": "yes"}))


async def test_policies_that_are_marked_at_once_by_several_doors_all_keep_their_marks(many: Kept) -> None:
    now = time.time()
    ship(many)
    async with many.cluster.client() as client, many.door(client) as one, many.door(client) as other:
        await asyncio.gather(
            *(
                door.change(name, lambda marks, tier=tier: marks.failed(tier, now))
                for door, tier in ((one, "spot"), (other, "on-demand"))
                for name in OTHERS
            )
        )
        stored = marks_map(many)
        assert {key: sorted(json.loads(text)) for key, text in stored["data"].items()} == {
            name: ["on-demand", "spot"] for name in OTHERS
        }
        assert stored["metadata"]["labels"] == {"shipped": "yes"}, "the rest of the object is left alone"
        for name in OTHERS:
            await until(one, name, lambda marks: len(list(marks)) == 2)


async def test_a_policy_without_marks_has_no_key(filed: Kept) -> None:
    ship(filed)
    async with filed.cluster.client() as client, filed.door(client) as marks:
        await marks.change(filed.name, lambda found: found.failed("spot", time.time()))
        assert list(marks_map(filed)["data"]) == [filed.name]
        await marks.change(filed.name, lambda found: found.cleared("spot"))
        assert "data" not in marks_map(filed)


async def test_the_keys_of_policies_that_are_gone_are_removed_with_the_next_write(filed: Kept) -> None:
    now = time.time()

    def marked(at: float) -> str:
        return json.dumps(Marks(cool_down_s=60).failed("spot", at).to_plain())

    ship(filed, gone=marked(now - 24 * 3600), unreadable="?", elsewhere=marked(now))
    async with filed.cluster.client() as client, filed.door(client) as marks:
        await marks.change(filed.name, lambda found: found.failed("spot", now))
    # Another process may have that one in its own file.
    assert sorted(marks_map(filed)["data"]) == sorted(["elsewhere", filed.name])


async def test_policies_whose_names_are_no_keys_of_a_config_map_are_marked_all_the_same(many: Kept) -> None:
    now = time.time()
    async with many.cluster.client() as client, many.door(client) as one, many.door(client) as other:
        for number, name in enumerate(NO_KEYS):
            await one.change(name, lambda marks, tier=f"tier-{number}": marks.failed(tier, now))
        for number, name in enumerate(NO_KEYS):
            await until(other, name, lambda marks, tier=f"tier-{number}": [key for key, _ in marks] == [tier])


async def test_without_the_config_map_and_the_right_to_create_one_marks_hold_in_the_process(
    filed: Kept,
) -> None:
    upstream, now = kubeconfig.load(filed.cluster.kubeconfig), time.time()
    with capture_logs() as said:
        async with (
            asyncio.timeout(PATIENCE_S),
            FaultProxy(upstream, NotCreated()) as proxy,
            Connection(proxy.target) as connection,
            filed.door(Client(connection)) as marks,
        ):
            await marks.change(filed.name, lambda found: found.failed("spot", now))
            await marks.change(filed.name, lambda found: found.failed("on-demand", now))
            assert marks.unavailable(filed.name) == {"spot", "on-demand"}
            ship(filed)
            await until(marks, filed.name, lambda found: not list(found))
            await marks.change(filed.name, lambda found: found.failed("spot", now))
            assert list(filed.stored()) == ["spot"]
    (once,) = [one for one in said if one["event"] == "marks_not_shared"]
    assert once["todo"] == "kubectl apply -k deploy/policies"
