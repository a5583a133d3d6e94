"""``python -m tools.release``: build everything into a folder; see the package."""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

from tools.release import ROOT, ReleaseError, require, source
from tools.release.bom import bill_of_materials
from tools.release.debian import build_root, download, kept
from tools.release.image import architecture, install, normalise, pack
from tools.release.leaks import leaks, private_words
from tools.release.licences import PAGE, listed, of_root
from tools.release.packages import chart_packages, python_packages

SUMS = "SHA256SUMS"


def main() -> int:
    """Parse the command line, build, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m tools.release", description=__doc__)
    parser.add_argument(
        "--output", type=Path, default=ROOT / "dist", help="folder to write to (default: dist)"
    )
    parser.add_argument("--twice", action="store_true", help="build a second time and compare the checksums")
    parser.add_argument(
        "--keep-root", type=Path, metavar="FOLDER", help="keep the image's file tree here, too"
    )
    options = parser.parse_args()
    try:
        files = build(options.output, options.keep_root)
        if options.twice:
            with tempfile.TemporaryDirectory(prefix="fairlead-release-") as again:
                build(Path(again), None)
                first, second = ((folder / SUMS).read_text() for folder in (options.output, Path(again)))
            if first != second:
                changed = sorted(set(first.splitlines()) ^ set(second.splitlines()))
                raise ReleaseError(f"the second build differs: {'; '.join(changed)}")
            _say("built twice: the same checksums")
    except ReleaseError as error:
        _say(f"error: {error}")
        return 1
    for file in files:
        print(f"{_sum(file)}  {file.stat().st_size / 1e6:7.2f} MB  {file.name}")
    return 0


def build(target: Path, keep: Path | None) -> list[Path]:
    """Build everything into `target`, which is emptied; the files, checksums last."""
    require("git", "mmdebstrap", "umoci", "dpkg-deb")  # what is missing is said before minutes are spent
    if os.getuid() != 0:
        raise ReleaseError("the image's root is made as root, for the owners of its files; run this as root")
    os.umask(0o022)  # modes must not depend on the user's
    began = time.monotonic()
    if not source.is_clean():
        _say("uncommitted changes are left out: a release is built from the last commit")
    with tempfile.TemporaryDirectory(prefix="fairlead-release-") as name:
        scratch, made = Path(name), Path(name, "made")
        made.mkdir()
        tree = scratch / "tree"
        source.export(tree)
        origin = source.origin_of(tree)
        files = python_packages(tree, made, scratch, origin.epoch)
        wheel = files[0]
        files += chart_packages(tree, made, scratch, origin.epoch)
        _say(f"wheel, source distribution, charts: {_since(began)}")

        root = scratch / "root"
        root.mkdir(mode=0o755)
        build_root(kept(download(scratch)), root)
        wheels = install(root, wheel, scratch)
        normalise(root, origin.epoch)
        image = f"fairlead-{origin.version}-linux-{architecture()}"
        files.append(made / f"{image}.oci.tar")
        digest = pack(root, files[-1], scratch, origin)
        size = sum(path.lstat().st_size for path in root.rglob("*") if not path.is_dir())
        _say(f"image {digest}, {size / 1e6:.0f} MB unpacked: {_since(began)}")
        files.append(made / f"{image}.cdx.json")
        files[-1].write_text(bill_of_materials(root, wheels, origin, digest))

        words = private_words(scratch)
        if found := leaks([root, *files], words):
            raise ReleaseError(f"the release names this machine or its mirrors: {'; '.join(found[:5])}")
        if of_root(root) != listed():
            _say(f"{PAGE.name} is not what this image has; run python -m tools.release.licences ROOT")
        files.append(made / SUMS)
        files[-1].write_text(checksums(files[:-1]))

        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(parents=True)
        if keep is not None:
            shutil.rmtree(keep, ignore_errors=True)
            shutil.copytree(root, keep, symlinks=True)
        return [Path(shutil.move(file, target)) for file in files]


def checksums(files: Iterable[Path]) -> str:
    """What `sha256sum --check` reads."""
    return "".join(f"{_sum(file)}  {file.name}\n" for file in sorted(files))


def _sum(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _since(began: float) -> str:
    return f"{time.monotonic() - began:.0f} s"


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
