"""``fairlead replay``: decide a recording again, and compare."""

from __future__ import annotations

import sys

import click

from fairlead.cli.flags import output_option


@click.command("replay", epilog="Example: fairlead replay recording.jsonl")
@click.argument("file", metavar="FILE")
@click.option("--segment", is_flag=True, help="Only FILE itself, not the older segments beside it.")
@output_option("table", "json")
def command(file: str, segment: bool, output: str) -> None:
    """Decide everything in a recording again; it must agree to the byte.

    Exits with 0 when it does, with 1 at the first difference, with 2 when FILE is not a recording.
    """
    from pathlib import Path

    import msgspec

    from fairlead.doors.scheduler.recording import replay, segments_of

    path = Path(file)
    found = replay([path] if segment and path.exists() else segments_of(path))
    differs = found.difference
    if output == "json":
        said: dict[str, object] = {
            "segments": found.segments,
            "turns": found.turns,
            "events": found.events,
            "actions": found.actions,
            "agrees": differs is None,
        }
        if differs is not None:
            said["difference"] = {
                "segment": str(differs.segment),
                "line": differs.line,
                "recorded": differs.recorded,
                "replayed": differs.replayed,
            }
        click.echo(msgspec.json.encode(said).decode())
    else:
        click.echo(
            f"{found.turns} turns in {found.segments} segments: "
            f"{found.events} events, {found.actions} decisions"
        )
        if differs is None:
            click.echo("the replay agrees with the recording, byte by byte")
        else:
            click.echo(f"the replay differs at {differs.segment}, line {differs.line}")
            click.echo(f"  recorded: {differs.recorded}")
            click.echo(f"  replayed: {differs.replayed}")
    if differs is not None:
        sys.exit(1)
