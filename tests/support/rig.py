"""Where the real control plane's programs cannot be had, its tests are skipped with one line; never in CI."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

import pytest

from fairlead.errors import RigError
from fairlead.rig import build

ABSENT = "no real control plane here"


def programs(*names: str) -> list[Path]:
    """The programs, built now if they have to be; otherwise the calling test ends here."""
    paths = []
    for name in names:
        path, problem = _have(name)
        if path is None:
            line = f"{ABSENT}: {problem}"
            if os.environ.get("CI") == "true":
                pytest.fail(line, pytrace=False)
            pytest.skip(line)
        paths.append(path)
    return paths


def on_one_line(report: pytest.TestReport) -> None:
    """Let the summary fold all skips for want of programs, as it does with those of one place."""
    if report.skipped and isinstance(report.longrepr, tuple) and ABSENT in report.longrepr[2]:
        report.longrepr = (__file__, programs.__code__.co_firstlineno, report.longrepr[2])


@cache
def _have(name: str) -> tuple[Path | None, str]:
    """Tried once in a run: a build that fails takes its time."""
    try:
        return build.binary(name), ""
    except RigError as error:
        return None, str(error).splitlines()[0]
