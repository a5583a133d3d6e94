"""How the API server learns of the webhook, and how it forgets it."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import subprocess
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from fairlead.client.api import Client
from fairlead.client.authority import Authority, KeyPair
from fairlead.doors.certificates import Files
from fairlead.doors.webhook.keyring import SECRET
from fairlead.doors.webhook.registration import CONFIGURATION, Registration, Where, check_callable
from fairlead.errors import BadInput
from support.admission import TIER, Tiered
from support.command import run_command
from support.manifests import pod

KIND = "MutatingWebhookConfiguration"
ONE = Where(url="https://127.0.0.1:1")
OTHERS = [Where(url="https://127.0.0.1:2"), Where(service="hook", namespace="kube-system", port=8443)]


def fairlead(corner: Tiered, *arguments: str) -> subprocess.CompletedProcess[str]:
    flags = [f"--kubeconfig={corner.cluster.kubeconfig}", f"--system-namespace={corner.system}"]
    return run_command("webhook", *flags, *arguments)


def hook(corner: Tiered) -> dict[str, Any]:
    (found,) = corner.cluster.get(KIND, CONFIGURATION)["webhooks"]
    assert isinstance(found, dict)
    return found


def there(corner: Tiered) -> bool:
    return corner.cluster.try_get(KIND, CONFIGURATION).status == 200


def written(folder: Path, pair: KeyPair, authority: Authority) -> tuple[str, str, str]:
    """Files with a certificate, its key, and who signed it."""
    certificate, key, signer = folder / "tls.crt", folder / "tls.key", folder / "ca.crt"
    certificate.write_bytes(pair.public)
    key.write_bytes(pair.private)
    signer.write_bytes(authority.pair.public)
    return str(certificate), str(key), str(signer)


def secret(corner: Tiered) -> int:
    return corner.cluster.wire.request("GET", f"/api/v1/namespaces/{corner.system}/secrets/{SECRET}").status


def at(client: Client, where: Where) -> Registration:
    return Registration(client, where, failure_policy="Ignore", exempt=("kube-system",))


def test_it_is_called_for_pods_of_all_namespaces_but_two(corner: Tiered) -> None:
    corner.run(arguments=("--failure-policy=Fail",))
    found = hook(corner)

    assert found["rules"] == [
        {
            "apiGroups": [""],
            "apiVersions": ["v1"],
            "operations": ["CREATE"],
            "resources": ["pods"],
            "scope": "Namespaced",
        }
    ]
    (selected,) = found["namespaceSelector"]["matchExpressions"]
    assert selected["operator"] == "NotIn"
    assert sorted(selected["values"]) == sorted(["kube-system", corner.system])
    wanted = {
        "failurePolicy": "Fail",
        "sideEffects": "NoneOnDryRun",
        "reinvocationPolicy": "IfNeeded",
        "timeoutSeconds": 10,
        "admissionReviewVersions": ["v1"],
    }
    assert found | wanted == found
    assert found["clientConfig"]["url"] == f"{corner.balancer.url}/admit"


def test_it_registers_only_when_it_can_answer(corner: Tiered) -> None:
    corner.run()

    said = [line["event"] for line in corner.replicas[0].log()]
    assert said.index("listening") < said.index("synced") < said.index("registered")


def test_what_is_registered_is_taken_away_again(corner: Tiered) -> None:
    corner.run()
    assert secret(corner) == 200
    corner.replicas[0].stop()

    done = fairlead(corner, "--unregister")
    assert done.returncode == 0
    assert done.stderr.startswith("About to change the cluster of context ")
    assert done.stdout.splitlines() == [
        f"deleted {KIND} {CONFIGURATION}",
        f"deleted Secret {corner.system}/{SECRET}",
    ]
    assert secret(corner) == 404
    corner.cluster.try_get(KIND, CONFIGURATION).refused(404)
    assert fairlead(corner, "--unregister").stdout == "nothing was registered\n"


def test_what_helm_installed_keeps_helms_label(corner: Tiered) -> None:
    helms = {"app.kubernetes.io/managed-by": "Helm"}
    shipped = (
        ("admissionregistration.k8s.io/v1", KIND, {"name": CONFIGURATION}),
        ("v1", "Secret", {"name": SECRET, "namespace": corner.system}),
    )
    for version, kind, metadata in shipped:
        item = {"apiVersion": version, "kind": kind, "metadata": {**metadata, "labels": helms}}
        corner.cluster.create(item)
    corner.run()
    assert hook(corner)
    assert corner.cluster.get(KIND, CONFIGURATION)["metadata"]["labels"] == helms
    path = f"/api/v1/namespaces/{corner.system}/secrets/{SECRET}"
    found = corner.cluster.wire.request("GET", path).ok()
    assert found["data"]
    assert found["metadata"]["labels"] == helms


def test_replicas_that_start_together_share_one_authority(corner: Tiered) -> None:
    corner.run(replicas=3, arguments=("--failure-policy=Fail",))

    made = [len(replica.log("authority_made")) for replica in corner.replicas]
    assert sum(made) == 1
    # The balancer takes turns: every replica's certificate must be trusted.
    for number in range(6):
        assert TIER in corner.cluster.create(pod(f"p{number}"), dryRun="All")["metadata"]["annotations"]


def test_certificates_from_files_are_shown_and_an_injected_bundle_stays(corner: Tiered) -> None:
    authority = Authority()
    pair = authority.server(["localhost"], ["127.0.0.1"])
    certificate, key, _ = written(corner.folder, pair, authority)
    files = (f"--tls-cert-file={certificate}", f"--tls-key-file={key}")
    corner.run(wait=False, arguments=files)
    corner.replicas[0].wait_for("registered")
    assert "caBundle" not in hook(corner)["clientConfig"]
    assert secret(corner) == 404, "no authority of our own"

    # As cert-manager does.
    bundle = base64.b64encode(authority.pair.public).decode()
    steps = [
        {"op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": bundle},
        {"op": "add", "path": "/metadata/annotations", "value": {"cert-manager.io/inject-ca-from": "a/b"}},
    ]
    corner.cluster.patch(KIND, CONFIGURATION, steps, "json")
    corner.called()
    corner.add_replica(*corner.arguments).wait_for("synced")
    kept = corner.cluster.get(KIND, CONFIGURATION)
    assert kept["webhooks"][0]["clientConfig"]["caBundle"] == bundle
    assert kept["metadata"]["annotations"] == {"cert-manager.io/inject-ca-from": "a/b"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--url", "http://host:1"], "must be https://HOST:PORT"),
        (["--url", "https://"], "must be https://HOST:PORT"),
        (["--url", "https://host:port"], "--url https://host:port"),
        (["--tls-cert-file", "a"], "go together"),
        (["--tls-ca-file", "a"], "which is missing"),
        (["--register", "--unregister"], "one or the other"),
        (["--service", "a:b"], "is not NAME or NAME:PORT"),
        (["--rotation-wait", "soon"], "--rotation-wait"),
        (["--listen", "nowhere"], "is not ADDRESS:PORT"),
    ],
)
def test_flags_that_cannot_be_used_are_refused_at_once(arguments: list[str], said: str) -> None:
    done = run_command("webhook", *arguments)

    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("url", "server", "refused"),
    [
        ("https://127.0.0.1:9443", "https://10.0.0.1:6443", True),
        ("https://localhost:9443", "https://cluster.example.com", True),
        ("https://[::1]:9443", "https://10.0.0.1:6443", True),
        ("https://0.0.0.0:9443", "https://127.0.0.1:6443", True),
        ("https://[::]:9443", "https://10.0.0.1:6443", True),
        ("https://127.0.0.1:9443", "https://localhost:6443", False),
        ("https://10.0.0.5:9443", "https://10.0.0.1:6443", False),
        ("", "https://10.0.0.1:6443", False),  # a Service
    ],
)
def test_an_address_that_the_api_server_cannot_call_is_refused(url: str, server: str, refused: bool) -> None:
    with pytest.raises(BadInput, match="--url") if refused else contextlib.nullcontext():
        check_callable(Where(url=url, service="fairlead", namespace="fairlead-system"), server)


def test_a_service_is_certified_under_every_name_it_has() -> None:
    where = Where(service="fairlead-webhook", namespace="sys", port=8443)

    assert where.client_config == {
        "service": {"name": "fairlead-webhook", "namespace": "sys", "path": "/admit", "port": 8443}
    }
    assert "fairlead-webhook.sys.svc" in where.names


def test_a_base_address_keeps_its_path() -> None:
    assert Where(url="https://[::1]:9443/hooks/").client_config == {"url": "https://[::1]:9443/hooks/admit"}
    assert Where(url="https://[::1]:9443").names == ("::1",)
    with pytest.raises(BadInput, match="no user"):
        Where(url="https://host:1/?a=b")


async def test_an_outdated_authority_does_not_take_back_what_another_replica_published(
    corner: Tiered,
) -> None:
    """One replica has read the Secret; before it publishes that, the other goes on and publishes both."""
    async with corner.cluster.client() as client:
        slow, fast = at(client, ONE), at(client, ONE)
        await slow.publish(b"old")
        await slow.register()
        await fast.publish(b"old")
        await fast.register()
        went_on = False

        async def current() -> bool:
            """As the Secret is read: the first time nobody has gone on, and then somebody does."""
            nonlocal went_on
            if went_on:
                return False
            went_on = True
            assert await fast.publish(b"old and new")
            return True

        assert not await slow.publish(b"older", current)
    assert base64.b64decode(hook(corner)["clientConfig"]["caBundle"]) == b"old and new"


@pytest.mark.parametrize("other", OTHERS, ids=["url", "service"])
async def test_who_registers_last_is_called_and_nobody_takes_it_back(corner: Tiered, other: Where) -> None:
    async with corner.cluster.client() as client:
        first, second = at(client, ONE), at(client, other)
        with capture_logs() as told:
            await first.register()
        assert [line["event"] for line in told] == ["registered"]

        with capture_logs() as told:
            await second.publish(b"theirs")
            await second.register()
        (taken,) = (line for line in told if line["log_level"] == "warning")
        assert taken["event"] == "registration_taken_over"
        assert (taken["was"], taken["now"]) == (ONE.address, other.address)

        with capture_logs() as told:
            for bundle in (b"ours", b"ours, renewed"):
                assert await first.publish(bundle)
        (lost,) = told
        assert (lost["event"], lost["there"]) == ("registered_elsewhere", other.address)
        assert "restart it" in lost["reason"]
        assert hook(corner)["clientConfig"].items() > other.client_config.items()
        assert corner.trusted() == b"theirs"


async def test_an_entry_that_was_lost_and_is_gone_is_made_again(corner: Tiered) -> None:
    async with corner.cluster.client() as client:
        first, second = at(client, ONE), at(client, OTHERS[0])
        await first.register()
        await second.register()
        await first.publish(b"ours")
        corner.cluster.delete(KIND, CONFIGURATION)
        with capture_logs() as told:
            await first.publish(b"ours")
    assert [line["event"] for line in told] == ["registered"]
    assert hook(corner)["clientConfig"]["url"] == ONE.client_config["url"]


@pytest.mark.parametrize("named", [True, False], ids=["its authority is named", "others name it"])
async def test_with_certificates_from_files_too_an_entry_that_is_gone_is_made_again(
    corner: Tiered, *, named: bool
) -> None:
    authority = Authority()
    pair = authority.server(["localhost"], [])
    certificate, key, signer = written(corner.folder, pair, authority)
    shown = list[KeyPair]()
    following = Files(certificate, key, signer if named else None, shown.append, look_s=0.01)
    async with corner.cluster.client() as client:
        ours = at(client, ONE)
        await ours.publish(await following.first(), following.current)
        await ours.register()
        running = asyncio.create_task(following.run(ours))
        try:
            # The first look publishes in any case; this is about those that find nothing new.
            await asyncio.to_thread(corner.cluster.wait, lambda: len(shown) > 1, "the first look")
            await asyncio.to_thread(corner.cluster.delete, KIND, CONFIGURATION)
            await asyncio.to_thread(corner.cluster.wait, lambda: there(corner), "the entry to be there again")
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
    assert shown == [pair, pair]
    assert hook(corner)["clientConfig"]["url"] == ONE.client_config["url"]
    if named:
        assert corner.trusted() == authority.pair.public


@pytest.mark.parametrize("where", [ONE, OTHERS[1]], ids=["url", "service"])
async def test_replicas_at_one_address_publish_in_turn_and_say_nothing(corner: Tiered, where: Where) -> None:
    async with corner.cluster.client() as client:
        first, second = at(client, where), at(client, where)
        with capture_logs() as told:
            await first.register()
            await second.register()
            for replica, bundle in ((first, b"old"), (second, b"old and new"), (first, b"new")):
                await replica.publish(bundle)
                assert corner.trusted() == bundle
    assert {line["event"] for line in told} == {"registered"}
