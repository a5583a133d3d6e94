"""The authority that replicas share, and its rotation as steps that one of them takes for all.

Rotation never leaves a moment in which a replica shows a certificate that the API server does not trust:
the next authority is published beside the present one; after a wait it signs and the former one is still
published; after another wait only the new one is. Every replica must see a step within the wait.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from fairlead.client.authority import Authority, KeyPair, life_of
from fairlead.errors import BadObject
from fairlead.kube.meta import Object, ObjectMeta

SECRET = "fairlead-webhook-ca"
# Setting it to something new asks for a rotation; what was asked for last stays remembered.
ROTATE_ANNOTATION = "fairlead.dev/rotate"
_SINCE_ANNOTATION = "fairlead.dev/rotation-step"
_DONE_ANNOTATION = "fairlead.dev/rotated"

LIFE = timedelta(days=365)
_NONE = ObjectMeta()
_RENEW = timedelta(days=120)  # before its end a successor is made


class Secret(Object, frozen=True, gc=False):
    """A Secret; values are base64 as they come."""

    metadata: ObjectMeta = ObjectMeta()
    data: dict[str, str] = {}


@dataclass(frozen=True, slots=True)
class Keyring:
    """`signing` makes certificates; `coming` will; `former` (certificates only) may still be in use.

    At most one of `coming` and `former` is there, and `since` is when the last step was taken.
    """

    signing: KeyPair
    since: datetime
    coming: KeyPair | None = None
    former: bytes = b""
    asked: str = ""
    done: str = ""

    @classmethod
    def new(cls, now: datetime) -> Keyring:
        """One with a new authority."""
        return cls(_authority(), now)

    @property
    def bundle(self) -> bytes:
        """All authorities that may have signed a certificate that is shown, now or within the wait."""
        return self.signing.public + (self.coming.public if self.coming else b"") + self.former

    def due(self, wait: timedelta) -> datetime | None:
        """When the next step may be taken; None when there is none to take for now."""
        if self.coming is not None or self.former:
            return self.since + wait
        if self.asked != self.done:
            return self.since
        return life_of(self.signing.public)[1] - _RENEW

    def step(self, now: datetime, wait: timedelta) -> Keyring | None:
        """The keyring after the step that is due; None when none is."""
        due = self.due(wait)
        if due is None or now < due:
            return None
        if self.coming is not None:
            return Keyring(self.coming, now, former=self.signing.public, asked=self.asked, done=self.done)
        if self.former:
            return Keyring(self.signing, now, asked=self.asked, done=self.done)
        return Keyring(self.signing, now, coming=_authority(), asked=self.asked, done=self.asked)

    @property
    def authority(self) -> Authority:
        """The authority that signs."""
        return Authority.load(self.signing)


def secret_of(ring: Keyring, namespace: str, before: ObjectMeta = _NONE) -> dict[str, Any]:
    """The Secret that holds a keyring, to replace just the one that `before` is of; else to create it.

    Labels and annotations of others are kept: it is shipped, and applied again with every upgrade.
    """
    data = {"ca.crt": ring.signing.public, "ca.key": ring.signing.private}
    if ring.coming is not None:
        data |= {"next.crt": ring.coming.public, "next.key": ring.coming.private}
    if ring.former:
        data["former.crt"] = ring.former
    said = {
        _SINCE_ANNOTATION: ring.since.isoformat(),
        ROTATE_ANNOTATION: ring.asked,
        _DONE_ANNOTATION: ring.done,
    }
    metadata: dict[str, Any] = {
        "name": SECRET,
        "namespace": namespace,
        "annotations": {**before.annotations, **{name: value for name, value in said.items() if value}},
        "labels": {"app.kubernetes.io/managed-by": "fairlead", **before.labels},  # as in `registration`
    }
    if before.resource_version:
        metadata["resourceVersion"] = before.resource_version
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "Opaque",
        "metadata": metadata,
        "data": {name: base64.b64encode(value).decode() for name, value in data.items()},
    }


def read_keyring(secret: Secret) -> Keyring:
    """A keyring from its Secret; BadObject names what is wrong with it."""
    called = f"Secret {secret.metadata.key}"
    annotations = secret.metadata.annotations

    def value(name: str, *, needed: bool = False) -> bytes:
        if not (found := secret.data.get(name, "")) and needed:
            raise BadObject(
                called, f"data.{name}", "is missing; remove all of its data to have a new authority made"
            )
        try:
            return base64.b64decode(found, validate=True)
        except binascii.Error as error:
            raise BadObject(called, f"data.{name}", f"not base64: {error}") from error

    def pair(prefix: str) -> KeyPair:
        found = KeyPair(value(f"{prefix}.crt", needed=True), value(f"{prefix}.key", needed=True))
        try:
            Authority.load(found)
        except ValueError as error:
            raise BadObject(called, f"data.{prefix}.crt", str(error)) from error
        return found

    try:
        since = datetime.fromisoformat(annotations.get(_SINCE_ANNOTATION, "1970-01-01T00:00:00+00:00"))
    except ValueError as error:
        raise BadObject(called, f"metadata.annotations.{_SINCE_ANNOTATION}", str(error)) from error
    return Keyring(
        pair("ca"),
        since,
        coming=pair("next") if "next.crt" in secret.data else None,
        former=value("former.crt"),
        asked=annotations.get(ROTATE_ANNOTATION, ""),
        done=annotations.get(_DONE_ANNOTATION, ""),
    )


def _authority() -> KeyPair:
    return Authority("fairlead-webhook", valid=LIFE, serial=True).pair
