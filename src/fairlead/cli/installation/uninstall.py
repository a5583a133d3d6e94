"""``fairlead uninstall``: take Fairlead off a cluster, so that no pod waits for it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from fairlead.cli.installation.session import Flags, writing_options
from fairlead.errors import BadInput

if TYPE_CHECKING:
    from fairlead.install.installed import Installed
    from fairlead.install.manifests import Obj


@click.command(
    "uninstall",
    epilog="""\b
Examples:
  fairlead uninstall --dry-run
  fairlead uninstall
  All policies, too:
    fairlead uninstall --crds --yes

What `kubectl apply -k` made of the same manifests is removed as well; what a Helm release holds is not. The
namespace stays: it may hold objects of yours.
""",
)
@click.option(
    "-n",
    "--namespace",
    default="",
    metavar="NAME",
    help="Namespace of the installation (default: where it is, else fairlead-system).",
)
@click.option(
    "--crds", is_flag=True, help="Remove the CustomResourceDefinitions, and with them all policies."
)
@click.option("--yes", is_flag=True, help="Do not ask before policies are removed.")
@writing_options
def command(namespace: str, crds: bool, yes: bool, **flags: Any) -> None:
    """Uninstall Fairlead: first what the API server calls, then components and their rights.

    The CustomResourceDefinitions stay, and with them all policies. Pods that still wait for Fairlead
    are named.
    """
    from fairlead.install import changes
    from fairlead.install.leftovers import leftovers
    from fairlead.install.manifests import NAMESPACE

    own = Flags(**flags)
    how = own.how()

    async def call(installed: Installed) -> None:
        where = namespace or next((one.namespace for one in await installed.records()), NAMESPACE)
        objects = await installed.objects(where)
        if not crds:
            going = [item for item in objects if item["kind"] != "CustomResourceDefinition"]
        else:
            going = objects
        if not going:
            click.echo(f"nothing of Fairlead is installed in namespace {where}")
            return
        if crds and not own.dry_run and not yes:
            await _confirm(installed, objects)
        await changes.remove(installed, objects, where, how, crds=crds)
        for line in await leftovers(installed, objects):
            click.echo(f"note: {line}", err=True)
        if not own.dry_run:
            click.echo(
                f"Fairlead is gone from namespace {where}, which stays: kubectl delete namespace {where}"
            )

    own.run(call)


async def _confirm(installed: Installed, objects: list[Obj]) -> None:
    """Ask before policies go with their definition; without a terminal, say how to."""
    from fairlead.errors import ApiError
    from fairlead.policy.names import POLICIES

    if not any(item["kind"] == "CustomResourceDefinition" for item in objects):
        return
    try:
        names = [item["metadata"]["name"] for item in (await installed.client.list(POLICIES)).items]
    except ApiError as error:
        if error.code != 404:
            raise
        return  # defined, but not served: there are none
    if not names:
        return
    if not sys.stdin.isatty():
        raise BadInput(f"--crds removes {len(names)} policies ({', '.join(names)}): say --yes")
    click.confirm(f"Remove {len(names)} policies ({', '.join(names)})?", abort=True, err=True)
