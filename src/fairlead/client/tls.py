"""TLS contexts for an API server: our own CA, client certificates, and how strict to be.

Python 3.13 turned on a check (RFC 5280 to the letter) that many cluster CAs fail and no other
Kubernetes client makes; `strict=False` turns just that check off, verification itself stays on.
"""

from __future__ import annotations

import os
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager


def client_context(
    *,
    ca_pem: str | None = None,
    verify: bool = True,
    strict: bool = True,
    certificate: tuple[str, str] | None = None,
) -> ssl.SSLContext:
    """A context that trusts `ca_pem` (None: the system's CAs) and shows `certificate` (chain and key, PEM).

    Raises ssl.SSLError or ValueError for material that cannot be used; the caller knows whose it is.
    """
    if ca_pem is not None and not ca_pem.strip():
        # A file that is being rewritten; the ssl module would trust the system's CAs instead.
        raise ValueError("there is no CA certificate")
    context = ssl.create_default_context(cadata=ca_pem)
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if not strict:
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if certificate is not None:
        load_pair(context, *certificate)
    return context


def load_pair(context: ssl.SSLContext, chain: str, key: str) -> None:
    """Have a context show a certificate."""
    with _path_of(f"{key}\n{chain}\n") as path:
        # An encrypted key would otherwise ask for its password on the terminal.
        context.load_cert_chain(path, password="")


@contextmanager
def _path_of(secret: str) -> Iterator[str]:
    """A path under which `secret` can be read inside the block: the ssl module reads certificates from files.

    The file is in memory where the platform has such files: a container's root may be read-only, and keys
    belong on no disk. Elsewhere it is a temporary one that only its owner may read.
    """
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("fairlead")
        path, on_disk = f"/proc/self/fd/{descriptor}", False
    else:
        descriptor, path = tempfile.mkstemp(prefix="fairlead-", suffix=".pem")
        on_disk = True
    with os.fdopen(descriptor, "w") as file:
        try:
            file.write(secret)
            file.flush()
            yield path
        finally:
            if on_disk:
                os.unlink(path)
