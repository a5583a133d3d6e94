"""The identities of a control plane: its authority, keys in files, TLS contexts and kubeconfigs."""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from fairlead.client.authority import Authority, KeyPair, private_pem
from fairlead.rig.api import write_kubeconfig

_SERVER_NAMES = (
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
)
_SERVER_ADDRESSES = ("127.0.0.1", "::1", "10.0.0.1")


class Identity:
    """The keys of one control plane, in `folder`, private ones readable by their owner alone."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._authority = Authority()
        for name, pair in {
            "ca": self._authority.pair,
            "server": self._authority.server(_SERVER_NAMES, _SERVER_ADDRESSES),
            "sa": _service_account_keys(),
        }.items():
            self.public(name).write_bytes(pair.public)
            _write_private(self.private(name), pair.private)

    def public(self, name: str) -> Path:
        """The certificate of ``ca`` or ``server``, the public key of ``sa``."""
        return self._folder / f"{name}.crt"

    def private(self, name: str) -> Path:
        """The private key of ``ca``, ``server`` or ``sa``."""
        return self._folder / f"{name}.key"

    def loopback_server(self) -> KeyPair:
        """A serving certificate for one more server on the loopback, such as a webhook."""
        return self._authority.server(["localhost"], ["127.0.0.1", "::1"])

    def tls(self) -> ssl.SSLContext:
        """Trusts our authority, and shows no certificate."""
        return ssl.create_default_context(cafile=self.public("ca"))

    def admin_tls(self) -> ssl.SSLContext:
        """Trusts our authority, and is system:masters."""
        pair = self._authority.client("fairlead-admin", ["system:masters"])
        file = self._folder / "admin.pem"
        _write_private(file, pair.public + pair.private)
        context = self.tls()
        context.load_cert_chain(file)
        return context

    def kubeconfig(self, url: str, user: str, groups: Sequence[str] = ()) -> Path:
        """A self-contained kubeconfig for `user` in `groups`."""
        path = self._folder / f"{user.replace('/', '_').replace(':', '_')}.kubeconfig"
        return write_kubeconfig(
            path,
            url=url,
            ca=self._authority.pair.public,
            user=user,
            pair=self._authority.client(user, groups),
        )


def _write_private(path: Path, pem: bytes) -> None:
    path.touch(mode=0o600)
    path.write_bytes(pem)


def _service_account_keys() -> KeyPair:
    """What service-account tokens are signed and checked with; no certificate is involved."""
    key = ec.generate_private_key(ec.SECP256R1())
    public = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return KeyPair(public, private_pem(key))
