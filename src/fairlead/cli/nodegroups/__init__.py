"""``fairlead nodegroups``: from one file of node groups to what each autoscaler takes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import click

from fairlead.cli.nodegroups import doctor
from fairlead.cli.nodegroups.file import file_option, named, note, read_given

if TYPE_CHECKING:
    from fairlead.cloud.karpenter import Provider

__all__ = ["command"]

_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_CLUSTER = re.compile(r"[0-9A-Za-z][-0-9A-Za-z_]{0,99}")


@click.group(
    "nodegroups",
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Example: fairlead nodegroups terraform -f examples/node-groups.yaml",
)
def command() -> None:
    """Write node groups as autoscalers take them, and diagnose scale-up from zero.

    A group is nodes of one kind, with the labels and taints that pods choose them by, and how many there may
    be: from none. The file is `kind: NodeGroups`; its fields are in docs/how-to/node-groups.md.
    """


command.add_command(doctor.command)


@command.command(
    "karpenter",
    short_help="NodePools for Karpenter.",
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
    callback=named(_NAME),
    metavar="NAME",
    help="The EC2NodeClass or KWOKNodeClass that the NodePools refer to.",
)
def karpenter(*, file: str, provider: Provider, node_class: str) -> None:
    """Print a NodePool for each group, with its labels, taints and maximum.

    Karpenter has no minimum: a group whose min is above 0 is refused.
    """
    from fairlead.cli.output import show_documents
    from fairlead.cloud.karpenter import node_pools

    show_documents(node_pools(read_given(file), provider=provider, node_class=node_class, note=note))


@command.command(
    "kwok",
    short_help="The ConfigMaps of Cluster Autoscaler's KWOK provider.",
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
    callback=named(_NAMESPACE),
    metavar="NS",
    help="Where Cluster Autoscaler runs: it looks for them there.",
)
@click.option(
    "--stages",
    is_flag=True,
    help="Print KWOK's stages for such nodes instead: they set the hostname label, then remove the taint.",
)
def kwok(*, file: str, namespace: str, stages: bool) -> None:
    """Print the two ConfigMaps of Cluster Autoscaler's KWOK provider, which makes nodes without machines.

    The autoscaler runs with --cloud-provider=kwok, and KWOK plays the kubelets of the nodes that it makes.
    Their templates carry a start-up taint, so that no pod is put on a node before it has its hostname label:
    KWOK must run with the stages that --stages prints beside its own.
    """
    from fairlead.cli.output import show_documents
    from fairlead.cloud.kwok import config_maps

    groups = read_given(file)
    if stages:
        from fairlead.rig.arguments import registration_stages

        show_documents(registration_stages())
        return
    show_documents(config_maps(groups, namespace))


@command.command(
    "terraform",
    short_help="Terraform for EKS and Cluster Autoscaler.",
    epilog="""Examples:

    \b
    fairlead nodegroups terraform -f examples/node-groups.yaml
    fairlead nodegroups terraform -f examples/node-groups.yaml --cluster prod > node-groups.tf

    deploy/terraform/eks is a ready root module around such a file. Only HCL is written to standard output.
    """,
)
@file_option
@click.option(
    "--cluster", callback=named(_CLUSTER), metavar="NAME", help="The default of the variable cluster_name."
)
def terraform(*, file: str, cluster: str | None) -> None:
    """Write the Terraform of EKS managed node groups that Cluster Autoscaler brings up from zero.

    It has the groups, the tags that the autoscaler needs on their Auto Scaling groups, and an IAM role for
    the autoscaler. Its variables are cluster_name, subnet_ids and oidc_provider_arn.
    """
    from fairlead.cloud.terraform import terraform as written

    click.echo(written(read_given(file), cluster=cluster, note=note), nl=False)
