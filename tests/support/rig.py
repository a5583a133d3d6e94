"""Where the real control plane's programs cannot be had, its tests are skipped with one line; never in CI."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

import pytest

from fairlead.errors import RigError
from fairlead.rig import build


def programs(*names: str) -> list[Path]:
    """The programs, built now if they have to be; otherwise the calling test ends here."""
    paths = []
    for name in names:
        path, problem = _have(name)
        if path is None:
            line = f"no real control plane here: {problem}"
            if os.environ.get("CI") == "true":
                pytest.fail(line, pytrace=False)
            pytest.skip(line)
        paths.append(path)
    return paths


@cache
def _have(name: str) -> tuple[Path | None, str]:
    """Tried once in a run: a build that fails takes its time."""
    try:
        return build.binary(name), ""
    except RigError as error:
        return None, str(error).splitlines()[0]
