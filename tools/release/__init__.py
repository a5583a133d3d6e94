"""What `make release` builds: Python packages, charts, an image, its bill of materials and checksums.

``python -m tools.release`` does all of it. Everything is made from the last commit, never from the working
tree, and the same commit and the same Debian packages give the same bytes: times are the commit's, names are
sorted, owners are root, and nothing remembers the machine or the mirrors that it was made with.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

__all__ = ["ROOT", "ReleaseError", "program", "run"]

ROOT = Path(__file__).resolve().parents[2]

# Where a program comes from, for the line that says it is missing.
_INSTALL = {
    "mmdebstrap": "apt-get install mmdebstrap",
    "umoci": "apt-get install umoci",
    "dpkg-deb": "apt-get install dpkg",
    "git": "apt-get install git",
    "chroot": "apt-get install coreutils",
    "env": "apt-get install coreutils",
}


class ReleaseError(Exception):
    """A release cannot be built: one line with what happened, to what, and what to do."""


def program(name: str) -> str:
    """The path of a program, or how to get it."""
    found = shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
    if found is None:
        raise ReleaseError(f"{name} is not installed; install it with: {_INSTALL[name]}")
    return found


def run(
    command: Sequence[str | Path], *, cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> str:
    """Run a program and return what it printed; an error carries the end of what it said."""
    words = [str(word) for word in command]
    done = subprocess.run(
        words, cwd=cwd, env=None if env is None else {**os.environ, **env}, capture_output=True, check=False
    )
    if done.returncode:
        said = " ".join((done.stderr or done.stdout).decode(errors="replace").split())
        raise ReleaseError(f"{Path(words[0]).name} failed ({done.returncode}): {said[-800:]}")
    return done.stdout.decode()
