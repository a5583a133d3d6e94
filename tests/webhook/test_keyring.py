"""The authority that replicas share, and how it is replaced."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from fairlead.client.authority import Authority, life_of
from fairlead.doors.webhook.keyring import ROTATE_ANNOTATION, Keyring, Secret, read_keyring, secret_of
from fairlead.errors import BadObject
from fairlead.kube.meta import ObjectMeta

NOW = datetime.now(UTC)
WAIT = timedelta(seconds=60)


def kept(ring: Keyring) -> Secret:
    return msgspec.convert(secret_of(ring, "fairlead-system", ObjectMeta(resource_version="7")), Secret)


def asked(ring: Keyring, what: str = "now") -> Keyring:
    return Keyring(ring.signing, ring.since, ring.coming, ring.former, asked=what, done=ring.done)


def stepped(ring: Keyring, now: datetime) -> Keyring:
    found = ring.step(now, WAIT)
    assert found is not None
    return found


def test_a_keyring_comes_back_from_its_secret_as_it_went_in() -> None:
    new = Keyring.new(NOW)
    for ring in (new, asked(new), stepped(asked(new), NOW)):
        assert read_keyring(kept(ring)) == ring


def test_a_young_authority_is_left_alone() -> None:
    ring = Keyring.new(NOW)

    assert ring.step(NOW + timedelta(days=100), WAIT) is None


def test_an_old_authority_gets_a_successor_long_before_its_end() -> None:
    ring = Keyring.new(NOW)
    due = ring.due(WAIT)

    assert due is not None
    assert due < life_of(ring.signing.public)[1] - timedelta(days=90)
    assert stepped(ring, due).coming is not None


def test_the_next_authority_is_published_before_it_signs_and_the_former_after() -> None:
    first = asked(Keyring.new(NOW))
    published = stepped(first, NOW)

    assert published.signing == first.signing
    assert published.coming is not None
    assert first.signing.public in published.bundle
    assert published.coming.public in published.bundle
    assert published.step(NOW + WAIT / 2, WAIT) is None

    switched = stepped(published, NOW + WAIT)
    assert switched.signing == published.coming
    assert first.signing.public in switched.bundle
    assert switched.step(NOW + WAIT * 1.5, WAIT) is None

    done = stepped(switched, NOW + 2 * WAIT)
    assert done.bundle == switched.signing.public
    assert done.step(NOW + 100 * WAIT, WAIT) is None, "what was asked for once is done once"


def test_another_word_in_the_annotation_asks_for_another_rotation() -> None:
    ring = asked(Keyring.new(NOW), "monday")
    for number in range(3):
        ring = stepped(ring, NOW + number * WAIT)
    secret = kept(ring)
    secret.metadata.annotations[ROTATE_ANNOTATION] = "tuesday"

    assert read_keyring(secret).step(NOW + 9 * WAIT, WAIT) is not None


def test_a_secret_that_is_no_keyring_is_named_with_the_field() -> None:
    whole = kept(Keyring.new(NOW))
    other = Authority().pair.private
    for field, value in (
        ("ca.key", None),
        ("ca.crt", "%%%"),
        ("ca.crt", base64.b64encode(b"no certificate").decode()),
        ("ca.key", base64.b64encode(other).decode()),
    ):
        data = {**whole.data, field: value or ""}
        with pytest.raises(BadObject, match=r"Secret fairlead-system/fairlead-webhook-ca: data\.ca\."):
            read_keyring(Secret(whole.metadata, data))
