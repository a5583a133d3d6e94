"""A certificate authority of our own: makes, keeps and hands out what TLS needs.

Subtle: Python 3.13 checks chains strictly, so every certificate carries key identifiers and key usage.
Keys are elliptic-curve keys: a user waits for them, and making RSA keys would by itself take a second.
"""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_YEAR = datetime.timedelta(days=365)
_SKEW = datetime.timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A certificate (or public key) and its private key, as PEM."""

    public: bytes
    private: bytes


class Authority:
    """Signs certificates that its own `certificate` vouches for."""

    def __init__(
        self, name: str = "fairlead", *, valid: datetime.timedelta = _YEAR, serial: bool = False
    ) -> None:
        """`serial`: the name gets a number, so that two authorities of one name can be distinguished."""
        self._key = ec.generate_private_key(ec.SECP256R1())
        attributes = [x509.NameAttribute(NameOID.COMMON_NAME, name)]
        if serial:
            number = f"{x509.random_serial_number():x}"[:16]
            attributes.append(x509.NameAttribute(NameOID.SERIAL_NUMBER, number))
        subject, public = x509.Name(attributes), self._key.public_key()
        builder = _builder(subject, public, subject, public, _now() + valid, is_authority=True)
        self._certificate = builder.sign(self._key, hashes.SHA256())

    @classmethod
    def load(cls, pair: KeyPair) -> Authority:
        """An authority that was made before; ValueError says why it cannot be used."""
        loaded = cls.__new__(cls)
        try:
            key = serialization.load_pem_private_key(pair.private, password=None)
            loaded._certificate = x509.load_pem_x509_certificate(pair.public)
        except (TypeError, UnsupportedAlgorithm) as error:
            raise ValueError(f"not a certificate and key that can be used: {error}") from error
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise ValueError("the key is not one of an elliptic curve")
        if key.public_key() != loaded._certificate.public_key():
            raise ValueError("the key is not the certificate's")
        loaded._key = key
        return loaded

    @property
    def pair(self) -> KeyPair:
        """The authority itself; the controller manager signs certificate requests with it."""
        return KeyPair(_pem(self._certificate), private_pem(self._key))

    def server(
        self, names: Sequence[str], addresses: Sequence[str], *, valid: datetime.timedelta = _YEAR
    ) -> KeyPair:
        """A serving certificate for these DNS names and addresses, valid no longer than the authority."""
        alternatives: list[x509.GeneralName] = [x509.DNSName(name) for name in names]
        alternatives += [x509.IPAddress(ipaddress.ip_address(address)) for address in addresses]
        # A common name has 64 characters at most, and verifiers ignore it where there are alternatives.
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, (*names, *addresses)[0][:64])])
        return self._sign(
            subject, ExtendedKeyUsageOID.SERVER_AUTH, x509.SubjectAlternativeName(alternatives), valid
        )

    def client(self, user: str, groups: Sequence[str] = ()) -> KeyPair:
        """A client certificate that the API server reads as `user` in `groups`."""
        attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
        subject = x509.Name([*attributes, x509.NameAttribute(NameOID.COMMON_NAME, user)])
        return self._sign(subject, ExtendedKeyUsageOID.CLIENT_AUTH, None, _YEAR)

    def _sign(
        self,
        subject: x509.Name,
        purpose: x509.ObjectIdentifier,
        alternatives: x509.SubjectAlternativeName | None,
        valid: datetime.timedelta,
    ) -> KeyPair:
        key = ec.generate_private_key(ec.SECP256R1())
        until = min(_now() + valid, self._certificate.not_valid_after_utc)
        issuer, issuer_key = self._certificate.subject, self._key.public_key()
        builder = _builder(
            subject, key.public_key(), issuer, issuer_key, until, is_authority=False
        ).add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
        if alternatives is not None:
            builder = builder.add_extension(alternatives, critical=False)
        return KeyPair(_pem(builder.sign(self._key, hashes.SHA256())), private_pem(key))


def life_of(public: bytes) -> tuple[datetime.datetime, datetime.datetime]:
    """From when until when a certificate is valid; ValueError where it is none."""
    certificate = x509.load_pem_x509_certificate(public)
    return certificate.not_valid_before_utc, certificate.not_valid_after_utc


def private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    """A private key as it is written to files."""
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


def _builder(
    subject: x509.Name,
    key: ec.EllipticCurvePublicKey,
    issuer: x509.Name,
    issuer_key: ec.EllipticCurvePublicKey,
    until: datetime.datetime,
    *,
    is_authority: bool,
) -> x509.CertificateBuilder:
    usage = x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=is_authority,
        crl_sign=is_authority,
        encipher_only=False,
        decipher_only=False,
    )
    constraints = x509.BasicConstraints(ca=is_authority, path_length=0 if is_authority else None)
    return (
        x509.CertificateBuilder(issuer, subject, key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(_now() - _SKEW)
        .not_valid_after(until)
        .add_extension(constraints, critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key), critical=False)
    )


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)
