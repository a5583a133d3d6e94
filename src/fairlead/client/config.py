"""Find and read the configuration that names the API server to talk to, and the user to be.

Looked for in this order: the flag, ``$KUBECONFIG`` (several files, merged as kubectl does), the pod's
service account, ``~/.kube/config``. Merging is by whole entries: the first file that names a cluster,
user or context wins, and nothing of a later one is mixed in. Every mistake names file and entry.
"""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec
import yaml

from fairlead.errors import BadKubeconfig, BadObject
from fairlead.kube.decode import convert

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
EXEC_EXTENSION = "client.authentication.k8s.io/exec"


@dataclass(frozen=True, slots=True)
class Pem:
    """Certificates or a key: given in place, or a file that may be rewritten while we run."""

    text: str = ""
    file: Path | None = None

    def read(self) -> str:
        """What it holds now."""
        if self.file is None:
            return self.text
        try:
            return self.file.read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise BadKubeconfig(f"{self.file}: cannot be read: {error}") from error


@dataclass(frozen=True, slots=True)
class Server:
    """Where the API server is and how to know that it is the right one."""

    url: str
    ca: Pem | None = None
    verify: bool = True
    tls_name: str | None = None
    proxy_url: str | None = None
    exec_config: Any = None  # the cluster's extension for credential plugins, passed on as it is


@dataclass(frozen=True, slots=True)
class ExecPlugin:
    """A command that prints credentials. `where` names file and entry for messages."""

    where: str
    api_version: str
    command: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    install_hint: str = ""
    provide_cluster_info: bool = False
    interactive_mode: str = "IfAvailable"


@dataclass(frozen=True, slots=True)
class User:
    """The user to the API server; nothing set means anonymous."""

    token: str | None = field(default=None, repr=False)
    token_file: Path | None = None
    basic: tuple[str, str] | None = field(default=None, repr=False)
    certificate: tuple[Pem, Pem] | None = field(default=None, repr=False)
    exec: ExecPlugin | None = None
    headers: tuple[tuple[str, str], ...] = ()  # impersonation


@dataclass(frozen=True, slots=True)
class Target:
    """An API server, the user to it, and the namespace that is meant when none is given."""

    server: Server
    user: User = User()
    namespace: str = "default"
    context: str = ""
    """The kubeconfig's context; "" for a pod's service account."""
    source: str = ""
    strict_x509: bool = True


def load(
    flag: str | os.PathLike[str] | None = None,
    *,
    context: str | None = None,
    environ: Mapping[str, str] | None = None,
    home: Path | None = None,
    service_account: Path = SERVICE_ACCOUNT,
    strict_x509: bool = True,
) -> Target:
    """The configuration of this process; `context` picks another one than the current."""
    environ = os.environ if environ is None else environ
    target = _find(flag, context, environ, home, service_account)
    return replace(target, strict_x509=strict_x509)


def _find(
    flag: str | os.PathLike[str] | None,
    context: str | None,
    environ: Mapping[str, str],
    home: Path | None,
    service_account: Path,
) -> Target:
    if flag:
        return _from_files([Path(flag).expanduser()], context, must_exist=True)
    listed = [Path(part).expanduser() for part in environ.get("KUBECONFIG", "").split(os.pathsep) if part]
    if listed:
        if not any(path.exists() for path in listed):
            raise BadKubeconfig(f"$KUBECONFIG names {', '.join(map(str, listed))}: no such file")
        return _from_files(listed, context, must_exist=False)
    if context is None and environ.get("KUBERNETES_SERVICE_HOST") and (service_account / "token").exists():
        return _in_cluster(environ, service_account)
    default = (home or _home()) / ".kube" / "config"
    if default.exists():
        return _from_files([default], context, must_exist=True)
    raise BadKubeconfig(
        f"no cluster configuration found: not in a pod, $KUBECONFIG is empty and {default} does not exist"
    )


def _home() -> Path:
    """Asked for last: in a container the user may be a number without a home directory."""
    try:
        return Path.home()
    except RuntimeError as error:
        raise BadKubeconfig(
            "no cluster configuration found: not in a pod, $KUBECONFIG is empty and there is no home folder"
        ) from error


def _in_cluster(environ: Mapping[str, str], folder: Path) -> Target:
    host, port = environ["KUBERNETES_SERVICE_HOST"], environ.get("KUBERNETES_SERVICE_PORT", "443")
    namespace = folder / "namespace"
    return Target(
        Server(
            f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}",
            Pem(file=folder / "ca.crt"),
        ),
        User(token_file=folder / "token"),
        namespace=namespace.read_text().strip() if namespace.exists() else "default",
        source=str(folder),
    )


class _Kebab(msgspec.Struct, frozen=True, rename="kebab"):
    pass


class _Extension(_Kebab, frozen=True):
    name: str = ""
    extension: Any = None


class _Cluster(_Kebab, frozen=True):
    server: str = ""
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    insecure_skip_tls_verify: bool = False
    tls_server_name: str = ""
    proxy_url: str = ""
    extensions: list[_Extension] = []


class _Env(_Kebab, frozen=True):
    name: str
    value: str = ""


class _Exec(msgspec.Struct, frozen=True, rename="camel"):
    command: str = ""
    api_version: str = ""
    args: list[str] = []
    env: list[_Env] = []
    install_hint: str = ""
    provide_cluster_info: bool = False
    interactive_mode: str = ""


class _User(_Kebab, frozen=True):
    token: str = ""
    token_file: str = msgspec.field(name="tokenFile", default="")
    username: str = ""
    password: str = ""
    client_certificate: str = ""
    client_certificate_data: str = ""
    client_key: str = ""
    client_key_data: str = ""
    exec: _Exec | None = None
    auth_provider: Any = None
    as_: str = msgspec.field(name="as", default="")
    as_uid: str = ""
    as_groups: list[str] = []
    as_user_extra: dict[str, list[str]] = {}


class _Context(_Kebab, frozen=True):
    cluster: str = ""
    user: str = ""
    namespace: str = ""


class _Entry(_Kebab, frozen=True):
    """An entry of the lists: its name, and what its list is of."""

    name: str
    cluster: _Cluster = _Cluster()
    user: _User = _User()
    context: _Context = _Context()


class _File(_Kebab, frozen=True):
    current_context: str = ""
    clusters: list[_Entry] = []
    users: list[_Entry] = []
    contexts: list[_Entry] = []


_Found = dict[str, tuple[Path, _Entry]]
"""Entries of one list by name, each with the file that it is from."""


def _from_files(paths: list[Path], wanted: str | None, *, must_exist: bool) -> Target:
    """Merge as kubectl does: missing files of a list are passed over, the first to name an entry has it."""
    clusters: _Found = {}
    users: _Found = {}
    contexts: _Found = {}
    current = ""
    said = ":".join(map(str, paths))
    for path in paths:
        if not must_exist and not path.exists():
            continue
        read = _read(path)
        current = current or read.current_context
        _take("cluster", path, read.clusters, clusters)
        _take("user", path, read.users, users)
        _take("context", path, read.contexts, contexts)
    name = wanted or current
    if not name:
        raise BadKubeconfig(f"{said}: no current-context; choose one of: {_choice(contexts)}")
    if name not in contexts:
        raise BadKubeconfig(f"{said}: no context {name!r}; there are: {_choice(contexts)}")
    where, context = contexts[name][0], contexts[name][1].context
    for kind, meant, found in (("cluster", context.cluster, clusters), ("user", context.user, users)):
        if meant not in found and (meant or kind == "cluster"):
            raise BadKubeconfig(
                f"{where}: context {name!r} names {kind} {meant!r}; there are: {_choice(found)}"
            )
    return Target(
        _server(*clusters[context.cluster]),
        _user(*users[context.user]) if context.user else User(),
        namespace=context.namespace or "default",
        context=name,
        source=f"{where}, context {name!r}",
    )


def _take(kind: str, path: Path, entries: list[_Entry], found: _Found) -> None:
    names = [entry.name for entry in entries]
    for entry in entries:
        if names.count(entry.name) > 1:
            raise BadKubeconfig(f"{path}: {kind} {entry.name!r} is there twice")
        found.setdefault(entry.name, (path, entry))


def _choice(entries: Mapping[str, object]) -> str:
    return ", ".join(sorted(entries)) or "none"


def _read(path: Path) -> _File:
    try:
        data = yaml.safe_load(path.read_text())
    except (OSError, UnicodeDecodeError) as error:
        raise BadKubeconfig(f"{path}: cannot be read: {error}") from error
    except yaml.YAMLError as error:
        raise BadKubeconfig(f"{path}: neither YAML nor JSON: {error}") from error
    if data is None:
        return _File()  # kubectl, too, takes an empty file for an empty configuration
    try:
        return convert(data, _File)
    except BadObject as error:
        raise BadKubeconfig(f"{path}: {_name_entry(data, error.field)}: {error.problem}") from error


def _name_entry(data: Any, path: str) -> str:
    """``users[0].user.token`` with the entry's name beside it: what a person looks for in the file."""
    head, bracket, rest = path.partition("[")
    if not bracket or not isinstance(data, dict):
        return path or "the file"
    try:
        return f"{head} {data[head][int(rest.partition(']')[0])]['name']!r}, {path}"
    except (KeyError, IndexError, TypeError, ValueError):
        return path  # the entry has no name, which is what the message is about


def _server(path: Path, named: _Entry) -> Server:
    where, entry = f"{path}: cluster {named.name!r}", named.cluster
    if not entry.server:
        raise BadKubeconfig(f"{where}: no server")
    url = entry.server if "://" in entry.server else f"https://{entry.server}"
    if not url.startswith(("https://", "http://")):
        raise BadKubeconfig(f"{where}: server {entry.server!r}: neither https:// nor http://")
    if entry.proxy_url and not entry.proxy_url.startswith(("http://", "https://")):
        raise BadKubeconfig(
            f"{where}: proxy-url {entry.proxy_url!r}: only http:// and https:// proxies will do"
        )
    if entry.insecure_skip_tls_verify and (entry.certificate_authority or entry.certificate_authority_data):
        raise BadKubeconfig(
            f"{where}: a certificate authority and insecure-skip-tls-verify exclude each other"
        )
    return Server(
        url.rstrip("/"),
        _pem(
            where,
            path,
            "certificate-authority",
            entry.certificate_authority,
            entry.certificate_authority_data,
        ),
        verify=not entry.insecure_skip_tls_verify,
        tls_name=entry.tls_server_name or None,
        proxy_url=entry.proxy_url or None,
        exec_config=next((e.extension for e in entry.extensions if e.name == EXEC_EXTENSION), None),
    )


def _user(path: Path, named: _Entry) -> User:
    where, entry = f"{path}: user {named.name!r}", named.user
    if entry.auth_provider is not None:
        raise BadKubeconfig(f"{where}: auth-provider was removed from Kubernetes; use exec")
    chain = _pem(where, path, "client-certificate", entry.client_certificate, entry.client_certificate_data)
    key = _pem(where, path, "client-key", entry.client_key, entry.client_key_data)
    if (chain is None) != (key is None):
        raise BadKubeconfig(f"{where}: client-certificate and client-key go together, one is missing")
    headers = [("Impersonate-User", entry.as_)] if entry.as_ else []
    if not headers and (entry.as_groups or entry.as_uid or entry.as_user_extra):
        raise BadKubeconfig(f"{where}: as-groups, as-uid and as-user-extra need as")
    if entry.as_uid:
        headers.append(("Impersonate-Uid", entry.as_uid))
    headers += [("Impersonate-Group", group) for group in entry.as_groups]
    headers += [
        (f"Impersonate-Extra-{key}", value) for key, values in entry.as_user_extra.items() for value in values
    ]
    return User(
        token=entry.token or None,
        token_file=path.parent / entry.token_file if entry.token_file else None,
        basic=(entry.username, entry.password) if entry.username else None,
        certificate=(chain, key) if chain and key else None,
        exec=_exec(where, path, entry.exec) if entry.exec else None,
        headers=tuple(headers),
    )


def _exec(where: str, path: Path, entry: _Exec) -> ExecPlugin:
    where = f"{where}: exec"
    if not entry.command:
        raise BadKubeconfig(f"{where}: no command")
    group, _, version = entry.api_version.partition("/")
    if group != "client.authentication.k8s.io" or version not in ("v1", "v1beta1"):
        raise BadKubeconfig(
            f"{where}: apiVersion {entry.api_version!r}: "
            "only client.authentication.k8s.io/v1 and client.authentication.k8s.io/v1beta1 will do"
        )
    mode = entry.interactive_mode or ("IfAvailable" if version == "v1beta1" else "")
    if mode not in ("Never", "IfAvailable", "Always"):
        raise BadKubeconfig(f"{where}: interactiveMode {mode!r}: v1 needs one of Never, IfAvailable, Always")
    # As kubectl: a bare name is looked up in $PATH, a path is relative to the file it stands in.
    command = entry.command if os.sep not in entry.command else str(path.parent / entry.command)
    return ExecPlugin(
        where,
        entry.api_version,
        command,
        tuple(entry.args),
        {variable.name: variable.value for variable in entry.env},
        entry.install_hint,
        entry.provide_cluster_info,
        mode,
    )


def _pem(where: str, path: Path, what: str, file: str, data: str) -> Pem | None:
    """Data wins over a file, as kubectl has it; a relative file is relative to the kubeconfig."""
    if data:
        try:
            return Pem(base64.b64decode("".join(data.split()), validate=True).decode())
        except (binascii.Error, UnicodeDecodeError) as error:
            raise BadKubeconfig(f"{where}: {what}-data: not base64 of PEM text: {error}") from error
    return Pem(file=path.parent / file) if file else None
