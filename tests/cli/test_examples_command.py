"""``fairlead examples``, from the source tree and from an installed wheel."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

from support.command import run_command
from support.pages import pages

ROOT = Path(__file__).resolve().parents[2]
SHIPPED = sorted(path.relative_to(ROOT) for path in (ROOT / "examples").rglob("*") if path.is_file())


def test_they_are_copied_and_left_alone_when_they_are_there(tmp_path: Path) -> None:
    first = run_command("examples", cwd=tmp_path)
    (tmp_path / "examples" / "yours.yaml").unlink()
    again = run_command("examples", cwd=tmp_path)

    assert first.stdout == f"examples: {len(SHIPPED)} files copied, 0 were there\n"
    assert again.stdout == f"examples: 1 files copied, {len(SHIPPED) - 1} were there\n"
    for file in SHIPPED:
        assert (tmp_path / file).read_bytes() == (ROOT / file).read_bytes()


def test_a_file_of_the_users_is_not_replaced_unless_that_is_asked_for(tmp_path: Path) -> None:
    mine = tmp_path / "mine" / "node-groups.yaml"
    mine.parent.mkdir()
    mine.write_text("mine")

    refused = run_command("examples", "mine", cwd=tmp_path)
    assert refused.returncode == 2
    assert "node-groups.yaml differs from the example of that name" in refused.stderr
    assert (mine.read_text(), len(list(mine.parent.iterdir()))) == ("mine", 1)

    assert run_command("examples", "mine", "--force", cwd=tmp_path).returncode == 0
    assert mine.read_bytes() == (ROOT / "examples" / "node-groups.yaml").read_bytes()


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the examples, and a virtual environment beside it with the wheel and nothing of the tree.

    Dependencies are this environment's: it is Fairlead that is installed as a user installs it.
    """
    folder = tmp_path_factory.mktemp("installed")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder],
        cwd=ROOT,
        check=True,
    )
    (wheel,) = folder.glob("fairlead-*.whl")
    own = folder / "venv"
    venv.create(own, with_pip=False)
    (packages,) = own.glob("lib/python*/site-packages")
    with zipfile.ZipFile(wheel) as files:
        files.extractall(packages)
    (theirs,) = {path for path in map(Path, sys.path) if path.name == "site-packages"}
    dependencies = folder / "dependencies"
    dependencies.mkdir()
    for path in theirs.iterdir():
        # Neither the editable installation of the tree nor what would make it importable.
        if "fairlead" not in path.name and path.suffix != ".pth":
            (dependencies / path.name).symlink_to(path)
    (packages / "dependencies.pth").write_text(f"{dependencies}\n")
    program = own / "bin" / "fairlead"
    program.write_text(f"#!{own}/bin/python\nfrom fairlead.cli import main\nmain()\n")
    program.chmod(0o755)
    return folder


def run(installed: Path, line: str) -> subprocess.CompletedProcess[str]:
    env = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "KUBECONFIG")}
    return subprocess.run(
        ["bash", "-euo", "pipefail", "-c", line],
        cwd=installed,
        env={**env, "PATH": f"{installed}/venv/bin{os.pathsep}{env['PATH']}", "HOME": str(installed)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


ANSWERS = ("explain", "status", "plan", "cost", "queue", "nodes", "whatif")


def without_a_cluster() -> dict[str, int]:
    """The commands of documents that read examples and nothing else, each with the code that it ends with."""
    found: dict[str, int] = {}
    for step in (step for page in pages() for step in page.steps):
        if not step.command.startswith("fairlead ") or "examples/" not in step.command:
            continue
        words = shlex.split(step.command, comments=True)
        answered = "-f" in words and words[1] in ANSWERS
        alone = words[1:3] in (["policy", "test"], ["policy", "lint"], ["scenario", "lint"]) or (
            words[1] == "nodegroups" and "--aws" not in words
        )
        others = {"|", "--kubeconfig", "state.yaml", "dump.json", "fairlead.yaml", "mine.yaml"} & set(words)
        if (answered or alone) and not others:
            found[step.command] = step.code
    return found


@pytest.mark.slow
def test_the_package_is_the_installed_one_and_brings_its_examples(installed: Path) -> None:
    where = run(installed, "venv/bin/python -c 'import fairlead; print(fairlead.__file__)'")
    assert where.stdout.startswith(str(installed / "venv")), where.stderr
    done = run(installed, "fairlead examples")
    assert done.returncode == 0, done.stderr
    assert (
        sorted(path.relative_to(installed) for path in (installed / "examples").rglob("*") if path.is_file())
        == SHIPPED
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "code"),
    [("fairlead demo --fast", 0), ("fairlead policy crds", 0), *without_a_cluster().items()],
)
def test_a_command_of_the_documents_works_there(installed: Path, line: str, code: int) -> None:
    assert run(installed, "fairlead examples").returncode == 0
    done = run(installed, line)
    assert done.returncode == code, f"{line}\n{done.stdout}\n{done.stderr}"
