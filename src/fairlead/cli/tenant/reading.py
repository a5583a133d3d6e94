"""``list``, ``show`` and ``types``: what there is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

import click

from fairlead.cli.showing import show_json, show_lines, show_table, show_yaml
from fairlead.cli.tenant.session import Session, check_names, run, types_of
from fairlead.errors import Missing
from fairlead.kube.resources import known
from fairlead.tenants.live import Kinds, objects_of
from fairlead.tenants.names import selector_of
from fairlead.tenants.order import in_order, ref_of
from fairlead.tenants.progress import Stage
from fairlead.tenants.ready import standing
from fairlead.tenants.types import default_text
from fairlead.tenants.watching import Held, find_tenants

__all__ = ["find_named", "list_tenants", "show_held", "show_tenants", "show_types"]


def list_tenants(*, type_name: str, namespace: str, output: str, kubeconfig: str, context: str) -> None:
    """List tenants."""

    async def call(session: Session) -> list[Held]:
        return await find_tenants(session.client, namespace or None)

    found = [one for one in run(kubeconfig, context, call) if type_name in ("", one.type)]
    show_held(found, output)
    if not found and output == "table":
        where = f"namespace {namespace}" if namespace else "any namespace"
        click.echo(f"no tenants in {where}", err=True)


def show_held(found: Sequence[Held], output: str) -> None:
    """Tenants as a table, or as data."""
    if output != "table":
        (show_json if output == "json" else show_yaml)([_plain(one) for one in found])
        return
    from rich.text import Text

    show_table(
        ("NAMESPACE", "NAME", "TYPE", "READY", "STATUS", "NODES", "AGE", "REASON"),
        (
            (
                Text(one.namespace),
                Text(one.name),
                Text(one.type),
                Text(f"{one.progress.ready}/{one.progress.wanted}"),
                Text(one.progress.stage.text, style=_colour(one.progress.stage)),
                Text(",".join(one.progress.nodes) or "-"),
                Text(_age(one.created)),
                Text(_reason(one)),
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
                    "state": standing(item).reason or "ready",
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
        (show_json if output == "json" else show_yaml)(found)
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
        (show_json if output == "json" else show_yaml)(document)
        return
    from rich.text import Text

    show_table(
        ("TYPE", "NODES", "ALONE ON ITS NODE", "PARAMETERS"),
        (
            (
                Text(one.name),
                Text(_pairs(one.template.get("nodeLabels"))),
                Text(
                    "yes"
                    if one.template.get("exclusive") is True
                    else str(one.template.get("exclusive", "no"))
                ),
                Text(
                    ", ".join(
                        f"{name}{'' if value is not None else ' (required)'}"
                        for name, value in one.parameters.items()
                    )
                    or "-"
                ),
            )
            for one in types.values()
        ),
    )


async def find_named(session: Session, names: Iterable[str], namespace: str) -> list[Held]:
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
    from rich.text import Text

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
        (
            (Text(ref_of({"kind": each["kind"], "metadata": each})), Text(each["state"]))
            for each in one["objects"]
        ),
    )
    if one["pods"]:
        click.echo()
    show_table(
        ("POD", "PHASE", "NODE"),
        ((Text(each["name"]), Text(each["phase"]), Text(each["node"] or "-")) for each in one["pods"]),
    )


def _plain(one: Held) -> dict[str, Any]:
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


def _reason(one: Held) -> str:
    """What there is to say of a tenant: above all, that it is not alone on its node."""
    met = f"not alone: it meets {', '.join(one.meets)}" if one.meets else ""
    return "; ".join(filter(None, (met, one.progress.reason)))


def _colour(stage: Stage) -> str:
    return {Stage.RUNNING: "green", Stage.PENDING: "yellow"}.get(stage, "cyan")


def _age(created: str) -> str:
    from fairlead.client.clock import WALL_CLOCK

    age_s = int((WALL_CLOCK.wall() - datetime.fromisoformat(created)).total_seconds())
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if age_s >= 2 * size:
            return f"{age_s // size}{unit}"
    return f"{max(0, age_s)}s"


def _pairs(labels: Any) -> str:
    if not isinstance(labels, dict):
        return str(labels) if labels else "any"
    return ",".join(f"{key}={value}" for key, value in labels.items()) or "any"
