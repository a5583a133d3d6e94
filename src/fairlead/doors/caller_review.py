"""Who calls, and what that caller may see: asked of the API server, kept nowhere.

Both questions are reviews, which store nothing. The subtle thing is what they cost: every process that
reaches the port can cause one, so only a few are under way at a time, and further callers are sent away.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from fairlead.client.api import Client
from fairlead.client.retry import Repeat
from fairlead.client.wire import plain
from fairlead.errors import ApiError, Unreachable

_TOKENS = "/apis/authentication.k8s.io/v1/tokenreviews"
_ACCESS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
_AT_ONCE = 8
_LONGEST = 16 * 1024  # of a token: those of cloud providers have some kilobytes

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a caller gets no answer, as an HTTP status and a sentence."""

    status: int
    why: str


@dataclass(frozen=True, slots=True)
class Caller:
    """A user of the cluster, as its API server knows one."""

    user: Mapping[str, Any]

    @property
    def name(self) -> str:
        """The user's name."""
        return str(self.user.get("username", ""))


@dataclass(frozen=True, slots=True)
class Right:
    """A right to read: a verb on a resource; without `namespace`, in all of them."""

    verb: str
    group: str
    resource: str
    namespace: str = ""
    name: str = ""

    def __str__(self) -> str:
        """As a sentence goes on after "the right to".

        >>> str(Right("get", "", "pods", "shop", "web")), str(Right("list", "", "nodes"))
        ('get pod web in namespace shop', 'list nodes in all namespaces')
        """
        if self.name:
            return f"{self.verb} {self.resource.removesuffix('s')} {self.name} in namespace {self.namespace}"
        resource = f"{self.resource}.{self.group}" if self.group else self.resource
        return f"{self.verb} {resource} in {self.namespace or 'all namespaces'}"

    def attributes(self) -> dict[str, str]:
        """As a review asks about it."""
        said = {
            "verb": self.verb,
            "group": self.group,
            "resource": self.resource,
            "namespace": self.namespace,
            "name": self.name,
        }
        # Of what has a version of its own, any.
        return {
            **{key: value for key, value in said.items() if value},
            "version": "*" if self.group else "v1",
        }


class CallerReview:
    """See the module."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._under_way = 0

    async def of(self, authorization: str) -> Caller | Refusal:
        """Who calls, or why nobody knows. `authorization` is the header as it came."""
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() != "bearer" or not token or len(token) > _LONGEST:
            return Refusal(401, "send a bearer token of this cluster")
        return await self._one_of_few(lambda: self._of(token))

    async def of_rights(self, caller: Caller, rights: Iterable[Right]) -> Refusal | None:
        """Why the caller may not read all of it; None: it may."""
        return await self._one_of_few(lambda: self._of_rights(caller, rights))

    async def of_pod(self, authorization: str, namespace: str, name: str) -> Refusal | None:
        """Why the caller may not see the pod; None: it may."""
        caller = await self.of(authorization)
        if isinstance(caller, Refusal):
            return caller
        return await self.of_rights(caller, [Right("get", "", "pods", namespace, name)])

    async def _one_of_few(self, review: Callable[[], Awaitable[T]]) -> T | Refusal:
        if self._under_way >= _AT_ONCE:
            return Refusal(429, "too many callers are being reviewed; try again in a second")
        self._under_way += 1
        try:
            return await review()
        except (ApiError, Unreachable) as error:
            return Refusal(503, f"callers cannot be reviewed: {error}")
        finally:
            self._under_way -= 1

    async def _of(self, token: str) -> Caller | Refusal:
        said = await self._ask(_TOKENS, "authentication.k8s.io/v1", "TokenReview", {"token": token})
        if not said.get("authenticated"):
            return Refusal(401, f"the API server does not accept the token: {said.get('error') or 'unknown'}")
        return Caller(said.get("user") or {})

    async def _of_rights(self, caller: Caller, rights: Iterable[Right]) -> Refusal | None:
        for right in rights:
            spec = {
                "user": caller.name,
                "uid": caller.user.get("uid", ""),
                "groups": caller.user.get("groups") or [],
                "extra": caller.user.get("extra") or {},
                "resourceAttributes": right.attributes(),
            }
            said = await self._ask(_ACCESS, "authorization.k8s.io/v1", "SubjectAccessReview", spec)
            if not said.get("allowed"):
                return Refusal(403, f'user "{caller.name}" needs the right to {right}')
        return None

    async def _ask(self, path: str, version: str, kind: str, spec: Mapping[str, Any]) -> dict[str, Any]:
        body = msgspec.json.encode({"apiVersion": version, "kind": kind, "spec": spec})
        answer = plain(await self._client.write("POST", path, body, Repeat.GUARDED))
        status = answer.get("status")
        return status if isinstance(status, dict) else {}
