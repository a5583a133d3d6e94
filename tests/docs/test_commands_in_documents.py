"""Every command in a document works as it stands there.

Documents show commands in ``console`` blocks, behind ``$``. What `make` would do is only asked for
(`make --dry-run`): its real run is what runs these tests. Everything else is run for real, block by
block, in a folder that has the repository's `examples`.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = sorted(
    path
    for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")]
    if "```console" in path.read_text()
)


def blocks(document: Path) -> list[list[str]]:
    """The commands of each console block, without their comments."""
    found = []
    for block in re.findall(r"^```console\n(.*?)^```", document.read_text(), re.DOTALL | re.MULTILINE):
        commands = [line[2:] for line in block.splitlines() if line.startswith("$ ")]
        found.append([re.sub(r"\s+# .*$", "", command) for command in commands])
    return found


@pytest.mark.parametrize(
    ("document", "number"),
    [(document, number) for document in DOCUMENTS for number in range(len(blocks(document)))],
    ids=lambda value: value.name if isinstance(value, Path) else str(value),
)
def test_the_commands_of_a_block_work(document: Path, number: int, tmp_path: Path) -> None:
    if (ROOT / "examples").exists():
        (tmp_path / "examples").symlink_to(ROOT / "examples")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    for command in blocks(document)[number]:
        words = shlex.split(command)
        if words[0] == "make":
            command = shlex.join(["make", "--dry-run", "-C", str(ROOT), *words[1:]])  # noqa: PLW2901
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", command],
            cwd=tmp_path,
            env={**os.environ, "PATH": path},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, f"{document.name}: {command}\n{done.stdout}\n{done.stderr}"


def test_the_readme_names_the_two_commands() -> None:
    commands = [command for block in blocks(ROOT / "README.md") for command in block]
    assert "make demo" in commands
    assert "make test" in commands


@pytest.mark.parametrize("target", ["demo", "test", "verify", "check", "coverage", "bench", "controlplane"])
def test_make_help_lists_the_target(target: str) -> None:
    done = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert re.search(rf"^  {target} +\S", done.stdout, re.MULTILINE)
