"""What the core receives. All of it is plain data, so that a recording can be replayed."""

from __future__ import annotations

import msgspec

from fairlead.kube.meta import Object
from fairlead.kube.pod import Pod
from fairlead.policy.rule.model import PlacementPolicy
from fairlead.policy.tiers.marks import Mark


class Seen(msgspec.Struct, frozen=True, tag=True, tag_field="event", gc=False):
    """An object was added or changed. `kind` is Kubernetes' (``Pod``, ``Node``, ``PodGroup``, …)."""

    kind: str
    object: Object


class Gone(msgspec.Struct, frozen=True, tag=True, tag_field="event", gc=False):
    """An object was deleted. `uid` may be empty where it does not matter (anything but pods).

    `group` is the API group of a PodGroup: several projects have one, each with objects of its own.
    """

    kind: str
    namespace: str
    name: str
    uid: str = ""
    group: str = ""


class Unread(msgspec.Struct, frozen=True, tag=True, tag_field="event", gc=False):
    """A pod exists that cannot be read. `pod` is what is known of it all the same: its name and gang."""

    pod: Pod
    problem: str


class BindFailed(msgspec.Struct, frozen=True, tag=True, tag_field="event", gc=False):
    """A bind that we asked for was refused or given up; the pod has no node by our doing."""

    pod: str
    uid: str
    node: str
    message: str = ""


class EvictFailed(msgspec.Struct, frozen=True, tag=True, tag_field="event", gc=False):
    """An eviction was refused. `final`: it will never be granted (a pod under two budgets, say).

    `unknown`: no answer came, so it may have been carried out.
    """

    pod: str
    uid: str
    message: str = ""
    final: bool = False
    unknown: bool = False


class PoliciesAre(msgspec.Struct, frozen=True, tag=True, tag_field="event", gc=False):
    """These placement policies hold from now on, and no others; nowhere in the `exempt` namespaces.

    `only_ours`: pods of other schedulers are no policy's business, so they hold no slots either.
    """

    policies: tuple[PlacementPolicy, ...]
    exempt: tuple[str, ...] = ()
    only_ours: bool = False


class MarksAre(msgspec.Struct, frozen=True, tag=True, tag_field="event", gc=False):
    """The tiers of a policy that are left alone, as the API has it."""

    policy: str
    marks: dict[str, Mark]


class Promised(msgspec.Struct, frozen=True, tag=True, tag_field="event", gc=False):
    """A node is being made for a waiting pod since `at`: it need not look for another tier yet."""

    uid: str
    at: float


Event = Seen | Gone | Unread | BindFailed | EvictFailed | PoliciesAre | MarksAre | Promised
