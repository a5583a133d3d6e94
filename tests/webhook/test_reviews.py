"""What the API server may send, and what nobody should."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable
from typing import Any

import aiohttp
import pytest

from fairlead.client.tls import client_context
from fairlead.doors.webhook.reviews import LIMIT
from fairlead.doors.webhook.server import Answer
from fairlead.errors import Unreachable
from support.admission import Tiered
from support.manifests import owned_by, pod, replica_set
from support.reviews import Caller, endpoint, patch_of, review, well_formed

STEP = {"op": "add", "path": "/metadata/labels", "value": {"a/b": "ü"}}


async def stamp(obj: dict[str, Any], namespace: str, *, dry_run: bool) -> Answer:
    return Answer((STEP,), ("mind the gap",))


async def test_a_pod_is_answered_with_its_uid_a_patch_and_a_warning() -> None:
    async with endpoint(stamp) as caller:
        response = await caller.ask(review(pod("a"), uid="u-17"))

    assert patch_of(response) == [STEP]
    assert response["warnings"] == ["fairlead: mind the gap"]


@pytest.mark.parametrize(
    "more",
    [
        {"operation": "UPDATE"},
        {"operation": "DELETE", "object": None},
        {"subResource": "binding"},
        {"kind": {"group": "", "version": "v1", "kind": "ConfigMap"}},
        {"object": None},
        {"object": "a pod"},
    ],
)
async def test_what_is_not_the_creation_of_a_pod_is_allowed_as_it_is(more: dict[str, Any]) -> None:
    async with endpoint(stamp) as caller:
        response = await caller.ask(review(pod("a")) | {"request": review(pod("a"))["request"] | more})

    assert "patch" not in response


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b'"AdmissionReview"',
        b"\xff\xfe",
        b"{}",
        b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}',
        b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{}}',
        b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":""}}',
        b'{"apiVersion":"admission.k8s.io/v1beta1","kind":"AdmissionReview","request":{"uid":"u"}}',
        b'{"apiVersion":"admission.k8s.io/v1","kind":"Pod","request":{"uid":"u"}}',
        b"[" * 100_000,
        b'{"request":' * 100_000,
    ],
)
async def test_what_is_no_review_is_a_bad_request(body: bytes) -> None:
    async with endpoint(stamp) as caller:
        status, answer = await caller.send(body)

    assert status == 400
    assert answer


async def test_who_cannot_decide_answers_with_an_error_so_that_the_failure_policy_does() -> None:
    async def cannot(obj: dict[str, Any], namespace: str, *, dry_run: bool) -> Answer:
        raise Unreachable("the API server is away")

    async def stumbles(obj: dict[str, Any], namespace: str, *, dry_run: bool) -> Answer:
        raise KeyError("spec")

    async with endpoint(cannot) as caller:
        status, body = await caller.send(json.dumps(review(pod("a"))).encode())
    assert (status, body) == (503, b"the API server is away")

    async with endpoint(stumbles) as caller:
        status, body = await caller.send(json.dumps(review(pod("a"))).encode())
        assert status == 500
        assert (await caller.send(b"{}"))[0] == 400, "it goes on"


async def test_more_than_any_review_can_be_is_refused_and_a_large_pod_is_not() -> None:
    large = pod("a", annotations={"data": "x" * (2 * 1024 * 1024)})
    async with endpoint(stamp) as caller:
        response = await caller.ask(review(large))
        assert patch_of(response) == [STEP]

        status, _ = await caller.send(b" " * (LIMIT + 1))
        assert status == 413


def garbled(rng: random.Random, whole: dict[str, Any]) -> bytes:
    """A review with something wrong: a value swapped for another kind of value, bytes lost or changed."""
    text = bytearray(json.dumps(_twisted(rng, whole)).encode())
    for _ in range(rng.choice((0, 0, 1, 3))):
        at = rng.randrange(len(text))
        match rng.randrange(4):
            case 0:
                text[at] = rng.randrange(256)
            case 1:
                del text[at:]
            case 2:
                del text[at]
            case _:
                text[at:at] = rng.randbytes(rng.randrange(1, 5))
        if not text:
            break
    return bytes(text)


def _twisted(rng: random.Random, data: Any) -> Any:
    odd = (None, True, -1, 2**70, 1e308, "", "\u0000", "x" * 70, [], {}, [[]], {"": None}, [None])
    if rng.random() < 0.02:
        return rng.choice(odd)
    if isinstance(data, dict):
        kept = {key: _twisted(rng, value) for key, value in data.items() if rng.random() > 0.02}
        if rng.random() < 0.02:
            kept[rng.choice(("uid", "spec", "metadata", "~/~1", "\ud83d\ude00"))] = rng.choice(odd)
        return kept
    return [_twisted(rng, item) for item in data] if isinstance(data, list) else data


def whole(namespace: str, owner: dict[str, Any]) -> dict[str, Any]:
    """A review of a pod with a bit of everything; a dry run, or slots would be taken by thousands."""
    return review(
        pod(
            "a",
            spec={
                "affinity": {
                    "nodeAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": {
                            "nodeSelectorTerms": [
                                {
                                    "matchExpressions": [
                                        {"key": "zone", "operator": "In", "values": ["a", "b"]}
                                    ]
                                },
                                {
                                    "matchFields": [
                                        {"key": "metadata.name", "operator": "In", "values": ["n"]}
                                    ]
                                },
                            ]
                        }
                    }
                },
                "tolerations": [{"key": "a", "operator": "Exists"}],
                "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone"}],
            },
            labels={"app": "a", "pod-template-hash": "5d8"},
            annotations={"fairlead.dev/slot": "3", "fairlead.dev/slot-token": "t"},
            ownerReferences=[owner],
        ),
        namespace=namespace,
        dryRun=True,
    )


async def test_garbled_reviews_get_a_well_formed_answer_or_a_bad_request(
    corner: Tiered, count: Callable[[int, int], int]
) -> None:
    own = corner.cluster.namespace
    spread = corner.tier("spot", spread=["zone"], tolerations=[{"key": "a", "operator": "Exists"}])
    alone = corner.tier("on-demand", min="30%", exclusive=True)
    await asyncio.to_thread(corner.run, corner.policy("web", spread, alone))
    made = await asyncio.to_thread(corner.cluster.create, replica_set("a-5d8", 0))
    asked = whole(own, owned_by(made, controller=True))
    trusting = client_context(ca_pem=corner.trusted().decode())
    rng = random.Random(7)
    answered = refused = patched = 0
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trusting)) as session:
        caller = Caller(session, corner.balancer.url)
        for _ in range(count(300, 10_000)):
            status, body = await caller.send(garbled(rng, asked))
            assert status in (200, 400), corner.replicas[0].text()
            if status == 200:
                found = well_formed(body, json.loads(body)["response"]["uid"])
                answered += 1
                patched += bool(patch_of(found))
            else:
                refused += 1
    assert min(answered, refused, patched) > 10
    assert await asyncio.to_thread(corner.replicas[0].stop) == 0, "it was there all the time"
    assert corner.replicas[0].log("not_decided") == []
