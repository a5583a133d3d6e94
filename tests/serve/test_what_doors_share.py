"""What several doors do in the same way: follow files, make their namespace, say what went wrong."""

from __future__ import annotations

import asyncio
import functools
import os
from pathlib import Path
from typing import Any

import pytest

from fairlead.client.api import Client
from fairlead.doors.failures import worst
from fairlead.doors.files import stamp_of
from fairlead.doors.namespaces import in_namespace
from fairlead.errors import Conflict, LeaseLost, Unreachable
from fairlead.kube.resources import known
from support.cluster import Cluster

CONFIG_MAP = known("ConfigMap")


class TestWorst:
    AWAY, LOST, DEFECT = Unreachable("away"), LeaseLost("lost"), ZeroDivisionError()

    def test_a_defect_comes_before_our_own_errors_however_deep_it_is(self) -> None:
        inner = BaseExceptionGroup("", [self.LOST, BaseExceptionGroup("", [self.DEFECT])])
        assert worst(BaseExceptionGroup("", [self.AWAY, inner])) is self.DEFECT

    def test_of_our_own_errors_the_first_is_it(self) -> None:
        assert worst(BaseExceptionGroup("", [self.AWAY, self.LOST])) is self.AWAY

    def test_what_is_asked_for_comes_before_all(self) -> None:
        several = BaseExceptionGroup("", [self.DEFECT, self.AWAY, self.LOST])
        assert worst(several, LeaseLost, ZeroDivisionError) is self.LOST
        assert worst(several, KeyError, ZeroDivisionError) is self.DEFECT


class TestStamps:
    def test_a_file_has_another_when_it_is_replaced_by_an_older_one(self, tmp_path: Path) -> None:
        file, other = tmp_path / "file", tmp_path / "other"
        file.write_text("a")
        other.write_text("b")
        os.utime(file, (1000, 1000))
        os.utime(other, (1000, 1000))
        before = stamp_of(str(file))
        assert stamp_of(str(file)) == before is not None
        other.rename(file)
        assert stamp_of(str(file)) not in (before, None)

    def test_a_file_that_is_away_has_none(self, tmp_path: Path) -> None:
        assert stamp_of(str(tmp_path / "none")) is None


class TestNamespaces:
    """Replicas that create one thing each, all at once, where nobody made the namespace yet."""

    async def create(self, client: Client, namespace: str, name: str) -> dict[str, Any]:
        body = {"metadata": {"name": name, "namespace": namespace}}
        return await in_namespace(client, namespace, functools.partial(client.create, CONFIG_MAP, body))

    async def test_it_is_made_once_for_all(self, cluster: Cluster) -> None:
        namespace = cluster.unique("system")
        async with cluster.client() as client:
            made = await asyncio.gather(*(self.create(client, namespace, f"c{n}") for n in range(5)))
            cluster.owns(cluster.path("Namespace", namespace, namespace=None))
            assert sorted(one["metadata"]["name"] for one in made) == [f"c{n}" for n in range(5)]

    async def test_what_is_there_already_is_a_conflict_as_ever(self, cluster: Cluster) -> None:
        async with cluster.client() as client:
            await self.create(client, cluster.namespace, "same")
            with pytest.raises(Conflict):
                await self.create(client, cluster.namespace, "same")
