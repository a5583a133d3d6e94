"""``fairlead tenant``: one command per tenant, several objects each.

Here are flags and help; what the commands do is in the modules beside.
"""

from __future__ import annotations

from typing import Any

import click

from fairlead.cli.flags import cluster_options, options, output_option

__all__ = ["command"]

_cluster = cluster_options()
_output = output_option("table", "json", "yaml")
_everywhere = click.option(
    "-n", "--namespace", default="", metavar="NAME", help="Only there; without it, in all namespaces."
)
_names = options(
    click.argument("names", nargs=-1, metavar="[NAME]..."),
    click.option("--name", "named", multiple=True, metavar="NAME", help="Name of a tenant. Repeatable."),
)
_types = click.option(
    "--types",
    "types_file",
    default="",
    metavar="FILE",
    help="Tenant types, instead of the default ones (see fairlead tenant types); - is standard input.",
)
_timeout = click.option(
    "--timeout",
    default="10m",
    show_default=True,
    metavar="DURATION",
    help="How long to wait, declared dependencies included.",
)
_writing = options(
    click.option(
        "--namespace-per-tenant",
        is_flag=True,
        help="Give each tenant a namespace of its own, called like it. Removed with the tenant.",
    ),
    click.option("--wait", is_flag=True, help="Wait until the tenants run, and show how far they are."),
    _timeout,
    click.option("--dry-run", is_flag=True, help="Ask the API server what would happen; write nothing."),
    click.option("--diff", is_flag=True, help="Show the differences to what is there; write nothing."),
    click.option("--force-conflicts", is_flag=True, help="Take over fields that other writers have changed."),
    click.option("--show-secrets", is_flag=True, help="With -o: show the values of Secrets, too."),
    _output,
    _cluster,
)


@click.group(
    "tenant",
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Example: fairlead tenant create -t premium --name premium-1",
)
def command() -> None:
    """Create, list and delete tenants: each is of a type, which describes its objects.

    Pods of a tenant go to the nodes of its type and, where the type says so, have them to themselves;
    this is expressed in terms that autoscalers and schedulers share. A tenant is known by its name within a
    namespace.
    """


@command.command(
    "create",
    epilog="""\b
Examples:
  fairlead tenant create -t premium --name premium-1
  fairlead tenant create -t standard --name a --name b --wait --timeout 5m
  fairlead tenant create -t standard --name c --set replicas=2 --set config.LOG_LEVEL=debug --diff
  fairlead tenant create -t premium --name d -n shop -f values.yaml --dry-run -o yaml

Tenants go to the namespace of -n, else to that of the kubeconfig's context; a type may give each its own.
Run again, it changes what is there to what the type and the parameters say now, and does nothing where that
is so already; after a run that broke off, it goes on. Without --wait it ends once the API server has taken
all objects, even if no node has room yet.

Exits with 0 when done, with 1 when it failed or --wait timed out, with 2 when the input cannot be used.
""",
)
@options(
    click.option("-t", "--type", "type_name", required=True, metavar="TYPE", help="Type of the tenants."),
    _names,
    click.option(
        "--set",
        "sets",
        multiple=True,
        metavar="NAME=VALUE",
        help="A parameter of the type; NAME.MEMBER sets a member of an object. Repeatable, the last wins.",
    ),
    click.option(
        "-f",
        "--values",
        "values_files",
        multiple=True,
        metavar="FILE",
        help="Parameters as YAML or JSON; - is standard input. Repeatable; --set wins over them.",
    ),
    _types,
    click.option("-n", "--namespace", default="", metavar="NAME", help="Namespace of the tenants."),
    _writing,
)
def create(**flags: Any) -> None:
    """Create tenants, or update existing ones to what their type says now."""
    from fairlead.cli.tenant.changes import Writing, create

    names = (*flags.pop("names"), *flags.pop("named"))
    own = {key: flags.pop(key) for key in ("type_name", "sets", "values_files")}
    create(Writing(**flags), names, **own)


@command.command(
    "apply",
    epilog="""\b
Examples:
  fairlead tenant apply -f tenants.yaml
  fairlead tenant apply -f tenants.yaml --diff
  fairlead tenant apply -f tenants.yaml --prune --yes

\b
The file:
  apiVersion: fairlead.dev/v1alpha1
  kind: Tenants
  tenants:
  - {name: a, type: standard}
  - {name: b, type: premium, namespace: shop, parameters: {replicas: 2}}

Tenants that are on the cluster but not in the file are left alone and named; with --prune they are deleted,
in the namespaces that the file's tenants are in (with -A, in all). A tenant's type may change.

Exits with 0 when done, with 1 when it failed or --wait timed out, with 2 when the input cannot be used.
""",
)
@options(
    click.option("-f", "--file", required=True, metavar="FILE", help="Tenants; - is standard input."),
    _types,
    click.option(
        "-n",
        "--namespace",
        default="",
        metavar="NAME",
        help="Where tenants go that do not say it themselves.",
    ),
    click.option("--prune", is_flag=True, help="Delete tenants that are not in the file."),
    click.option("-A", "--all-namespaces", is_flag=True, help="With --prune: in every namespace."),
    click.option("--yes", is_flag=True, help="With --prune: do not ask."),
    _writing,
)
def apply(**flags: Any) -> None:
    """Bring the tenants of a file to what it says."""
    from fairlead.cli.tenant.changes import Writing, apply

    own = {key: flags.pop(key) for key in ("file", "prune", "all_namespaces", "yes")}
    apply(Writing(**flags), **own)


@command.command(
    "list",
    epilog="""\b
Examples:
  fairlead tenant list
  fairlead tenant list -n shop -o json

READY is pods that are ready of those wanted; STATUS is one of pending, node requested, node ready,
scheduled, running.
""",
)
@options(
    click.option("-t", "--type", "type_name", default="", metavar="TYPE", help="Only tenants of this type."),
    _everywhere,
    _output,
    _cluster,
)
def list_(**flags: Any) -> None:
    """List tenants and how far they are."""
    from fairlead.cli.tenant.query import list_tenants

    list_tenants(**flags)


@command.command(
    "show",
    epilog="""\b
Examples:
  fairlead tenant show premium-1
  fairlead tenant show --name premium-1 -n default -o yaml

Exits with 1 when there is no such tenant.
""",
)
@options(_names, _everywhere, _output, _cluster)
def show(**flags: Any) -> None:
    """Show a tenant's objects and pods.

    The same name in several namespaces is several tenants: all are shown.
    """
    from fairlead.cli.tenant.query import show_tenants

    names = (*flags.pop("names"), *flags.pop("named"))
    show_tenants(names, **flags)


@command.command(
    "delete",
    epilog="""\b
Examples:
  fairlead tenant delete --name premium-1 --yes
  fairlead tenant delete --name a --name b -n default --yes --no-wait

Objects go in the reverse order of their creation, each gone before the next. A namespace that is the
tenant's own goes with everything in it. A run that broke off is finished by running it again.

Exits with 0 when done, with 1 when it failed or there is no such tenant, with 2 when the input cannot be
used: a name that is in several namespaces needs -n.
""",
)
@options(
    _names,
    click.option("-y", "--yes", is_flag=True, help="Do not ask."),
    _everywhere,
    click.option(
        "--wait/--no-wait", default=True, show_default=True, help="Whether to wait until all is gone."
    ),
    _timeout,
    click.option("--dry-run", is_flag=True, help="Say what would be deleted; delete nothing."),
    _cluster,
)
def delete(**flags: Any) -> None:
    """Delete tenants with all their objects."""
    from fairlead.cli.tenant.changes import delete_tenants

    names = (*flags.pop("names"), *flags.pop("named"))
    delete_tenants(names, **flags)


@command.command(
    "types",
    epilog="""\b
Examples:
  fairlead tenant types
  fairlead tenant types --types tenant-types.yaml -o table

As YAML it is a file for --types: fairlead tenant types > tenant-types.yaml
""",
)
@options(
    _types,
    output_option("yaml", "table", "json"),
)
def types(**flags: Any) -> None:
    """Print tenant types: the default ones, or those of a file once they are checked."""
    from fairlead.cli.tenant.query import show_types

    show_types(**flags)
