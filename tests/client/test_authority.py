"""Certificates that the strictest verifier accepts."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from fairlead.client.authority import Authority, KeyPair


def server_context(pair: KeyPair, folder: Path) -> ssl.SSLContext:
    file = folder / "server.pem"
    file.write_bytes(pair.public + pair.private)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    return context


def shake_hands(client: ssl.SSLContext, server: ssl.SSLContext, name: str) -> None:
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(to_client, to_server, server_hostname=name),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    while ends:
        for end in list(ends):
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
            ends.remove(end)


@pytest.fixture
def strict(authority: Authority) -> ssl.SSLContext:
    """What Python 3.13 does by default."""
    context = ssl.create_default_context(cadata=authority.pair.public.decode())
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    return context


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


def test_a_serving_certificate_passes_the_strict_check(
    authority: Authority, strict: ssl.SSLContext, tmp_path: Path
) -> None:
    pair = authority.server(["localhost"], ["127.0.0.1"])

    shake_hands(strict, server_context(pair, tmp_path), "127.0.0.1")


def test_a_certificate_of_another_authority_does_not(strict: ssl.SSLContext, tmp_path: Path) -> None:
    pair = Authority().server(["localhost"], ["127.0.0.1"])

    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(strict, server_context(pair, tmp_path), "127.0.0.1")
