"""What representation a client asks for, and how bodies are read.

Answers are always JSON: protobuf and CBOR in an Accept header are passed over for the JSON that
clients offer beside them. Bodies may be JSON, YAML or protobuf.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec
import yaml
from aiohttp import web

from fairlead.errors import ApiError
from fairlead.kube.decode import unfolded_size
from fairlead.world.answers import bad_request, unsupported_media
from fairlead.world.http.protobuf import decode_protobuf

__all__ = ["Representation", "negotiate", "patch_kind", "read_body"]

_PATCHES = {
    "application/json-patch+json": "json",
    "application/merge-patch+json": "merge",
    "application/strategic-merge-patch+json": "strategic",
    "application/apply-patch+yaml": "apply",
}


@dataclass(frozen=True, slots=True)
class Representation:
    """How objects are shown: as they are, as rows of a Table, or as their metadata alone."""

    kind: str = "object"
    content_type: str = "application/json"

    @property
    def table(self) -> bool:
        """Whether rows are asked for."""
        return self.kind == "Table"


_AS_IS = Representation()
_UNFOLDED = 1_000_000  # members and items; beyond, a few lines of nested anchors would take all memory

_ACCEPTABLE = frozenset({"application/json", "application/*", "*/*", "application/yaml", ""})


def negotiate(accept: str) -> Representation:
    """The first representation of an Accept header that we can give; 406 when there is none."""
    if not accept:
        return _AS_IS
    for offer in accept.split(","):
        media, *parameters = [part.strip() for part in offer.split(";")]
        if media not in _ACCEPTABLE:
            continue
        given = dict(part.partition("=")[::2] for part in parameters)
        kind = given.get("as", "")
        if not kind:
            return _AS_IS
        if given.get("g") == "meta.k8s.io" and given.get("v") == "v1":
            if kind == "Table":
                return Representation(kind, "application/json;as=Table;v=v1;g=meta.k8s.io")
            if kind.startswith("PartialObjectMetadata"):
                return Representation(
                    "PartialObjectMetadata", f"application/json;as={kind};v=v1;g=meta.k8s.io"
                )
    offered = "application/json, application/yaml, application/vnd.kubernetes.protobuf"
    message = f"406: Not Acceptable\n\nAvailable representations: {offered}"
    raise ApiError.of(406, "NotAcceptable", message)


async def read_body(request: web.Request) -> Any:
    """The decoded body; None when there is none."""
    data = await request.read()
    if not data.strip():
        return None
    media = request.content_type
    if media in ("application/yaml", "application/apply-patch+yaml", "text/yaml"):
        try:
            document = yaml.load(data, Loader=_Loader)
        except yaml.YAMLError as error:
            raise bad_request(f"error decoding YAML: {error}") from error
        if unfolded_size(document) > _UNFOLDED:
            raise bad_request("error decoding YAML: document contains excessive aliasing")
        return document
    if media == "application/vnd.kubernetes.protobuf":
        return decode_protobuf(data)
    if media in ("application/json", "application/octet-stream", "*/*") or media in _PATCHES:
        try:
            return msgspec.json.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise bad_request(f"couldn't get version/kind; json parse error: {error}") from error
    raise unsupported_media("application/json, application/yaml, application/vnd.kubernetes.protobuf")


def patch_kind(request: web.Request) -> Any:
    """Which patch a PATCH request carries; 415 when it says none that we know."""
    kind = _PATCHES.get(request.content_type)
    if kind is None:
        raise ApiError.of(415, "UnsupportedMediaType", "415: Unsupported Media Type")
    return kind


class _Loader(yaml.SafeLoader):
    """YAML as Kubernetes reads it: timestamps stay text."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
