"""An extender that objects to nothing, unless told to, and remembers what kube-scheduler asked it.

kube-scheduler passes to its extenders every node that its own rules let through, and every node on which
preemption would help with the victims there: what it tells neither in a pod's status nor in events.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

__all__ = ["Listener", "listening"]

Object = dict[str, Any]


class Listener:
    """What was asked since `forget`, each by the pod's ``namespace/name``; the first time counts.

    `feasible`: the names of the nodes that fit, sorted. `victims`: by node, the UIDs of the pods to evict.
    While it `refuses`, no pod is bound, so that each is judged as if it were the only one.
    """

    def __init__(self, port: int) -> None:
        self.port = port
        self.feasible: dict[str, list[str]] = {}
        self.victims: dict[str, dict[str, list[str]]] = {}
        self.refuses = False

    @property
    def entry(self) -> Object:
        """What kube-scheduler's configuration says of it."""
        return {
            "urlPrefix": f"http://127.0.0.1:{self.port}",
            "filterVerb": "filter",
            "preemptVerb": "preempt",
            "nodeCacheCapable": True,
            "httpTimeout": "60s",
        }

    def forget(self) -> None:
        self.feasible, self.victims = {}, {}

    def answer(self, path: str, asked: Object) -> Object:
        """Note a request and let everything pass."""
        metadata = asked["Pod"]["metadata"]
        key = f"{metadata['namespace']}/{metadata['name']}"
        if path == "/filter":
            self.feasible.setdefault(key, sorted(asked["NodeNames"]))
            return {"NodeNames": [] if self.refuses else asked["NodeNames"]}
        offers = asked["NodeNameToMetaVictims"]
        found = {node: [pod["UID"] for pod in offer["Pods"] or ()] for node, offer in offers.items()}
        self.victims.setdefault(key, found)
        return {"NodeNameToMetaVictims": offers}


@contextmanager
def listening() -> Iterator[Listener]:
    """A listener on a port of its own."""

    class Handler(BaseHTTPRequestHandler):
        # One connection for all requests of a scheduler.
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            answer = json.dumps(listener.answer(self.path, asked)).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
            """Requests are not worth a line."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True

    with Server(("127.0.0.1", 0), Handler) as server:
        listener = Listener(server.server_address[1])
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield listener
        finally:
            server.shutdown()
            thread.join()
