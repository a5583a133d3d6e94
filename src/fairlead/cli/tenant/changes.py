"""``create``, ``apply`` and ``delete``: all tenants are planned before the first is written, so that what
cannot be done is said before anything is; what goes is named first, and asked about.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import click

from fairlead.cli.tenant.display import ProgressDisplay, show_diffs, show_objects, show_plans, summary
from fairlead.cli.tenant.query import find_named, show_held
from fairlead.cli.tenant.session import (
    Session,
    check_names,
    count,
    plain_values,
    run,
    timeout_s,
    type_called,
    types_of,
)
from fairlead.errors import BadInput, FairleadError, Taken
from fairlead.kube.resources import known
from fairlead.tenants.apply import Applier, Deadline
from fairlead.tenants.live_objects import Kinds, objects_of, release_of, together
from fairlead.tenants.manifests import render
from fairlead.tenants.names import TENANT_LABEL, selector_of
from fairlead.tenants.order import in_order, ref_of
from fairlead.tenants.plan import Plan, plan
from fairlead.tenants.status import LiveTenant, find_tenants, wait_until_running
from fairlead.tenants.tenant import Tenant, merged, place, read_sets, read_tenants

if TYPE_CHECKING:
    from fairlead.tenants.progress import Progress
    from fairlead.tenants.types import TenantType


# Tenants that are written at once: each is a handful of requests, one after the other.
_AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class Writing:
    """The flags that both commands have."""

    types_file: str
    namespace: str
    namespace_per_tenant: bool
    wait: bool
    timeout: str
    dry_run: bool
    diff: bool
    force_conflicts: bool
    show_secrets: bool
    output: str
    kubeconfig: str
    context: str

    @property
    def writes(self) -> bool:
        """Whether anything is to be written."""
        return not self.dry_run and not self.diff


@dataclass(frozen=True, slots=True)
class _Wish:
    tenant: Tenant
    kind: TenantType


def create(
    flags: Writing,
    names: tuple[str, ...],
    *,
    type_name: str,
    sets: tuple[str, ...],
    values_files: tuple[str, ...],
) -> None:
    """Create tenants of one type."""
    check_names(names)
    kind = type_called(types_of(flags.types_file), type_name)
    parameters: dict[str, Any] = {}
    for file in values_files:
        parameters = merged(parameters, plain_values(file))
    parameters = merged(parameters, read_sets(sets))
    timeout_s(flags.timeout)
    given = [Tenant(name, type_name, flags.namespace, parameters) for name in names]
    _check([_wish(one, kind, "default", flags) for one in given])

    async def call(session: Session) -> None:
        wishes = [_wish(one, kind, session.namespace, flags) for one in given]
        deadline = await _write(session, wishes, flags)
        await _wait(session, wishes, deadline, flags)

    run(flags.kubeconfig, flags.context, call, changes=flags.writes)


def apply(flags: Writing, *, file: str, prune: bool, all_namespaces: bool, yes: bool) -> None:
    """Bring the tenants of a file to what it says."""
    from fairlead.cli.state import read_objects

    if all_namespaces and not prune:
        raise BadInput("--all-namespaces goes with --prune")
    types = types_of(flags.types_file)
    shown = "standard input" if file == "-" else file
    entries = read_tenants(read_objects([file]), shown)
    kinds = {entry.type: _named(types, entry, shown) for entry in entries}
    timeout_s(flags.timeout)
    _check([_wish(entry, kinds[entry.type], "default", flags) for entry in entries])

    async def call(session: Session) -> None:
        default = flags.namespace or session.namespace
        wishes = [_wish(entry, kinds[entry.type], default, flags) for entry in entries]
        seen: set[str] = set()
        for wish in wishes:
            if wish.tenant.key in seen:
                raise BadInput(f"{shown}: tenant {wish.tenant.name!r} is there twice")
            seen.add(wish.tenant.key)
        # Never the kubeconfig's namespace just because it is that: the user has not named it.
        places = {wish.tenant.namespace for wish in wishes}
        held = await _held(session, [None] if all_namespaces else sorted(places))
        others = [one for one in held if one.tenant.key not in seen and not one.release]
        if prune:
            await _spare_guests(session, others, [wish.tenant for wish in wishes])
        if prune and flags.writes and not yes:
            _confirm(others)
        deadline = await _write(session, wishes, flags, retype=True)
        # Before we wait: what goes makes room for what comes.
        await _prune(session, others, flags, prune=prune)
        await _wait(session, wishes, deadline, flags)

    run(flags.kubeconfig, flags.context, call, changes=flags.writes)


def _named(types: dict[str, TenantType], entry: Tenant, shown: str) -> TenantType:
    try:
        return type_called(types, entry.type)
    except BadInput as error:
        raise BadInput(f"{shown}: tenant {entry.name}: {error}") from error


def _wish(given: Tenant, kind: TenantType, default: str, flags: Writing) -> _Wish:
    """The tenant in its place, which it may have named itself."""
    chosen, own = place(kind, given.name, given.namespace or default, alone=flags.namespace_per_tenant)
    if own and given.namespace not in ("", chosen):
        raise BadInput(
            f"tenant {given.name}: has a namespace of its own, {chosen}, and cannot go to namespace "
            f"{given.namespace}"
        )
    return _Wish(replace(given, namespace=chosen, own_namespace=own), kind)


def _check(wishes: Sequence[_Wish]) -> None:
    """Say what is wrong with parameters and types before any cluster is asked."""
    for wish in wishes:
        render(wish.tenant, wish.kind)


async def _write(
    session: Session, wishes: Sequence[_Wish], flags: Writing, *, retype: bool = False
) -> Deadline:
    """Plan, and carry it out if that is asked for; returns until when to wait."""
    kinds = Kinds(session.client)
    deadline = Deadline(timeout_s(flags.timeout))
    lane = asyncio.Semaphore(_AT_ONCE)
    with ProgressDisplay([wish.tenant for wish in wishes]) as display:
        applier = Applier(kinds, force=flags.force_conflicts, on_wait=display.waits)

        async def planned(wish: _Wish) -> Plan:
            async with lane:
                if flags.writes:
                    await applier.settle(wish.tenant, deadline)
                return await plan(kinds, wish.tenant, wish.kind, force=flags.force_conflicts, retype=retype)

        plans = await together(planned(wish) for wish in wishes)
        if not flags.writes:
            display.close()
            _show_unwritten(plans, flags)
            return deadline

        async def carried_out(one: Plan) -> FairleadError | None:
            async with lane:
                try:
                    await applier.carry_out(one, deadline)
                except FairleadError as error:
                    return error
                return None

        failures = await together(carried_out(one) for one in plans)
        display.close()
        done = [one for one, error in zip(plans, failures, strict=True) if error is None]
        if flags.output == "table":
            for one in done:
                click.echo(summary(one))
        else:
            show_objects(done, flags.output, secrets=flags.show_secrets)
        _raise_all([error for error in failures if error is not None])
    return deadline


async def _wait(session: Session, wishes: Sequence[_Wish], deadline: Deadline, flags: Writing) -> None:
    if not flags.wait or not flags.writes:
        return
    tenants = [wish.tenant for wish in wishes]
    with ProgressDisplay(tenants) as display:
        found = await wait_until_running(session.client, tenants, deadline, display.is_at)
    if flags.output == "table":
        wanted = {tenant.key for tenant in tenants}
        held = await _held(session, sorted({tenant.namespace for tenant in tenants}))
        show_held([one for one in held if one.tenant.key in wanted], "table")
    _raise_all(
        [_overdue(tenant, found[tenant.key], deadline) for tenant in tenants if not found[tenant.key].done]
    )


async def _held(session: Session, places: Sequence[str | None]) -> list[LiveTenant]:
    return [
        one
        for found in await together(find_tenants(session.client, each) for each in places)
        for one in found
    ]


def _overdue(tenant: Tenant, progress: Progress, deadline: Deadline) -> FairleadError:
    from fairlead.errors import Overdue

    return Overdue(
        f"tenant {tenant.name} in namespace {tenant.namespace} is {progress.stage.text} after "
        f"{deadline.timeout_s:g}s: {progress.reason}"
    )


def _show_unwritten(plans: Sequence[Plan], flags: Writing) -> None:
    if flags.output != "table":
        show_objects(plans, flags.output, secrets=flags.show_secrets)
    elif flags.diff:
        show_diffs(plans)
    else:
        show_plans(plans)


async def _prune(session: Session, others: Sequence[LiveTenant], flags: Writing, *, prune: bool) -> None:
    for one in _guests_first(others):
        if prune and flags.writes:
            await _remove(session, one, Deadline(timeout_s(flags.timeout)), wait=True)
        else:
            what = "would be deleted" if prune else "left alone; --prune deletes it"
            said = f"tenant {one.name} in namespace {one.namespace} is not in the file: {what}"
            click.echo(said, err=not prune or flags.output != "table")


def _raise_all(errors: Sequence[FairleadError]) -> None:
    """Say all of them; the last one ends the command."""
    for error in errors[:-1]:
        click.echo(f"error: {error}", err=True)
    if errors:
        raise errors[-1]


def delete_tenants(
    names: tuple[str, ...],
    *,
    namespace: str,
    yes: bool,
    wait: bool,
    timeout: str,
    dry_run: bool,
    kubeconfig: str,
    context: str,
) -> None:
    """Delete tenants."""
    check_names(names)
    deadline_s = timeout_s(timeout)

    async def call(session: Session) -> None:
        found = await find_named(session, names, namespace)
        _tell_apart(found)
        for one in found:
            if one.release:
                raise Taken(
                    f"tenant {one.name} in namespace {one.namespace} is held by the Helm release "
                    f"{one.release!r}: remove it with helm uninstall"
                )
        await _spare_guests(session, found)
        if not dry_run and not yes:
            _confirm(found)
        for one in _guests_first(found):
            await _remove(session, one, Deadline(deadline_s), wait=wait, dry_run=dry_run)

    run(kubeconfig, context, call, changes=not dry_run)


def _tell_apart(found: Sequence[LiveTenant]) -> None:
    for one in found:
        places = [other.namespace for other in found if other.name == one.name]
        if len(places) > 1:
            raise BadInput(
                f"tenant {one.name!r} is in several namespaces, {', '.join(places)}: say which with -n"
            )


async def _spare_guests(
    session: Session, doomed: Sequence[LiveTenant], coming: Sequence[Tenant] = ()
) -> None:
    """Refuse to delete a tenant's own namespace while other tenants are or come there."""
    going = {(one.namespace, one.name) for one in doomed}
    for one in doomed:
        if one.own_namespace:
            found = await session.client.list(known("ServiceAccount"), one.namespace, labels=selector_of())
            names = {item["metadata"]["labels"][TENANT_LABEL] for item in found.items}
            names |= {other.name for other in coming if other.namespace == one.namespace}
            guests = sorted(name for name in names if (one.namespace, name) not in going)
            if guests:
                raise Taken(
                    f"tenant {one.name}: its namespace {one.namespace} would go with it, and tenants "
                    f"{', '.join(guests)} are in it: delete them first, or together with it"
                )


def _guests_first(doomed: Sequence[LiveTenant]) -> list[LiveTenant]:
    """In an order in which no tenant's namespace goes before other tenants in it."""
    return sorted(doomed, key=lambda one: one.own_namespace)


def _confirm(found: Sequence[LiveTenant]) -> None:
    """Ask before tenants are deleted; without a terminal, say how to."""
    if not found:
        return
    for one in found:
        whole = ", with its namespace and everything in that" if one.own_namespace else ""
        pods = count(one.progress.ready, "pod")
        click.echo(
            f"tenant {one.name} ({one.type}) in namespace {one.namespace}: {pods} ready{whole}", err=True
        )
    if not sys.stdin.isatty():
        raise BadInput(f"deleting {count(len(found), 'tenant')} needs a yes: say --yes")
    click.confirm(f"Delete {count(len(found), 'tenant')}?", abort=True, err=True)


async def _remove(
    session: Session, one: LiveTenant, deadline: Deadline, *, wait: bool, dry_run: bool = False
) -> None:
    """Delete one tenant, and say so."""
    kinds = Kinds(session.client)
    held = await objects_of(kinds, one.name, one.namespace)
    called = f"tenant {one.name} ({one.type}) in namespace {one.namespace}"
    if dry_run:
        refs = ", ".join(ref_of(item) for item in reversed(in_order(held, one.tenant.key)))
        click.echo(f"{called}: would delete {refs}")
        return
    if one.own_namespace:
        await _spare_guests(session, [one])  # who may have come since it was looked at
    ours = [item for item in held if not release_of(item)]
    with ProgressDisplay([one.tenant]) as display:
        await Applier(kinds, on_wait=display.waits).remove(one.tenant, ours, deadline if wait else None)
    click.echo(f"{called}: {count(len(ours), 'object')} deleted")
