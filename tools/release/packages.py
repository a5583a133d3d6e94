"""Wheel, source distribution and chart packages."""

from __future__ import annotations

import sys
from pathlib import Path

from fairlead.errors import RigError
from fairlead.rig.build import binary
from tools.release import ROOT, ReleaseError, run
from tools.release.archive import normalised

__all__ = ["chart_packages", "python_packages"]


def python_packages(tree: Path, target: Path, scratch: Path, epoch: int) -> list[Path]:
    """Source distribution and wheel, built by the pinned and hashed build requirements."""
    builder = scratch / "builder"
    run([sys.executable, "-m", "venv", builder])
    python = builder / "bin" / "python"
    pinned = ROOT / "requirements" / "build.txt"
    run([python, "-m", "pip", "install", "--quiet", "--require-hashes", "--requirement", pinned])
    # The wheel comes from the source distribution, so that this one is known to be complete.
    env = {"SOURCE_DATE_EPOCH": str(epoch), "PYTHONHASHSEED": "0"}
    run([python, "-m", "hatchling", "build", "--target", "sdist", "--directory", target], cwd=tree, env=env)
    (sdist,) = target.glob("*.tar.gz")
    options: list[str | Path] = [
        "--no-build-isolation",
        "--no-deps",
        "--no-index",
        "--quiet",
        "--wheel-dir",
        target,
    ]
    run([python, "-m", "pip", "wheel", *options, sdist], env=env)
    (wheel,) = target.glob("*.whl")
    return [wheel, sdist]


def chart_packages(tree: Path, target: Path, scratch: Path, epoch: int) -> list[Path]:
    """A package of each chart. Helm notes the time of packaging; that is taken out again."""
    charts = sorted(chart.parent for chart in tree.glob("charts/*/Chart.yaml"))
    if not charts:
        return []
    try:
        helm = binary("helm")
    except RigError as error:
        raise ReleaseError(f"helm is needed to package charts: {error}") from error
    made = []
    for chart in charts:
        folder = scratch / "charts" / chart.name
        run([helm, "package", chart, "--destination", folder])
        (packed,) = folder.glob("*.tgz")
        own = target / packed.name
        own.write_bytes(normalised(packed.read_bytes(), epoch))
        made.append(own)
    return made
