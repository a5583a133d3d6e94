"""``fairlead install``: put Fairlead on a cluster."""

from __future__ import annotations

from typing import Any

import click

from fairlead.cli.installation.session import (
    Flags,
    check_output,
    given_values,
    show_objects,
    values_options,
    writing_options,
)
from fairlead.errors import Taken


@click.command(
    "install",
    epilog="""\b
Examples:
  The scheduler, into namespace fairlead-system of the current context's cluster:
    fairlead install
  Webhook and rebalancer with it, on another context:
    fairlead install --context lab --set components.webhook.enabled=true,components.rebalance.enabled=true
  The objects for review or for GitOps; this asks no cluster:
    fairlead install -f values.yaml --dry-run -o yaml

The values are those of the Helm chart charts/fairlead, and the objects are the same.
""",
)
@click.option(
    "-n",
    "--namespace",
    default="fairlead-system",
    show_default=True,
    metavar="NAME",
    help="Namespace to install into; created if it is missing.",
)
@values_options
@writing_options
def command(
    namespace: str,
    files: tuple[str, ...],
    sets: tuple[str, ...],
    force_conflicts: bool,
    output: str,
    **flags: Any,
) -> None:
    """Install Fairlead on a cluster: the components that the values turn on, and wait for them."""
    import fairlead
    from fairlead.install import changes
    from fairlead.install.installed import Installed, Record
    from fairlead.install.rendering import render
    from fairlead.install.values import complete, components_on

    own = Flags(**flags)
    check_output(output, dry_run=own.dry_run)
    given = given_values(files, sets)
    values = complete(given)
    objects = changes.with_namespace(render(values, namespace), namespace)
    if output != "table":
        show_objects(objects, output)
        return
    how = own.how(force=force_conflicts)
    record = Record(namespace, given, fairlead.__version__)

    async def call(installed: Installed) -> None:
        for one in await installed.records():
            # The same again goes on where an earlier run broke off.
            if (one.namespace, one.values) != (namespace, given):
                raise Taken(
                    f"Fairlead {one.version} is installed in namespace {one.namespace}: fairlead upgrade "
                    "changes it, fairlead uninstall removes it"
                )
        installed.check_served(objects)
        await changes.apply(installed, changes.marked(objects), record, how)

    own.run(call)
    if not own.dry_run:
        on = components_on(values)
        click.echo(f"Fairlead {fairlead.__version__} is installed in namespace {namespace}: {', '.join(on)}.")
        click.echo("\n".join(next_steps(on, values, namespace)))


def next_steps(on: list[str], values: dict[str, Any], namespace: str) -> list[str]:
    """What to try now, as the chart's notes say."""
    lines = ["Try next:"]
    if {"scheduler", "serve", "burst"} & set(on):
        name = ((values.get("config") or {}).get("schedulerNames") or ["fairlead"])[0]
        lines.append(f"  spec.schedulerName: {name} in a pod, and Fairlead places it")
    if {"webhook", "serve", "extender"} & set(on):
        lines.append("  kubectl apply -f examples/spot/policy.yaml")
    if "extender" in on:
        lines.append("  fairlead extender config, for kube-scheduler to call the extender")
    lines.append(f"  kubectl -n {namespace} get pods")
    return lines
