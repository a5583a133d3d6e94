"""What a stranger who reaches a port may cost: memory by the byte, others' time by the ratio."""

from __future__ import annotations

import contextlib
import gzip
import json
import socket
import statistics
import threading
import time
import zlib
from collections.abc import Callable, Iterator

import pytest

from fairlead.doors.connections import MOST
from support.cluster import Cluster, Host
from support.hostile import MIB, SHARE, Port, extender, status_of, webhook
from support.wire import PATIENCE_S

DOORS = {"webhook": webhook, "extender": extender}
LIMITS = {"webhook": 8 * MIB, "extender": 64 * MIB}


@pytest.fixture(scope="module", params=list(DOORS))
def port(request: pytest.FixtureRequest, embedded_host: Host) -> Iterator[Port]:
    """Each door that is called, in turn."""
    cluster = Cluster(embedded_host)
    with DOORS[request.param](cluster) as found:
        yield found
    cluster.close()


@pytest.fixture(autouse=True)
def answers_as_before(port: Port) -> Iterator[None]:
    assert port.post() == 200
    yield
    assert port.post() == 200
    assert port.process.log("not_answered") == port.process.log("not_decided") == []


def limit_of(port: Port) -> int:
    return LIMITS["webhook" if port.tls is not None else "extender"]


def test_packed_bodies_are_refused_before_a_byte_is_unpacked(port: Port) -> None:
    good = json.dumps(port.call).encode()
    packed = gzip.compress(good + b" " * (256 * MIB))
    assert len(packed) < MIB
    before = port.restart_peak()
    for number in (1, 4):
        with_each_other(number, lambda: port.post(packed, Content_Encoding="gzip"), {415})
    for coding in ("deflate", "br", "gzip, identity", "nonsense"):
        assert port.post(zlib.compress(good), Content_Encoding=coding) == 415
    assert port.peak() - before < 16 * MIB
    assert port.post(good, Content_Encoding="identity") == 200


def test_a_body_beyond_the_limit_is_refused_unread_by_its_header_and_as_it_comes(port: Port) -> None:
    most = limit_of(port)
    with contextlib.closing(port.connect()) as connection:
        connection.sendall(port.header(f"Content-Length: {most + 1}") + b"\r\n")
        assert status_of(connection) == 413
    with contextlib.closing(port.connect()) as connection:
        connection.sendall(port.header("Transfer-Encoding: chunked") + b"\r\n")
        chunk = b"%x\r\n%s\r\n" % (MIB, b" " * MIB)
        before, sent = port.restart_peak(), 0
        with contextlib.suppress(ConnectionError):
            while sent < 3 * most and sent < 100:
                connection.sendall(chunk)
                sent += 1
        assert status_of(connection) in (413, 0), "a sender that does not listen may see the end only"
    assert port.peak() - before < 64 * MIB


def test_health_and_metrics_take_no_body(port: Port) -> None:
    for path in ("/livez", "/readyz", "/metrics"):
        with contextlib.closing(port.http()) as connection:
            connection.request("GET", path, b"x")
            assert connection.getresponse().status == 413


@pytest.mark.parametrize("value", ["[]", "{}", '{"a":0}', '"ab"', "[[[[[]]]]]"])
def test_values_that_take_more_memory_than_their_text_are_counted_too(port: Port, value: str) -> None:
    size, number = (60, 3) if port.tls is None else (7, 12)
    body = stuffed(port, ",".join([value] * (size * MIB // (len(value) + 1))))
    before = port.restart_peak()
    with_each_other(number, lambda: port.post(body), {200, 400, 408, 413, 503})
    assert port.peak() - before < SHARE + 64 * MIB


def stuffed(port: Port, values: str) -> bytes:
    """A call with these values where the door reads them; the webhook has to look for an owner first."""
    call = json.loads(json.dumps(port.call))
    if port.tls is None:
        call["NodeNames"] = ["?"]
    else:
        owner = {"apiVersion": "example.com/v1", "kind": "Thing", "name": "a", "uid": "u", "controller": True}
        call["request"]["object"]["metadata"]["ownerReferences"] = [owner]
        call["request"]["object"]["spec"]["more"] = ["?"]
    return json.dumps(call).replace('"?"', values).encode()


def test_large_bodies_side_by_side_share_a_fixed_amount_of_memory(port: Port) -> None:
    body = b" " * (7 * MIB) + json.dumps(port.call).encode()
    before = port.restart_peak()
    with_each_other(12, lambda: port.post(body), {200, 408, 503})
    few = port.peak() - before
    with_each_other(48, lambda: port.post(body), {200, 408, 503})
    assert port.peak() - before < max(2 * few, SHARE + 64 * MIB)


def test_a_body_that_does_not_come_is_given_up(port: Port) -> None:
    with contextlib.closing(port.connect()) as connection:
        connection.sendall(port.header("Content-Length: 100") + b"\r\n{")
        assert status_of(connection) == 408
    with contextlib.closing(port.connect()) as connection:
        connection.sendall(port.header("Content-Length: 100"))
        assert status_of(connection) == 0, "the header did not come either"
    if port.tls is not None:
        with socket.create_connection(("127.0.0.1", port.port), timeout=60) as connection:
            connection.sendall(b"\x16\x03")
            assert status_of(connection) == 0, "nor the handshake"


def test_slow_connections_keep_no_call_waiting_are_few_and_end(port: Port) -> None:
    alone_s = median_s(port)
    before = port.open_files()
    slow = []
    try:
        for number in range(3 * MOST):
            connection = socket.create_connection(("127.0.0.1", port.port), timeout=60)
            slow.append(connection)
            if port.tls is None:
                connection.sendall(port.header(f"Content-Length: {1000}") + b"\r\n{" * (number % 2))
            else:
                connection.sendall(b"\x16\x03\x01")
        assert median_s(port) < 5 * alone_s
        assert port.post() == 200
        assert port.open_files() - before <= MOST + 20
        assert sum(has_ended(connection, 0.0) for connection in slow) >= 2 * MOST, "the first make room"
        assert all(has_ended(connection, PATIENCE_S) for connection in slow), "and the last have a deadline"
    finally:
        for connection in slow:
            connection.close()


def has_ended(connection: socket.socket, patience_s: float) -> bool:
    """Whether the other end has closed a connection, maybe after a word; or does so in time."""
    connection.settimeout(patience_s)
    try:
        while connection.recv(4096):
            pass
    except (BlockingIOError, TimeoutError):
        return False
    except ConnectionError:
        pass
    return True


def median_s(port: Port) -> float:
    """How long a call takes, on a connection of its own."""
    took = []
    for _ in range(20):
        began = time.perf_counter()
        assert port.post() == 200
        took.append(time.perf_counter() - began)
    return statistics.median(took)


def with_each_other(number: int, call: Callable[[], int], expected: set[int]) -> None:
    found: list[int] = []

    def one() -> None:
        try:
            found.append(call())
        except (ConnectionError, BrokenPipeError):
            found.append(0)  # refused while it was still sending

    threads = [threading.Thread(target=one) for _ in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(found) <= expected | {0}
    assert len(found) == number


def test_names_that_users_choose_are_not_remembered_whole_or_without_end(
    port: Port, count: Callable[[int, int], int]
) -> None:
    def call(number: int, **owner: str) -> None:
        made = json.loads(json.dumps(port.call))
        whole = made["Pod"] if port.tls is None else made["request"]["object"]
        whole["metadata"]["ownerReferences"] = [
            {"apiVersion": "example.com/v1", "name": f"a-{number}", "uid": "u", "controller": True} | owner
        ]
        port.ask(made)

    for number in range(20):
        call(number, kind="K" * MIB)
    before = port.resident()
    for number in range(100):
        call(number, kind=f"{number}" + "K" * MIB)
        call(number, kind="Thing", apiVersion=f"{number}.example.com/v1" + "x" * MIB)
    assert port.resident() - before < 32 * MIB, "of 200 MiB"
    before = port.resident()
    for number in range(count(300, 3000)):
        call(number, kind=f"Thing{number}", apiVersion=f"g{number}.example.com/v1")
    assert port.resident() - before < 16 * MIB


def test_an_annotation_may_be_null(port: Port) -> None:
    if port.tls is None:
        pytest.skip("what kube-scheduler sends has been validated")
    for name in ("policy", "slot", "tier", "slot-token"):
        call = json.loads(json.dumps(port.call))
        marks = {"policy": "web", "slot": "1", "tier": "spot", "slot-token": "t"} | {name: None}
        call["request"]["object"]["metadata"]["annotations"] = {
            f"fairlead.dev/{key}": value for key, value in marks.items()
        }
        assert port.ask(call)["response"]["allowed"]
