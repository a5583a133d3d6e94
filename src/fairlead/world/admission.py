"""Admission: what a write looks like to the hooks that may change or refuse it.

In virtual time admission is a list of plain functions called in order (`Hook`). On the wall clock
the MutatingWebhookConfigurations of the cluster are called over HTTP as well (`http.webhooks`);
they run between staging a write and committing it, so a commit stays synchronous.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Generic, Literal, Protocol, TypeVar

from fairlead.errors import Conflict
from fairlead.world.schema.resources import Resource
from fairlead.world.store import Object

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class AdmissionRequest:
    """One write as admission sees it. `name` is empty for a creation with generateName."""

    operation: Literal["CREATE", "UPDATE", "DELETE"]
    resource: Resource
    version: str
    namespace: str
    name: str
    object: Object | None
    old: Object | None = None
    subresource: str = ""
    dry_run: bool = False
    user: str = "system:admin"

    def with_object(self, item: Object) -> AdmissionRequest:
        """The same request with a changed object."""
        return replace(self, object=item)


Hook = Callable[[AdmissionRequest], Object | None]
"""Returns a changed *copy* of ``request.object``, or None to leave it; refuses by raising ApiError."""


@dataclass(frozen=True, slots=True)
class Staged(Generic[T]):
    """A write that waits for admission only: what is to be admitted, and how to commit the outcome.

    `again` stages the same write again on the latest object (a patch, or an update without a
    resourceVersion); None when meeting a newer object is the caller's conflict.
    """

    request: AdmissionRequest
    commit: Callable[[Object | None], T]
    again: Callable[[], Staged[T]] | None = None


class Admitter(Protocol):
    """The caller of webhooks; may take its time."""

    async def admit(self, request: AdmissionRequest) -> Object | None:
        """The object as the webhooks leave it; raises ApiError when one refuses."""


def run_hooks(hooks: list[Hook], request: AdmissionRequest) -> AdmissionRequest:
    """The request after all in-process hooks, each seeing what the ones before it did."""
    for hook in hooks:
        changed = hook(request)
        if changed is not None:
            request = request.with_object(changed)
    return request


_ATTEMPTS = 5  # as the API server's own optimistic retries of a patch


async def commit_admitted(staged: Staged[T], hooks: list[Hook], admitter: Admitter) -> T:
    """Run hooks and webhooks, then commit; stage again when the object changed meanwhile.

    Cancelled while a webhook is asked, nothing was written; the commit itself cannot be interrupted.
    """
    attempt = 1
    while True:
        changed = await admitter.admit(run_hooks(hooks, staged.request))
        try:
            return staged.commit(changed)
        except Conflict as error:
            if error.reason != "Conflict" or staged.again is None or attempt == _ATTEMPTS:
                raise
        attempt += 1
        staged = staged.again()
