"""What the three commands have in common: flags, the cluster and its notice, what is reported."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import click

from fairlead.cli.cluster import call_cluster
from fairlead.cli.flags import cluster_options, duration_s, options, output_option
from fairlead.errors import BadInput

if TYPE_CHECKING:
    from fairlead.client.config import Target
    from fairlead.client.connection import Connection
    from fairlead.install.changes import Apply, Outcome
    from fairlead.install.installed import Installed
    from fairlead.install.manifests import Obj
    from fairlead.install.values import Values

T = TypeVar("T")

writing_options = options(
    click.option("--dry-run", is_flag=True, help="Say what would be done; write nothing."),
    click.option(
        "--wait/--no-wait", default=True, show_default=True, help="Wait until what was changed is ready."
    ),
    click.option("--timeout", default="5m", show_default=True, metavar="DURATION", help="How long to wait."),
    cluster_options(),
)

values_options = options(
    click.option(
        "-f",
        "--values",
        "files",
        multiple=True,
        metavar="FILE",
        help="Values, as for the Helm chart; - is standard input. Repeatable, later files win.",
    ),
    click.option(
        "--set",
        "sets",
        multiple=True,
        metavar="KEY=VALUE",
        help="One value, as for the Helm chart; wins over files. Repeatable.",
    ),
    click.option("--force-conflicts", is_flag=True, help="Take over fields that other writers have changed."),
    output_option(
        "table", "yaml", "json", help="Output format; yaml and json print the objects, with --dry-run."
    ),
)


@dataclass(frozen=True, slots=True)
class Flags:
    """The flags that all three commands have."""

    dry_run: bool
    wait: bool
    timeout: str
    kubeconfig: str
    context: str

    def how(self, *, force: bool = False) -> Apply:
        """How to write."""
        from fairlead.install.changes import Apply

        return Apply(
            said=_said(dry_run=self.dry_run),
            on_wait=lambda reason: click.echo(f"waiting for {reason}", err=True),
            dry_run=self.dry_run,
            force=force,
            wait=self.wait,
            timeout_s=duration_s("--timeout", self.timeout),
        )

    def run(self, call: Callable[[Installed], Awaitable[T]]) -> T:
        """Await `call` with the cluster that the flags name."""

        async def connected(connection: Connection, _: Target) -> T:
            from fairlead.client.api import Client
            from fairlead.install.installed import Installed

            return await call(await Installed.on(Client(connection)))

        return call_cluster(self.kubeconfig, self.context, connected, changes=not self.dry_run)


def given_values(files: tuple[str, ...], sets: tuple[str, ...]) -> Values:
    """What the flags say, checked together with the defaults."""
    from fairlead.cli.state import read_bytes
    from fairlead.install.values import read_given

    shown = [("standard input" if file == "-" else file, read_bytes(file)) for file in files]
    return read_given(shown, sets)


def check_output(output: str, *, dry_run: bool) -> None:
    """Objects are printed in place of being applied, not beside it."""
    if output != "table" and not dry_run:
        raise BadInput(f"-o {output} prints the objects that would be applied: it goes with --dry-run")


def show_objects(objects: list[Obj], output: str) -> None:
    """The objects as documents, or as a list."""
    from fairlead.cli.output import show_documents, show_json

    if output == "json":
        show_json({"apiVersion": "v1", "kind": "List", "items": objects})
    else:
        show_documents(objects)


def _said(*, dry_run: bool) -> Callable[[Obj, Outcome, str], None]:
    def say(item: Obj, outcome: Outcome, why: str) -> None:
        from fairlead.install.changes import Outcome
        from fairlead.install.order import ref_of

        what = f"would be {outcome}" if dry_run and outcome is not Outcome.UNCHANGED else str(outcome)
        click.echo(f"{ref_of(item)} {what}{f': {why}' if why else ''}")

    return say
