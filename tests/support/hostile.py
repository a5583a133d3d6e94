"""A door's port as a stranger reaches it: raw connections, and the memory of the process behind it."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairlead.client.tls import client_context
from fairlead.doors.bodies import DEFAULT_MEMORY, memory_limit
from fairlead.doors.webhook.registration import PATH
from fairlead.rig.processes import free_ports
from support.admission import tiered
from support.cluster import Cluster
from support.door import DoorProcess
from support.extender import extended
from support.manifests import pod
from support.reviews import review
from support.wire import PATIENCE_S

MIB = 1024 * 1024
SHARE = (memory_limit() or DEFAULT_MEMORY) // 4
"""What all bodies may take together."""


@dataclass(frozen=True)
class Port:
    """A door that is called on `port`, and a call that it answers with 200."""

    process: DoorProcess
    port: int
    tls: ssl.SSLContext | None
    path: str
    call: dict[str, Any]

    def connect(self, timeout_s: float = PATIENCE_S) -> socket.socket:
        """A connection on which nothing was sent yet."""
        plain = socket.create_connection(("127.0.0.1", self.port), timeout=timeout_s)
        return plain if self.tls is None else self.tls.wrap_socket(plain, server_hostname="127.0.0.1")

    def http(self) -> http.client.HTTPConnection:
        """A connection for ordinary calls."""
        if self.tls is None:
            return http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        return http.client.HTTPSConnection("127.0.0.1", self.port, timeout=PATIENCE_S, context=self.tls)

    def post(self, body: Any = None, **headers: str) -> int:
        """The status of a call; of the good one unless told."""
        raw = body if body is not None else json.dumps(self.call).encode()
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        with contextlib.closing(self.http()) as connection:
            connection.request("POST", self.path, raw, named)
            answer = connection.getresponse()
            answer.read()
            return answer.status

    def ask(self, call: Any = None) -> Any:
        """What a call is answered with, which must be 200; the good one unless told."""
        with contextlib.closing(self.http()) as connection:
            connection.request("POST", self.path, json.dumps(call if call is not None else self.call))
            answer = connection.getresponse()
            body = answer.read()
            assert answer.status == 200, body
            return json.loads(body)

    def header(self, *lines: str) -> bytes:
        """The beginning of a call, up to the empty line that is yet to come."""
        return "\r\n".join([f"POST {self.path} HTTP/1.1", "Host: a", *lines, ""]).encode()

    def restart_peak(self) -> int:
        """The memory that it takes now, in bytes; `peak` counts from here."""
        Path(f"/proc/{self.process.pid}/clear_refs").write_text("5")
        return self._memory("VmRSS")

    def peak(self) -> int:
        """The most memory that it took since."""
        return self._memory("VmHWM")

    def open_files(self) -> int:
        """How many files, connections among them, it has open."""
        return len(list(Path(f"/proc/{self.process.pid}/fd").iterdir()))

    def resident(self) -> int:
        return self._memory("VmRSS")

    def _memory(self, name: str) -> int:
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1]) * 1024
        raise AssertionError(f"no {name} of process {self.process.pid}")


def status_of(connection: socket.socket) -> int:
    """The status that a connection is answered with; 0: it was closed without an answer."""
    answer = b""
    try:
        while b"\r\n" not in answer:
            got = connection.recv(4096)
            if not got:
                return 0
            answer += got
    except (ConnectionError, ssl.SSLError):
        return 0
    return int(answer.split(b" ")[1])


@contextmanager
def webhook(cluster: Cluster) -> Iterator[Port]:
    """A webhook that governs the test's namespace."""
    with tiered(cluster) as corner:
        corner.nodes(1, 1)
        corner.run()
        process = corner.replicas[0]
        (port,) = corner.balancer.ports
        trusting = client_context(ca_pem=corner.trusted().decode())
        call = review(pod("web-1"), namespace=cluster.namespace, dryRun=True)
        yield Port(process, port, trusting, PATH, call)


@contextmanager
def extender(cluster: Cluster) -> Iterator[Port]:
    """An extender that governs the test's namespace, and a pod that it was shown."""
    (port,) = free_ports(1)
    with extended(cluster, port) as corner:
        corner.nodes(1, 1)
        corner.run()
        made = cluster.create(pod("web-1", spec={"schedulerName": "nobody"}))
        names = corner.of_tier("spot") + corner.of_tier("on-demand")
        call = {"Pod": made, "Nodes": None, "NodeNames": names}
        yield Port(corner.replicas[0], port, None, "/filter", call)
