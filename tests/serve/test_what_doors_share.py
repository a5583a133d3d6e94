"""What several doors do in the same way: follow files, make their namespace, say what went wrong."""

from __future__ import annotations

import asyncio
import functools
import os
import ssl
from pathlib import Path
from typing import Any

import pytest

from fairlead.client.api import Client
from fairlead.client.authority import Authority, KeyPair
from fairlead.client.namespaces import in_namespace
from fairlead.client.tls import client_context
from fairlead.doors.certificates import Files, Shown
from fairlead.doors.health import serving
from fairlead.doors.tasks import worst
from fairlead.errors import Conflict, LeaseLost, Unreachable
from fairlead.feed.files import stamp_of
from fairlead.kube.resources import known
from support.cluster import Cluster
from support.wire import PATIENCE_S

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


class TestCertificatesFromFiles:
    def write(self, folder: Path, *, certificate: bytes | None = None, key: bytes | None = None) -> None:
        for name, content in (("tls.crt", certificate), ("tls.key", key)):
            if content is not None:
                (folder / "new").write_bytes(content)
                (folder / "new").rename(folder / name)

    async def test_half_of_a_renewal_is_never_shown_and_the_whole_is(self, tmp_path: Path) -> None:
        authority, shown = Authority(), Shown()
        old, new = (authority.server(["localhost"], ["127.0.0.1"]) for _ in range(2))
        tried, taken = asyncio.Event(), asyncio.Event()

        def show(pair: KeyPair) -> None:
            tried.set()
            shown.show(pair)
            if pair == new:
                taken.set()

        self.write(tmp_path, certificate=old.public, key=old.private)
        files = Files(str(tmp_path / "tls.crt"), str(tmp_path / "tls.key"), None, show, look_s=0.02)
        await files.first()
        async with (
            serving("127.0.0.1:0", checks=dict, metrics=bytes, tls=shown) as url,
            asyncio.TaskGroup() as group,
        ):
            following = group.create_task(files.run())

            async def presented() -> bytes:
                trusting = client_context(ca_pem=authority.pair.public.decode())
                port = int(url.rpartition(":")[2])
                _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trusting)
                found: bytes = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
                writer.close()
                await writer.wait_closed()
                return found

            first = await presented()
            await tried.wait()  # the first look, at what is known
            tried.clear()
            self.write(tmp_path, certificate=new.public)
            async with asyncio.timeout(PATIENCE_S):
                await tried.wait()
            assert await presented() == first
            self.write(tmp_path, key=new.private)
            async with asyncio.timeout(PATIENCE_S):
                await taken.wait()
            assert await presented() == ssl.PEM_cert_to_DER_cert(new.public.decode())
            following.cancel()


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
