"""The keys a control plane needs: its authority's (`fairlead.client.authority`) and its tokens'."""

from __future__ import annotations

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from fairlead.client.authority import Authority, KeyPair, private_pem

__all__ = ["Authority", "KeyPair", "service_account_keys"]


def service_account_keys() -> KeyPair:
    """What service-account tokens are signed and checked with; no certificate is involved."""
    key = ec.generate_private_key(ec.SECP256R1())
    public = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return KeyPair(public, private_pem(key))
