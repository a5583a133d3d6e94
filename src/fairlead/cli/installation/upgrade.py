"""``fairlead upgrade``: bring an installation to this version, and to other values."""

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
from fairlead.errors import Missing


@click.command(
    "upgrade",
    epilog="""\b
Examples:
  To this version, with the values of the installation:
    fairlead upgrade
  To other values, which take the place of all that were given before:
    fairlead upgrade -f values.yaml
  What that would change:
    fairlead upgrade -f values.yaml --dry-run

CustomResourceDefinitions are brought up to date as well. What an earlier run made and the values no longer
ask for is removed, once the rest is ready.
""",
)
@click.option(
    "-n",
    "--namespace",
    default="",
    metavar="NAME",
    help="Namespace of the installation (default: where it is).",
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
    """Upgrade Fairlead on a cluster to this version; other values only if some are given."""
    import fairlead
    from fairlead.install import changes
    from fairlead.install.installed import Installed, Record
    from fairlead.install.rendering import render
    from fairlead.install.values import complete

    own = Flags(**flags)
    check_output(output, dry_run=own.dry_run)
    given = given_values(files, sets)
    how = own.how(force=force_conflicts)

    async def call(installed: Installed) -> str:
        found = [one for one in await installed.records() if namespace in ("", one.namespace)]
        if not found:
            where = f" in namespace {namespace}" if namespace else ""
            raise Missing(f"fairlead install has installed nothing{where}: run fairlead install first")
        (before, *_) = found
        values = given if files or sets else dict(before.values)
        objects = changes.with_namespace(render(complete(values), before.namespace), before.namespace)
        if output != "table":
            show_objects(objects, output)
            return ""
        installed.check_served(objects)
        record = Record(before.namespace, values, fairlead.__version__)
        await changes.apply(installed, changes.marked(objects), record, how)
        # Last, so that a component is there before the one that it replaces goes.
        await changes.prune(installed, objects, before.namespace, how)
        return before.namespace

    where = own.run(call)
    if where and not own.dry_run:
        click.echo(f"Fairlead in namespace {where} is at version {fairlead.__version__}.")
