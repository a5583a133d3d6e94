"""``python -m tools.soak``, which is what `make soak` runs."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Sequence
from pathlib import Path

import click

from tools.soak import vitals
from tools.soak.actions import STORM_S, Action
from tools.soak.report import page
from tools.soak.run import Result, Settings, read_actions, soak
from tools.soak.shrink import shortest

_SHOWN = 25


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--minutes", type=float, default=30.0, show_default=True, help="How long load and faults go on."
)
@click.option("--seed", type=int, help="Draw the same actions as a run before; printed by each run.")
@click.option(
    "--storm",
    "storm_s",
    type=float,
    default=STORM_S,
    show_default=True,
    help="Seconds from quiet point to quiet point.",
)
@click.option("--replay", type=click.Path(path_type=Path, exists=True), help="Play the actions of this log.")
@click.option(
    "--shrink",
    "tries",
    type=int,
    default=0,
    help="After a violation, look for a shorter history in so many runs.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("dist/soak"),
    show_default=True,
    help="Folder of log and report.",
)
def main(
    *, minutes: float, seed: int | None, storm_s: float, replay: Path | None, tries: int, out: Path
) -> None:
    """Random load and faults on the real control plane, with Fairlead's components, for some minutes.

    Exits with 1 if an invariant did not hold, or if memory or file descriptors grew.
    """
    history: list[Action] = []
    if replay is not None:
        lines = [json.loads(line) for line in replay.read_text().splitlines()]
        history = read_actions(lines)
        seed = lines[0]["seed"] if seed is None else seed
    if seed is None:
        seed = random.SystemRandom().randrange(1_000_000)
    out.mkdir(parents=True, exist_ok=True)
    log = out / f"soak-{seed}.jsonl" if replay is None else out / f"soak-{seed}-replayed.jsonl"
    print(f"seed {seed}, log {log}", flush=True)
    result = asyncio.run(soak(Settings(seed, minutes, storm_s, history), log))
    report = log.with_suffix(".html")
    report.write_text(page(result))
    _tell(result, report)
    if result.violations:
        found = result.actions
        if tries:
            found = asyncio.run(_shrunk(result, tries, out))
            shorter = log.with_name(f"{log.stem}-shortest.jsonl")
            shorter.write_text("".join(json.dumps(line) + "\n" for line in _as_log(seed, found)))
            print(f"\nthe shortest history found, {len(found)} of {len(result.actions)} actions: {shorter}")
        _tell_history(result)
        same = f"SEED={seed} MINUTES={minutes:g}" + (
            f" ARGS='--storm {storm_s:g}'" if storm_s != STORM_S else ""
        )
        print(f"\nagain: make soak {same}, or: make soak ARGS='--replay {log}'")
    raise SystemExit(1 if result.failed else 0)


def _tell(result: Result, report: Path) -> None:
    counts = ", ".join(f"{number} {name}" for name, number in result.counts.items())
    print(f"{result.lasted_s:.0f} s, {result.cycles} cycles, {len(result.actions)} actions, {counts}")
    faults = sum(action.is_fault for action in result.actions)
    print(f"faults: {faults} drawn; injected by proxies: {dict(sorted(result.injected.items()))}")
    print(f"\n{'process':<14}{'lived':>8}{'RSS MiB':>9}{'MiB/h':>8}{'fds':>6}{'fds/h':>8}")
    for one in result.slopes:
        judged = "" if one.judged else "  (too short to judge)"
        print(
            f"{one.door:<14}{one.lived_s:>6.0f} s{one.rss_mib:>9.1f}{one.mib_per_hour:>8.1f}"
            f"{one.fds:>6}{one.fds_per_hour:>8.1f}{'  GROWS' if one.grows else judged}"
        )
    most = f"{vitals.MOST_MIB_PER_HOUR:g} MiB/h and {vitals.MOST_FDS_PER_HOUR:g} fds/h"
    print(f"limits: {most}, at quiet points over at least {vitals.JUDGED_S:.0f} s")
    if result.excused:
        print(f"excused, decided on a watch that a fault had made lie: {dict(result.excused)}")
    print(f"\nviolations: {len(result.violations)}")
    for violation in result.violations:
        print(f"  {violation}")
    print(f"report: {report}")


def _tell_history(result: Result) -> None:
    first = next(index for index, line in enumerate(result.lines) if line["kind"] == "violation")
    before = [line for line in result.lines[:first] if line["kind"] not in ("sample", "pods")]
    print(f"\nwhat came before the first violation (seed {result.settings.seed}):")
    for line in [*before[-_SHOWN:], result.lines[first]]:
        print(f"  {json.dumps(line)}")


async def _shrunk(result: Result, tries: int, out: Path) -> list[Action]:
    """Shorter histories up to the first violation."""
    first = next(line for line in result.lines if line["kind"] == "violation")
    until = [line for line in result.lines if line["t"] <= first["t"]]
    cycles = {line["cycle"] for line in until if line["kind"] == "action"}
    history = [action for action in result.actions if action.cycle in cycles]

    async def fails(actions: Sequence[Action]) -> bool:
        settings = Settings(result.settings.seed, 0, history=actions, stop_at=first["invariant"])
        again = await soak(settings, out / "shrinking.jsonl")
        failed = any(one.invariant == first["invariant"] for one in again.violations)
        print(f"{len(actions)} actions: {'violated again' if failed else 'held'}", flush=True)
        return failed

    return await shortest(history, fails, tries)


def _as_log(seed: int, actions: Sequence[Action]) -> list[dict[str, object]]:
    return [
        {"t": 0, "kind": "begin", "seed": seed},
        *({"t": 0, "kind": "action", **one.data()} for one in actions),
    ]


if __name__ == "__main__":
    main()
