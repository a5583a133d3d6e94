"""Carry out a plan: apply in order, wait for what was declared, delete what is no longer in the type.

Every write says the whole outcome and can be repeated, so a run that broke off anywhere is finished by
running it again. The note of further kinds is written before the first of them and shortened after the
last is deleted: at no moment is there an object that a later run would not find.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any

from fairlead.client.clock import WALL_CLOCK, Clock
from fairlead.errors import ApiError, FairleadError, NotFound, Overdue, Taken, Unreachable
from fairlead.kube.decode import call_it
from fairlead.tenants.live_objects import Kinds, is_going, objects_of
from fairlead.tenants.names import FIELD_MANAGER, FURTHER_ANNOTATION, TYPE_LABEL, noted
from fairlead.tenants.order import dependencies, in_order, ref_of
from fairlead.tenants.plan import Change, Plan, Step, look_for_stranger
from fairlead.tenants.progress import readiness
from fairlead.tenants.tenant import Tenant

Object = dict[str, Any]
OnWait = Callable[[Tenant, str], None]
"""Receives what is waited for, each time that it changes."""

# Most of what is waited for is there at once; what is not, takes its time.
_LOOK_AGAIN_S = 0.05
_SELDOM_S = 1.0


class Halted(FairleadError):  # noqa: N818
    """A run that broke off half-way: what was written stays, and running it again goes on from there."""

    def __init__(self, tenant: Tenant, done: int, of: int, error: FairleadError) -> None:
        self.error = error
        super().__init__(
            f"tenant {tenant.name} in namespace {tenant.namespace}: stopped after {done} of {of} changes: "
            f"{error}; run the same command again to go on"
        )


class Deadline:
    """The moment until which to wait."""

    def __init__(self, timeout_s: float, clock: Clock = WALL_CLOCK) -> None:
        self.timeout_s = timeout_s
        self._clock = clock
        self._end = clock.now() + timeout_s

    @property
    def left_s(self) -> float:
        """Seconds that are left; never negative."""
        return max(0.0, self._end - self._clock.now())

    async def until(
        self, look: Callable[[], Awaitable[str]], what: str, on_wait: Callable[[str], None]
    ) -> None:
        """Look again and again until there is nothing to wait for; Overdue with the last reason."""
        last = ""
        pause_s = _LOOK_AGAIN_S
        while reason := await look():
            if reason != last:
                on_wait(f"{what}: {reason}")
                last = reason
            if not self.left_s:
                raise Overdue(f"{what}: {reason} after {self.timeout_s:g}s")
            await asyncio.sleep(min(pause_s, self.left_s))
            pause_s = min(2 * pause_s, _SELDOM_S)


class Applier:
    """Writes for one run of a command. Cancelled anywhere, it leaves what a later run goes on from."""

    def __init__(self, kinds: Kinds, *, force: bool = False, on_wait: OnWait = lambda _, __: None) -> None:
        self._kinds = kinds
        self._force = force
        self._on_wait = on_wait

    async def settle(self, tenant: Tenant, deadline: Deadline) -> None:
        """Wait until nothing of the tenant is on its way out: it would take what we apply with it."""

        async def look() -> str:
            held = await objects_of(self._kinds, tenant.name, tenant.namespace)
            return ", ".join(f"{ref_of(item)} is being removed" for item in held if is_going(item))

        await deadline.until(look, f"tenant {tenant.name}", lambda said: self._on_wait(tenant, said))

    async def carry_out(self, plan: Plan, deadline: Deadline) -> None:
        """Take the steps of a plan in their order; Halted says how far it came."""
        done = 0
        applied = {step.ref: step.item for step in plan.steps if step.change is not Change.DELETE}
        try:
            for step in plan.steps:
                if step.change is Change.DELETE:
                    await self._delete(step.item)
                elif step.change is not Change.KEEP:
                    for ref in dependencies(step.item):
                        await self._wait_for(plan.tenant, applied[ref], step, deadline)
                    if step.change is Change.CREATE:
                        # Much may have happened since the plan was made.
                        await self._nobody_else_makes(plan.tenant, step.item)
                    await self._apply(step, plan.leftover_kinds)
                else:
                    continue
                done += 1
            if plan.leftover_kinds:
                account = next(step for step in plan.steps if step.item["kind"] == "ServiceAccount")
                await self._apply(account, ())
        except (ApiError, Unreachable, Overdue, Taken) as error:
            raise Halted(plan.tenant, done, len(plan.changes), error) from error

    async def remove(self, tenant: Tenant, held: Iterable[Object], deadline: Deadline | None) -> None:
        """Delete a tenant's objects, what refers to others first; with a deadline, each gone before the next.

        A re-run finds what is left: the ServiceAccount, which names further kinds, is among the last.
        """
        order = list(reversed(in_order(held, tenant.key)))
        for done, item in enumerate(order):
            try:
                await self._delete(item)
                if deadline is not None:
                    await self._wait_until_gone(tenant, item, deadline)
            except (ApiError, Unreachable, Overdue) as error:
                raise Halted(tenant, done, len(order), error) from error

    async def _nobody_else_makes(self, tenant: Tenant, item: Object) -> None:
        found = await look_for_stranger(self._kinds, tenant, item)
        if found is None:
            return
        if is_going(found):
            raise Overdue(f"{call_it(item)} is being removed by another writer")
        was, wanted = (one["metadata"]["labels"].get(TYPE_LABEL) for one in (found, item))
        if was != wanted:
            raise Taken(f"{call_it(item)} was just made for a tenant of type {was} by another writer")

    async def _apply(self, step: Step, leftover_kinds: tuple[str, ...]) -> None:
        item = step.item
        if leftover_kinds and item["kind"] == "ServiceAccount":
            item = _noting(item, leftover_kinds)
        if step.live is not None:
            # Only this very object: one that took its name since the plan was made is not ours.
            item = {**item, "metadata": {**item["metadata"], "uid": step.live["metadata"]["uid"]}}
        resource = await self._kinds.of(item)
        try:
            await self._kinds.client.apply(resource, item, manager=FIELD_MANAGER, force=self._force)
        except ApiError as error:
            raise ApiError.of(
                error.code, error.reason, f"{call_it(item)}: {error.message}", details=error.details
            ) from error
        except Unreachable as error:
            raise type(error)(f"{call_it(item)}: {error}") from error

    async def _delete(self, item: Object) -> None:
        metadata = item["metadata"]
        resource = await self._kinds.of(item)
        with suppress(NotFound):  # gone already, which is what we want
            await self._kinds.client.delete(
                resource,
                metadata["name"],
                metadata.get("namespace"),
                uid=metadata["uid"],
                # So that a workload is gone only when its pods are, which use what is deleted next.
                propagation="Foreground" if resource.namespaced else None,
            )

    async def _wait_for(self, tenant: Tenant, needed: Object, step: Step, deadline: Deadline) -> None:
        resource = await self._kinds.of(needed)
        metadata = needed["metadata"]

        async def look() -> str:
            live = await self._kinds.client.get(resource, metadata["name"], metadata.get("namespace"))
            found = readiness({**live, "kind": needed["kind"]})
            if found.failed:
                raise Overdue(f"{step.ref} depends on {ref_of(needed)}: {found.reason}")
            return found.reason

        what = f"{step.ref} waits for {ref_of(needed)}"
        await deadline.until(look, what, lambda said: self._on_wait(tenant, said))

    async def _wait_until_gone(self, tenant: Tenant, item: Object, deadline: Deadline) -> None:
        resource = await self._kinds.of(item)
        metadata = item["metadata"]

        async def look() -> str:
            try:
                live = await self._kinds.client.get(resource, metadata["name"], metadata.get("namespace"))
            except NotFound:
                return ""
            if live["metadata"]["uid"] != metadata["uid"]:
                return ""
            held_by = ", ".join(live["metadata"].get("finalizers") or ())
            return f"is still being removed{f' ({held_by})' if held_by else ''}"

        await deadline.until(look, ref_of(item), lambda said: self._on_wait(tenant, said))


def _noting(account: Mapping[str, Any], leftover_kinds: tuple[str, ...]) -> Object:
    metadata = account["metadata"]
    kinds = ", ".join(sorted({*noted(account, FURTHER_ANNOTATION), *leftover_kinds}))
    annotations = {**(metadata.get("annotations") or {}), FURTHER_ANNOTATION: kinds}
    return {**account, "metadata": {**metadata, "annotations": annotations}}
