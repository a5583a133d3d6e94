"""Only the right server is talked to, and the right certificate shown to it."""

from __future__ import annotations

import datetime
import os
import ssl
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from fairlead.client.authority import Authority, KeyPair
from fairlead.client.config import Pem, Server, Target, User
from fairlead.client.connection import Connection
from fairlead.client.tls import client_context
from fairlead.errors import BadKubeconfig, NotSent
from support.odd_server import answer, serving


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


def text(pem: bytes) -> Pem:
    return Pem(pem.decode())


@pytest.fixture
def tls(authority: Authority, tmp_path: Path) -> ssl.SSLContext:
    """A server called kubernetes.example that asks for client certificates but does not insist."""
    return server_context(authority.server(["kubernetes.example"], []), authority, tmp_path)


def server_context(pair: KeyPair, authority: Authority, folder: Path) -> ssl.SSLContext:
    (folder / "server.pem").write_bytes(pair.private + pair.public)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cadata=authority.pair.public.decode())
    context.load_cert_chain(folder / "server.pem")
    context.verify_mode = ssl.CERT_OPTIONAL
    return context


async def whoami(request: web.BaseRequest) -> web.Response:
    assert request.transport is not None
    shown = request.transport.get_extra_info("peercert")
    subject = dict(pair for names in shown["subject"] for pair in names) if shown else {}
    return answer({"user": subject.get("commonName")})


async def ask(target: Target) -> bytes:
    async with Connection(target) as connection:
        return await connection.request("GET", "/x")


def trusting(target: Target, authority: Authority, **changes: object) -> Target:
    server = replace(target.server, ca=text(authority.pair.public), tls_name="kubernetes.example")
    return replace(target, server=replace(server, **changes))


async def test_the_clusters_own_authority_is_trusted_under_the_given_name(
    authority: Authority, tls: ssl.SSLContext
) -> None:
    async with serving(whoami, tls=tls) as target:
        assert await ask(trusting(target, authority)) == b'{"user": null}'


async def test_another_name_is_not_trusted(authority: Authority, tls: ssl.SSLContext) -> None:
    async with serving(whoami, tls=tls) as target:
        with pytest.raises(NotSent, match="not trusted"):
            await ask(trusting(target, authority, tls_name=None))


async def test_another_authority_is_not_trusted(tls: ssl.SSLContext) -> None:
    async with serving(whoami, tls=tls) as target:
        with pytest.raises(NotSent, match="not trusted"):
            await ask(trusting(target, Authority()))


async def test_without_verification_anything_goes(tls: ssl.SSLContext) -> None:
    async with serving(whoami, tls=tls) as target:
        insecure = replace(target, server=Server(target.server.url, verify=False))
        assert await ask(insecure) == b'{"user": null}'


async def test_a_client_certificate_is_shown(authority: Authority, tls: ssl.SSLContext) -> None:
    pair = authority.client("jane")
    async with serving(whoami, tls=tls) as target:
        user = User(certificate=(text(pair.public), text(pair.private)))
        assert await ask(replace(trusting(target, authority), user=user)) == b'{"user": "jane"}'


async def test_a_rewritten_client_certificate_is_shown_on_new_connections(
    authority: Authority, tls: ssl.SSLContext, tmp_path: Path
) -> None:
    chain, key = tmp_path / "chain.pem", tmp_path / "key.pem"

    def write(user: str) -> None:
        pair = authority.client(user)
        chain.write_bytes(pair.public)
        key.write_bytes(pair.private)

    async def refusing(request: web.BaseRequest) -> web.Response:
        reply = await whoami(request)
        return reply if "joe" in (reply.text or "") else answer({"kind": "Status", "code": 401}, 401)

    write("jane")
    user = User(certificate=(Pem(file=chain), Pem(file=key)))
    async with (
        serving(refusing, tls=tls) as target,
        Connection(replace(trusting(target, authority), user=user)) as connection,
    ):
        with pytest.raises(Exception, match="401"):
            await connection.request("GET", "/x")
        write("joe")
        assert await connection.request("GET", "/x") == b'{"user": "joe"}'


async def test_another_authority_is_trusted_once_its_file_names_it(
    authority: Authority, tls: ssl.SSLContext, tmp_path: Path
) -> None:
    file = tmp_path / "ca.crt"
    for write in (None, b"{}"):  # reads and writes have connections of their own
        method = "GET" if write is None else "POST"
        file.write_bytes(Authority().pair.public)
        async with (
            serving(whoami, tls=tls) as target,
            Connection(trusting(target, authority, ca=Pem(file=file))) as connection,
        ):
            for unusable in ("", "no PEM", Authority().pair.public.decode()):
                with pytest.raises(NotSent, match="not trusted"):
                    await connection.request(method, "/x", write)
                file.write_text(unusable)
            file.write_bytes(authority.pair.public)
            with pytest.raises(NotSent, match="not trusted"):
                await connection.request(method, "/x", write)
            assert await connection.request(method, "/x", write) == b'{"user": null}'


async def test_streams_trust_another_authority_once_its_file_names_it(
    authority: Authority, tls: ssl.SSLContext, tmp_path: Path
) -> None:
    file = tmp_path / "ca.crt"
    file.write_bytes(Authority().pair.public)
    async with (
        serving(whoami, tls=tls) as target,
        Connection(trusting(target, authority, ca=Pem(file=file))) as connection,
    ):
        for rewritten in (True, False):
            with pytest.raises(NotSent, match="not trusted"):
                async with connection.stream("/x"):
                    pass
            if rewritten:
                file.write_bytes(authority.pair.public)
        async with connection.stream("/x") as stream:
            assert await stream.read() == b'{"user": null}'


async def test_a_file_without_an_authority_is_read_again_and_trusts_nobody_meanwhile(
    authority: Authority, tls: ssl.SSLContext, tmp_path: Path
) -> None:
    file = tmp_path / "ca.crt"
    file.write_text("")
    async with (
        serving(whoami, tls=tls) as target,
        Connection(trusting(target, authority, ca=Pem(file=file))) as connection,
    ):
        with pytest.raises(BadKubeconfig, match="there is no CA certificate"):
            await connection.request("GET", "/x")
        file.write_bytes(authority.pair.public)
        assert await connection.request("GET", "/x") == b'{"user": null}'


async def test_material_that_cannot_be_used_is_the_configurations_fault(authority: Authority) -> None:
    target = Target(Server("https://127.0.0.1:1", ca=Pem("no PEM")), source="config, context 'dev'")
    with pytest.raises(BadKubeconfig, match="config, context 'dev': the CA or client certificate"):
        await ask(target)
    mismatched = (text(authority.client("a").public), text(authority.client("b").private))
    with pytest.raises(BadKubeconfig, match="cannot be used"):
        await ask(Target(Server("https://127.0.0.1:1"), User(certificate=mismatched)))


def test_leniency_turns_off_the_strict_check_and_nothing_else() -> None:
    strict, lenient = client_context(), client_context(strict=False)
    assert strict.verify_flags & ~ssl.VERIFY_X509_STRICT == lenient.verify_flags
    assert lenient.verify_mode == ssl.CERT_REQUIRED
    assert lenient.check_hostname


@pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="this build of Python has no files in memory")
def test_a_certificate_is_shown_without_a_file_system_to_write_to(
    authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "missing"))
    pair = authority.client("jane")
    before = os.listdir("/proc/self/fd")
    client_context(certificate=(pair.public.decode(), pair.private.decode()))
    assert os.listdir("/proc/self/fd") == before, "the key is readable by nobody afterwards"


def test_where_there_is_no_memory_file_the_key_does_not_stay_on_disk(
    authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr("os.memfd_create", raising=False)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    pair = authority.client("jane")
    client_context(certificate=(pair.public.decode(), pair.private.decode()))
    assert list(tmp_path.iterdir()) == []


def old_authority(folder: Path) -> tuple[str, ssl.SSLContext]:
    """A CA as many clusters still have it, without key identifiers, and a server it vouches for."""
    now = datetime.datetime.now(datetime.UTC)

    def certificate(subject: str, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, subject)]))
            .issuer_name(x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "old")]))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(hours=1))
            .not_valid_after(now + datetime.timedelta(hours=1))
        )

    ca_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    ca = certificate("old", ca_key).add_extension(x509.BasicConstraints(True, None), critical=False)
    names = x509.SubjectAlternativeName([x509.DNSName("kubernetes.example")])
    server = certificate("server", key).add_extension(names, critical=False)
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (folder / "old.pem").write_bytes(private + server.sign(ca_key, hashes.SHA256()).public_bytes(pem))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "old.pem")
    return ca.sign(ca_key, hashes.SHA256()).public_bytes(pem).decode(), context


async def test_an_authority_that_only_the_strict_check_rejects_can_be_used_without_it(tmp_path: Path) -> None:
    ca, tls = old_authority(tmp_path)
    async with serving(whoami, tls=tls) as target:
        server = replace(target.server, ca=Pem(ca), tls_name="kubernetes.example")
        lenient = replace(target, server=server, strict_x509=False)
        assert await ask(lenient) == b'{"user": null}'
        if sys.version_info >= (3, 13):
            with pytest.raises(NotSent, match="strict check minds"):
                await ask(replace(lenient, strict_x509=True))
