"""``list``, ``show`` and ``types``: what there is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

import click

from fairlead.cli.output import show_data, show_lines, show_table
from fairlead.cli.tenant.session import Session, check_names, run, types_of
from fairlead.errors import Missing
from fairlead.kube.duration import age
from fairlead.kube.resources import known
from fairlead.tenants.live_objects import Kinds, objects_of
from fairlead.tenants.names import selector_of
from fairlead.tenants.order import in_order
from fairlead.tenants.progress import Stage, readiness
from fairlead.tenants.status import LiveTenant, find_tenants
from fairlead.tenants.types import TenantType, default_text


def list_tenants(*, type_name: str, namespace: str, output: str, kubeconfig: str, context: str) -> None:
    """List tenants."""

    async def call(session: Session) -> list[LiveTenant]:
        return await find_tenants(session.client, namespace or None)

    found = [one for one in run(kubeconfig, context, call) if type_name in ("", one.type)]
    show_held(found, output)
    if not found and output == "table":
        where = f"namespace {namespace}" if namespace else "any namespace"
        click.echo(f"no tenants in {where}", err=True)


def show_held(found: Sequence[LiveTenant], output: str) -> None:
    """Tenants as a table, or as data."""
    if output != "table":
        show_data([_plain(one) for one in found], output)
        return
    show_table(
        ("NAMESPACE", "NAME", "TYPE", "READY", "STATUS", "NODES", "AGE", "REASON"),
        (
            (
                one.namespace,
                one.name,
                one.type,
                f"{one.progress.ready}/{one.progress.wanted}",
                (one.progress.stage.text, _colour(one.progress.stage)),
                ",".join(one.progress.nodes) or "-",
                _age(one.created),
                _reason(one),
            )
            for one in found
        ),
    )


def show_tenants(
    names: tuple[str, ...], *, namespace: str, output: str, kubeconfig: str, context: str
) -> None:
    """Show tenants with their objects and pods."""
    check_names(names)

    async def call(session: Session) -> list[dict[str, Any]]:
        kinds = Kinds(session.client)
        shown = []
        for one in await find_named(session, names, namespace):
            held = await objects_of(kinds, one.name, one.namespace)
            pods = await session.client.list(known("Pod"), one.namespace, labels=selector_of(one.name))
            objects = [
                {
                    "kind": item["kind"],
                    "name": item["metadata"]["name"],
                    "state": readiness(item).reason or "ready",
                }
                for item in in_order(held, one.tenant.key)
            ]
            lying = [
                {
                    "name": pod["metadata"]["name"],
                    "phase": (pod.get("status") or {}).get("phase", ""),
                    "node": pod["spec"].get("nodeName", ""),
                }
                for pod in pods.items
            ]
            shown.append({**_plain(one), "objects": objects, "pods": lying})
        return shown

    found = run(kubeconfig, context, call)
    if output != "table":
        show_data(found, output)
        return
    for number, one in enumerate(found):
        if number:
            click.echo()
        _show_one(one)


def show_types(*, types_file: str, output: str) -> None:
    """Print tenant types."""
    types = types_of(types_file)
    if output == "yaml" and not types_file:
        click.echo(default_text(), nl=False)
        return
    if output != "table":
        plain = [
            {
                "name": one.name,
                **({"namespace": one.namespace} if one.namespace else {}),
                "parameters": dict(one.parameters),
                **one.template,
            }
            for one in types.values()
        ]
        document = {"apiVersion": "fairlead.dev/v1alpha1", "kind": "TenantTypes", "types": plain}
        show_data(document, output)
        return
    show_table(
        ("TYPE", "NODES", "ALONE ON ITS NODE", "PARAMETERS"),
        (
            (one.name, _pairs(one.template.get("nodeLabels")), _alone(one), _parameters(one))
            for one in types.values()
        ),
    )


async def find_named(session: Session, names: Iterable[str], namespace: str) -> list[LiveTenant]:
    """The tenants of these names, in the order of the names; Missing when there is none of a name."""
    held = await find_tenants(session.client, namespace or None)
    found = []
    for name in names:
        same = [one for one in held if one.name == name]
        if not same:
            where = f"namespace {namespace}" if namespace else "any namespace"
            raise Missing(f"there is no tenant {name!r} in {where}; see fairlead tenant list")
        found += same
    return found


def _show_one(one: dict[str, Any]) -> None:
    lines = [
        ("Name", one["name"]),
        ("Namespace", one["namespace"] + (" (its own)" if one["ownNamespace"] else "")),
        ("Type", one["type"]),
        ("Status", one["status"] + (f": {one['reason']}" if one["reason"] else "")),
        ("Ready", f"{one['ready']}/{one['wanted']}"),
        ("Created", one["created"]),
    ]
    if one["helmRelease"]:
        lines.append(("Helm release", one["helmRelease"]))
    show_lines(*(f"{name + ':':<14}{value}" for name, value in lines), "")
    show_table(
        ("OBJECT", "STATE"),
        ((f"{each['kind']}/{each['name']}", each["state"]) for each in one["objects"]),
    )
    if one["pods"]:
        click.echo()
    show_table(
        ("POD", "PHASE", "NODE"),
        ((each["name"], each["phase"], each["node"] or "-") for each in one["pods"]),
    )


def _plain(one: LiveTenant) -> dict[str, Any]:
    return {
        "name": one.name,
        "namespace": one.namespace,
        "type": one.type,
        "status": one.progress.stage.text,
        "reason": _reason(one),
        "ready": one.progress.ready,
        "wanted": one.progress.wanted,
        "nodes": list(one.progress.nodes),
        "sharesNodeWith": list(one.meets),
        "created": one.created,
        "ownNamespace": one.own_namespace,
        "helmRelease": one.release,
    }


def _reason(one: LiveTenant) -> str:
    """What there is to say of a tenant: above all, that it is not alone on its node."""
    met = f"not alone: it meets {', '.join(one.meets)}" if one.meets else ""
    return "; ".join(filter(None, (met, one.progress.reason)))


def _colour(stage: Stage) -> str:
    return {Stage.RUNNING: "green", Stage.PENDING: "yellow"}.get(stage, "cyan")


def _age(created: str) -> str:
    from fairlead.client.clock import WALL_CLOCK

    return age((WALL_CLOCK.wall() - datetime.fromisoformat(created)).total_seconds())


def _alone(kind: TenantType) -> str:
    said = kind.template.get("exclusive", "no")
    return "yes" if said is True else str(said)


def _parameters(kind: TenantType) -> str:
    said = (f"{name} (required)" if value is None else name for name, value in kind.parameters.items())
    return ", ".join(said) or "-"


def _pairs(labels: Any) -> str:
    if not isinstance(labels, dict):
        return str(labels) if labels else "any"
    return ",".join(f"{key}={value}" for key, value in labels.items()) or "any"
