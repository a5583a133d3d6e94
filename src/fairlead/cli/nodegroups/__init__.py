"""``fairlead nodegroups``: from one file of node groups to what each autoscaler takes."""

from __future__ import annotations

import click

from fairlead.cli.lazy import Lazy

__all__ = ["command"]

_COMMANDS = {
    "doctor": ("fairlead.cli.nodegroups.doctor", "Why a pod gets no node from zero, and what to do."),
    "karpenter": ("fairlead.cli.nodegroups.karpenter", "NodePools for Karpenter."),
    "kwok": ("fairlead.cli.nodegroups.kwok", "The ConfigMaps of Cluster Autoscaler's KWOK provider."),
    "terraform": ("fairlead.cli.nodegroups.terraform", "Terraform for EKS and Cluster Autoscaler."),
}


@click.command(
    "nodegroups",
    cls=Lazy,
    lazy=_COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Example: fairlead nodegroups terraform -f examples/node-groups.yaml",
)
def command() -> None:
    """Make of a file of node groups what autoscalers take.

    A group is nodes of one kind, with the labels and taints that pods choose them by, and how many there may
    be: from none. The file is `kind: NodeGroups`; its fields are in docs/how-to/node-groups.md.
    """
