"""An API server that knows its caller and lets it do nothing."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from support.door import kubeconfig_of

__all__ = ["forbidding"]


class _Forbids(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        said = {
            "kind": "Status",
            "apiVersion": "v1",
            "status": "Failure",
            "reason": "Forbidden",
            "code": 403,
            "message": f'User "stranger" cannot read {self.path.partition("?")[0]}',
        }
        body = json.dumps(said).encode()
        self.send_response(403)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_PUT = do_PATCH = do_DELETE = do_GET  # noqa: N815 (the base class' names)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (the base class' name)
        """Say nothing."""


@contextlib.contextmanager
def forbidding(folder: Path) -> Iterator[Path]:
    """The kubeconfig for it."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Forbids) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield kubeconfig_of(f"http://127.0.0.1:{server.server_port}", folder)
        finally:
            server.shutdown()
            thread.join()
