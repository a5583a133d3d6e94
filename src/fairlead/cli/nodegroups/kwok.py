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
    fairlead nodegroups kwok -f examples/node-groups.yaml --stages > stages.yaml

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
@click.option(
    "--stages",
    is_flag=True,
    help="Print KWOK's stages for such nodes instead: they set the hostname label, then remove the taint.",
)
def command(*, file: str, namespace: str, stages: bool) -> None:
    """Print the two ConfigMaps of Cluster Autoscaler's KWOK provider, which makes nodes without machines.

    The autoscaler runs with --cloud-provider=kwok, and KWOK plays the kubelets of the nodes that it makes.
    Their templates carry a start-up taint, so that no pod is put on a node before it has its hostname label:
    KWOK must run with the stages that --stages prints beside its own.
    """
    from fairlead.cli.showing import show_documents
    from fairlead.cloud.kwok import config_maps

    groups = read_given(file)
    if stages:
        from fairlead.rig.arguments import registration_stages

        show_documents(registration_stages())
        return
    show_documents(config_maps(groups, namespace))
