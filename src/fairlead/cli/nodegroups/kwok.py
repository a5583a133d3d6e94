"""``fairlead nodegroups kwok``."""

from __future__ import annotations

import click

from fairlead.cli.nodegroups.reading import NAMESPACE, file_option, named, read_given

__all__ = ["command"]


@click.command(
    "kwok",
    epilog="""Examples:

    \b
    fairlead nodegroups kwok -f examples/node-groups.yaml
    fairlead nodegroups kwok -f examples/node-groups.yaml --namespace default | kubectl apply -f -

    Only YAML is written to standard output.
    """,
)
@file_option
@click.option(
    "-n",
    "--namespace",
    default="kube-system",
    show_default=True,
    callback=named(NAMESPACE),
    metavar="NS",
    help="Where Cluster Autoscaler runs: it looks for them there.",
)
def command(*, file: str, namespace: str) -> None:
    """Print the two ConfigMaps of Cluster Autoscaler's KWOK provider, which makes nodes without machines.

    The autoscaler runs with --cloud-provider=kwok, and KWOK plays the kubelets of the nodes that it makes.
    """
    from fairlead.cli.showing import show_documents
    from fairlead.cloud.kwok import config_maps

    show_documents(config_maps(read_given(file), namespace))
