"""The webhook's certificate where no files have one (cert-manager's, say): signed by an authority of its own.

It is followed while the webhook runs, and a new certificate is shown to new connections without closing any.
Replicas share one authority through a Secret, which is shipped empty: the first to write it wins, the others
take what they find.
"""

from __future__ import annotations

import asyncio
import functools
import ipaddress
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta

import structlog

from fairlead.client.authority import KeyPair, life_of
from fairlead.client.namespaces import in_namespace
from fairlead.client.reflector import Reflector
from fairlead.client.retry import Backoff
from fairlead.doors.certificates import Trust
from fairlead.doors.process import Context
from fairlead.doors.webhook.keyring import SECRET, Keyring, Secret, read_keyring, secret_of
from fairlead.errors import ApiError, BadInput, Conflict, FairleadError, NotFound, Unreachable
from fairlead.kube.meta import ObjectMeta
from fairlead.kube.resources import known

_log = structlog.get_logger(__name__)

_SECRETS = known("Secret")
_SERVING_LIFE = timedelta(days=90)
_LOOK_AGAIN_S = 60.0  # the Secret is watched; this is for when the watch is refused


class OwnAuthority:
    """Certificates for `names` (of hosts, and addresses) that our own authority signs.

    Invariant: `show` is given a new pair only when its signer was published at least the wait before.
    Cancelled, at most one write to the Secret is half-way: it either was a whole step or none.
    """

    def __init__(
        self, context: Context, names: Sequence[str], show: Callable[[KeyPair], None], *, wait_s: float
    ) -> None:
        self._client = context.client
        self._namespace = context.system_namespace
        self._names = names
        self._show = show
        self._wait = timedelta(seconds=wait_s)
        self._clock = context.clock
        self._shown: tuple[KeyPair, KeyPair] | None = None  # signer, what it signed
        self._secret = ObjectMeta()  # of the Secret that was last published
        self._changed = asyncio.Event()

    async def first(self) -> bytes:
        """Show a certificate to begin with, of the authority in the Secret, or be the first to fill that; the
        authorities to trust for it. Raises when neither is allowed.
        """
        backoff = Backoff(self._client.rng)
        while True:
            try:
                ring, self._secret = await self._read()
                self._renew(ring)
                return ring.bundle
            except ApiError as error:
                if error.code == 403 or isinstance(error, NotFound):
                    raise BadInput(
                        f"the webhook's certificates need Secret {self._namespace}/{SECRET}, which may not "
                        f"be read or written: {error.message}; kubectl apply -k deploy/webhook brings it, "
                        "empty, and the rights to it, or give --tls-cert-file and --tls-key-file"
                    ) from error
                _log.warning("certificate_delayed", reason=str(error))
            except Unreachable as error:
                _log.warning("certificate_delayed", reason=str(error))
            await asyncio.sleep(backoff.next_s())

    async def current(self) -> bool:
        """Whether the authorities that were last named as to be trusted still are."""
        return (await self._read())[1].resource_version == self._secret.resource_version

    async def run(self, trust: Trust) -> None:
        """Follow changes for ever: new certificates are shown, authorities published."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._watch())
            while True:
                wait_s = _LOOK_AGAIN_S
                self._changed.clear()
                try:
                    wait_s = await self._go_on(trust)
                except Conflict:
                    continue  # another replica took the step
                except FairleadError as error:
                    _log.warning("certificates_not_kept", reason=str(error))
                    wait_s = 2.0
                with suppress(TimeoutError):
                    async with asyncio.timeout(wait_s):
                        await self._changed.wait()

    async def _go_on(self, trust: Trust) -> float:
        """Do what the Secret asks for now; for how long nothing will have to be done."""
        ring, self._secret = await self._read()
        # The signer of what is shown stays trusted, should a user have put another authority in the Secret.
        before = self._shown[0].public if self._shown else b""
        stranger = before if before and before not in ring.bundle else b""
        # Another replica may have gone on since: what it published must not be taken back.
        if not await trust.publish(ring.bundle + stranger, self.current):
            return 0.0
        if stranger:
            await asyncio.sleep(self._wait.total_seconds())
        self._renew(ring)
        now = self._clock.wall()
        step = ring.step(now, self._wait)
        if step is None:
            return self._idle_s(ring, now)
        if ring.coming is not None and not await trust.trusts(ring.coming.public):
            _log.warning(
                "rotation_waits", reason="the registration does not name the next authority in its caBundle"
            )
            return self._wait.total_seconds()
        await self._client.replace(_SECRETS, secret_of(step, self._namespace, self._secret))
        _log.info("rotation_step", authorities=step.bundle.count(b"BEGIN"), switched=step.former != b"")
        return 0.0

    def _idle_s(self, ring: Keyring, now: datetime) -> float:
        moments = [due for due in (ring.due(self._wait), self._renew_at()) if due is not None]
        soonest = min((moment - now).total_seconds() for moment in moments) if moments else _LOOK_AGAIN_S
        return min(max(soonest, 0.05), _LOOK_AGAIN_S)

    def _renew_at(self) -> datetime | None:
        if self._shown is None:
            return None
        begins, ends = life_of(self._shown[1].public)
        return ends - (ends - begins) / 3

    def _renew(self, ring: Keyring) -> None:
        """Show another certificate when the signer is new or the last one is getting old."""
        renew_at = self._renew_at()
        if (
            self._shown is None
            or self._shown[0] != ring.signing
            or (renew_at is not None and self._clock.wall() >= renew_at and self._lasts_longer(ring))
        ):
            addresses = [name for name in self._names if _is_address(name)]
            dns = [name for name in self._names if name not in addresses]
            pair = ring.authority.server(dns, addresses, valid=_SERVING_LIFE)
            self._shown = (ring.signing, pair)
            self._show(pair)
            _log.info("certificate_made", names=[*dns, *addresses])

    def _lasts_longer(self, ring: Keyring) -> bool:
        assert self._shown is not None
        return life_of(ring.signing.public)[1] > life_of(self._shown[1].public)[1]

    async def _read(self) -> tuple[Keyring, ObjectMeta]:
        """The keyring and what it is in; made when there is none."""
        while True:
            try:
                secret = await self._client.get(_SECRETS, SECRET, self._namespace, kind=Secret)
            except NotFound:
                secret = Secret()
            if secret.data:
                return read_keyring(secret), secret.metadata
            try:
                await self._make(secret.metadata)
            except Conflict:
                continue  # another replica was first: all use its authority

    async def _make(self, before: ObjectMeta) -> None:
        made = secret_of(Keyring.new(self._clock.wall()), self._namespace, before)
        if before.resource_version:
            await self._client.replace(_SECRETS, made)
        else:
            create = functools.partial(self._client.create, _SECRETS, made)
            await in_namespace(self._client, self._namespace, create)
        _log.info("authority_made", secret=f"{self._namespace}/{SECRET}")

    async def _watch(self) -> None:
        reflector = Reflector(
            self._client, _SECRETS, Secret, namespace=self._namespace, fields=f"metadata.name={SECRET}"
        )
        await reflector.run(lambda _: self._changed.set())


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
