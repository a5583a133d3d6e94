"""Ask the scheduler that leads for a pod's place in its queue.

The caller's own token goes along, so it is sent over TLS or to this machine only, such as to a port that
``kubectl port-forward`` opened. Whatever stands in the way is an answer in words, never an exception: without
it the rest of an explanation is as good as before.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import aiohttp

from fairlead.client.config import Target
from fairlead.client.credentials import source_of
from fairlead.client.tls import client_context
from fairlead.errors import BadInput

_PATIENCE_S = 4.0


@dataclass(frozen=True, slots=True)
class LeaderAnswer:
    """What the leader has of a pod, or why that is not known."""

    position: dict[str, Any] | None = None
    unknown: str = ""


def check_url(url: str) -> str:
    """The URL without a slash at its end; BadInput for one to which no token may be sent."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise BadInput(f"--scheduler-url: {url!r} is no URL of a scheduler")
    if parts.scheme == "http" and not _is_loopback(parts.hostname):
        raise BadInput(
            f"--scheduler-url: {url!r}: a token is sent over https or to this machine only: "
            "use kubectl port-forward and http://127.0.0.1:PORT"
        )
    return url.rstrip("/")


async def ask_leader(target: Target, url: str, namespace: str, name: str) -> LeaderAnswer:
    """The place of a pod in the queue of the scheduler at `url`, by the user of the kubeconfig."""
    credential = await source_of(target).get()
    if not credential.authorization:
        return LeaderAnswer(unknown="the kubeconfig's user has no token to show the scheduler")
    headers = {"Authorization": credential.authorization}
    timeout = aiohttp.ClientTimeout(total=_PATIENCE_S)
    server = target.server
    tls = client_context(ca_pem=server.ca.read() if server.ca is not None else None, verify=server.verify)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout, connector=aiohttp.TCPConnector(ssl=tls)) as session,
            session.get(f"{url}/queue/{namespace}/{name}", headers=headers, allow_redirects=False) as answer,
        ):
            if answer.status == 200:
                return LeaderAnswer(await answer.json())
            said = (await answer.text())[:300].strip()
    except (aiohttp.ClientError, TimeoutError, ValueError) as error:
        return LeaderAnswer(unknown=f"{url} does not answer: {str(error) or type(error).__name__}")
    return LeaderAnswer(unknown=f"{said or 'no reason'} ({answer.status})")


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
