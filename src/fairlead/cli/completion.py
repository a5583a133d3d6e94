"""``fairlead completion``: what a shell needs to complete commands and flags."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class


@click.command(
    "completion",
    epilog="""Examples:

    \b
    fairlead completion bash > fairlead.bash
    fairlead completion zsh > _fairlead
    fairlead completion fish > fairlead.fish

    For one session of bash: source <(fairlead completion bash). For all of them, write it where the shell
    looks: ~/.local/share/bash-completion/completions/fairlead, a folder of zsh's $fpath,
    ~/.config/fish/completions/fairlead.fish.
    """,
)
@click.argument("shell", type=click.Choice(("bash", "zsh", "fish")))
def command(shell: str) -> None:
    """Print the script that completes fairlead's commands and flags in SHELL."""
    from fairlead.cli import root

    found = get_completion_class(shell)
    assert found is not None  # the choice above
    click.echo(found(root(), {}, "fairlead", "_FAIRLEAD_COMPLETE").source())
