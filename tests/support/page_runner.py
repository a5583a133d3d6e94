"""Run the commands of a page as they stand there, one after the other, as a reader's shell would.

What a command exports, and where it changes to, the next one finds. A page that names its cluster has none
before it does: until ``export KUBECONFIG=…`` its commands meet a kubeconfig that is not there.

Not everything can be done for real here. `make` and ``./setup.sh`` are run dry: the one's real run is what
runs the tests, the other's needs minikube or kind. On an embedded cluster ``fairlead dev up`` is only checked
for its flags, `kind` does nothing, and the kubeconfig that they lead to is that of the embedded cluster.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import click
import pytest

from fairlead.cli import root
from support.command import needs_no_shell, start_command
from support.page_clusters import CLUSTERS, REAL
from support.pages import ROOT, Page, difference

__all__ = ["Reader", "work_through"]

_LINKED = ("charts", "examples", "deploy", "setup.sh")
_PATIENCE_S = 300
_FALLS_AWAY = "no-cluster-is-named-yet"
# What ends only when it is told to: once it has printed a line it works.
_STAYS = ("dashboard",)
_STUBS = {
    "kind": '#!/bin/sh\n[ "$1 $2" = "get kubeconfig" ] && cat "$PAGE_KUBECONFIG"\nexit 0\n',
    "minikube": "#!/bin/sh\n",
    "docker": "#!/bin/sh\n",
    "pipx": "#!/bin/sh\n",
    "dry/kubectl": "#!/bin/sh\n",
}
_JOB = re.compile(r"kill %(\d+)")
_DEV_KUBECONFIG = re.compile(r'"?\$\(fairlead dev status -o kubeconfig\)"?')


class Reader:
    """A reader with a folder, a home and an environment of their own; `close` ends what they left running."""

    def __init__(self, page: Page, folder: Path, env: dict[str, str], *, real: bool = False) -> None:
        """`env` is what the cluster adds; on a `real` one, `fairlead dev` is run as it stands."""
        self._page = page
        self._real = real
        self.home = folder / "home"
        self._here = self.home / "fairlead"
        self._here.mkdir(parents=True)
        for name in _LINKED:
            (self._here / name).symlink_to(ROOT / name)
        (self._here / ".venv").symlink_to(sys.prefix)
        self._stubs = folder / "stubs"
        for name, script in _STUBS.items():
            (self._stubs / name).parent.mkdir(parents=True, exist_ok=True)
            (self._stubs / name).write_text(script)
            (self._stubs / name).chmod(0o755)
        self._kubeconfig = env.get("KUBECONFIG", "")
        path = (str(self._stubs), str(Path(sys.executable).parent), env.get("PATH", os.environ["PATH"]))
        self._env = {**os.environ, **env, "HOME": str(self.home), "PATH": os.pathsep.join(path)}
        self._env |= {"BROWSER": "true", "PAGE_KUBECONFIG": self._kubeconfig}
        for name in ("VIRTUAL_ENV", "XDG_STATE_HOME"):
            self._env.pop(name, None)
        if real:
            self._env.pop("KUBECONFIG", None)  # what `dev up` adds goes to the home's own
        elif page.names_its_cluster or not self._kubeconfig:
            self._env["KUBECONFIG"] = str(self.home / _FALLS_AWAY)
        self._left: list[int] = []  # process groups of shells
        self._jobs: list[int] = []  # of these, what runs in the background

    def close(self) -> None:
        for group in self._left:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(group, signal.SIGTERM)

    def work_through(self) -> None:
        """Every command, in order: it ends as the page says and prints what it shows."""
        for step in self._page.steps:
            command = self._rehearsed(step.command)
            code, printed = self._run(command)
            said = f"{self._page.path}:{step.line}\n$ {step.command}\n{printed}"
            assert code == step.code, f"{said}\nended with {code}"
            if step.output and command == step.command:
                wrong = difference(step.output, printed, self.home)
                assert not wrong, f"{said}\n{wrong}; shown are\n" + "\n".join(step.output)

    def _run(self, command: str) -> tuple[int, str]:
        words = shlex.split(command) if "\n" not in command else []
        with tempfile.TemporaryFile() as out:
            if words[:1] == ["fairlead"] and words[1:2] and words[1] in _STAYS:
                return self._until_it_works(words)
            if needs_no_shell(command):
                code = self._fairlead(words[1:], out.fileno())
            else:
                code = self._in_a_shell(command, out.fileno())
            out.seek(0)
            return code, out.read().decode()

    def _fairlead(self, arguments: list[str], out: int) -> int:
        running = start_command(*arguments, stdout=out, stderr=out, cwd=self._here, env=self._env)
        try:
            return running.wait(_PATIENCE_S)
        except BaseException:
            running.kill()
            running.wait()
            raise

    def _in_a_shell(self, command: str, out: int) -> int:
        kept = self.home / ".kept"
        # Bash says how the command ended, and leaves behind what it exported and where it went.
        script = f"set -euo pipefail\n{command}\n{{ pwd; env -0; }} > {shlex.quote(str(kept))}\n"
        kept.unlink(missing_ok=True)
        shell = subprocess.Popen(
            ["bash", "-c", script],
            cwd=self._here,
            env=self._env,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
        self._left.append(shell.pid)
        try:
            code = shell.wait(_PATIENCE_S)
        except BaseException:
            os.killpg(shell.pid, signal.SIGKILL)
            shell.wait()
            raise
        if command.endswith("&"):
            self._jobs.append(shell.pid)
        if code == 0:
            where, _, exported = kept.read_text().partition("\n")
            self._here = Path(where)
            self._env = dict(one.split("=", 1) for one in exported.split("\0") if "=" in one)
        return code

    def _until_it_works(self, words: list[str]) -> tuple[int, str]:
        with subprocess.Popen(words, cwd=self._here, env=self._env, stdout=subprocess.PIPE, text=True) as one:
            assert one.stdout is not None
            printed = one.stdout.readline()
            one.terminate()
            one.communicate(timeout=60)
        return (one.returncode if printed else 1), printed

    def _rehearsed(self, command: str) -> str:
        """The command, as what stands for it here."""
        words = command.split()
        if words[0] == "openssl" and shutil.which("openssl") is None:
            pytest.skip("there is no openssl here")
        if words[0] == "make":
            return shlex.join(
                ["make", "--dry-run", "-C", str(ROOT), *shlex.split(command, comments=True)[1:]]
            )
        if words[0] == "./setup.sh" and not {"--help", "--render"} & set(words):
            # A dry run looks whether its tools are there, and runs none of them.
            dry = shlex.quote(str(self._stubs / "dry"))
            return f"PATH={dry}:$PATH {command.replace('./setup.sh', './setup.sh --dry-run', 1)}"
        if job := _JOB.fullmatch(command):
            return f"kill -- -{self._jobs[int(job[1]) - 1]}"  # each command has a shell of its own here
        if not self._real:
            if words[:3] in (["fairlead", "dev", "up"], ["fairlead", "dev", "down"]):
                _check_flags(shlex.split(command)[1:])
                return "true"
            command = _DEV_KUBECONFIG.sub(shlex.quote(self._kubeconfig), command)
        return command


def _check_flags(arguments: list[str]) -> None:
    """Fail as the command would where it does not know a flag."""
    command: click.Command = root()
    while isinstance(command, click.Group):
        name, *arguments = arguments
        found = command.get_command(click.Context(command), name)
        assert found is not None, f"there is no command {name}"
        command = found
    command.make_context(command.name, arguments)


def work_through(page: Page, folder: Path) -> None:
    """Run a page from its first command to its last, on the one cluster that it names."""
    assert page.runs_on in CLUSTERS, f"{page.name}: no page can be run on {page.cluster}"
    with CLUSTERS[page.runs_on](folder) as env:
        reader = Reader(page, folder, env, real=page.cluster in REAL)
        try:
            reader.work_through()
        finally:
            reader.close()
