"""``ADDRESS:PORT``, checked: by configuration files and flags alike, without a server at hand."""

from __future__ import annotations

from fairlead.errors import BadInput


def check_address(listen: str, where: str = "--listen") -> None:
    """Refuse what is not ``ADDRESS:PORT`` or ``:PORT``.

    >>> check_address("127.0.0.1:8080"), check_address(":0")
    (None, None)
    """
    host, colon, port = listen.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65535 or (host and not host.strip("[]")):
        raise BadInput(f"{where}: {listen!r} is not ADDRESS:PORT or :PORT")
