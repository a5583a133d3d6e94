"""``delete``: say what would go, ask, and take it away in reverse order."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from fairlead.cli.tenant.reading import find_named
from fairlead.cli.tenant.session import Session, check_names, count, run, timeout_s
from fairlead.cli.tenant.telling import Teller
from fairlead.errors import BadInput, Taken
from fairlead.kube.resources import known
from fairlead.tenants.applying import Applier, Deadline
from fairlead.tenants.live import Kinds, objects_of, release_of
from fairlead.tenants.names import TENANT_LABEL, selector_of
from fairlead.tenants.order import in_order, ref_of
from fairlead.tenants.tenant import Tenant
from fairlead.tenants.watching import Held

__all__ = ["confirm", "delete_tenants", "guests_first", "remove", "spare_guests"]


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
        await spare_guests(session, found)
        if not dry_run and not yes:
            confirm(found)
        for one in guests_first(found):
            await remove(session, one, Deadline(deadline_s), wait=wait, dry_run=dry_run)

    run(kubeconfig, context, call)


def _tell_apart(found: Sequence[Held]) -> None:
    for one in found:
        places = [other.namespace for other in found if other.name == one.name]
        if len(places) > 1:
            raise BadInput(
                f"tenant {one.name!r} is in several namespaces, {', '.join(places)}: say which with -n"
            )


async def spare_guests(session: Session, doomed: Sequence[Held], coming: Sequence[Tenant] = ()) -> None:
    """Refuse to delete a tenant's own namespace while other tenants, who would stay, are or come there."""
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


def guests_first(doomed: Sequence[Held]) -> list[Held]:
    """In an order in which nobody's namespace goes before its guests."""
    return sorted(doomed, key=lambda one: one.own_namespace)


def confirm(found: Sequence[Held]) -> None:
    """Ask before tenants are deleted; where nobody can answer, say how to."""
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


async def remove(
    session: Session, one: Held, deadline: Deadline, *, wait: bool, dry_run: bool = False
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
        await spare_guests(session, [one])  # who may have come since it was looked at
    ours = [item for item in held if not release_of(item)]
    with Teller([one.tenant]) as teller:
        await Applier(kinds, told=teller.waits).remove(one.tenant, ours, deadline if wait else None)
    click.echo(f"{called}: {count(len(ours), 'object')} deleted")
