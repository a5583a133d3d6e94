"""The image without a container engine: the Dockerfile's final stage on a root of Debian's packages.

What `ENV`, `USER`, `ENTRYPOINT` and `CMD` say is read from the Dockerfile, so that the two images cannot
differ in it. The archive is an OCI layout that can also be read as what `docker save` writes, so that
containerd, kind, minikube, Docker and Podman all load it, under the same name.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tools.release import ROOT, ReleaseError, program, run
from tools.release.archive import write_tar
from tools.release.debian import PYTHON
from tools.release.pins import needed, read_pins, requirement_lines
from tools.release.source import Origin

__all__ = ["Config", "architecture", "install", "normalise", "pack", "repository"]

repository = "docker.io/library/fairlead"  # what `image: fairlead:VERSION` means to a container runtime

_MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_GLIBC = 36  # Debian 12 has the C library 2.36

# Run in the root: a library that is missing there would be noticed only by what needs it.
_LOAD_ALL = f"""
import ctypes, pathlib, sys
problems = []
for folder in ("/usr/lib/python{PYTHON}/lib-dynload", "/opt/fairlead/lib"):
    for path in sorted(pathlib.Path(folder).rglob("*.so*")):
        try:
            ctypes.CDLL(str(path))
        except OSError as error:
            problems.append(f"{{path}}: {{error}}")
sys.exit("libraries are missing: " + "; ".join(problems) if problems else 0)
"""


@dataclass(frozen=True, slots=True)
class Config:
    """What the Dockerfile says of how the image runs."""

    env: Mapping[str, str]
    user: str
    entrypoint: tuple[str, ...]
    cmd: tuple[str, ...]

    @classmethod
    def read(cls, dockerfile: Path = ROOT / "Dockerfile") -> Config:
        final = dockerfile.read_text().split("\nFROM ")[-1]

        def said(word: str) -> str:
            (found,) = re.findall(rf"^{word} (.*)$", final, re.MULTILINE)
            return str(found)

        env = dict(pair.split("=", 1) for pair in said("ENV").split())
        env["PATH"] = env["PATH"].replace("$PATH", _PATH)
        return cls(env, said("USER"), tuple(json.loads(said("ENTRYPOINT"))), tuple(json.loads(said("CMD"))))


def architecture() -> str:
    """This machine's, as images name it; another's cannot be built here."""
    machine = platform.machine()
    if machine not in _MACHINES:
        raise ReleaseError(f"no image is built on {machine}; use one of {', '.join(_MACHINES)}")
    return _MACHINES[machine]


def install(root: Path, wheel: Path, scratch: Path) -> list[Path]:
    """Install the wheel and what it needs into /opt/fairlead, as the Dockerfile does; returns all wheels."""
    wheels = _download(scratch)
    inside = root / "tmp" / "wheels"
    shutil.copytree(wheels, inside)
    shutil.copy(wheel, inside)
    (pip,) = inside.glob("pip-*.whl")
    python = "/opt/fairlead/bin/python"
    installing = ["/usr/bin/python3", f"/tmp/wheels/{pip.name}/pip", "--python", python, "install"]
    installing += ["--quiet", "--no-cache-dir", "--no-compile", "--disable-pip-version-check"]
    installing += ["--root-user-action=ignore", "--no-index", "--no-deps", "--find-links", "/tmp/wheels"]
    name, version = wheel.name.split("-")[:2]
    try:
        _inside(root, ["/usr/bin/python3", "-m", "venv", "--without-pip", "/opt/fairlead"])
        _inside(root, [*installing, "--require-hashes", "--requirement", "/tmp/wheels/run.txt"])
        # By its name: what is installed from a path remembers the path.
        _inside(root, [*installing, f"{name}=={version}"])
        for cache in list(root.rglob("__pycache__")):
            shutil.rmtree(cache)
        # Nothing is compiled at start, and nothing changes: the compiled files need not be compared.
        compiling = ["/usr/bin/python3", "-m", "compileall", "-q", "--invalidation-mode=unchecked-hash"]
        _inside(root, [*compiling, f"/usr/lib/python{PYTHON}", "/opt/fairlead/lib"])
        _inside(root, ["/opt/fairlead/bin/python", "-c", _LOAD_ALL])
    finally:
        shutil.rmtree(inside)
    return sorted([*(one for one in wheels.glob("*.whl") if not one.name.startswith("pip-")), wheel])


def normalise(root: Path, epoch: int) -> None:
    """Set every time to `epoch`, and every owner to root."""
    for folder, folders, files in os.walk(root, topdown=False):
        for name in (*files, *folders):
            path = os.path.join(folder, name)
            os.chown(path, 0, 0, follow_symlinks=False)
            os.utime(path, (epoch, epoch), follow_symlinks=False)
    os.utime(root, (epoch, epoch))


def pack(root: Path, target: Path, scratch: Path, origin: Origin) -> str:
    """Write the image of a root into an archive; its digest."""
    umoci, version = program("umoci"), origin.version
    layout = scratch / "layout"
    image = f"{layout}:{version}"
    at = datetime.fromtimestamp(origin.epoch, UTC).isoformat().replace("+00:00", "Z")
    config = Config.read()
    run([umoci, "init", "--layout", layout])
    run([umoci, "new", "--image", image])
    created = ["--history.created", at]
    comment = ["--history.created_by", "Debian packages, and wheels by requirements/run.txt"]
    run([umoci, "insert", "--image", image, *created, *comment, root, "/"])
    options = ["--created", at, "--os", "linux", "--architecture", architecture()]
    options += ["--config.user", config.user, "--config.workingdir", "/"]
    for key, value in config.env.items():
        options += ["--config.env", f"{key}={value}"]
    for word in config.entrypoint:
        options += ["--config.entrypoint", word]
    for word in config.cmd:
        options += ["--config.cmd", word]
    labels = {"title": "fairlead", "version": version, "revision": origin.revision, "licenses": "Apache-2.0"}
    for key, value in labels.items():
        options += ["--config.label", f"org.opencontainers.image.{key}={value}"]
    run([umoci, "config", "--image", image, "--no-history", *options])
    run([umoci, "gc", "--layout", layout])
    return _archive(layout, target, version, origin.epoch)


def _archive(layout: Path, target: Path, version: str, epoch: int) -> str:
    """One file of a layout. The names are those that `docker save` gives, which all loaders know."""
    files = {str(path.relative_to(layout)): path.read_bytes() for path in layout.rglob("*") if path.is_file()}

    def blob(descriptor: Mapping[str, Any]) -> str:
        return "blobs/" + str(descriptor["digest"]).replace(":", "/")

    (described,) = json.loads(files["index.json"])["manifests"]
    manifest = json.loads(files[blob(described)])
    described["annotations"] = {
        "io.containerd.image.name": f"{repository}:{version}",
        "org.opencontainers.image.ref.name": version,
    }
    described["platform"] = {"architecture": architecture(), "os": "linux"}
    index = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": [described],
    }
    legacy = {
        "Config": blob(manifest["config"]),
        "RepoTags": [f"{repository.rpartition('/')[2]}:{version}"],
        "Layers": [blob(layer) for layer in manifest["layers"]],
    }
    files["index.json"] = json.dumps(index, sort_keys=True).encode()
    files["manifest.json"] = json.dumps([legacy], sort_keys=True).encode()
    for name, content in files.items():
        if name.startswith("blobs/sha256/") and hashlib.sha256(content).hexdigest() != Path(name).name:
            raise ReleaseError(f"{name} is not what its name says")
    write_tar(target, files, epoch)
    return str(described["digest"])


def _download(scratch: Path) -> Path:
    """The wheels that the image's Python needs, checked by their hashes, and pip to install them."""
    wheels = scratch / "wheels"
    machine = platform.machine()
    run_pins = needed(read_pins("run"), PYTHON, machine)
    pip = [pin for pin in read_pins("build") if pin.name == "pip"]
    both = scratch / "download.txt"
    both.write_text(requirement_lines([*run_pins, *pip]))
    tag = PYTHON.replace(".", "")
    options = ["--only-binary=:all:", f"--python-version={PYTHON}", "--implementation=cp", f"--abi=cp{tag}"]
    options += ["--abi=abi3", "--abi=none", f"--platform=manylinux2014_{machine}"]
    options += [f"--platform=manylinux_2_{minor}_{machine}" for minor in range(_GLIBC, 4, -1)]
    options += ["--no-deps", "--require-hashes", "--quiet", "--disable-pip-version-check"]
    run([sys.executable, "-m", "pip", "download", *options, "--dest", wheels, "--requirement", both])
    (wheels / "run.txt").write_text(requirement_lines(run_pins))
    return wheels


def _inside(root: Path, command: list[str]) -> None:
    """Run a program of the root, with nothing of this machine's environment."""
    clean = [program("env"), "-i", f"PATH={_PATH}", "PYTHONHASHSEED=0", "HOME=/root", "LC_ALL=C.UTF-8"]
    run([*clean, program("chroot"), root, *command])
