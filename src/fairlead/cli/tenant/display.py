"""Plans and progress as text: on a terminal a live table, elsewhere one line per change.

Progress goes to standard error, so that the output of ``-o`` can be parsed.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Self

import click

from fairlead.tenants.plan import Change, Plan, diff_of, masked
from fairlead.tenants.progress import Progress, Stage
from fairlead.tenants.tenant import Tenant

if TYPE_CHECKING:
    from rich.live import Live
    from rich.table import Table
    from rich.text import Text


_COLOURS = {Change.CREATE: "green", Change.UPDATE: "yellow", Change.KEEP: "dim", Change.DELETE: "red"}

_WIDE = 120


class ProgressDisplay:
    """Shows the progress of tenants while a command waits. Closed, it leaves the last state on screen."""

    def __init__(self, tenants: Sequence[Tenant]) -> None:
        self._tenants = {tenant.key: tenant for tenant in tenants}
        self._progress: dict[str, Progress] = {}
        self._notes: dict[str, str] = {}
        self._terminal = sys.stderr.isatty()
        self._live: Live | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop moving."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def waits(self, tenant: Tenant, reason: str) -> None:
        """A write waits."""
        self._notes[tenant.key] = reason
        self._tell(tenant, reason)

    def is_at(self, tenant: Tenant, progress: Progress) -> None:
        """The tenant is so far."""
        self._notes.pop(tenant.key, None)
        self._progress[tenant.key] = progress
        where = f" on {', '.join(progress.nodes)}" if progress.done and progress.nodes else ""
        said = f"{progress.stage.text}{where}"
        self._tell(tenant, f"{said}: {progress.reason}" if progress.reason else said)

    def _tell(self, tenant: Tenant, said: str) -> None:
        if not self._terminal:
            click.echo(f"tenant {tenant.name} in namespace {tenant.namespace}: {said}", err=True)
            return
        if self._live is None:
            from rich.console import Console
            from rich.live import Live

            self._live = Live(console=Console(stderr=True, highlight=False), auto_refresh=True)
            self._live.start()
        # On a narrow terminal the reason matters more than the stages that are behind and ahead.
        whole = self._live.console.width >= _WIDE
        self._live.update(self._picture(whole=whole), refresh=True)

    def _picture(self, *, whole: bool) -> Table:
        from rich.spinner import Spinner
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, pad_edge=False, show_header=False)
        table.add_column(no_wrap=True)
        table.add_column(no_wrap=True)
        table.add_column()
        for key, tenant in self._tenants.items():
            progress = self._progress.get(key)
            if progress is None and key not in self._notes:
                continue
            done = progress is not None and progress.done
            mark: Any = Text("✓", style="green") if done else Spinner("dots")
            head = Table.grid(padding=(0, 1))
            head.add_row(mark, Text(tenant.key, style="bold"))
            stages = Text("applying") if progress is None else _stages(progress.stage, whole=whole)
            reason = self._notes.get(key) or (progress.reason if progress is not None else "")
            if done and progress is not None:
                reason = ", ".join(progress.nodes)
            table.add_row(head, stages, Text(reason, style="dim"))
        return table


def _stages(now: Stage, *, whole: bool) -> Text:
    from rich.text import Text

    if not whole:
        return Text(now.text, style="green" if now is Stage.RUNNING else "bold yellow")
    line = Text()
    for stage in Stage:
        if stage:
            line.append(" → ", style="dim")
        style = "dim" if stage > now else "green" if stage < now or now is Stage.RUNNING else "bold yellow"
        line.append(stage.text, style=style)
    return line


def summary(plan: Plan) -> str:
    """What was done for one tenant, in one line."""
    counts = Counter(step.change for step in plan.steps)
    said = ", ".join(f"{counts[change]} {change.value}" for change in Change if counts[change])
    if not plan.changes:
        said = "unchanged"
    return f"tenant {plan.tenant.name} ({plan.tenant.type}) in namespace {plan.tenant.namespace}: {said}"


def show_plans(plans: Iterable[Plan]) -> None:
    """Every object and what would happen to it."""
    from fairlead.cli.output import show_lines, show_table

    plans = list(plans)
    show_table(
        ("NAMESPACE", "TENANT", "OBJECT", "CHANGE"),
        (
            (plan.tenant.namespace, plan.tenant.name, step.ref, (step.change.value, _COLOURS[step.change]))
            for plan in plans
            for step in plan.steps
        ),
    )
    notes = dict.fromkeys(note for plan in plans for note in plan.notes)
    show_lines(*(f"note: {note}" for note in notes), "dry run: nothing was written")


def show_diffs(plans: Iterable[Plan]) -> None:
    """Unified diffs of all objects that would change; coloured on a terminal."""
    colours = {"+": "green", "-": "red", "@": "cyan"}
    changed = False
    for plan in plans:
        for step in plan.steps:
            for line in diff_of(step).splitlines():
                changed = True
                click.secho(line, fg=colours.get(line[:1]))
    if not changed:
        click.echo("no differences", err=True)


def show_objects(plans: Iterable[Plan], output: str, *, secrets: bool) -> None:
    """The objects as they are applied."""
    from fairlead.cli.output import show_json, show_yaml

    items = [
        step.item if secrets else masked(step.item)
        for plan in plans
        for step in plan.steps
        if step.change is not Change.DELETE
    ]
    if output == "json":
        show_json({"apiVersion": "v1", "kind": "List", "items": items})
        return
    for item in items:
        click.echo("---")
        show_yaml(item)
