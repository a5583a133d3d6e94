"""Who may call the webhook: with --client-ca-file only who shows a certificate of that authority."""

from __future__ import annotations

import asyncio
import http.client
import json
import socket
import ssl
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml

from fairlead.client.authority import Authority
from fairlead.client.tls import client_context
from fairlead.doors.webhook.server import Answer
from fairlead.errors import BadInput
from fairlead.rig.controlplane import ControlPlane
from fairlead.rig.processes import free_ports, wait_until
from support.admission import TIER
from support.command import run_command
from support.door import DoorProcess, kubeconfig_of
from support.manifests import pod
from support.policies import ON_DEMAND, SPOT, plain_policy
from support.reviews import Caller, guarded, review
from support.rig import programs
from support.wire import PATIENCE_S

API_SERVER = "kube-apiserver"


async def nothing(obj: dict[str, Any], namespace: str, *, dry_run: bool) -> Answer:
    return Answer()


async def test_reviews_are_taken_only_from_who_shows_a_certificate() -> None:
    callers = Authority()
    async with guarded(nothing, callers) as (_, session, url):
        asked = json.dumps(review(pod("a"))).encode()
        status, body = await Caller(session(None), url).send(asked)
        assert status == 401
        assert b"--client-ca-file" in body

        await Caller(session(callers.client(API_SERVER)), url).ask(review(pod("a")))


async def test_kubelets_ask_for_health_without_a_certificate() -> None:
    async with guarded(nothing, Authority()) as (_, session, url):
        anybody = session(None)
        for path in ("/livez", "/readyz", "/metrics"):
            async with anybody.get(url + path) as answer:
                assert answer.status == 200


async def test_a_certificate_of_somebody_else_ends_the_handshake() -> None:
    async with guarded(nothing, Authority()) as (_, session, url):
        stranger = session(Authority().client(API_SERVER))
        with pytest.raises(aiohttp.ClientError):
            await stranger.get(url + "/livez")


async def test_another_authority_is_believed_at_once_and_the_former_no_longer() -> None:
    old, new = Authority(), Authority()
    async with guarded(nothing, old) as (shown, session, url):
        early, late = session(old.client(API_SERVER)), session(new.client(API_SERVER))
        await Caller(early, url).ask(review(pod("a")))
        shown.trust(new.pair.public.decode())
        await Caller(late, url).ask(review(pod("a")))
        with pytest.raises(aiohttp.ClientError):
            await Caller(early, url).ask(review(pod("a")))  # on the connection that it had
        with pytest.raises(aiohttp.ClientError):
            await session(old.client(API_SERVER)).get(url + "/livez")

        with pytest.raises(BadInput, match="no certificates"):
            shown.trust("not a certificate")
        await Caller(session(new.client(API_SERVER)), url).ask(review(pod("a")))
        # A new certificate of our own changes nothing about callers.
        shown.show(Authority().server(["localhost"], ["127.0.0.1"]))
        with pytest.raises(aiohttp.ClientError):
            await session(old.client(API_SERVER)).get(url + "/livez")


async def test_what_is_being_answered_when_authorities_change_is_answered_to_its_end() -> None:
    old, new = Authority(), Authority()
    asked, go_on = asyncio.Event(), asyncio.Event()

    async def slowly(obj: dict[str, Any], namespace: str, *, dry_run: bool) -> Answer:
        asked.set()
        await go_on.wait()
        return Answer()

    async with guarded(slowly, old) as (shown, session, url):
        early = Caller(session(old.client(API_SERVER)), url)
        call = asyncio.create_task(early.ask(review(pod("a"))))
        await asked.wait()
        shown.trust(new.pair.public.decode())
        go_on.set()
        await call
        with pytest.raises(aiohttp.ClientError):
            await early.ask(review(pod("a")))


async def test_no_session_outlives_its_connection() -> None:
    callers = Authority()
    async with guarded(nothing, callers) as (_, _session, url):
        port = int(url.rpartition(":")[2])
        pair = callers.client(API_SERVER)
        trusting = client_context(verify=False, certificate=(pair.public.decode(), pair.private.decode()))

        def tickets() -> bool:
            with (
                socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as plain,
                trusting.wrap_socket(plain) as connection,
            ):
                connection.sendall(b"GET /livez HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
                while connection.recv(4096):
                    pass
                assert connection.version() == "TLSv1.3"
                return connection.session is not None and connection.session.has_ticket

        assert not await asyncio.to_thread(tickets)
        trusting.maximum_version = ssl.TLSVersion.TLSv1_2
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await asyncio.to_thread(tickets)


def test_a_file_without_certificates_is_refused_at_once(tmp_path: Path) -> None:
    kubeconfig, file = kubeconfig_of("https://127.0.0.1:1", tmp_path), tmp_path / "callers.pem"
    for text in (None, "", "nonsense"):
        if text is not None:
            file.write_text(text)
        done = run_command("webhook", f"--kubeconfig={kubeconfig}", f"--client-ca-file={file}")
        assert done.returncode == 2
        assert f"--client-ca-file {file}" in done.stderr
        assert "Traceback" not in done.stderr


@pytest.mark.real
@pytest.mark.slow
def test_a_real_api_server_shows_the_certificate_that_it_was_given(tmp_path: Path) -> None:
    programs("etcd", "kube-apiserver", "kubectl")
    callers = Authority()
    (port,) = free_ports(1)
    arguments = [f"--admission-control-config-file={admission_configuration(tmp_path, callers, port)}"]
    (tmp_path / "callers.pem").write_bytes(callers.pair.public)
    (tmp_path / "policy.yaml").write_text(yaml.safe_dump(plain_policy("web", SPOT, ON_DEMAND)))
    with ControlPlane(apiserver_args=arguments) as plane:
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
        plane.api.create("/api/v1/namespaces/default/serviceaccounts", account)
        process = DoorProcess(
            plane.kubeconfig,
            "webhook",
            f"--listen=127.0.0.1:{port}",
            f"--url=https://127.0.0.1:{port}",
            f"--policies={tmp_path / 'policy.yaml'}",
            f"--client-ca-file={tmp_path / 'callers.pem'}",
            "--failure-policy=Fail",
            "--register",
        )
        try:
            process.wait_for("registered")

            def annotations() -> dict[str, str]:
                made = plane.api.create("/api/v1/namespaces/default/pods?dryRun=All", pod("probe"))
                found: dict[str, str] = made["metadata"].get("annotations", {})
                return found

            wait_until(lambda: TIER in annotations(), "the API server to call", timeout_s=2 * PATIENCE_S)

            # Who only reaches the port takes no slots.
            trusting = client_context(verify=False)
            assert refused(port, trusting) == 401
            assert process.log("review_refused")
            assert process.stop() == 0
        finally:
            process.close()


def admission_configuration(folder: Path, callers: Authority, port: int) -> Path:
    """As docs/how-to/webhook.md has it, for a webhook that is called by address."""
    pair = callers.client(API_SERVER)
    (folder / "client.crt").write_bytes(pair.public)
    (folder / "client.key").write_bytes(pair.private)
    user = {"client-certificate": str(folder / "client.crt"), "client-key": str(folder / "client.key")}
    kubeconfig = folder / "callers.kubeconfig"
    kubeconfig.write_text(
        yaml.safe_dump(
            {"apiVersion": "v1", "kind": "Config", "users": [{"name": f"127.0.0.1:{port}", "user": user}]}
        )
    )
    plugin = {
        "name": "MutatingAdmissionWebhook",
        "configuration": {
            "apiVersion": "apiserver.config.k8s.io/v1",
            "kind": "WebhookAdmissionConfiguration",
            "kubeConfigFile": str(kubeconfig),
        },
    }
    file = folder / "admission.yaml"
    file.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "apiserver.config.k8s.io/v1",
                "kind": "AdmissionConfiguration",
                "plugins": [plugin],
            }
        )
    )
    return file


def refused(port: int, trusting: ssl.SSLContext) -> int:
    """What a stranger's review is answered with."""
    connection = http.client.HTTPSConnection("127.0.0.1", port, context=trusting, timeout=PATIENCE_S)
    try:
        connection.request("POST", "/admit", json.dumps(review(pod("a"))))
        return connection.getresponse().status
    finally:
        connection.close()
