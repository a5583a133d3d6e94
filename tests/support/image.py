"""The image of a container of these tests: the present environment, or a released image's own file tree.

``FAIRLEAD_IMAGE`` names the archive of a release (`make release-test`); without it, the present Python
environment stands in under its own paths, with the entry point, user and variables of the Dockerfile.
"""

from __future__ import annotations

import atexit
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tools.release import program
from tools.release.image import Config

import fairlead

__all__ = ["Image"]


@dataclass(frozen=True, slots=True)
class Image:
    """What a container starts from."""

    name: str
    entrypoint: tuple[str, ...]
    env: Mapping[str, str]
    user: int
    group: int
    python: str
    code: tuple[str, ...]  # folders of the root with Python and its packages
    tree: Path | None  # the whole root, or None for the present environment

    @classmethod
    def current(cls) -> Image:
        named = os.environ.get("FAIRLEAD_IMAGE")
        return cls.unpacked(Path(named).resolve()) if named else cls.present()

    @classmethod
    def present(cls) -> Image:
        config = Config.read()
        env = {**config.env, "PATH": f"{sys.prefix}/bin:/usr/local/bin:/usr/bin:/bin"}
        user, group = map(int, config.user.split(":"))
        code = (sys.prefix, str(_sources()))
        return cls("this environment", config.entrypoint, env, user, group, sys.executable, code, None)

    @classmethod
    @cache
    def unpacked(cls, archive: Path) -> Image:
        folder = Path(tempfile.mkdtemp(prefix="fairlead-image-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        with tarfile.open(archive) as source:
            source.extractall(folder / "layout", filter="data")
        layout = folder / "layout"
        index = json.loads((layout / "index.json").read_text())["manifests"][0]
        manifest = json.loads(_blob(layout, index["digest"]))
        config = json.loads(_blob(layout, manifest["config"]["digest"]))["config"]
        tag = index["annotations"]["org.opencontainers.image.ref.name"]
        unpacking = [program("umoci"), "unpack", "--image", f"{layout}:{tag}", str(folder / "bundle")]
        subprocess.run(unpacking, check=True, capture_output=True)
        env = dict(pair.split("=", 1) for pair in config["Env"])
        user, group = map(int, config["User"].split(":"))
        code = ("/opt/fairlead", "/usr/lib")
        python, tree = "/opt/fairlead/bin/python", folder / "bundle" / "rootfs"
        return cls(archive.name, tuple(config["Entrypoint"]), env, user, group, python, code, tree)

    @staticmethod
    def folders() -> list[Path]:
        """What of this machine is bound into a root: its programs and libraries, Python, our sources."""
        python = (Path(sys.prefix), Path(sys.base_prefix), Path(sys.executable).resolve().parents[1])
        found: list[Path] = []
        for path in (Path("/usr"), Path("/etc/ssl"), *python, _sources()):
            if path.is_dir() and not any(path.is_relative_to(other) for other in found):
                found.append(path)
        return found

    def inside(self, path: Path) -> Path:
        """Where a path of the root leads, as a process in the root follows it; /var/run is a link, say."""
        if self.tree is None:
            return path
        found, waiting = Path("/"), list(reversed(path.parts[1:]))
        while waiting:
            part = waiting.pop()
            here = self.tree / (found / part).relative_to("/")
            if not here.is_symlink():
                found = found.parent if part == ".." else found / part
                continue
            target = here.readlink()
            if target.is_absolute():
                found = Path("/")
            waiting += reversed([one for one in target.parts if one != "/"])
        return found


def _sources() -> Path:
    return Path(fairlead.__file__).resolve().parents[1]


def _blob(layout: Path, digest: str) -> bytes:
    return (layout / "blobs" / digest.replace(":", "/")).read_bytes()
