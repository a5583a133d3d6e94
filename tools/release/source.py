"""What a release is made from: the files of the last commit, its time, and its version."""

from __future__ import annotations

import re
import subprocess
import tarfile
import tomllib
from dataclasses import dataclass
from pathlib import Path

import yaml

from tools.release import ROOT, ReleaseError, program, run

__all__ = ["Origin", "export", "is_clean", "origin_of", "version", "versions"]


@dataclass(frozen=True, slots=True)
class Origin:
    """What a release is made from. `epoch` is the commit's time, and that of everything in the release."""

    version: str
    revision: str
    epoch: int


def origin_of(tree: Path) -> Origin:
    """Of the last commit, whose files are in `tree`."""
    return Origin(version(tree), _git("rev-parse", "HEAD"), int(_git("log", "-1", "--format=%ct")))


def is_clean() -> bool:
    """Whether the working tree is what is committed."""
    return not _git("status", "--porcelain")


def export(folder: Path) -> None:
    """The files of the last commit."""
    archive = subprocess.Popen(
        [program("git"), "-C", str(ROOT), "archive", "--format=tar", "HEAD"], stdout=subprocess.PIPE
    )
    assert archive.stdout is not None
    with archive, tarfile.open(fileobj=archive.stdout, mode="r|") as source:
        source.extractall(folder, filter="data")
    if archive.returncode:
        raise ReleaseError("git archive failed; run this in a clone of the repository")


def versions(tree: Path) -> dict[str, str]:
    """Every place that names the version, and what it says."""
    found = {
        "pyproject.toml": str(tomllib.loads((tree / "pyproject.toml").read_text())["project"]["version"])
    }
    init = (tree / "src" / "fairlead" / "__init__.py").read_text()
    found["src/fairlead/__init__.py"] = _only(r'^__version__ = "(.*)"$', init)
    for chart in sorted(tree.glob("charts/*/Chart.yaml")):
        said = yaml.safe_load(chart.read_text())
        for key in ("version", "appVersion"):
            found[f"{chart.relative_to(tree)} {key}"] = str(said[key])
    changelog = (tree / "CHANGELOG.md").read_text()
    found["CHANGELOG.md"] = _only(r"^## \[(\d.*?)\]", changelog)
    return found


def version(tree: Path) -> str:
    """The version, which must be the same everywhere."""
    said = versions(tree)
    if len(set(said.values())) != 1:
        said_where = ", ".join(f"{place}: {value or 'none'}" for place, value in said.items())
        raise ReleaseError(f"the version differs ({said_where}); make it the same everywhere")
    return said["pyproject.toml"]


def _only(pattern: str, text: str) -> str:
    match = re.search(pattern, text, re.MULTILINE)
    return match[1] if match else ""


def _git(*arguments: str) -> str:
    return run([program("git"), "-C", ROOT, *arguments]).strip()
