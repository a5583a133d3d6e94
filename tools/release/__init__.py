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

__all__ = ["ROOT", "ReleaseError", "program", "require", "run"]

ROOT = Path(__file__).resolve().parents[2]

# The Debian package that has a program, for the line that says it is missing.
_PACKAGES = {
    "mmdebstrap": "mmdebstrap",
    "umoci": "umoci",
    "dpkg-deb": "dpkg",
    "git": "git",
    "chroot": "coreutils",
    "env": "coreutils",
}


class ReleaseError(Exception):
    """A release cannot be built: one line with what happened, to what, and what to do."""


def program(name: str) -> str:
    """The path of a program, or how to get it."""
    found = _which(name)
    if found is None:
        raise _missing([name])
    return found


def require(*names: str) -> None:
    """Refuse to go on where any of these programs is missing; all that are missing are named at once."""
    if missing := [name for name in names if _which(name) is None]:
        raise _missing(missing)


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


def _which(name: str) -> str | None:
    return shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")


def _missing(names: Sequence[str]) -> ReleaseError:
    packages = " ".join(dict.fromkeys(_PACKAGES[name] for name in names))
    return ReleaseError(f"not installed: {', '.join(names)}; install with: apt-get install {packages}")
