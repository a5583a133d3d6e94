"""Tokens and certificates are kept fresh: files are read again, plugins run again before they expire."""

from __future__ import annotations

import asyncio
import json
import os
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from fairlead.client.clock import Clock
from fairlead.client.config import ExecPlugin, Pem, Server, Target, User
from fairlead.client.credentials import ExecSource, FileSource, source_of
from fairlead.errors import BadKubeconfig

V1 = "client.authentication.k8s.io/v1"
V1BETA1 = "client.authentication.k8s.io/v1beta1"
START = datetime(2030, 1, 1, tzinfo=UTC)


@dataclass
class HandClock:
    """A clock that is moved by hand."""

    seconds: float = 0.0
    clock: Clock = field(init=False)

    def __post_init__(self) -> None:
        self.clock = Clock(lambda: self.seconds, lambda: START + timedelta(seconds=self.seconds))


@dataclass
class Plugin:
    """A real credential plugin: a small script that counts its runs and prints what it is told to."""

    folder: Path
    said: ExecPlugin

    def prints(self, **status: str) -> None:
        self.prints_text(
            json.dumps({"apiVersion": self.said.api_version, "kind": "ExecCredential", "status": status})
        )

    def prints_text(self, text: str) -> None:
        (self.folder / "answer").write_text(text)

    @property
    def runs(self) -> int:
        path = self.folder / "runs"
        return path.read_text().count("x") if path.exists() else 0

    @property
    def was_told(self) -> dict[str, object]:
        told = json.loads((self.folder / "info").read_text())
        assert isinstance(told, dict)
        return told


@pytest.fixture(params=[V1, V1BETA1])
def plugin(request: pytest.FixtureRequest, tmp_path: Path) -> Plugin:
    script = tmp_path / "plugin.sh"
    script.write_text(
        '#!/bin/sh\ncd "$FOLDER"\nprintf x >> runs\nprintf "%s" "$KUBERNETES_EXEC_INFO" > info\n'
        'cat answer "$@"\n'
    )
    script.chmod(0o755)
    said = ExecPlugin(
        "config: user 'dev': exec",
        request.param,
        str(script),
        env={"FOLDER": str(tmp_path)},
        interactive_mode="Never",
    )
    return Plugin(tmp_path, said)


class TestFiles:
    def source(self, tmp_path: Path, clock: HandClock) -> FileSource:
        return FileSource(User(token_file=tmp_path / "token"), clock=clock.clock)

    async def test_a_token_file_is_read_again_after_a_minute(self, tmp_path: Path) -> None:
        clock = HandClock()
        (tmp_path / "token").write_text("one\n")
        source = self.source(tmp_path, clock)
        assert (await source.get()).authorization == "Bearer one"
        (tmp_path / "token").write_text("two\n")
        assert (await source.get()).authorization == "Bearer one"
        clock.seconds += 61
        assert (await source.get()).authorization == "Bearer two"

    async def test_a_refused_token_is_read_again_at_once(self, tmp_path: Path) -> None:
        (tmp_path / "token").write_text("one")
        source = self.source(tmp_path, HandClock())
        used = await source.get()
        assert not await source.newer(used)
        (tmp_path / "token").write_text("two")
        assert await source.newer(used)
        assert (await source.get()).authorization == "Bearer two"

    async def test_a_token_file_that_is_gone_for_a_moment_does_not_undo_the_token(
        self, tmp_path: Path
    ) -> None:
        clock = HandClock()
        (tmp_path / "token").write_text("one")
        source = self.source(tmp_path, clock)
        await source.get()
        (tmp_path / "token").unlink()
        clock.seconds += 61
        assert (await source.get()).authorization == "Bearer one"

    @pytest.mark.parametrize("text", ["", None])
    async def test_no_token_at_the_start_is_an_error_that_names_the_file(
        self, tmp_path: Path, text: str | None
    ) -> None:
        if text is not None:
            (tmp_path / "token").write_text(text)
        with pytest.raises(BadKubeconfig, match="token"):
            await self.source(tmp_path, HandClock()).get()

    async def test_certificate_files_are_read_again(self, tmp_path: Path) -> None:
        clock = HandClock()
        chain, key = tmp_path / "c.pem", tmp_path / "k.pem"
        chain.write_text("C1")
        key.write_text("K1")
        source = FileSource(User(certificate=(Pem(file=chain), Pem(file=key))), clock=clock.clock)
        assert (await source.get()).certificate == ("C1", "K1")
        chain.write_text("C2")
        clock.seconds += 61
        assert (await source.get()).certificate == ("C2", "K1")


class TestWhichSource:
    def target(self, user: User) -> Target:
        return Target(Server("https://x"), user)

    def test_a_token_goes_before_a_plugin(self, plugin: Plugin) -> None:
        assert isinstance(source_of(self.target(User(token="t", exec=plugin.said))), FileSource)
        assert isinstance(source_of(self.target(User(exec=plugin.said))), ExecSource)

    async def test_a_token_file_goes_before_a_token(self, tmp_path: Path) -> None:
        (tmp_path / "token").write_text("file")
        source = source_of(self.target(User(token="t", token_file=tmp_path / "token")))
        assert (await source.get()).authorization == "Bearer file"

    async def test_a_password_is_sent_as_basic(self) -> None:
        source = source_of(self.target(User(basic=("user", "pass"))))
        assert (await source.get()).authorization == "Basic dXNlcjpwYXNz"

    async def test_nothing_is_anonymous(self) -> None:
        assert (await source_of(self.target(User())).get()).authorization is None


class TestPlugins:
    SERVER = Server("https://api", Pem("CA"), tls_name="kubernetes", exec_config={"audience": "a"})

    def source(self, plugin: Plugin, clock: HandClock | None = None) -> ExecSource:
        return ExecSource(
            plugin.said, self.SERVER, clock=(clock or HandClock()).clock, is_terminal=lambda: False
        )

    async def test_what_it_printed_is_used_until_shortly_before_it_expires(self, plugin: Plugin) -> None:
        clock = HandClock()
        plugin.prints(token="one", expirationTimestamp="2030-01-01T01:00:00Z")
        source = self.source(plugin, clock)
        assert (await source.get()).authorization == "Bearer one"
        clock.seconds = 3580
        assert (await source.get()).authorization == "Bearer one"
        assert plugin.runs == 1
        plugin.prints(token="two", expirationTimestamp="2030-01-01T02:00:00Z")
        clock.seconds = 3595
        assert (await source.get()).authorization == "Bearer two"
        assert plugin.runs == 2

    async def test_without_expiry_it_runs_once(self, plugin: Plugin) -> None:
        clock = HandClock()
        plugin.prints(token="one")
        source = self.source(plugin, clock)
        await source.get()
        clock.seconds = 1e7
        await source.get()
        assert plugin.runs == 1

    async def test_those_who_come_together_share_one_run(self, plugin: Plugin) -> None:
        plugin.prints(token="one")
        source = self.source(plugin)
        await asyncio.gather(*(source.get() for _ in range(5)))
        assert plugin.runs == 1

    async def test_a_refused_token_makes_it_run_again_once_for_all_who_used_it(self, plugin: Plugin) -> None:
        plugin.prints(token="one")
        source = self.source(plugin)
        used = await source.get()
        plugin.prints(token="two")
        assert await asyncio.gather(*(source.newer(used) for _ in range(5))) == [True] * 5
        assert plugin.runs == 2
        assert (await source.get()).authorization == "Bearer two"

    async def test_the_same_token_again_is_not_newer(self, plugin: Plugin) -> None:
        plugin.prints(token="one")
        source = self.source(plugin)
        assert not await source.newer(await source.get())

    async def test_it_may_print_a_client_certificate(self, plugin: Plugin) -> None:
        plugin.prints(clientCertificateData="C", clientKeyData="K")
        assert (await self.source(plugin).get()).certificate == ("C", "K")

    async def test_it_is_told_about_itself_and_on_request_about_the_cluster(self, plugin: Plugin) -> None:
        plugin.prints(token="one")
        await self.source(plugin).get()
        asked = {
            "kind": "ExecCredential",
            "apiVersion": plugin.said.api_version,
            "spec": {"interactive": False},
        }
        assert plugin.was_told == asked
        plugin.said = replace(plugin.said, provide_cluster_info=True)
        await self.source(plugin).get()
        spec = plugin.was_told["spec"]
        assert isinstance(spec, dict)
        assert spec["cluster"] == {
            "server": "https://api",
            "tls-server-name": "kubernetes",
            "certificate-authority-data": "Q0E=",
            "config": {"audience": "a"},
        }

    async def test_one_that_needs_a_terminal_says_so_when_there_is_none(self, plugin: Plugin) -> None:
        plugin.said = replace(plugin.said, interactive_mode="Always")
        with pytest.raises(BadKubeconfig, match="needs a terminal"):
            await self.source(plugin).get()
        assert plugin.runs == 0

    async def test_one_that_is_not_installed_gives_its_hint(self, plugin: Plugin) -> None:
        plugin.said = replace(plugin.said, command="no-such-plugin", install_hint="get it from the shop")
        with pytest.raises(
            BadKubeconfig, match=r"user 'dev': exec: no-such-plugin cannot be started.*\nget it"
        ):
            await self.source(plugin).get()

    async def test_one_that_fails_is_quoted(self, plugin: Plugin) -> None:
        plugin.prints(token="one")
        plugin.said = replace(plugin.said, args=("/no/such/file",))
        with pytest.raises(BadKubeconfig, match=r"ended with exit code 1: .*/no/such/file"):
            await self.source(plugin).get()

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("hello", "no ExecCredential"),
            ('{"kind":"ExecCredential","apiVersion":"other/v1"}', "printed other/v1 ExecCredential"),
            ('{"kind":"ExecCredential","apiVersion":"%s","status":{}}', "neither a token nor"),
            (
                '{"kind":"ExecCredential","apiVersion":"%s","status":{"clientCertificateData":"C"}}',
                "without its key",
            ),
        ],
    )
    async def test_one_that_prints_nonsense_is_named(self, plugin: Plugin, text: str, said: str) -> None:
        plugin.prints_text(text.replace("%s", plugin.said.api_version))
        with pytest.raises(BadKubeconfig, match=f"user 'dev': exec: .*{said}"):
            await self.source(plugin).get()

    async def test_cancelled_it_is_killed_with_what_it_started(self, plugin: Plugin) -> None:
        fifo = plugin.folder / "answer"
        os.mkfifo(fifo)  # the script's own child waits on it, for as long as nobody writes
        async with asyncio.TaskGroup() as group:
            task = group.create_task(self.source(plugin).get())
            writer = await asyncio.to_thread(os.open, fifo, os.O_WRONLY)  # returns once it is being read
            task.cancel()
        assert task.cancelled()
        try:
            with pytest.raises(BrokenPipeError):  # the last reader is dead: the write waits for no one else
                os.write(writer, b"x" * (1 << 20))
        finally:
            os.close(writer)
