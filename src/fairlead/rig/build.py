"""Builds the real control plane's programs from pinned Go modules into a cache outside the tree.

``python -m fairlead.rig.build [NAME…]`` builds what is named (all by default) and prints the folder
as its last line. The folder's name is a hash of what decides the programs' behaviour: the modules'
go.mod and go.sum, the build flags and the platform. The compiler's version is left out on purpose: the
pinned sources decide how a control plane behaves, and a newer compiler is no reason for a ten-minute
build. Importing this module and finding everything built starts no process: a no-op stays instant.

``FAIRLEAD_KUBERNETES=1.35`` asks for Kubernetes' own programs of another minor version. They have a folder
of their own, whose name is a hash of their own pins, so switching between versions builds nothing twice;
etcd, KWOK, Karpenter and Helm are the same for all.

``KUBEBUILDER_ASSETS`` names a folder whose programs are used instead of ours; what it lacks is built.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from fairlead.errors import RigError
from fairlead.rig.toolchain import cache_root, environment, find_go, wanted_version

RELEASES = {"1.35": "v1.35.4", "1.36": "v1.36.4", "1.37": "v1.37.1"}
"""The supported minor versions of Kubernetes, oldest first, and the release of each that is built."""
DEFAULT = "1.36"
"""The version that tests run on, and whose verdicts and words the engine gives."""

_MODULES = Path(__file__).parent / "modules"
_KUBERNETES = "kubernetes"
_HEARTBEAT_S = 15.0
_CRDS = "karpenter-crds"


@dataclass(frozen=True, slots=True)
class _Program:
    """One program: the module that pins it, the Go package, and whether `go test -c` makes it."""

    module: str
    package: str
    ldflags: str = "-s -w"
    is_test: bool = False

    def arguments(self, out: Path) -> list[str]:
        verb = ["test", "-c", "-vet=off"] if self.is_test else ["build"]
        return [*verb, "-trimpath", "-buildvcs=false", "-ldflags", self.ldflags, "-o", str(out), self.package]


def _kube_ldflags(release: str) -> str:
    """Without these a program reports v0.0.0, and clients that compare versions misbehave."""
    return (
        f"-s -w -X k8s.io/component-base/version.gitVersion={release}"
        f" -X k8s.io/client-go/pkg/version.gitVersion={release}"
    )


def _kube(name: str) -> _Program:
    return _Program(_KUBERNETES, f"k8s.io/kubernetes/cmd/{name}", _kube_ldflags(RELEASES[DEFAULT]))


PROGRAMS: dict[str, _Program] = {
    "etcd": _Program("etcd", "go.etcd.io/etcd/server/v3"),
    "kube-apiserver": _kube("kube-apiserver"),
    "kube-controller-manager": _kube("kube-controller-manager"),
    "kube-scheduler": _kube("kube-scheduler"),
    "kubectl": _kube("kubectl"),
    "kwok": _Program("kwok", "sigs.k8s.io/kwok/cmd/kwok"),
    "karpenter": _Program("karpenter", "sigs.k8s.io/karpenter/kwok"),
    "helm": _Program("helm", "helm.sh/helm/v4/cmd/helm"),
}
ON_REQUEST: dict[str, _Program] = {
    "e2e.test": _Program(
        _KUBERNETES, "k8s.io/kubernetes/test/e2e", _kube_ldflags(RELEASES[DEFAULT]), is_test=True
    ),
}
_ALL = PROGRAMS | ON_REQUEST


def version() -> str:
    """The minor version of Kubernetes that ``FAIRLEAD_KUBERNETES`` asks for, else the default."""
    wanted = os.environ.get("FAIRLEAD_KUBERNETES") or DEFAULT
    if wanted not in RELEASES:
        raise RigError(f"FAIRLEAD_KUBERNETES is {wanted}, which cannot be built: use {_either(RELEASES)}")
    return wanted


def folder(modules: Path = _MODULES, *, kubernetes: str = DEFAULT) -> Path:
    """The cache folder of the pins in `modules`; it may not exist yet.

    That of the default version has everything, that of another only what differs.
    """
    programs = _ALL if kubernetes == DEFAULT else _of_version(kubernetes)
    digest = hashlib.sha256()
    for module in sorted({program.module for program in programs.values()}):
        for name in ("go.mod", "go.sum"):
            digest.update(f"{module}/{name}\0".encode() + (modules / module / name).read_bytes() + b"\0")
    for name, program in sorted(programs.items()):
        digest.update(f"{name}\0{program.arguments(Path(name))}\0".encode())
    digest.update(f"{platform.system()}\0{platform.machine()}".encode())
    return cache_root() / "controlplane" / digest.hexdigest()[:16]


def binary(name: str) -> Path:
    """The program `name`, built now if it has to be; other programs are not waited for."""
    if name not in _ALL:
        raise RigError(f"{name} is no program of the control plane; there are {', '.join(_ALL)}")
    if (asset := _asset(name)) is not None:
        return asset
    program, home = _ALL[name], folder()
    if (wanted := version()) != DEFAULT and name in (others := _of_version(wanted)):
        program, home = others[name], folder(kubernetes=wanted)
    path = home / name
    if not path.exists():
        _build(name, program, path)
    return path


def karpenter_crds() -> Path:
    """The folder of Karpenter's CustomResourceDefinitions, copied out of its pinned module."""
    if (asset := _asset(_CRDS)) is not None:
        return asset
    path = folder() / _CRDS
    if path.exists():
        return path
    with _locked(path, _CRDS):
        if path.exists():
            return path
        module = "sigs.k8s.io/karpenter"
        answer = _go(_MODULES / "karpenter", ["mod", "download", "-json", module], _CRDS)
        source = Path(json.loads(answer)["Dir"])
        unfinished = _unfinished(path)
        unfinished.mkdir()
        for crd in [*source.glob("pkg/apis/crds/*.yaml"), *source.glob("kwok/apis/crds/*.yaml")]:
            shutil.copyfile(crd, unfinished / crd.name)
        unfinished.rename(path)
    return path


def cluster_autoscaler() -> Path | None:
    """The Cluster Autoscaler that ``FAIRLEAD_CLUSTER_AUTOSCALER`` names; it cannot be built from modules."""
    named = os.environ.get("FAIRLEAD_CLUSTER_AUTOSCALER")
    if not named:
        return None
    path = Path(named)
    if not os.access(path, os.X_OK):
        raise RigError(f"FAIRLEAD_CLUSTER_AUTOSCALER names {named}, which is not a program")
    return path


def main(arguments: list[str] | None = None) -> int:
    """Build what the command line names; the last line on stdout is the folder."""
    parser = argparse.ArgumentParser(
        prog="python -m fairlead.rig.build",
        description="Build the real control plane's programs into a cache; prints the folder last.",
        epilog="example: python -m fairlead.rig.build etcd kube-apiserver kubectl. FAIRLEAD_KUBERNETES names "
        f"another version of Kubernetes: {_either(RELEASES)}.",
    )
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"{', '.join(PROGRAMS)}; {', '.join(ON_REQUEST)}"
    )
    parser.add_argument(
        "--optional",
        action="store_true",
        help="when a program cannot be had, say so and succeed (not under CI=true)",
    )
    options = parser.parse_args(arguments)
    for name in options.names:
        if name not in _ALL:
            parser.error(f"{name} is no program of the control plane; there are {', '.join(_ALL)}")
    try:
        wanted = version()
    except RigError as error:
        parser.error(str(error))
    names = options.names or list(PROGRAMS)
    try:
        paths = [binary(name) for name in names]
        if "karpenter" in names:
            karpenter_crds()
    except RigError as error:
        _say(f"error: {error}")
        if not options.optional or os.environ.get("CI") == "true":
            return error.exit_code
        _say("tests on the real control plane will be skipped")
        paths = []
    parents = {path.parent for path in paths}
    print(parents.pop() if len(parents) == 1 else folder(kubernetes=wanted))  # noqa: T201 (the folder is this program's output)
    return 0


def _asset(name: str) -> Path | None:
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    if not assets:
        return None
    if not Path(assets).is_dir():
        raise RigError(f"KUBEBUILDER_ASSETS names {assets}, which is not a folder")
    path = Path(assets) / name
    return path if path.exists() else None


def _of_version(kubernetes: str) -> dict[str, _Program]:
    """Kubernetes' own programs of a version other than the default; the specs are the default's only."""
    module, ldflags = f"{_KUBERNETES}-{kubernetes}", _kube_ldflags(RELEASES[kubernetes])
    return {
        name: replace(program, module=module, ldflags=ldflags)
        for name, program in PROGRAMS.items()
        if program.module == _KUBERNETES
    }


def _either(names: Iterable[str]) -> str:
    """The names in one phrase.

    >>> _either(["1.35", "1.36", "1.37"])
    '1.35, 1.36 or 1.37'
    """
    *rest, last = names
    return f"{', '.join(rest)} or {last}"


def _build(name: str, program: _Program, path: Path) -> None:
    with _locked(path, name):
        if path.exists():  # built by the one we waited for
            return
        unfinished = _unfinished(path)
        began = time.monotonic()
        _say(f"{name}: building {program.package}")
        try:
            _go(_MODULES / program.module, program.arguments(unfinished), name)
            unfinished.rename(path)
        finally:
            unfinished.unlink(missing_ok=True)
        _say(f"{name}: built in {time.monotonic() - began:.0f} s")


def _go(module: Path, arguments: list[str], name: str) -> str:
    """Run the compiler in `module`, telling every few seconds that it still works."""
    go = find_go(wanted_version((module / "go.mod").read_text()), _say)
    began = time.monotonic()
    with subprocess.Popen(
        [go, *arguments],
        cwd=module,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as compiler:
        while True:
            try:
                out, problems = compiler.communicate(timeout=_HEARTBEAT_S)
                break
            except subprocess.TimeoutExpired:
                _say(f"{name}: … {time.monotonic() - began:.0f} s")
            except BaseException:
                compiler.kill()
                raise
    if compiler.returncode != 0:
        raise RigError(f"{name} could not be built: {' '.join(problems.split())[-1500:]}")
    return out


def _unfinished(path: Path) -> Path:
    return path.with_name(f".{path.name}.{os.getpid()}")


@contextmanager
def _locked(path: Path, name: str) -> Iterator[None]:
    """One builder per program at a time; the lock dies with its holder, so a killed build blocks no other."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = (path.parent / f".{path.name}.lock").open("w")
    except OSError as error:
        raise RigError(
            f"cannot write to the cache: {error}; set XDG_CACHE_HOME to a folder of yours"
        ) from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _say(f"{name}: waiting for another build of it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)  # noqa: T201 (progress is for the user)


if __name__ == "__main__":
    sys.exit(main())
