"""Have the API server call us: one MutatingWebhookConfiguration, the same for all replicas.

It is written only when it says something else than we want, and what others put in (cert-manager's
caBundle, annotations) stays. Nothing is registered before a replica can answer: an API server
that calls into the void delays every pod of the cluster.

There is one entry per cluster, so the process that starts last has it: an address may change. The process
that had it before does not take it back, or the two would take it from each other for ever.
"""

from __future__ import annotations

import base64
import ipaddress
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import structlog

from fairlead.client.api import Client
from fairlead.doors.certificates import Current
from fairlead.doors.webhook.keyring import SECRET
from fairlead.errors import ApiError, BadInput, Conflict, NotFound
from fairlead.kube.resources import known

_log = structlog.get_logger(__name__)

CONFIGURATION = "fairlead"
PATH = "/admit"
HOOK = "pods.fairlead.dev"
_TIMEOUT_S = 10
_ELSEWHERE = (
    "there is one registration per cluster, and another process has it, so this one is not called: "
    "restart it to have it back, or stop it"
)
_MAKE_IT = "; a user with that right must create it (kubectl apply -k deploy/webhook, or deploy/serve)"
_CONFIGURATIONS = known("MutatingWebhookConfiguration")
_SECRETS = known("Secret")


@dataclass(frozen=True, slots=True)
class Where:
    """How the API server reaches the webhook: a base address, or a Service of its cluster."""

    url: str = ""
    service: str = ""
    namespace: str = ""
    port: int = 443

    def __post_init__(self) -> None:
        if self.url:
            self._host()

    @property
    def names(self) -> tuple[str, ...]:
        """What the certificate must be for: a host or its address, or all that a Service is called."""
        if self.url:
            return (self._host(),)
        short = f"{self.service}.{self.namespace}"
        return f"{short}.svc", self.service, short, f"{short}.svc.cluster.local"

    @property
    def client_config(self) -> dict[str, Any]:
        """As the configuration spells it."""
        if self.url:
            return {"url": self.url.rstrip("/") + PATH}
        service = {"name": self.service, "namespace": self.namespace, "path": PATH, "port": self.port}
        return {"service": service}

    @property
    def address(self) -> str:
        """What is called, in one word."""
        return _address(self.client_config)

    def _host(self) -> str:
        try:
            parts = urlsplit(self.url)
            host, _ = parts.hostname, parts.port
        except ValueError as error:
            raise BadInput(f"--url {self.url}: {error}") from error
        if parts.scheme != "https" or not host:
            raise BadInput(
                f"--url {self.url}: must be https://HOST:PORT, because API servers call nothing else"
            )
        if parts.query or parts.fragment or parts.username:
            raise BadInput(f"--url {self.url}: a base address has no user, query or fragment")
        return host


def check_callable(where: Where, server_url: str) -> None:
    """Raise BadInput for an address that the API server cannot call; nothing is sent to find out.

    Checked is the host of ``--url``: 0.0.0.0 and :: are no host's address, and a loopback address is the API
    server's own machine, so it must itself be reached by one.

    >>> check_callable(Where("https://127.0.0.1:9443"), "https://127.0.0.1:6443")
    """
    host = urlsplit(where.url).hostname or ""
    if not host:
        return
    if _is(host, "is_unspecified"):
        raise BadInput(f"--url {where.url}: {host} is an address to listen on, not one to be called by")
    server = urlsplit(server_url).hostname or ""
    if _is(host, "is_loopback") and not _is(server, "is_loopback"):
        raise BadInput(
            f"--url {where.url}: the API server ({server}) would call its own machine; name an address of "
            "this one that it reaches"
        )


def _is(host: str, what: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return what == "is_loopback"
    try:
        return bool(getattr(ipaddress.ip_address(host), what))
    except ValueError:
        return False  # a name: only its resolver could tell


class Registration:
    """Our entry at the API server. `publish` takes effect from `register` on, because before that no replica
    may be called; cancelled half-way, the entry is either the old or the new one.

    Without the entry we stay ready: other doors of the process are still needed, and the address there may be
    another way to us.
    """

    def __init__(
        self, client: Client, where: Where, *, failure_policy: str, exempt: Collection[str], ours: bool = True
    ) -> None:
        """`ours`: whether to write the entry, or only to check that the one written by another trusts us."""
        self._client = client
        self._where = where
        self._failure_policy = failure_policy
        self._exempt = exempt
        self._ours = ours
        self._bundle = b""
        self._current: Current | None = None
        self._open = False
        self._had = False  # the entry was ours: the process that has it now started later
        self._lost_to = ""  # the address for which that was reported

    async def register(self) -> bool:
        """From now on be called; no: what was last published is outdated, and its follower will write."""
        self._open = True
        return await self._write()

    async def publish(self, bundle: bytes, current: Current | None = None) -> bool:
        """See `Trust`."""
        self._bundle, self._current = bundle, current
        return await self._write()

    async def trusts(self, authority: bytes) -> bool:
        """See `Trust`."""
        try:
            found = await self._client.get(_CONFIGURATIONS, CONFIGURATION)
        except NotFound:
            return True
        hooks = found.get("webhooks") or []
        bundles = [base64.b64decode(hook["clientConfig"].get("caBundle", "")) for hook in hooks]
        return all(authority in bundle for bundle in bundles)

    async def _write(self) -> bool:
        if not self._ours or not self._open:
            return True
        while True:
            try:
                found = await self._client.get(_CONFIGURATIONS, CONFIGURATION)
            except NotFound:
                found = None
            there = _address(_hook(found or {}).get("clientConfig", {}))
            foreign = there not in ("", self._where.address)
            if foreign and self._had:
                if there != self._lost_to:
                    self._lost_to = there
                    _log.warning(
                        "registered_elsewhere", there=there, ours=self._where.address, reason=_ELSEWHERE
                    )
                return True
            if self._wanted(found or {}) == found:
                self._have()
                return True
            if self._current is not None and not await self._current():
                return False
            wanted = self._wanted(found or {})  # of what is current now: it may have been published meanwhile
            try:
                if found is None:
                    await self._client.create(_CONFIGURATIONS, wanted)
                else:
                    await self._client.replace(_CONFIGURATIONS, wanted)
                if foreign:
                    _log.warning("registration_taken_over", was=there, now=self._where.address)
                _log.info("registered", name=CONFIGURATION, **self._where.client_config)
                self._have()
                return True
            except (Conflict, NotFound):
                continue  # another replica was faster: look at what it wrote
            except ApiError as error:
                if error.code == 403:
                    raise BadInput(
                        f"--register may not write MutatingWebhookConfiguration {CONFIGURATION}: "
                        f"{error.message}{'' if found else _MAKE_IT}"
                    ) from error
                raise

    def _have(self) -> None:
        self._had, self._lost_to = True, ""

    def _wanted(self, found: dict[str, Any]) -> dict[str, Any]:
        """What is there, changed where it says something else than we want."""
        old = _hook(found)
        held = old.get("clientConfig", {}).get("caBundle")
        bundle = base64.b64encode(self._bundle).decode() if self._bundle else held
        client_config = self._where.client_config | ({"caBundle": bundle} if bundle else {})
        hook = old | {
            "name": HOOK,
            "clientConfig": client_config,
            "rules": [
                {
                    "apiGroups": [""],
                    "apiVersions": ["v1"],
                    "operations": ["CREATE"],
                    "resources": ["pods"],
                    "scope": "Namespaced",
                }
            ],
            "namespaceSelector": {
                "matchExpressions": [
                    {
                        "key": "kubernetes.io/metadata.name",
                        "operator": "NotIn",
                        "values": sorted(self._exempt),
                    }
                ]
            },
            "admissionReviewVersions": ["v1"],
            "sideEffects": "NoneOnDryRun",
            "reinvocationPolicy": "IfNeeded",
            "failurePolicy": self._failure_policy,
            "timeoutSeconds": _TIMEOUT_S,
        }
        metadata = dict(found.get("metadata") or {})
        metadata["name"] = CONFIGURATION
        # What Helm installed says so in this label: another value would conflict with Helm's next upgrade.
        metadata["labels"] = {"app.kubernetes.io/managed-by": "fairlead", **metadata.get("labels", {})}
        return found | {"metadata": metadata, "webhooks": [hook]}


async def unregister(client: Client, system_namespace: str) -> list[str]:
    """Delete what `--register` made: the entry first, so that no replica is called any more; what was there.

    Policies and ledgers stay: they are the users', and other doors may work with them.
    """
    gone: list[str] = []
    for resource, name, namespace in (
        (_CONFIGURATIONS, CONFIGURATION, None),
        (_SECRETS, SECRET, system_namespace),
    ):
        try:
            await client.delete(resource, name, namespace)
            gone.append(f"{resource.kind} {namespace}/{name}" if namespace else f"{resource.kind} {name}")
        except NotFound:
            pass  # taken away before
    return gone


def _hook(found: dict[str, Any]) -> dict[str, Any]:
    hooks: list[dict[str, Any]] = found.get("webhooks") or []
    return next((hook for hook in hooks if hook.get("name") == HOOK), {})


def _address(client_config: dict[str, Any]) -> str:
    """Where a configuration leads to, whatever authority it trusts; empty where it leads nowhere."""
    if service := client_config.get("service"):
        host = f"{service['name']}.{service['namespace']}.svc:{service.get('port', 443)}"
        return f"https://{host}{service.get('path', '')}"
    return str(client_config.get("url", ""))
