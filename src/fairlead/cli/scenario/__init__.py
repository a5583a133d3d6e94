"""``fairlead scenario``: check scenarios, describe their format, and make them from what was recorded."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from fairlead.cli.flags import output_option
from fairlead.cli.scenario.imports import import_group
from fairlead.errors import BadInput

__all__ = ["command"]


@click.group(
    "scenario",
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Example: fairlead scenario lint examples/simulate/batch.yaml",
)
def command() -> None:
    """Check scenarios for `fairlead simulate`, describe their format, and import them.

    A scenario is a file that says what is simulated: nodes, workloads, arrivals, spot markets, policies and
    faults, over a span of time.
    """


command.add_command(import_group)


@command.command(
    "lint",
    epilog="""Examples:

    \b
    fairlead scenario lint examples/simulate/batch.yaml examples/simulate/spot.yaml
    fairlead scenario lint examples/simulate/*.yaml -o json

    Exits with 0 when there are no mistakes, with 2 when there are.
    """,
)
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@output_option("table", "json", "yaml")
def lint(files: tuple[str, ...], output: str) -> None:
    """Say what is wrong in scenarios: every mistake, with file, line and field, and what is allowed there.

    Files that a scenario names (traces, objects) are read too. What does not fit together is looked for once
    every field is right by itself.
    """
    from fairlead.cli.output import show_data, show_lines
    from fairlead.simulation.scenario.material import load
    from fairlead.simulation.scenario.mistakes import BadScenario, Mistake

    found: list[Mistake] = []
    for file in files:
        try:
            load(Path(file))
        except BadScenario as error:
            found += error.mistakes
        except BadInput as error:
            found.append(Mistake(file, 1, "", str(error).removeprefix(f"{file}: ")))
    if output != "table":
        show_data(
            [
                {"file": one.file, "line": one.line, "field": one.field, "problem": one.problem}
                for one in found
            ],
            output,
        )
    else:
        show_lines(*map(str, found))
        wrong = len({one.file for one in found})
        show_lines(
            f"{_counted(len(found), 'mistake')} in {wrong} of {_counted(len(files), 'scenario')}"
            if found
            else f"{_counted(len(files), 'scenario')}, no mistakes"
        )
    if found:
        sys.exit(BadInput.exit_code)


@command.command(
    "schema",
    epilog="""Example: fairlead scenario schema > scenario.schema.json

    An editor with a YAML language server checks a file that begins with
    `# yaml-language-server: $schema=scenario.schema.json`.
    """,
)
def schema() -> None:
    """Print the JSON Schema of scenarios, for editors."""
    from fairlead.cli.output import show_json
    from fairlead.simulation.scenario.schema import json_schema

    show_json(json_schema())


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
