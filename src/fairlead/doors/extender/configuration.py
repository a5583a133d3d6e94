"""What kube-scheduler must be told to call us, as files with comments that say how to use them.

The address is the subtle thing: a kube-scheduler of kubeadm runs on the host's network with the host's
DNS, where no ``*.svc`` name resolves, and ``ignorable: true`` hides that. Hence an IP address; and since
certificates have the Service's name but not its address, TLS is told to expect that name.
"""

from __future__ import annotations

import ipaddress
import shlex
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from fairlead.client.api import Client
from fairlead.doors.extender.server import VERBS
from fairlead.errors import BadInput, NotFound
from fairlead.kube.resources import known

FILE = "/etc/kubernetes/fairlead-scheduler.yaml"
PATCH_FILE = "kube-scheduler+json.yaml"
MANIFEST = "/etc/kubernetes/manifests/kube-scheduler.yaml"

# Above all that kube-scheduler's own plugins can add up to, so that a tier that is only preferred is,
# and pods spread over its zones; a difference of a point or two still leaves the choice to them.
_WEIGHT = 20


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the configuration is to say."""

    url: str
    ca_file: str = ""
    scheduler_kubeconfig: str = "/etc/kubernetes/scheduler.conf"
    ignorable: bool = True
    cert_file: str = ""
    key_file: str = ""
    """What kube-scheduler shows us, where we ask for it."""
    server_name: str = ""
    """What our certificate is for, where that is not the host of `url`."""

    def __post_init__(self) -> None:
        """Refuse an address that kube-scheduler could not use."""
        try:
            split = urlsplit(self.url)
            host, _ = split.hostname, split.port
        except ValueError as error:
            raise BadInput(f"--url: {self.url!r}: {error}") from error
        if split.scheme not in ("http", "https") or not host or split.query or split.fragment:
            raise BadInput(f"--url: {self.url!r} is not http://HOST:PORT or https://HOST:PORT")
        if (address := _ip(host)) is not None and address.is_unspecified:
            raise BadInput(f"--url: {host} is where to listen, not where to be reached")
        if self.ca_file and split.scheme != "https":
            raise BadInput("--ca-file is for an address with https")
        if bool(self.cert_file) != bool(self.key_file):
            raise BadInput("--client-cert-file and --client-key-file go together")
        if self.cert_file and split.scheme != "https":
            raise BadInput("--client-cert-file is for an address with https")
        files = {
            "--ca-file": self.ca_file,
            "--client-cert-file": self.cert_file,
            "--client-key-file": self.key_file,
            "--scheduler-kubeconfig": self.scheduler_kubeconfig,
        }
        for flag, file in files.items():
            if file and not file.startswith("/"):
                raise BadInput(f"{flag}: {file!r} must be a whole path, of a file where kube-scheduler runs")

    @property
    def https(self) -> bool:
        """Whether TLS is spoken."""
        return urlsplit(self.url).scheme == "https"

    @property
    def resolves_everywhere(self) -> bool:
        """Whether no DNS is needed."""
        return _ip(urlsplit(self.url).hostname) is not None


def _ip(host: str | None) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """An address; None: a name."""
    try:
        return ipaddress.ip_address(host or "")
    except ValueError:
        return None


async def service_address(
    client: Client, namespace: str, name: str, *, https: bool = False
) -> tuple[str, str]:
    """The URL of the extender's Service that works on every host, and the name in its certificate."""
    try:
        spec = (await client.get(known("Service"), name, namespace))["spec"]
    except NotFound:
        raise BadInput(
            f"there is no Service {name} in namespace {namespace}: make it first (deploy/extender), "
            "or give the address with --url http://HOST:PORT"
        ) from None
    address, ports = spec.get("clusterIP", ""), spec.get("ports")
    if address in ("", "None") or not ports:
        raise BadInput(f"Service {namespace}/{name} has no ClusterIP or no port: give the address with --url")
    host = f"[{address}]" if ":" in address else address
    url = f"{'https' if https else 'http'}://{host}:{ports[0]['port']}"
    return url, f"{name}.{namespace}.svc"


def extender_entry(wanted: Wanted) -> dict[str, Any]:
    """The entry of ``extenders``."""
    found: dict[str, Any] = {
        "urlPrefix": wanted.url.rstrip("/"),
        **VERBS,
        "weight": _WEIGHT,
        "nodeCacheCapable": True,
        "ignorable": wanted.ignorable,
        "httpTimeout": "5s",
    }
    if wanted.https:
        found["enableHTTPS"] = True
        # client-go refuses `caFile` beside `insecure`, and no name matters where nothing is verified.
        found["tlsConfig"] = {"caFile": wanted.ca_file} if wanted.ca_file else {"insecure": True}
        if wanted.ca_file and wanted.server_name:
            found["tlsConfig"]["serverName"] = wanted.server_name
        if wanted.cert_file:
            found["tlsConfig"] |= {"certFile": wanted.cert_file, "keyFile": wanted.key_file}
    return found


def scheduler_configuration(wanted: Wanted) -> dict[str, Any]:
    """The whole KubeSchedulerConfiguration."""
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": wanted.scheduler_kubeconfig},
        "leaderElection": {"leaderElect": True},
        "percentageOfNodesToScore": 100,
        "extenders": [extender_entry(wanted)],
    }


def kubeadm_patch(wanted: Wanted) -> list[dict[str, Any]]:
    """What changes in the static pod of kubeadm's kube-scheduler, as a JSON patch.

    Its container sees of the host only what is mounted: without the authority's file it would not start.
    """
    patch: list[dict[str, Any]] = [
        {"op": "add", "path": "/spec/containers/0/command/-", "value": f"--config={FILE}"}
    ]
    for name, file in _mounted(wanted):
        mount = {"name": name, "mountPath": file, "readOnly": True}
        volume = {"name": name, "hostPath": {"path": file, "type": "File"}}
        patch += [
            {"op": "add", "path": "/spec/containers/0/volumeMounts/-", "value": mount},
            {"op": "add", "path": "/spec/volumes/-", "value": volume},
        ]
    return patch


def _mounted(wanted: Wanted) -> list[tuple[str, str]]:
    """The files of the host that kube-scheduler's container needs, and what their volumes are called."""
    every = (
        ("fairlead-scheduler", FILE),
        ("fairlead-ca", wanted.ca_file),
        ("fairlead-client-cert", wanted.cert_file),
        ("fairlead-client-key", wanted.key_file),
    )
    return [(name, file) for name, file in every if file]


def written(wanted: Wanted, *, kubeadm: bool) -> str:
    """The files, with comments that say where they go, how to see that it works, and how to go back."""
    import yaml

    def block(data: Any) -> str:
        text: str = yaml.safe_dump(data, sort_keys=False)
        return text

    parts = [_KUBEADM_HEAD if kubeadm else _HEAD]
    if not wanted.resolves_everywhere:
        parts.append(_NAMED)
    if wanted.https and not wanted.ca_file:
        parts.append(_UNVERIFIED)
    parts.append(block(scheduler_configuration(wanted)))
    if kubeadm:
        volumes = "".join(
            _KUBEADM_VOLUME.replace("NAME", name).replace("FILE", file) for name, file in _mounted(wanted)
        )
        parts += [_KUBEADM_PATCH, block(kubeadm_patch(wanted)), _KUBEADM_MORE + volumes]
    parts.append(_VERIFY.format(readyz=_curl(wanted, "readyz"), metrics=_curl(wanted, "metrics")))
    parts.append(_KUBEADM_BACK if kubeadm else _BACK)
    return "".join(parts)


def _curl(wanted: Wanted, path: str) -> str:
    """A request that verifies what kube-scheduler will, so that it does not say ok where that one fails."""
    url = wanted.url.rstrip("/")
    trust: list[str] = []
    if wanted.ca_file:
        trust = ["--cacert", wanted.ca_file]
        if wanted.server_name:
            there = urlsplit(url)
            named = f"{wanted.server_name}:{there.port or 443}"
            trust += ["--connect-to", f"{named}:{there.netloc}"]
            url = f"https://{named}{there.path}"
    elif wanted.https:
        trust = ["--insecure"]
    return shlex.join(["curl", "-sS", *trust, f"{url}/{path}"])


_HEAD = """\
# kube-scheduler's configuration with Fairlead as extender. Give it to kube-scheduler with --config FILE.
# With --config it ignores --kubeconfig and --leader-elect: both are said here. If it has a configuration
# already, add `extenders` and `percentageOfNodesToScore` to that one; extenders apply to all profiles.
"""
_KUBEADM_HEAD = f"""\
# For a kubeadm cluster. On every control-plane node:
#
# 1. Save this first document as {FILE}.
"""
_NAMED = """\
# NOTE: the address below is a name. kube-scheduler must resolve it where it runs: on the host's network
# with the host's DNS (kubeadm's default) no *.svc name resolves; use the Service's ClusterIP there.
"""
_UNVERIFIED = """\
# NOTE: without --ca-file kube-scheduler does not verify whom it talks to.
"""
_KUBEADM_PATCH = f"""\
---
# 2. Change the static pod, {MANIFEST}, as this second document says
#    (a JSON patch). The kubelet restarts kube-scheduler when the file changes. To keep the change over
#    `kubeadm upgrade`, save this document as {PATCH_FILE} in a folder and pass the folder
#    with --patches.
"""
_KUBEADM_MORE = f"""\
#
#    The same for `kubeadm init` and later upgrades, in its ClusterConfiguration:
#      scheduler:
#        extraArgs: [{{name: config, value: {FILE}}}]
#        extraVolumes:
"""
_KUBEADM_VOLUME = """\
#        - name: NAME
#          hostPath: FILE
#          mountPath: FILE
#          readOnly: true
#          pathType: File
"""
_VERIFY = """\
#
# Verify, from where kube-scheduler runs (a control-plane node):
#   {readyz}
#     says ok
#   {metrics} | grep ^fairlead_extender_never_called
#     says 0 once a pod was scheduled
#   kubectl get placementpolicies -o yaml
#     has condition ExtenderCalled with status "True"
# `ignorable: true` lets kube-scheduler go on when Fairlead is away, and hides a wrong address: do verify.
#
# Roll back:
"""
_BACK = """\
#   take the entry out of `extenders` (or --config off its command line) and restart kube-scheduler.
#   Pods that are placed stay where they are.
"""
_KUBEADM_BACK = f"""\
#   take --config, the volumes and their mounts out of {MANIFEST}
#   again on every control-plane node (and the patch or the ClusterConfiguration entry), then delete
#   {FILE}. Pods that are placed stay where they are.
"""
