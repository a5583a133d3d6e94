"""What kube-scheduler and an extender say to each other, key by key.

Upstream's structs have no JSON tags, so keys are PascalCase and nulls are always there, while the Pod and
the Nodes inside are as everywhere else. Nodes are passed through as the bytes they came as: a caller that
does not cache nodes (``nodeCacheCapable: false``) gets back exactly the objects that it sent.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Annotated, TypeVar

import msgspec

from fairlead.errors import BadInput
from fairlead.kube.meta import Object, ObjectMeta

HIGHEST_SCORE = 10
"""Scores go from 0 to this; kube-scheduler multiplies them by ten and by the extender's weight."""

_Number = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


class AskingPod(Object, frozen=True, gc=False):
    """The pod as far as we read it: whose it is and how it is marked."""

    metadata: ObjectMeta = ObjectMeta()


class _Pascal(msgspec.Struct, frozen=True, rename="pascal"):
    """A struct of the extender protocol."""


class NodeList(msgspec.Struct, frozen=True):
    """A v1 NodeList whose items are left as they are."""

    metadata: msgspec.Raw = msgspec.Raw(b"{}")
    items: tuple[msgspec.Raw, ...] | None = ()


class _Named(msgspec.Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()


class Args(_Pascal, frozen=True, rename="pascal"):
    """The body of filter and prioritize."""

    pod: AskingPod | None = None
    nodes: NodeList | None = None
    node_names: tuple[str, ...] | None = None

    def names(self) -> tuple[str, ...]:
        """The names of the nodes on offer, however they came; BadInput where one of Nodes is none."""
        if self.node_names is not None:
            return self.node_names
        return tuple(_name_of(item) for item in self._items)

    def only(self, kept: Collection[str], offered: Sequence[str]) -> NodeList:
        """The node objects of some names, in the order they came; `offered` is what `names` gave."""
        every = zip(self._items, offered, strict=True)
        return NodeList(items=tuple(item for item, name in every if name in kept))

    @property
    def _items(self) -> tuple[msgspec.Raw, ...]:
        return (self.nodes.items or ()) if self.nodes is not None else ()


class FilterResult(_Pascal, frozen=True, rename="pascal"):
    """The answer to filter. A node in neither map and not returned is out without a reason."""

    nodes: NodeList | None = None
    node_names: tuple[str, ...] | None = None
    failed_nodes: dict[str, str] = {}
    failed_and_unresolvable_nodes: dict[str, str] = {}
    error: str = ""


class HostPriority(_Pascal, frozen=True, rename="pascal", gc=False):
    """One entry of the bare list that answers prioritize."""

    host: str
    score: int


class MetaPod(msgspec.Struct, frozen=True):
    """A victim by its UID."""

    uid: str = msgspec.field(name="UID", default="")


class MetaVictims(msgspec.Struct, frozen=True):
    """The victims on a node, when both sides have the pods."""

    pods: tuple[MetaPod, ...] | None = msgspec.field(name="Pods", default=())
    num_pdb_violations: _Number = msgspec.field(name="NumPDBViolations", default=0)


class Victims(msgspec.Struct, frozen=True):
    """The victims on a node as whole pods."""

    pods: tuple[AskingPod, ...] | None = msgspec.field(name="Pods", default=())
    num_pdb_violations: _Number = msgspec.field(name="NumPDBViolations", default=0)

    def meta(self) -> MetaVictims:
        """The same by UIDs: that is what is answered, whatever was asked."""
        return MetaVictims(
            tuple(MetaPod(pod.metadata.uid) for pod in self.pods or ()), self.num_pdb_violations
        )


class PreemptionArgs(_Pascal, frozen=True, rename="pascal"):
    """The body of preempt; exactly one of the two maps is set."""

    pod: AskingPod | None = None
    node_name_to_victims: dict[str, Victims | None] | None = None
    node_name_to_meta_victims: dict[str, MetaVictims | None] | None = None

    def candidates(self) -> dict[str, MetaVictims]:
        """The victims by node, by UID, however they came."""
        if self.node_name_to_meta_victims is not None:
            return {
                node: victims or MetaVictims() for node, victims in self.node_name_to_meta_victims.items()
            }
        return {
            node: victims.meta() if victims is not None else MetaVictims()
            for node, victims in (self.node_name_to_victims or {}).items()
        }


class PreemptionResult(_Pascal, frozen=True, rename="pascal"):
    """The answer to preempt: the candidates that remain."""

    node_name_to_meta_victims: dict[str, MetaVictims]


def read_args(body: bytes | bytearray) -> Args:
    """The body of filter or prioritize; BadInput says what is wrong with it."""
    args = _read(body, _ARGS)
    if args.nodes is None and args.node_names is None:
        raise BadInput("the body has neither Nodes nor NodeNames")
    _check_pod(args.pod)
    return args


def read_preemption(body: bytes | bytearray) -> PreemptionArgs:
    """The body of preempt; BadInput says what is wrong with it."""
    args = _read(body, _PREEMPTION)
    if args.node_name_to_victims is None and args.node_name_to_meta_victims is None:
        raise BadInput("the body has neither NodeNameToVictims nor NodeNameToMetaVictims")
    _check_pod(args.pod)
    return args


def encode(answer: FilterResult | PreemptionResult | list[HostPriority]) -> bytes:
    """An answer as it goes out."""
    return msgspec.json.encode(answer)


def encode_error(reason: str) -> bytes:
    """What is wrong, for verbs whose answer has no place for it; kube-scheduler reads only the status."""
    return msgspec.json.encode({"Error": reason})


_Body = TypeVar("_Body", Args, PreemptionArgs)
_ARGS = msgspec.json.Decoder(Args)
_PREEMPTION = msgspec.json.Decoder(PreemptionArgs)
_NODE = msgspec.json.Decoder(_Named)


def _read(body: bytes | bytearray, decoder: msgspec.json.Decoder[_Body]) -> _Body:
    try:
        return decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadInput(f"the body is not what kube-scheduler sends: {error}") from error
    except RecursionError as error:
        raise BadInput("the body is nested too deeply") from error


def _check_pod(pod: AskingPod | None) -> None:
    if pod is None:
        raise BadInput("the body has no Pod")
    if not pod.metadata.uid:
        raise BadInput("the Pod has no metadata.uid")


def _name_of(item: msgspec.Raw) -> str:
    try:
        name = _NODE.decode(item).metadata.name
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadInput(f"one of Nodes is no Node: {error}") from error
    if not name:
        raise BadInput("one of Nodes has no name")
    return name
