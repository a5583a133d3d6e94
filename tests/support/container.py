"""A pod's container as a process of this machine, confined as its manifest says; this module is the kubelet.

The pod is one that the API server has admitted, so its volumes include the service account's token. Kept as a
container runtime keeps it: namespaces of its own (mount, pid, uts, ipc), the numeric user and group, no
capabilities, no new privileges, a read-only root, the volumes and nothing else mounted, no inherited
environment, and the memory limit as a limit on the process's data, which is stricter. Not kept: the seccomp
profile, and the network, which is this machine's. Therefore ``--listen=ADDRESS:PORT`` becomes
``--listen=ADDRESS:0``, a free port; no other argument is changed. Nor do volumes follow their objects.

What the root holds says `support.image`.
"""

from __future__ import annotations

import base64
import http.client
import json
import os
import re
import shlex
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from fairlead.kube import quantity
from fairlead.rig.controlplane import ControlPlane
from support.door import LoggedProcess
from support.image import Image
from support.wire import PATIENCE_S

__all__ = ["Container", "confined_here"]

Obj = dict[str, Any]

_CONFINEMENT = Path(__file__).with_name("confinement.py")
_UNSHARE = ("unshare", "--mount", "--pid", "--uts", "--ipc", "--fork", "--kill-child")
_DEVICES = ("null", "zero", "full", "random", "urandom")
_HOST = "127.0.0.1"


def confined_here() -> None:
    """End the calling test, with the reason, where this machine lets nobody confine a process."""
    if reason := _refusal():
        pytest.skip(f"containers cannot be confined here: {reason}")


@cache
def _refusal() -> str:
    if os.getuid() != 0:
        return "that takes root, for mount namespaces and a numeric user"
    with tempfile.TemporaryDirectory(prefix="fairlead-confined-") as folder:
        script = (
            f"mount -t tmpfs tmpfs {folder}\nexec setpriv --reuid=65532 --clear-groups --no-new-privs true"
        )
        try:
            done = subprocess.run(
                [*_UNSHARE, "sh", "-euc", script], capture_output=True, text=True, check=False
            )
        except OSError as error:
            return str(error)
    return done.stderr.strip() or f"unshare ended with {done.returncode}" if done.returncode else ""


class Container(LoggedProcess):
    """The one container of a pod, running. `arguments` are added to the manifest's."""

    def __init__(self, plane: ControlPlane, pod: Obj, *arguments: str) -> None:
        confined_here()
        self.pod = pod
        (self.spec,) = pod["spec"]["containers"]
        self._plane = plane
        self._image = Image.current()
        self._staging = tempfile.TemporaryDirectory(prefix="fairlead-volumes-")
        self._user, self._group = self._identity()
        script = self._script(Path(self._staging.name), self._command(arguments))
        # Nothing of the test's own environment gets in, but the way to the programs that confine it.
        env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
        super().__init__(pod["metadata"]["name"], [*_UNSHARE, "sh", "-euc", script], env=env, cwd="/")
        self.started_at = time.monotonic()

    @property
    def pid(self) -> int:
        """Of the container's first process, as this machine numbers it."""
        own = self._process.pid
        return int(Path(f"/proc/{own}/task/{own}/children").read_text())

    @property
    def code(self) -> int | None:
        """Its exit code; None while it runs."""
        return self._process.poll()

    @property
    def port(self) -> int:
        """Where it listens, once it does."""
        return int(self.wait_for("listening")[0]["url"].rpartition(":")[2])

    @property
    def constraints(self) -> str:
        """How it is kept, in one line."""
        mounts = sorted(one["mountPath"] for one in self.spec["volumeMounts"] if not one.get("readOnly"))
        limit = self.spec["resources"]["limits"]["memory"]
        writable = ", ".join(mounts) or "nothing"
        return f"{self._image.name}, user {self._user}, read-only root, writable: {writable}, {limit}"

    def wait_ready(self) -> float:
        """Wait until the readiness probe succeeds; seconds from its start."""
        deadline = time.monotonic() + 2 * PATIENCE_S
        while not self.probe("readinessProbe"):
            assert self._process.poll() is None, f"it ended: {self.text()}"
            assert time.monotonic() < deadline, f"it is not ready: {self.text()}"
            time.sleep(0.05)
        return time.monotonic() - self.started_at

    def probe(self, name: str) -> bool:
        """Whether a probe of the manifest succeeds now. As a kubelet does, it checks no certificate."""
        if not self.log("listening"):
            return False
        get = self.spec[name]["httpGet"]
        assert any(get["port"] in (port["name"], port["containerPort"]) for port in self.spec["ports"])
        timeout_s = self.spec[name]["timeoutSeconds"]
        if get["scheme"] == "HTTPS":
            unchecked = ssl._create_unverified_context()
            connection: http.client.HTTPConnection = http.client.HTTPSConnection(
                _HOST, self.port, timeout=timeout_s, context=unchecked
            )
        else:
            connection = http.client.HTTPConnection(_HOST, self.port, timeout=timeout_s)
        try:
            connection.request("GET", get["path"])
            return 200 <= connection.getresponse().status < 400
        except OSError:
            return False
        finally:
            connection.close()

    def close(self) -> None:
        super().close()
        self._staging.cleanup()

    def _identity(self) -> tuple[int, int]:
        """The user and group; what could not be kept must not be asked for."""
        own = {**self.pod["spec"].get("securityContext", {}), **self.spec.get("securityContext", {})}
        assert own["capabilities"] == {"drop": ["ALL"]}, "only containers without capabilities are known here"
        assert own["allowPrivilegeEscalation"] is False
        assert own["readOnlyRootFilesystem"] is True
        assert not own.keys() & {"fsGroup", "supplementalGroups"}, "further groups are not known here"
        return own.get("runAsUser", self._image.user), own.get("runAsGroup", self._image.group)

    def _command(self, more: Sequence[str]) -> list[str]:
        entry = self.spec.get("command") or self._image.entrypoint
        arguments = [re.sub(r"^(--listen=.*):\d+$", r"\1:0", one) for one in self.spec.get("args", ())]
        command = [*entry, *arguments, *more]
        assert not any("$(" in one for one in command), "references to variables are not known here"
        return command

    def _env(self) -> dict[str, str]:
        assert not self.spec.get("envFrom"), "envFrom is not known here"
        found = dict(self._image.env)
        found["HOSTNAME"] = self.pod["metadata"]["name"]
        found["KUBERNETES_SERVICE_HOST"] = _HOST
        found["KUBERNETES_SERVICE_PORT"] = str(self._plane.port("kube-apiserver"))
        for one in self.spec.get("env", ()):
            source = one.get("valueFrom")
            if source is None:
                found[one["name"]] = one.get("value", "")
            elif "fieldRef" in source:
                found[one["name"]] = self._field(source["fieldRef"]["fieldPath"])
            else:
                ((field, reference),) = source.items()
                kind = {"configMapKeyRef": "ConfigMap", "secretKeyRef": "Secret"}[field]
                found[one["name"]] = self._data(kind, reference["name"])[reference["key"]].decode()
        return found

    def _field(self, path: str) -> str:
        """A field of the pod as the downward API names it; its addresses are this machine's."""
        if path in ("status.podIP", "status.hostIP"):
            return _HOST
        path, _, key = path.rstrip("]'").partition("['")
        found: Any = self.pod
        for part in path.split("."):
            found = found[part]
        return str(found[key] if key else found)

    def _data(self, kind: str, name: str) -> dict[str, bytes]:
        """What a ConfigMap or a Secret of the pod's namespace holds."""
        plural = {"ConfigMap": "configmaps", "Secret": "secrets"}[kind]
        found = self._plane.api.get(f"/api/v1/namespaces/{self.pod['metadata']['namespace']}/{plural}/{name}")
        if kind == "Secret":
            return {key: base64.b64decode(value) for key, value in found.get("data", {}).items()}
        plain = {key: value.encode() for key, value in found.get("data", {}).items()}
        return plain | {key: base64.b64decode(value) for key, value in found.get("binaryData", {}).items()}

    def _files(self, source: Obj) -> dict[str, bytes]:
        """What one source of a volume brings, by path."""
        for kind, field in (("ConfigMap", "configMap"), ("Secret", "secret")):
            if field in source:
                own = source[field]
                data = self._data(kind, own.get("name") or own["secretName"])
                items = own.get("items")
                return {one["path"]: data[one["key"]] for one in items} if items else data
        if "downwardAPI" in source:
            items = source["downwardAPI"]["items"]
            return {one["path"]: self._field(one["fieldRef"]["fieldPath"]).encode() for one in items}
        if "serviceAccountToken" in source:
            return {source["serviceAccountToken"]["path"]: self._token(source["serviceAccountToken"])}
        raise AssertionError(f"a volume that is not known here: {source}")

    def _token(self, wanted: Obj) -> bytes:
        """A token as a kubelet asks for it: of the pod's account, and worth nothing without the pod."""
        metadata, account = self.pod["metadata"], self.pod["spec"]["serviceAccountName"]
        bound = {"apiVersion": "v1", "kind": "Pod", "name": metadata["name"], "uid": metadata["uid"]}
        audiences = [wanted["audience"]] if "audience" in wanted else []
        asked = self._plane.api.create(
            f"/api/v1/namespaces/{metadata['namespace']}/serviceaccounts/{account}/token",
            {
                "apiVersion": "authentication.k8s.io/v1",
                "kind": "TokenRequest",
                "spec": {
                    "expirationSeconds": wanted["expirationSeconds"],
                    "boundObjectRef": bound,
                    "audiences": audiences,
                },
            },
        )
        return str(asked["status"]["token"]).encode()

    def _stage(self, volume: Obj, folder: Path) -> None:
        """Lay a volume's files out as a kubelet does: links to a folder that one rename would exchange."""
        sources = volume["projected"]["sources"] if "projected" in volume else [volume]
        data = folder / "..1"
        data.mkdir(parents=True)
        (folder / "..data").symlink_to("..1")
        (own,) = [value for key, value in volume.items() if key != "name"]
        for source in sources:
            for name, content in self._files(source).items():
                assert "/" not in name, "files in folders are not known here"
                file = data / name
                file.write_bytes(content)
                # With one user for all containers, a kubelet makes the token readable to that user only.
                is_token = "serviceAccountToken" in source
                file.chmod(0o600 if is_token else own["defaultMode"])
                if is_token:
                    os.chown(file, self._user, self._group)
                (folder / name).symlink_to(f"..data/{name}")

    def _script(self, staging: Path, command: Sequence[str]) -> str:
        """Shell text that builds the root, changes to it, gives up every right, and becomes the command."""
        root = staging / "root"
        root.mkdir()
        lines: list[str] = []

        def run(*words: object) -> None:
            lines.append(shlex.join(map(str, words)))

        def bind(source: Path) -> None:
            target = f"{root}{source}"
            run(*(("mkdir", "-p") if source.is_dir() else ("touch",)), target)
            run("mount", "--bind", source, target)
            run("mount", "-o", "remount,bind,ro,nosuid", target)

        if self._image.tree is None:
            run("mount", "-t", "tmpfs", "-o", "mode=0755,nodev,nosuid", "tmpfs", root)
        else:
            # As container runtimes do: what has to be made in the image's tree does not change the image.
            over = staging / "over"
            over.mkdir()
            run("mount", "-t", "tmpfs", "-o", "mode=0755", "tmpfs", over)
            run("mkdir", over / "upper", over / "work")
            layers = f"lowerdir={self._image.tree},upperdir={over / 'upper'},workdir={over / 'work'}"
            run("mount", "-t", "overlay", "-o", layers, "overlay", root)
        run("mkdir", "-p", f"{root}/proc", f"{root}/etc", f"{root}/dev", f"{root}/.old")
        run("mkdir", "-m", "1777", "-p", f"{root}/tmp")
        if self._image.tree is None:
            for name in ("bin", "lib", "lib64", "sbin"):
                path = Path("/", name)
                if path.is_symlink():
                    run("ln", "-s", path.readlink(), f"{root}{path}")
                elif path.is_dir():
                    bind(path)
            for path in self._image.folders():
                bind(path)
        for name in _DEVICES:
            bind(Path("/dev", name))
        lines.append(f"echo '{_HOST} localhost' > {root}/etc/hosts")
        run("mount", "-t", "proc", "-o", "nosuid,nodev,noexec", "proc", f"{root}/proc")
        volumes = {one["name"]: one for one in self.pod["spec"].get("volumes", ())}
        for number, mount in enumerate(self.spec.get("volumeMounts", ())):
            assert "subPath" not in mount, "subPath is not known here"
            volume, target = volumes[mount["name"]], f"{root}{self._image.inside(Path(mount['mountPath']))}"
            run("mkdir", "-p", target)
            options = "nosuid,nodev,mode=0777"
            run("mount", "-t", "tmpfs", "-o", options, "tmpfs", target)
            if "emptyDir" not in volume:
                self._stage(volume, staging / str(number))
                lines.append(f"cp -a {shlex.quote(str(staging / str(number)))}/. {shlex.quote(target)}")
            if "emptyDir" not in volume or mount.get("readOnly"):
                run("mount", "-o", "remount,ro", target)
        lines.append(f"echo {shlex.quote(self.pod['metadata']['name'])} > /proc/sys/kernel/hostname")
        wanted = {
            "root": str(root),
            "folder": self.spec.get("workingDir", "/"),
            "data": quantity.value(self.spec["resources"]["limits"]["memory"]),
            "user": self._user,
            "group": self._group,
            "command": list(command),
            "env": self._env(),
        }
        lines.append("exec " + shlex.join([sys.executable, "-IS", str(_CONFINEMENT), json.dumps(wanted)]))
        return "\n".join(lines)
