"""``fairlead tenant``: one command per tenant, several objects each."""

from fairlead.cli.tenant.command import command

__all__ = ["command"]
