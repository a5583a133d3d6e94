"""``fairlead nodegroups karpenter``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from fairlead.cli.nodegroups.reading import NAME, file_option, named, note, read_given

if TYPE_CHECKING:
    from fairlead.cloud.karpenter import Provider

__all__ = ["command"]


@click.command(
    "karpenter",
    epilog="""Examples:

    \b
    fairlead nodegroups karpenter -f examples/node-groups.yaml
    fairlead nodegroups karpenter -f examples/node-groups.yaml --provider kwok
    fairlead nodegroups karpenter -f examples/node-groups.yaml --node-class gpu > node-pools.yaml

    Only YAML is written to standard output.
    """,
)
@file_option
@click.option(
    "--provider",
    type=click.Choice(["aws", "kwok"]),
    default="aws",
    show_default=True,
    help="Whose nodes: EC2's, or KWOK's, which are nodes without machines.",
)
@click.option(
    "--node-class",
    default="default",
    show_default=True,
    callback=named(NAME),
    metavar="NAME",
    help="The EC2NodeClass or KWOKNodeClass that the NodePools refer to.",
)
def command(*, file: str, provider: Provider, node_class: str) -> None:
    """Print a NodePool for each group, with its labels, taints and maximum.

    Karpenter has no minimum: a group whose min is above 0 is refused.
    """
    from fairlead.cli.showing import show_documents
    from fairlead.cloud.karpenter import node_pools

    show_documents(node_pools(read_given(file), provider=provider, node_class=node_class, note=note))
