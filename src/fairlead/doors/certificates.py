"""The certificate that a port shows, renewed without closing a connection, and whose callers are believed.

A handshake sees one certificate and key that belong together, never half of a renewal: each pair has a
context of its own, and the next handshake is given the newest.
"""

from __future__ import annotations

import asyncio
import itertools
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Protocol

import structlog
from aiohttp import web

from fairlead.client.authority import KeyPair
from fairlead.client.tls import load_pair
from fairlead.errors import ApiError, BadInput, Unreachable
from fairlead.feed.files import Stamp, follow, stamp_of

_log = structlog.get_logger(__name__)

_LOOK_S = 5.0  # how often files are looked at
_PUBLISH_LOOKS = 12  # 12 looks make a minute: as often as our own authority's are published again


Current = Callable[[], Awaitable[bool]]


class Trust(Protocol):
    """Where authorities are published: the registration, if it is ours."""

    async def publish(self, bundle: bytes, current: Current | None = None) -> bool:
        """Have the API server trust these authorities, and no others.

        `current` is asked between looking at what it trusts and changing that: where it says that these
        are outdated, nothing is changed, and the answer is no.
        """

    async def trusts(self, authority: bytes) -> bool:
        """Whether the API server trusts it; yes where nothing is registered."""


class Shown:
    """The certificate that new connections are shown, and whose callers' certificates are believed.

    A connection outlives a change of the certificate, but not of the trusted signers: its caller's signer may
    have been removed. For the same reason no session can be taken up again: TLS 1.3, and no tickets.
    """

    def __init__(self, *, ask: bool = False) -> None:
        """With `ask`, callers may show a certificate too: one whose signer was given to `trust`, or none.

        None must do, because the kubelet asks for our health without one; `certified` says which have one.
        """
        self._ask = ask
        self._pair: KeyPair | None = None
        self._callers = ""
        self._changed: list[Callable[[], None]] = []
        self.context = self._new(None, "")
        # Asked for every handshake, also where the client names no server.
        self.context.sni_callback = self._choose
        self._present = self.context

    def show(self, pair: KeyPair) -> None:
        """From the next handshake on; BadInput where the pair cannot be used, and the last one stays."""
        self._present = self._new(pair, self._callers)
        self._pair = pair

    def trust(self, callers: str) -> None:
        """Believe callers whose certificate one of these (PEM) signed, and no others, from the next one on.

        BadInput where that cannot be used, and the last one stays.
        """
        if not callers.strip():
            raise BadInput("it has no certificates")
        self._present = self._new(self._pair, callers)
        if callers != self._callers:
            self._callers = callers
            for changed in self._changed:
                changed()

    def on_change(self, changed: Callable[[], None]) -> None:
        """Have `changed` called when other callers are believed: connections that are open must go."""
        self._changed.append(changed)

    def _new(self, pair: KeyPair | None, callers: str) -> ssl.SSLContext:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.num_tickets = 0
        if self._ask:
            # The mode is the first context's; the trusted signers are those of the one it is swapped for.
            context.verify_mode = ssl.CERT_OPTIONAL
            context.verify_flags &= ~ssl.VERIFY_X509_STRICT  # many clusters' authorities are not that strict
        if callers:
            try:
                context.load_verify_locations(cadata=callers)
            except (ssl.SSLError, ValueError) as error:
                raise BadInput(f"it has no certificates that can be used: {error}") from error
        if pair is not None:
            try:
                load_pair(context, pair.public.decode(), pair.private.decode())
            except (ssl.SSLError, ValueError) as error:
                raise BadInput(f"the certificate and key cannot be used together: {error}") from error
        return context

    def _choose(self, connection: Any, _name: str | None, _context: ssl.SSLContext) -> None:
        connection.context = self._present


def certified(http: web.Request) -> bool:
    """Whether the caller has shown a certificate; the handshake has seen to it that it is to be believed."""
    return http.transport is not None and bool(http.transport.get_extra_info("peercert"))


class Files:
    """Certificates from files that another program renews. `authority`: a file with their signers; without
    one nothing is published, and what others put into the registration stays there.
    """

    def __init__(
        self,
        certificate: str,
        key: str,
        authority: str | None,
        show: Callable[[KeyPair], None],
        *,
        look_s: float = _LOOK_S,
    ) -> None:
        every = {"--tls-cert-file": certificate, "--tls-key-file": key, "--tls-ca-file": authority}
        self._flags = {flag: file for flag, file in every.items() if file}
        self._files = list(self._flags.values())
        self._show = show
        self._look_s = look_s

    async def first(self) -> bytes:
        """Read them; BadInput says which cannot be used."""
        pair, bundle = self._read()
        self._show(pair)
        return bundle

    async def current(self) -> bool:
        """See `Certificates`: files are this process's own."""
        return True

    async def run(self, trust: Trust | None = None) -> None:
        """Follow them for ever; their authority is published to `trust`, also again and again: the entry it
        was published in may have been deleted.

        A pair that is half renewed is not shown: the next look finds it whole.
        """
        known_stamps: list[Stamp | None] | None = None
        bundle = b""
        for look in itertools.count():
            stamps = [stamp_of(file) for file in self._files]
            try:
                if stamps != known_stamps:
                    pair, bundle = self._read()
                    if bundle and trust is not None:
                        await trust.publish(bundle)
                    self._show(pair)
                    known_stamps = stamps
                elif trust is not None and look % _PUBLISH_LOOKS == 0:
                    await trust.publish(bundle)
            except (BadInput, ApiError, Unreachable) as error:
                event = "certificate_not_taken" if stamps != known_stamps else "not_registered"
                _log.warning(event, reason=str(error))
            await asyncio.sleep(self._look_s)

    def _read(self) -> tuple[KeyPair, bytes]:
        contents = []
        for flag, file in self._flags.items():
            try:
                contents.append(Path(file).read_bytes())
            except OSError as error:
                raise BadInput(f"{flag} {file}: {error.strerror or error}") from error
        pair = KeyPair(contents[0], contents[1])
        return pair, contents[2] if len(contents) > 2 else b""


class Callers:
    """The authorities of callers' certificates, from a file (--client-ca-file) renewed by another program."""

    def __init__(self, file: str, trust: Callable[[str], None]) -> None:
        self._file = file
        self._trust = trust
        self._stamp = stamp_of(file)  # before it is read: what changes meanwhile is seen

    def first(self) -> None:
        """Read it; BadInput where it cannot be used."""
        try:
            self._trust(Path(self._file).read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, BadInput) as error:
            raise BadInput(f"--client-ca-file {self._file}: {error}") from error

    async def run(self) -> None:
        """Read it again when it changes, for ever; one that cannot be used changes nothing."""
        await follow(self._file, self._stamp, self._reread, look_s=_LOOK_S, refused="callers_refused")

    def _reread(self) -> None:
        self.first()
        _log.info("callers_reloaded", file=self._file)
