"""The policies that hold now, from the cluster, from a file, or from both."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from fairlead.errors import BadInput
from fairlead.feed.policies import LivePolicies, read_file
from fairlead.policy.names import POLICIES
from support.cluster import Cluster, EmbeddedHost
from support.policies import add_policy, plain_policy, serve_policies
from support.wire import PATIENCE_S


def write(path: Path, *documents: Any) -> str:
    path.write_text(yaml.safe_dump_all(documents))
    return str(path)


@asynccontextmanager
async def live(where: Cluster, **sources: Any) -> AsyncIterator[LivePolicies]:
    async with where.client() as client:
        policies = LivePolicies(client, **sources)
        running = asyncio.create_task(policies.run())
        try:
            async with asyncio.timeout(PATIENCE_S):
                await policies.synced()
            yield policies
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


async def until(policies: LivePolicies, holds: Callable[[], bool]) -> None:
    """Wait for a change after which it holds."""
    changed = asyncio.Event()
    policies.on_change(changed.set)
    async with asyncio.timeout(PATIENCE_S):
        while not holds():
            await changed.wait()
            changed.clear()


class TestFiles:
    def test_a_stream_of_policies_is_read_in_the_order_of_names(self, tmp_path: Path) -> None:
        file = write(tmp_path / "p.yaml", plain_policy("b"), None, plain_policy("a"))
        assert [policy.name for policy in read_file(file)] == ["a", "b"]

    def test_what_kubectl_prints_is_read_too(self, tmp_path: Path) -> None:
        listed = {"apiVersion": "v1", "kind": "List", "items": [plain_policy("a"), plain_policy("b")]}
        assert len(read_file(write(tmp_path / "p.yaml", listed))) == 2

    @pytest.mark.parametrize(
        ("text", "says"),
        [
            ("", "has no PlacementPolicy"),
            ("a: [", "is neither YAML nor JSON"),
            ("spec:\n  weight: 1\n  weight: 2", "line 3: 'weight' is given twice"),
            ("- 1", "not an object"),
            (yaml.safe_dump(plain_policy(enforce="maybe")), "spec.enforce"),
            (yaml.safe_dump_all([plain_policy(), plain_policy()]), "there are two of that name"),
        ],
        ids=["empty", "no YAML", "key twice", "no object", "bad policy", "twice"],
    )
    def test_a_bad_file_is_an_error_that_names_it(self, tmp_path: Path, text: str, says: str) -> None:
        file = tmp_path / "p.yaml"
        file.write_text(text)
        with pytest.raises(BadInput, match=r"p\.yaml") as caught:
            read_file(str(file))
        assert says in str(caught.value)

    def test_a_file_that_is_not_there_is_an_error(self) -> None:
        with pytest.raises(BadInput, match="cannot be read"):
            read_file("/nowhere/p.yaml")


class TestClusters:
    async def test_policies_come_change_and_go(self, cluster: Cluster) -> None:
        await asyncio.to_thread(serve_policies, cluster)
        async with live(cluster) as policies:
            made = add_policy(cluster, plain_policy("web"))
            name = made["metadata"]["name"]
            await until(policies, lambda: policies.get(name) is not None)
            changed = {"spec": {"enforce": "preferred"}}
            cluster.patch(POLICIES, name, changed)
            await until(
                policies, lambda: (p := policies.get(name)) is not None and p.spec.enforce == "preferred"
            )
            cluster.delete(POLICIES, name)
            await until(policies, lambda: policies.get(name) is None)

    async def test_a_bad_policy_is_left_out_and_the_rest_work(self, cluster: Cluster) -> None:
        await asyncio.to_thread(serve_policies, cluster)
        bad = add_policy(cluster, plain_policy("bad", singleReplica="nowhere"))["metadata"]["name"]
        good = add_policy(cluster, plain_policy("good"))["metadata"]["name"]
        async with live(cluster) as policies:
            assert policies.get(good) is not None
            assert policies.get(bad) is None
            assert "there is no tier 'nowhere'" in policies.refused[bad]
            assert {bad, good} <= set(policies.stored_names())
            cluster.patch(POLICIES, bad, {"spec": {"singleReplica": "spot"}})
            await until(policies, lambda: policies.get(bad) is not None)
            assert bad not in policies.refused

    async def test_a_policy_that_turns_bad_no_longer_holds(self, cluster: Cluster) -> None:
        await asyncio.to_thread(serve_policies, cluster)
        name = add_policy(cluster, plain_policy("web"))["metadata"]["name"]
        async with live(cluster) as policies:
            assert policies.get(name) is not None
            cluster.patch(POLICIES, name, {"spec": {"singleReplica": "nowhere"}})
            await until(policies, lambda: policies.get(name) is None)
            assert name in policies.refused

    async def test_a_changed_status_leaves_the_policies_the_same(self, cluster: Cluster) -> None:
        await asyncio.to_thread(serve_policies, cluster)
        name = add_policy(cluster, plain_policy("web"))["metadata"]["name"]
        async with live(cluster) as policies:
            before = policies.get(name)
            cluster.patch(POLICIES, name, {"status": {"pods": 7}}, sub="status")
            await until(policies, lambda: policies.status(name).get("pods") == 7)
            assert policies.get(name) is before


class TestClustersWithoutTheDefinition:
    async def test_they_have_no_policies_and_nobody_waits_for_any(self) -> None:
        host = EmbeddedHost()
        cluster = Cluster(host)
        try:
            async with live(cluster) as policies:
                assert policies.policies == ()
                assert policies.checks() == {"policies": ""}
        finally:
            cluster.close()
            host.stop()


class TestBoth:
    async def test_the_files_policy_holds_where_both_have_one_of_its_name(
        self, cluster: Cluster, tmp_path: Path
    ) -> None:
        await asyncio.to_thread(serve_policies, cluster)
        name = add_policy(cluster, plain_policy("web"))["metadata"]["name"]
        file = write(tmp_path / "p.yaml", plain_policy(name, enforce="preferred"), plain_policy("more"))
        async with live(cluster, file=file) as policies:
            found = policies.get(name)
            assert found is not None
            assert found.spec.enforce == "preferred"
            assert policies.from_file(name)
            assert policies.get("more") is not None

    async def test_a_file_alone_needs_nothing_of_the_cluster(self, cluster: Cluster, tmp_path: Path) -> None:
        async with live(cluster, file=write(tmp_path / "p.yaml", plain_policy()), cluster=False) as policies:
            assert [policy.name for policy in policies.policies] == ["web"]

    @pytest.mark.slow
    async def test_a_changed_file_is_read_again_and_a_bad_one_changes_nothing(
        self, cluster: Cluster, tmp_path: Path
    ) -> None:
        path = tmp_path / "p.yaml"
        async with live(cluster, file=write(path, plain_policy("a")), cluster=False) as policies:
            path.write_text("a: [")
            write(tmp_path / "next.yaml", plain_policy("b"))
            assert policies.get("a") is not None
            os.replace(tmp_path / "next.yaml", path)
            await until(policies, lambda: policies.get("b") is not None)
            assert policies.get("a") is None
