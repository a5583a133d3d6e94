"""What to show the API server: tokens and certificates, kept fresh.

Three sources with one shape: what the kubeconfig says, files that another process rewrites (a pod's
service account token lives an hour), and exec plugins that print an ExecCredential. A 401 asks the
source once for something newer; requests that fail together cause one refresh, not many.
"""

from __future__ import annotations

import asyncio
import base64
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import msgspec
import structlog

from fairlead.client.clock import WALL_CLOCK, Clock
from fairlead.client.config import ExecPlugin, Server, Target, User
from fairlead.errors import BadKubeconfig

_log = structlog.get_logger(__name__)

_REREAD_S = 60.0  # as client-go: tokens are rewritten long before they expire
_EARLY_S = 10.0  # refresh before the end, not at it
_PLUGIN_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True)
class Credential:
    """What goes into a request: the Authorization header, and the certificate (chain, key) if any."""

    authorization: str | None = field(default=None, repr=False)
    certificate: tuple[str, str] | None = field(default=None, repr=False)


def source_of(target: Target, *, clock: Clock = WALL_CLOCK) -> FileSource | ExecSource:
    """The source that a configuration calls for.

    It gives the current credential (`get`) and says, after a 401, whether there is now another (`newer`).
    As in client-go: a token (or its file) goes before an exec plugin, which goes before a password.
    """
    user = target.user
    if user.exec is not None and not user.token and user.token_file is None:
        return ExecSource(user.exec, target.server, clock=clock)
    return FileSource(user, clock=clock)


class FileSource:
    """What the kubeconfig says; files of it are re-read once a minute, and at once after a 401.

    A token file that cannot be read now does not undo what was read before: it is being replaced.
    """

    def __init__(self, user: User, *, clock: Clock = WALL_CLOCK) -> None:
        self._user = user
        self._clock = clock
        self._credential: Credential | None = None
        self._read_at = 0.0

    async def get(self) -> Credential:
        """What the files hold, at most a minute old."""
        if self._credential is None or self._clock.now() - self._read_at >= _REREAD_S:
            return self._reread()
        return self._credential

    async def newer(self, used: Credential) -> bool:
        """Whether the files changed since `used` was read."""
        return self._reread() != used

    def _reread(self) -> Credential:
        self._read_at = self._clock.now()
        try:
            path = self._user.token_file
            credential = _read(self._user, _token(path) if path else self._user.token)
        except BadKubeconfig as error:
            if self._credential is None:
                raise
            _log.warning("credentials_not_reread", error=str(error))
            return self._credential
        self._credential = credential
        return credential


def _token(path: Path) -> str:
    try:
        token = path.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise BadKubeconfig(f"{path}: the token cannot be read: {error}") from error
    if not token:
        raise BadKubeconfig(f"{path}: the token is empty")
    return token


def _read(user: User, token: str | None) -> Credential:
    authorization = None
    if token:
        authorization = f"Bearer {token}"
    elif user.basic:
        authorization = "Basic " + base64.b64encode(":".join(user.basic).encode()).decode()
    certificate = user.certificate
    return Credential(authorization, (certificate[0].read(), certificate[1].read()) if certificate else None)


class _Status(msgspec.Struct, rename="camel"):
    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: datetime | None = None


class _ExecCredential(msgspec.Struct, rename="camel"):
    kind: str = ""
    api_version: str = ""
    status: _Status | None = None


class ExecSource:
    """Runs a credential plugin, keeps what it printed until shortly before that expires.

    One run at a time; callers that come meanwhile wait for its result. Cancelled while the plugin runs,
    the plugin and what it started are killed, and the next caller starts it again.
    """

    def __init__(
        self,
        plugin: ExecPlugin,
        server: Server,
        *,
        clock: Clock = WALL_CLOCK,
        is_terminal: Callable[[], bool] = lambda: sys.stdin is not None and sys.stdin.isatty(),
    ) -> None:
        self._plugin = plugin
        self._server = server
        self._clock = clock
        self._is_terminal = is_terminal
        self._lock = asyncio.Lock()
        self._credential: Credential | None = None
        self._ends: datetime | None = None

    async def get(self) -> Credential:
        """What the plugin said last, or says now if that is about to end."""
        if (credential := self._fresh()) is not None:
            return credential
        async with self._lock:
            return self._fresh() or await self._run()

    async def newer(self, used: Credential) -> bool:
        """Run the plugin again, unless it has run since `used` was given out."""
        async with self._lock:
            if self._credential is None or self._credential == used:
                await self._run()
            return self._credential != used

    def _fresh(self) -> Credential | None:
        if self._ends is not None and (self._ends - self._clock.wall()).total_seconds() <= _EARLY_S:
            return None
        return self._credential

    async def _run(self) -> Credential:
        plugin = self._plugin
        interactive = plugin.interactive_mode != "Never" and self._is_terminal()
        if plugin.interactive_mode == "Always" and not interactive:
            raise self._fault("needs a terminal and there is none")
        output = await self._output(interactive)
        self._credential, self._ends = self._parse(output)
        return self._credential

    async def _output(self, interactive: bool) -> bytes:
        # Cancelled while it starts, asyncio would kill the plugin but not what it started in turn.
        starting = asyncio.ensure_future(self._start(interactive))
        try:
            process = await asyncio.shield(starting)
        except asyncio.CancelledError:
            await _kill(await starting, interactive)
            raise
        except OSError as error:
            raise self._fault(f"cannot be started: {error}", hint=True) from error
        try:
            async with asyncio.timeout(None if interactive else _PLUGIN_TIMEOUT_S):
                output, complaints = await process.communicate()
        except TimeoutError as error:
            raise self._fault(f"gave no answer for {_PLUGIN_TIMEOUT_S:.0f} s") from error
        finally:
            await _kill(process, interactive)
        if process.returncode:
            said = (complaints or b"").decode(errors="replace").strip()[-500:]
            ended = f"ended with exit code {process.returncode}: {said}"
            raise self._fault(ended, hint=process.returncode == 127)
        return output

    async def _start(self, interactive: bool) -> asyncio.subprocess.Process:
        plugin = self._plugin
        return await asyncio.create_subprocess_exec(
            plugin.command,
            *plugin.args,
            env={**os.environ, **plugin.env, "KUBERNETES_EXEC_INFO": self._info(interactive)},
            stdin=None if interactive else asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            # A person must see the plugin's questions; a log should have its complaints.
            stderr=None if interactive else asyncio.subprocess.PIPE,
            # A group of its own can be ended as a whole; but only ours may read the terminal.
            start_new_session=not interactive,
        )

    def _info(self, interactive: bool) -> str:
        spec: dict[str, object] = {"interactive": interactive}
        if self._plugin.provide_cluster_info:
            server = self._server
            cluster: dict[str, object] = {"server": server.url, "config": server.exec_config}
            if server.tls_name:
                cluster["tls-server-name"] = server.tls_name
            if not server.verify:
                cluster["insecure-skip-tls-verify"] = True
            if server.ca is not None:
                cluster["certificate-authority-data"] = base64.b64encode(server.ca.read().encode()).decode()
            if server.proxy_url:
                cluster["proxy-url"] = server.proxy_url
            spec["cluster"] = cluster
        info = {"kind": "ExecCredential", "apiVersion": self._plugin.api_version, "spec": spec}
        return msgspec.json.encode(info).decode()

    def _parse(self, output: bytes) -> tuple[Credential, datetime | None]:
        try:
            said = msgspec.json.decode(output, type=_ExecCredential)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise self._fault(f"printed something that is no ExecCredential: {error}") from error
        if said.kind != "ExecCredential" or said.api_version != self._plugin.api_version:
            raise self._fault(
                f"printed {said.api_version or '?'} {said.kind or '?'} "
                f"where {self._plugin.api_version} ExecCredential was asked for"
            )
        status = said.status
        if status is None or not (status.token or status.client_certificate_data):
            raise self._fault("printed neither a token nor a client certificate")
        if bool(status.client_certificate_data) != bool(status.client_key_data):
            raise self._fault("printed a client certificate without its key, or the reverse")
        ends = status.expiration_timestamp
        if ends is not None and ends.tzinfo is None:
            raise self._fault("printed an expirationTimestamp without a time zone")
        certificate = (status.client_certificate_data, status.client_key_data)
        authorization = f"Bearer {status.token}" if status.token else None
        return Credential(authorization, certificate if status.client_certificate_data else None), ends

    def _fault(self, problem: str, *, hint: bool = False) -> BadKubeconfig:
        text = f"{self._plugin.where}: {self._plugin.command} {problem}"
        more = f"\n{self._plugin.install_hint}" if hint and self._plugin.install_hint else ""
        return BadKubeconfig(text + more)


async def _kill(process: asyncio.subprocess.Process, interactive: bool) -> None:
    """End a plugin that still runs, with its children where it has a group of its own."""
    if process.returncode is not None:
        return
    if interactive:
        process.kill()
    else:
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()
