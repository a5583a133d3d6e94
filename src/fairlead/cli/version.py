"""``fairlead version``: which version this is, and of what Kubernetes it speaks."""

from __future__ import annotations

import platform

import click

from fairlead.cli.flags import output_option
from fairlead.cli.output import show_data


@click.command("version", epilog="Example: fairlead version -o json")
@output_option("text", "json", "yaml")
def command(output: str) -> None:
    """Print the version of Fairlead, of Python, and of the Kubernetes whose scheduling rules it has."""
    import fairlead

    found = {
        "fairlead": fairlead.__version__,
        "python": platform.python_version(),
        "rules": "Kubernetes 1.36",
    }
    if output == "text":
        click.echo(" ".join(f"{name} {version}" for name, version in found.items()))
    else:
        show_data(found, output)
