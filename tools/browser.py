"""Chromium for the tests of the page: found, or installed where that takes no question.

``python -m tools.browser`` prints where it is. Where it is missing, root on Debian or Ubuntu has it installed
from their packages; anybody else is told how to get one, and with ``--optional`` that is no failure.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def find() -> str | None:
    """The program, as FAIRLEAD_CHROMIUM or the PATH names it."""
    given = os.environ.get("FAIRLEAD_CHROMIUM")
    if given:
        return given
    return next((path for name in _NAMES if (path := shutil.which(name))), None)


def install() -> str | None:
    """Install Debian's package; why it could not be, or None."""
    if os.name != "posix" or os.geteuid() != 0 or shutil.which("apt-get") is None:
        return "install Chromium (Debian: apt-get install chromium), or name one in FAIRLEAD_CHROMIUM"
    print("installing chromium from Debian's packages (once)", file=sys.stderr)
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for arguments in (["update", "-qq"], ["install", "-y", "-qq", "--no-install-recommends", "chromium"]):
        done = subprocess.run(
            ["apt-get", *arguments], env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
        )
        if done.returncode:
            return f"apt-get {arguments[0]} failed: {done.stdout.decode(errors='replace')[-500:]}"
    return None


def main() -> None:
    """See the module."""
    found = find()
    problem = None if found else install()
    found = found or find()
    if found:
        print(found)
    else:
        print(f"no Chromium, so the tests of the page are skipped: {problem}", file=sys.stderr)
        if "--optional" not in sys.argv[1:]:
            sys.exit(1)


if __name__ == "__main__":
    main()
