"""Who calls, and whether that caller may see a pod: asked of the API server for each call, kept nowhere.

Both questions are reviews, which store nothing. The subtle thing is what they cost: every process that
reaches the port can cause one, so only a few are under way at a time, and further callers are sent away.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from fairlead.client.api import Client
from fairlead.client.retry import Repeat
from fairlead.client.wire import plain
from fairlead.errors import ApiError, Unreachable

_TOKENS = "/apis/authentication.k8s.io/v1/tokenreviews"
_ACCESS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
_AT_ONCE = 8
_LONGEST = 16 * 1024  # of a token: those of cloud providers have some kilobytes


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a caller gets no answer, as an HTTP status and a sentence."""

    status: int
    why: str


class CallerReview:
    """See the module."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._under_way = 0

    async def of_pod(self, authorization: str, namespace: str, name: str) -> Refusal | None:
        """Why the caller may not see the pod; None: it may. `authorization` is the header as it came."""
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() != "bearer" or not token or len(token) > _LONGEST:
            return Refusal(401, "send a bearer token of this cluster")
        if self._under_way >= _AT_ONCE:
            return Refusal(429, "too many callers are being reviewed; try again in a second")
        self._under_way += 1
        try:
            return await self._of_pod(token, namespace, name)
        except (ApiError, Unreachable) as error:
            return Refusal(503, f"callers cannot be reviewed: {error}")
        finally:
            self._under_way -= 1

    async def _of_pod(self, token: str, namespace: str, name: str) -> Refusal | None:
        said = await self._ask(_TOKENS, "authentication.k8s.io/v1", "TokenReview", {"token": token})
        if not said.get("authenticated"):
            return Refusal(401, f"the API server does not accept the token: {said.get('error') or 'unknown'}")
        user: Mapping[str, Any] = said.get("user") or {}
        spec = {
            "user": user.get("username", ""),
            "uid": user.get("uid", ""),
            "groups": user.get("groups") or [],
            "extra": user.get("extra") or {},
            "resourceAttributes": {
                "verb": "get",
                "version": "v1",
                "resource": "pods",
                "namespace": namespace,
                "name": name,
            },
        }
        said = await self._ask(_ACCESS, "authorization.k8s.io/v1", "SubjectAccessReview", spec)
        if not said.get("allowed"):
            who = user.get("username", "")
            return Refusal(403, f'user "{who}" needs the right to get pod {name} in namespace {namespace}')
        return None

    async def _ask(self, path: str, version: str, kind: str, spec: Mapping[str, Any]) -> dict[str, Any]:
        body = msgspec.json.encode({"apiVersion": version, "kind": kind, "spec": spec})
        answer = plain(await self._client.write("POST", path, body, Repeat.GUARDED))
        status = answer.get("status")
        return status if isinstance(status, dict) else {}
