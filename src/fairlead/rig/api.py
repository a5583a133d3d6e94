"""Just enough of an API client for the rig to set a control plane up: blocking, JSON in and out.

The product's own client is what the rig exists to test, so the rig does not stand on it.
"""

from __future__ import annotations

import base64
import http.client
import json
import ssl
import threading
import time
from pathlib import Path
from typing import Any

import yaml

from fairlead.client.authority import KeyPair
from fairlead.errors import ApiError, Unreachable

_MERGE_PATCH = "application/merge-patch+json"
_KEPT_S = 20.0  # the server hangs up on connections that are unused for longer than a minute


class Api:
    """Talks to the API server on a loopback port as one user. Safe to share: one request at a time."""

    def __init__(self, port: int, tls: ssl.SSLContext) -> None:
        self._port = port
        self._tls = tls
        self._lock = threading.Lock()
        self._connection: http.client.HTTPSConnection | None = None
        self._used_at = 0.0

    def another(self) -> Api:
        """The same user over a connection of its own, for one more thread."""
        return Api(self._port, self._tls)

    def get(self, path: str) -> dict[str, Any]:
        """GET `path`."""
        return self.request("GET", path)

    def create(self, path: str, obj: dict[str, Any]) -> dict[str, Any]:
        """POST `obj`."""
        return self.request("POST", path, obj)

    def patch(self, path: str, patch: dict[str, Any]) -> dict[str, Any]:
        """Merge-patch the object at `path`."""
        return self.request("PATCH", path, patch, content_type=_MERGE_PATCH)

    def exists(self, path: str) -> bool:
        """Whether GET `path` finds something."""
        try:
            self.get(path)
        except ApiError as error:
            if error.code == http.client.NOT_FOUND:
                return False
            raise
        return True

    def request(
        self, method: str, path: str, body: Any = None, *, content_type: str = "application/json"
    ) -> dict[str, Any]:
        """One request; an answer that is no success raises `ApiError`."""
        payload = None if body is None else json.dumps(body).encode()
        headers = {"Accept": "application/json", "Content-Type": content_type}
        with self._lock:
            try:
                status, data = self._send(method, path, payload, headers)
            except (OSError, http.client.HTTPException) as error:
                self._drop()
                raise Unreachable(f"{method} {path} on 127.0.0.1:{self._port}: {error!r}") from error
        answer = json.loads(data) if data.startswith(b"{") else {"message": data.decode(errors="replace")}
        if status >= http.client.BAD_REQUEST:
            raise ApiError.of(status, answer.get("reason", ""), answer.get("message", ""))
        assert isinstance(answer, dict)
        return answer

    def close(self) -> None:
        """Close the connection; a later request opens a new one."""
        with self._lock:
            self._drop()

    def _send(
        self, method: str, path: str, payload: bytes | None, headers: dict[str, str]
    ) -> tuple[int, bytes]:
        if time.monotonic() - self._used_at > _KEPT_S:
            self._drop()
        if self._connection is None:
            self._connection = http.client.HTTPSConnection(
                "127.0.0.1", self._port, timeout=60, context=self._tls
            )
        self._connection.request(method, path, payload, headers)
        response = self._connection.getresponse()
        data = response.read()
        self._used_at = time.monotonic()
        return response.status, data

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def write_kubeconfig(path: Path, *, url: str, ca: bytes, user: str, pair: KeyPair) -> Path:
    """A self-contained kubeconfig for `user`: certificates inside, one context called ``fairlead``."""

    def inline(pem: bytes) -> str:
        return base64.b64encode(pem).decode()

    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {"name": "fairlead", "cluster": {"server": url, "certificate-authority-data": inline(ca)}}
        ],
        "users": [
            {
                "name": user,
                "user": {
                    "client-certificate-data": inline(pair.public),
                    "client-key-data": inline(pair.private),
                },
            }
        ],
        "contexts": [{"name": "fairlead", "context": {"cluster": "fairlead", "user": user}}],
        "current-context": "fairlead",
    }
    path.touch(mode=0o600)
    path.write_text(yaml.safe_dump(config, sort_keys=False))
    return path
