"""A mutating webhook on the loopback whose answers a test decides."""

from __future__ import annotations

import base64
import json
import ssl
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from support.cluster import Cluster
from support.manifests import config_map

Decide = Callable[[dict[str, Any]], dict[str, Any]]


def allow(*steps: dict[str, Any]) -> dict[str, Any]:
    """A response that allows, with these JSON patch steps."""
    if not steps:
        return {"allowed": True}
    patch = base64.b64encode(json.dumps(steps).encode()).decode()
    return {"allowed": True, "patchType": "JSONPatch", "patch": patch}


class Webhook:
    """A running webhook: what it was asked, in order, and how a cluster reaches it."""

    def __init__(self, url: str, ca_pem: bytes) -> None:
        self.url = url
        self.requests: list[dict[str, Any]] = []
        self._ca = base64.b64encode(ca_pem).decode()

    def asked(self, kind: str) -> list[dict[str, Any]]:
        """The requests about one kind."""
        return [one for one in self.requests if one["kind"]["kind"] == kind]

    def register(self, cluster: Cluster, *, resources: list[str], **more: Any) -> str:
        """Have it called for creations of `resources` in the test's namespace; returns when it is."""
        name = f"hook.{cluster.unique('w')}.example.com"
        hook = {
            "name": name,
            "clientConfig": {"url": self.url, "caBundle": self._ca},
            "rules": [
                {
                    "apiGroups": [""],
                    "apiVersions": ["v1"],
                    "resources": [*resources, "configmaps"],
                    "operations": ["CREATE"],
                }
            ],
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": cluster.namespace}},
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "timeoutSeconds": 5,
            **more,
        }
        cluster.create(
            {
                "apiVersion": "admissionregistration.k8s.io/v1",
                "kind": "MutatingWebhookConfiguration",
                "metadata": {"name": name},
                "webhooks": [hook],
            }
        )
        return name

    def wait_called(self, cluster: Cluster) -> None:
        """The real server learns of configurations by a watch: try until it has."""

        def called() -> bool:
            cluster.try_create(config_map("probe"), dryRun="All")
            return bool(self.asked("ConfigMap"))

        cluster.wait(called, "the webhook to be called")


@contextmanager
def webhook(cluster: Cluster, decide: Decide) -> Iterator[Webhook]:
    """Serve `decide` over HTTPS inside the block."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            request = review["request"]
            hook.requests.append(request)
            response = {"uid": request["uid"], **decide(request)}
            body = json.dumps(
                {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
            ).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (the base class's name)
            """Keep the test run's output quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    pair = cluster.host.serving_pair()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "pair.pem"
        file.write_bytes(pair.public + pair.private)
        tls.load_cert_chain(file)
    server.socket = tls.wrap_socket(server.socket, server_side=True)
    hook = Webhook(f"https://127.0.0.1:{server.server_port}/mutate", cluster.host.ca_pem)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield hook
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
