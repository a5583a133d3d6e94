"""Calls the MutatingWebhookConfigurations of the cluster, as configured.

Rules, namespace and object selectors, failurePolicy, timeoutSeconds, reinvocationPolicy, caBundle,
url and service references (through a resolver) are honoured. Of ``matchConditions`` only comparisons
are understood (`match_conditions`); anything else counts as an error of the webhook.
"""

from __future__ import annotations

import base64
import binascii
import io
import re
import ssl
from collections.abc import Callable
from typing import Any

import aiohttp
import msgspec
import structlog

from fairlead.errors import ApiError, FairleadError
from fairlead.kube.decode import convert
from fairlead.kube.selectors import LabelSelector, matches
from fairlead.world.admission import AdmissionRequest
from fairlead.world.api import Api
from fairlead.world.api_errors import internal
from fairlead.world.discovery import SUB_KINDS
from fairlead.world.patches import json_patch
from fairlead.world.schema.resources import MUTATING_WEBHOOKS, NAMESPACES
from fairlead.world.store import Object

log = structlog.get_logger(__name__)

ServiceResolver = Callable[[str, str, int], str | None]
"""(namespace, name, port) → ``host:port`` to connect to, None when there is no such service."""


class _Failed(FairleadError):  # noqa: N818 (a webhook failed; its policy decides what that means)
    """A call that did not come to an answer."""


class Webhooks:
    """Asks webhooks about writes; owns its HTTP session until `close`."""

    def __init__(self, api: Api, resolve: ServiceResolver | None = None) -> None:
        self._api = api
        self._resolve = resolve
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        """Close connections."""
        if self._session is not None:
            await self._session.close()

    async def admit(self, request: AdmissionRequest) -> Object | None:
        """The object after all webhooks that want to see it; raises when one refuses or fails hard.

        Cancelled half-way, calls in flight are dropped and nothing was changed here.
        """
        hooks = self._hooks(request)
        if not hooks:
            return request.object
        item = request.object
        asked: list[tuple[Object, Object | None]] = []
        for hook in hooks:
            if self._wants(hook, request, item):
                item = await self._ask(hook, request, item)
                asked.append((hook, item))
        for hook, left in asked[:-1]:
            # A later webhook changed the object after this one had seen it.
            if (
                hook.get("reinvocationPolicy") == "IfNeeded"
                and left != item
                and self._wants(hook, request, item)
            ):
                item = await self._ask(hook, request, item)
        return item

    def _hooks(self, request: AdmissionRequest) -> list[Object]:
        if request.resource.group == "admissionregistration.k8s.io":
            return []  # a webhook must not be able to lock itself in
        return [
            hook
            for configuration in self._api.store.list(MUTATING_WEBHOOKS)
            for hook in configuration.get("webhooks") or ()
            if any(_rule_matches(rule, request) for rule in hook.get("rules") or ())
        ]

    def _wants(self, hook: Object, request: AdmissionRequest, item: Object | None) -> bool:
        selector = convert(hook.get("namespaceSelector") or {}, LabelSelector)
        if not selector.empty:
            labels = self._namespace_labels(request, item)
            if labels is not None and not matches(selector, labels):
                return False
        selector = convert(hook.get("objectSelector") or {}, LabelSelector)
        if not selector.empty:
            seen = [each for each in (item, request.old) if each is not None]
            if not any(matches(selector, each["metadata"].get("labels") or {}) for each in seen):
                return False
        try:
            return all(
                holds(condition["expression"], request, item)
                for condition in hook.get("matchConditions") or ()
            )
        except ValueError as error:
            if hook.get("failurePolicy") == "Ignore":
                return False
            raise internal(
                f'failed evaluating matchConditions of webhook "{hook["name"]}": {error}'
            ) from error

    def _namespace_labels(self, request: AdmissionRequest, item: Object | None) -> dict[str, str] | None:
        if request.resource == NAMESPACES:
            return ((item or request.old or {}).get("metadata") or {}).get("labels") or {}
        if not request.namespace:
            return None  # cluster-scoped objects are not selected by namespace: they pass
        namespace = self._api.store.get(NAMESPACES, "", request.namespace)
        return (namespace or {"metadata": {}})["metadata"].get("labels") or {}

    async def _ask(self, hook: Object, request: AdmissionRequest, item: Object | None) -> Object | None:
        try:
            answer = await self._call(hook, _review(request, item, self._api.ids.uid()))
        except _Failed as failure:
            if hook.get("failurePolicy") == "Ignore":
                log.warning(
                    "webhook failed, ignored by its policy", webhook=hook["name"], problem=str(failure)
                )
                return item
            raise internal(
                f'failed calling webhook "{hook["name"]}": failed to call webhook: {failure}'
            ) from failure
        if not answer.get("allowed"):
            raise _denied(hook["name"], answer.get("status") or {})
        if not answer.get("patch"):
            return item
        try:
            operations = msgspec.json.decode(base64.b64decode(answer["patch"], validate=True))
        except (binascii.Error, msgspec.DecodeError) as error:
            raise internal(f'webhook "{hook["name"]}" sent a patch that cannot be read: {error}') from error
        patched: Object = json_patch(item, operations)
        return patched

    async def _call(self, hook: Object, review: Object) -> Object:
        client = hook["clientConfig"]
        url, server_name = self._url(client)
        verify = (
            ssl.create_default_context(cadata=_pem(client["caBundle"])) if client.get("caBundle") else None
        )
        if self._session is None:
            self._session = aiohttp.ClientSession()
        timeout = aiohttp.ClientTimeout(total=hook.get("timeoutSeconds", 10))
        try:
            async with self._session.post(
                url,
                data=io.BytesIO(msgspec.json.encode(review)),
                headers={"Content-Type": "application/json"},
                timeout=timeout,
                ssl=verify if verify is not None else True,
                server_hostname=server_name,
            ) as response:
                if response.status != 200:
                    raise _Failed(f'Post "{url}": unexpected status {response.status}')
                body = msgspec.json.decode(await response.read())
        except (aiohttp.ClientError, OSError, msgspec.DecodeError) as error:
            raise _Failed(f'Post "{url}": {error}') from error
        except TimeoutError as error:
            raise _Failed(f'Post "{url}": context deadline exceeded') from error
        answer = body.get("response") if isinstance(body, dict) else None
        if not isinstance(answer, dict) or answer.get("uid") != review["request"]["uid"]:
            raise _Failed(f"expected response.uid={review['request']['uid']!r}")
        return answer

    def _url(self, client: Object) -> tuple[str, str | None]:
        if client.get("url"):
            return client["url"], None
        service = client["service"]
        name, namespace = service["name"], service["namespace"]
        where = self._resolve(namespace, name, service.get("port", 443)) if self._resolve else None
        if where is None:
            raise _Failed(f'service "{name}" not found')
        path = service.get("path") or "/"
        return f"https://{where}/{path.lstrip('/')}", f"{name}.{namespace}.svc"


def _pem(bundle: str) -> str:
    return base64.b64decode(bundle).decode()


def _rule_matches(rule: Object, request: AdmissionRequest) -> bool:
    resource = request.resource
    scope = rule.get("scope", "*")
    if scope != "*" and (scope == "Namespaced") != resource.namespaced:
        return False
    return (
        _listed(rule.get("operations"), request.operation)
        and _listed(rule.get("apiGroups"), resource.group)
        and _listed(rule.get("apiVersions"), request.version)
        and any(
            _names(wanted, resource.plural, request.subresource) for wanted in rule.get("resources") or ()
        )
    )


def _listed(values: list[str] | None, value: str) -> bool:
    return "*" in (values or ()) or value in (values or ())


def _names(wanted: str, plural: str, subresource: str) -> bool:
    resource, _, sub = wanted.partition("/")
    return resource in ("*", plural) and sub in (subresource, "*")


def _review(request: AdmissionRequest, item: Object | None, uid: str) -> Object:
    resource = request.resource
    own_kind = {"group": resource.group, "version": request.version, "kind": resource.kind}
    shown_kind = SUB_KINDS.get(request.subresource, own_kind)
    shown_resource = {"group": resource.group, "version": request.version, "resource": resource.plural}
    asked: Object = {
        "uid": uid,
        "kind": shown_kind,
        "resource": shown_resource,
        "requestKind": shown_kind,
        "requestResource": shown_resource,
        "operation": request.operation,
        "userInfo": {"username": request.user, "groups": ["system:masters", "system:authenticated"]},
        "object": item,
        "oldObject": request.old,
        "dryRun": request.dry_run,
        "options": {"kind": f"{request.operation.capitalize()}Options", "apiVersion": "meta.k8s.io/v1"},
    }
    named = {
        "name": request.name,
        "namespace": request.namespace,
        "subResource": request.subresource,
        "requestSubResource": request.subresource,
    }
    asked |= {field: value for field, value in named.items() if value}
    return {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": asked}


def _denied(name: str, status: Object) -> ApiError:
    message = status.get("message") or status.get("reason") or ""
    said = f"denied the request: {message}" if message else "denied the request without explanation"
    code = status.get("code") or 403
    reason = status.get("reason") or ("Forbidden" if code == 403 else "")
    return ApiError.of(code if 400 <= code < 600 else 403, reason, f'admission webhook "{name}" {said}')


_COMPARISON = re.compile(r"""^([\w.\-\[\]'"/]+)\s*(==|!=)\s*(?:'([^']*)'|"([^"]*)"|(true|false))$""")
_HAS = re.compile(r"^(!?)\s*has\(([\w.\-\[\]'\"/]+)\)$")
_STEP = re.compile(r"""\.?([\w\-]+)|\[['"]([^'"]+)['"]\]""")


def holds(expression: str, request: AdmissionRequest, item: Any) -> bool:
    """Whether an expression is true of a request; ValueError when it is more than we understand."""
    return any(
        all(_term(term.strip(), request, item) for term in part.split("&&"))
        for part in expression.split("||")
    )


def _term(term: str, request: AdmissionRequest, item: Any) -> bool:
    if found := _HAS.match(term):
        return (_read(found[2], request, item) is not None) != bool(found[1])
    found = _COMPARISON.match(term)
    if found is None:
        raise ValueError(f"{term!r} is not supported: only comparisons and has() are")
    value = _read(found[1], request, item)
    wanted: Any = found[5] == "true" if found[5] else found[3] if found[3] is not None else found[4]
    return bool(value == wanted) == (found[2] == "==")


def _read(path: str, request: AdmissionRequest, item: Any) -> Any:
    steps = [first or second for first, second in _STEP.findall(path)]
    view: Any = {
        "object": item,
        "oldObject": request.old,
        "request": {
            "operation": request.operation,
            "namespace": request.namespace,
            "name": request.name,
            "subResource": request.subresource,
            "dryRun": request.dry_run,
            "userInfo": {"username": request.user},
            "resource": {"resource": request.resource.plural, "group": request.resource.group},
        },
    }
    for step in steps:
        view = view.get(step) if isinstance(view, dict) else None
    return view
