"""The authority is replaced while pods are being admitted, and nobody notices."""

from __future__ import annotations

import itertools
import json
import ssl
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from fairlead.doors.webhook.keyring import ROTATE_ANNOTATION, SECRET
from fairlead.doors.webhook.registration import CONFIGURATION
from support.admission import TIER, Tiered, trusted_by
from support.manifests import pod
from support.wire import MERGE_PATCH, PATIENCE_S


class Load:
    """Admissions at a steady rate over several connections; `failed` are those that were not admitted."""

    def __init__(self, corner: Tiered, rate: int) -> None:
        self.admitted = 0
        self.failed: list[Any] = []
        self.rate = rate
        self._corner = corner
        self._gap_s = 4 / rate
        self._ended = threading.Event()
        self._numbers = itertools.count()
        self._threads = [threading.Thread(target=self._go_on) for _ in range(4)]
        self._began = time.monotonic()
        self.elapsed_s = 0.0
        for thread in self._threads:
            thread.start()

    def _go_on(self) -> None:
        wire = self._corner.cluster.host.wire()
        path = self._corner.cluster.path("Pod")
        due = time.monotonic()
        while not self._ended.is_set():
            answer = wire.request("POST", path, pod(f"p{next(self._numbers)}"), dryRun="All")
            if answer.status == 201 and TIER in answer.body["metadata"].get("annotations", {}):
                self.admitted += 1
            else:
                self.failed.append(answer.body)
            due += self._gap_s
            self._ended.wait(max(0.0, due - time.monotonic()))
        wire.close()

    def end(self) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join()
        self.elapsed_s = time.monotonic() - self._began

    @property
    def reached(self) -> float:
        """Admissions per second, over the whole time; known when it has ended."""
        return self.admitted / self.elapsed_s


@contextmanager
def load(corner: Tiered, rate: int) -> Iterator[Load]:
    running = Load(corner, rate)
    try:
        yield running
    finally:
        running.end()


@pytest.mark.slow
def test_no_admission_fails_while_the_authority_is_replaced(
    corner: Tiered, count: Callable[[int, int], int]
) -> None:
    corner.run(replicas=2, arguments=("--failure-policy=Fail", "--rotation-wait=3s"))
    first = corner.trusted()
    path = f"/api/v1/namespaces/{corner.system}/secrets/{SECRET}"
    configurations = corner.cluster.path("MutatingWebhookConfiguration")
    selected = f"metadata.name={CONFIGURATION}"
    with (
        corner.cluster.wire.watch(configurations, fieldSelector=selected) as watch,
        load(corner, count(30, 100)) as running,
    ):
        asked = {"metadata": {"annotations": {ROTATE_ANNOTATION: "now"}}}
        corner.cluster.wire.request("PATCH", path, asked, content_type="application/merge-patch+json").ok()

        def replaced() -> bool:
            now = corner.trusted()
            # Whoever is trusted at this moment, every replica shows a certificate of theirs.
            shown = [shown_to_who_trusts(now, port) for port in corner.balancer.ports]
            assert all(shown) or corner.trusted() != now
            return is_last(now)

        def is_last(bundle: bytes) -> bool:
            return bundle.count(b"BEGIN") == 1 and first not in bundle

        corner.cluster.wait(replaced, "the new authority to be the only one")
        seen = watch.until(lambda event: is_last(trusted_by(event["object"])))
        stages = [bundle for bundle, _ in itertools.groupby(trusted_by(event["object"]) for event in seen)]
        before = running.admitted
        corner.cluster.wait(lambda: running.admitted > before + 20, "admissions afterwards")

    assert running.failed == []
    assert running.admitted > 50
    # Only where the promised rate is asked for must the machine have managed it, too.
    least = count(0, 90) / 100 * running.rate
    assert running.reached >= least, (
        f"{running.reached:.0f} admissions/s over {running.elapsed_s:.1f} s of the {running.rate} asked for"
    )
    # Two replicas publish both in either order, one perhaps a moment after the other has gone on.
    both = certificates(stages[0]) | certificates(stages[-1])
    assert [stage.count(b"BEGIN") for stage in (stages[0], stages[-1])] == [1, 1]
    assert len(both) == 2
    assert len(stages) > 2
    assert all(certificates(stage) == both for stage in stages[1:-1]), "old and new are published together"


def certificates(bundle: bytes) -> set[bytes]:
    return set(bundle.split(b"-----END CERTIFICATE-----\n")) - {b""}


def shown_to_who_trusts(bundle: bytes, port: int) -> bool:
    """A new connection, verified; readiness says that it is the webhook."""
    context = ssl.create_default_context(cadata=bundle.decode())
    url = f"https://127.0.0.1:{port}/livez"
    try:
        with urllib.request.urlopen(url, timeout=PATIENCE_S, context=context) as answer:
            return bool(answer.read() == b"ok")
    except urllib.error.URLError as error:
        if not isinstance(error.reason, ssl.SSLError):
            raise
        return False


def test_another_authority_is_made_when_the_secret_is_gone(corner: Tiered) -> None:
    corner.run(arguments=("--failure-policy=Fail", "--rotation-wait=1s"))
    path = f"/api/v1/namespaces/{corner.system}/secrets/{SECRET}"
    before = corner.trusted()
    corner.cluster.wire.request("DELETE", path).ok()
    corner.cluster.wait(lambda: corner.trusted() not in (before, b""), "another authority")

    corner.called()
    assert json.dumps(corner.cluster.wire.request("GET", path).ok()["data"]) != ""


def test_a_secret_that_is_shipped_empty_is_filled_and_the_rest_of_it_is_left_alone(corner: Tiered) -> None:
    secrets = f"/api/v1/namespaces/{corner.system}/secrets"
    said = {"labels": {"shipped": "yes"}, "annotations": {"applied": "yes"}}
    empty = {"metadata": {"name": SECRET, **said}, "type": "Opaque"}
    uid = corner.cluster.wire.request("POST", secrets, empty).ok()["metadata"]["uid"]
    corner.run(arguments=("--failure-policy=Fail", "--rotation-wait=1s"))
    corner.called()
    before = corner.trusted()
    path = f"{secrets}/{SECRET}"
    corner.cluster.wire.request(
        "PATCH", path, {"metadata": {"annotations": {ROTATE_ANNOTATION: "now"}}}, content_type=MERGE_PATCH
    ).ok()
    corner.cluster.wait(
        lambda: corner.trusted().count(b"BEGIN") == 1 and corner.trusted() != before, "rotation"
    )

    filled = corner.cluster.wire.request("GET", path).ok()
    assert filled["metadata"]["uid"] == uid
    assert filled["metadata"]["labels"].items() >= said["labels"].items()
    assert filled["metadata"]["annotations"].items() >= said["annotations"].items()
    assert {"ca.crt", "ca.key"} <= set(filled["data"])
