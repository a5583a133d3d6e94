"""``fairlead nodegroups terraform``."""

from __future__ import annotations

import re

import click

from fairlead.cli.nodegroups.reading import file_option, named, note, read_given

__all__ = ["command"]

_CLUSTER = re.compile(r"[0-9A-Za-z][-0-9A-Za-z_]{0,99}")


@click.command(
    "terraform",
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
def command(*, file: str, cluster: str | None) -> None:
    """Write the Terraform of EKS managed node groups that Cluster Autoscaler brings up from zero.

    It has the groups, the tags that the autoscaler needs on their Auto Scaling groups, and an IAM role for
    the autoscaler. Its variables are cluster_name, subnet_ids and oidc_provider_arn.
    """
    from fairlead.cloud.terraform import terraform

    click.echo(terraform(read_given(file), cluster=cluster, note=note), nl=False)
