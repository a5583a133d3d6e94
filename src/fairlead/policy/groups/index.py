"""The group index: which pods are in which group, kept up to date event by event.

Pods, owners, nodes, budgets and policies go in; every pod that is another member of its group, or in another
group, comes out, and so does every group whose workloads or budgets changed. What the index knows depends on
the objects that exist, never on the order in which they came. An event costs what it touches: an owner's
change is worked out per template, a node's label costs that node's pods, a policy's the pods that it may
match. Without policies no pod is remembered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from fairlead.kube.meta import ObjectMeta
from fairlead.kube.workloads import PodDisruptionBudget
from fairlead.policy.groups.member import GroupKey, Member, Place, PodFacts, group_of, member_of
from fairlead.policy.groups.owners import KnownOwners, Owner, OwnerChange
from fairlead.policy.names import REPLICAS_LABEL
from fairlead.policy.rule.demands import Makeup, asks_budgets, demand_of_group, desired_of_group
from fairlead.policy.rule.matching import Policies, may_match
from fairlead.policy.rule.model import PlacementPolicy
from fairlead.policy.rule.split import Demand, Tiers
from fairlead.policy.rule.workloads import MIRROR, REVISIONS, Owners, Workload, workload_of

_TIERS_KEPT = 1000  # one for each policy, demand and number of pods


_Owner = tuple[str, str, str]  # kind, namespace, name
_Key = tuple[str, ...]


class Template:
    """Pods that one controller made from one template: what is known of their workload is the same for all,
    so a change of an owner is worked out once. A bare pod has a template of its own.

    `workload` is that of each of its pods but for the ordinal, which is one pod's.
    """

    __slots__ = ("groups", "key", "owners", "pods", "some", "workload")

    def __init__(self, key: _Key, some: ObjectMeta, workload: Workload) -> None:
        self.key = key
        self.some = some
        self.workload = workload
        self.pods: dict[str, None] = {}
        self.groups: dict[GroupKey, int] = {}
        """The groups that its pods are in, and how many pods are in each."""
        self.owners = _owners(some, workload)

    @property
    def numbered(self) -> bool:
        """Whether its pods have ordinals, which an owner's change may change."""
        return self.workload.kind == "StatefulSet"


@dataclass(frozen=True, slots=True, eq=False)
class GroupedPod:
    """A pod that a policy governs, in its group."""

    id: str
    """What the index's owner knows it by."""
    facts: PodFacts
    policy: PlacementPolicy
    key: GroupKey
    template: Template
    ordinal: int | None
    """A StatefulSet pod's, from 0."""
    member: Member

    @property
    def workload(self) -> Workload:
        """What it is one of, as it is known now."""
        own = self.template.workload
        return own if self.ordinal is None else replace(own, ordinal=self.ordinal)

    @property
    def place(self) -> Place:
        """Where it belongs."""
        return Place(self.policy, self.workload, self.key)


Changed = Callable[[GroupedPod | None, GroupedPod | None], None]


def _ignore(_: object, __: object = None) -> None: ...


class GroupIndex:
    """See the module.

    Invariant: after each call, `groups` has exactly the pods that a policy governs as things are, each as its
    group's member; no group is empty.
    """

    def __init__(
        self,
        owners: KnownOwners | None = None,
        *,
        changed: Changed = _ignore,
        stirred: Callable[[GroupKey], None] = _ignore,
    ) -> None:
        """`changed` receives each pod as it was and as it is; None: in no group. `stirred` receives groups
        whose workloads or budgets may say something else than before.
        """
        self.owners = owners or KnownOwners()
        self.policies = Policies()
        self.groups: dict[GroupKey, dict[str, GroupedPod]] = {}
        self._changed = changed
        self._stirred = stirred
        self._facts: dict[str, PodFacts] = {}  # of every pod, while there are policies
        self._grouped: dict[str, GroupedPod] = {}
        self._templates = Templates(self.owners)
        self._on_node: dict[str, dict[str, None]] = {}
        self._node_labels: dict[str, Mapping[str, str]] = {}
        self._budgets: dict[str, dict[str, PodDisruptionBudget]] = {}  # by namespace and name
        self._makeups: dict[GroupKey, Makeup] = {}  # of groups whose policy has ``min: pdb``
        self._tiers: dict[tuple[str, Demand, int | None], Tiers] = {}

    # Events

    def use(self, policies: Policies, pods: Callable[[], Iterable[tuple[str, PodFacts]]]) -> None:
        """These policies hold from now on; `pods` gives all pods, and is called if no policy held before."""
        before, self.policies = self.policies, policies
        names = dict.fromkeys(policy.name for policy in (*before, *policies))
        if policies.exempt == before.exempt:
            names = {name: None for name in names if policies.get(name) != before.get(name)}
        self._tiers = {key: tiers for key, tiers in self._tiers.items() if key[0] not in names}
        if not len(before):
            if len(policies):
                for pod, facts in pods():
                    self.pod(pod, facts)
            return
        if not len(policies):
            for pod in list(self._facts):
                self.pod_gone(pod)
            return
        new = [policy for policy in policies if policy.name in names]
        for pod, facts in list(self._facts.items()):
            grouped, meta = self._grouped.get(pod), facts.metadata
            if (grouped is not None and grouped.policy.name in names) or any(
                may_match(policy.spec.match, meta.namespace, meta.labels) for policy in new
            ):
                self._place(pod, facts)

    def pod(self, pod: str, facts: PodFacts) -> None:
        """A pod as it now is."""
        if not len(self.policies):
            return
        known, grouped = self._facts.get(pod), self._grouped.get(pod)
        self._facts[pod] = facts
        if known is None or not _same_place(known.metadata, facts.metadata):
            self._templates.join(pod, facts.metadata)
            self._place(pod, facts)
        elif grouped is not None:
            self._put(replace(grouped, facts=facts, member=self.member(grouped.place, facts)))

    def pod_gone(self, pod: str) -> None:
        """A pod is gone."""
        if self._facts.pop(pod, None) is not None:
            self._leave(pod)
            self._templates.leave(pod)

    def owner(self, kind: str, owner: Owner) -> None:
        """An owner as it now is."""
        self._follow(self.owners.put(kind, owner), kind, owner.metadata.namespace, owner.metadata.name)

    def owner_gone(self, kind: str, namespace: str, name: str) -> None:
        """An owner is gone; its pods follow, or are orphaned, which they show themselves."""
        self._follow(self.owners.drop(kind, namespace, name), kind, namespace, name)

    def owner_read(self, kind: str, namespace: str, name: str) -> None:
        """What is known beyond the watches of an owner may have changed."""
        self._follow(OwnerChange(workload=True), kind, namespace, name)

    def node(self, name: str, labels: Mapping[str, str] | None) -> None:
        """A node's labels; None: it is gone."""
        if self._node_labels.get(name) == labels:
            return
        if labels is None:
            del self._node_labels[name]
        else:
            self._node_labels[name] = labels
        for pod in list(self._on_node.get(name, ())):
            grouped = self._grouped[pod]
            self._put(replace(grouped, member=self.member(grouped.place, grouped.facts)))

    def budget(self, budget: PodDisruptionBudget) -> None:
        """A disruption budget as it now is."""
        there = self._budgets.setdefault(budget.metadata.namespace, {})
        known = there.get(budget.metadata.name)
        there[budget.metadata.name] = budget
        if known is None or known.spec != budget.spec:  # its status follows its pods
            self._stir_within(budget.metadata.namespace)

    def budget_gone(self, namespace: str, name: str) -> None:
        """A disruption budget is gone."""
        if self._budgets.get(namespace, {}).pop(name, None) is not None:
            self._stir_within(namespace)

    # Answers

    def get(self, pod: str) -> GroupedPod | None:
        """A pod in its group; None: no policy governs it."""
        return self._grouped.get(pod)

    def members(self, key: GroupKey) -> list[Member]:
        """The pods of a group, those that are leaving too."""
        return [one.member for one in self.groups.get(key, {}).values()]

    def some(self, key: GroupKey) -> GroupedPod | None:
        """One pod of a group, to learn whose it is."""
        return next(iter(self.groups.get(key, {}).values()), None)

    def place(self, metadata: ObjectMeta, namespace: str = "") -> Place | None:
        """Where a pod that may not exist yet belongs; None: no policy governs it."""
        if not len(self.policies):
            return None
        workload = workload_of(metadata, self.owners, namespace)
        policy = self.policies.governing(workload, metadata.labels)
        if policy is None:
            return None
        return Place(policy, workload, group_of(policy, workload, metadata.labels))

    def member(self, place: Place, facts: PodFacts) -> Member:
        """A pod as its group sees it."""
        return member_of(place.policy, facts, place.workload, self._node_labels.get)

    def revisions(self, workload: Workload) -> set[str]:
        """The revisions of a workload of which there are pods that are not leaving."""
        named = workload.kind, workload.namespace, workload.name
        return {
            template.workload.revision
            for template in self._templates.owned_by(*named)
            if (template.workload.kind, template.workload.namespace, template.workload.name) == named
            and any(not self._facts[pod].leaving for pod in template.pods)
        }

    def budgets(self, namespace: str | None = None) -> Iterator[PodDisruptionBudget]:
        """The disruption budgets of a namespace, or of all."""
        within = self._budgets.values() if namespace is None else [self._budgets.get(namespace, {})]
        return (budget for found in within for budget in found.values())

    def tiers(self, place: Place, labels: Mapping[str, str], *, coming: bool = False) -> Tiers:
        """The policy's tiers with what budgets demand of the group, in which a pod with these labels is or,
        if it is `coming`, will be.
        """
        policy, demand, desired = place.policy, Demand(), None
        if asks_budgets(policy):
            makeup = self._makeups.get(place.key) or Makeup()
            more = (place.workload, labels) if coming or not len(makeup) else None
            like = makeup.alike(lambda pod: self._grouped[pod].workload, more)
            budgets = self._budgets.get(place.key.namespace, {}).values()
            demand = demand_of_group(policy, place.key.namespace, like, budgets, self.owners.sharing)
            desired = desired_of_group(policy, like)
        found = self._tiers.get((policy.name, demand, desired))
        if found is None or found.tiers != policy.spec.tiers:
            if len(self._tiers) >= _TIERS_KEPT:
                self._tiers.clear()
            found = self._tiers[policy.name, demand, desired] = Tiers(policy.spec.tiers, demand, desired)
        return found

    # Helpers

    def _place(self, pod: str, facts: PodFacts) -> None:
        template, labels = self._templates[pod], facts.metadata.labels
        policy = self.policies.governing(template.workload, labels)
        if policy is None:
            self._leave(pod)
            return
        ordinal = workload_of(facts.metadata, self.owners).ordinal if template.numbered else None
        key = group_of(policy, template.workload, labels)
        workload = template.workload if ordinal is None else replace(template.workload, ordinal=ordinal)
        member = self.member(Place(policy, workload, key), facts)
        self._put(GroupedPod(pod, facts, policy, key, template, ordinal, member))

    def _put(self, one: GroupedPod) -> None:
        before = self._grouped.get(one.id)
        self._grouped[one.id] = one
        if before is not None and before.key == one.key:
            self.groups[one.key][one.id] = one
            if not self._make_up(one) and _same(before, one):
                return
            if before.facts.node != one.facts.node:
                self._unindex(before)
                self._index(one)
            if before.template is not one.template:
                _less(before.template, one.key)
                _more(one.template, one.key)
        else:
            if before is not None:
                self._drop(before)
            self.groups.setdefault(one.key, {})[one.id] = one
            self._index(one)
            _more(one.template, one.key)
            self._make_up(one)
        self._changed(before, one)

    def _leave(self, pod: str) -> None:
        one = self._grouped.pop(pod, None)
        if one is not None:
            self._drop(one)
            self._changed(one, None)

    def _drop(self, one: GroupedPod) -> None:
        group = self.groups[one.key]
        del group[one.id]
        self._unindex(one)
        _less(one.template, one.key)
        if one.key in self._makeups:
            self._makeups[one.key].drop(one.id)
        if not group:
            del self.groups[one.key]
            self._makeups.pop(one.key, None)

    def _index(self, one: GroupedPod) -> None:
        if one.facts.node:
            self._on_node.setdefault(one.facts.node, {})[one.id] = None

    def _unindex(self, one: GroupedPod) -> None:
        if one.facts.node:
            there = self._on_node[one.facts.node]
            del there[one.id]
            if not there:
                del self._on_node[one.facts.node]

    def _make_up(self, one: GroupedPod) -> bool:
        """Count a pod for what budgets demand of its group; whether that may be something else now."""
        if not asks_budgets(one.policy):
            return False
        makeup = self._makeups.setdefault(one.key, Makeup())
        if one.member.leaving:
            return makeup.drop(one.id)
        return makeup.put(one.id, one.template.workload, one.facts.metadata.labels)

    def _follow(self, change: OwnerChange, kind: str, namespace: str, name: str) -> None:
        for template in self._templates.owned_by(kind, namespace, name) if change.workload else ():
            before, after = self._templates.renew(template)
            if template.numbered or _identity(before) != _identity(after):
                for pod in list(template.pods):
                    self._place(pod, self._facts[pod])
            if before != after:
                for key in list(template.groups):
                    self._stirred(key)
        if change.sharing:
            self._stir_within(namespace)

    def _stir_within(self, namespace: str) -> None:
        """What budgets of a namespace demand may have changed."""
        for key in [key for key in self._makeups if key.namespace == namespace]:
            self._stirred(key)


class Templates:
    """Templates by their key. Invariant: none is without pods, and each is found by all of its owners."""

    __slots__ = ("_by_owner", "_of", "_owners", "_templates")

    def __init__(self, owners: Owners) -> None:
        self._owners = owners
        self._templates: dict[_Key, Template] = {}
        self._of: dict[str, Template] = {}
        self._by_owner: dict[_Owner, dict[_Key, None]] = {}

    def __getitem__(self, pod: str) -> Template:
        return self._of[pod]

    def join(self, pod: str, meta: ObjectMeta) -> Template:
        """A pod as it now is; its template."""
        key = _key(meta)
        known = self._of.get(pod)
        if known is not None and known.key == key:
            return known
        self.leave(pod)
        template = self._templates.get(key)
        if template is None:
            template = self._templates[key] = Template(key, meta, self._workload(meta))
            self._index(template)
        template.pods[pod] = None
        self._of[pod] = template
        return template

    def leave(self, pod: str) -> None:
        """A pod is gone."""
        template = self._of.pop(pod, None)
        if template is None:
            return
        del template.pods[pod]
        if not template.pods:
            del self._templates[template.key]
            self._unindex(template)

    def owned_by(self, kind: str, namespace: str, name: str) -> list[Template]:
        """The templates whose workload an owner may change."""
        return [self._templates[key] for key in self._by_owner.get((kind, namespace, name), ())]

    def renew(self, template: Template) -> tuple[Workload, Workload]:
        """Look at a template's owners again; its workload before and after."""
        before, after = template.workload, self._workload(template.some)
        if after != before:
            self._unindex(template)
            template.workload = after
            template.owners = _owners(template.some, after)
            self._index(template)
        return before, after

    def _workload(self, meta: ObjectMeta) -> Workload:
        found = workload_of(meta, self._owners)
        return found if found.ordinal is None else replace(found, ordinal=None)

    def _index(self, template: Template) -> None:
        for owner in template.owners:
            self._by_owner.setdefault(owner, {})[template.key] = None

    def _unindex(self, template: Template) -> None:
        for owner in template.owners:
            found = self._by_owner[owner]
            del found[template.key]
            if not found:
                del self._by_owner[owner]


def _same_place(known: ObjectMeta, now: ObjectMeta) -> bool:
    """Whether a pod's metadata says the same of its group."""
    return (
        known.uid == now.uid and known.labels == now.labels and known.owner_references == now.owner_references
    )


def _same(before: GroupedPod, after: GroupedPod) -> bool:
    """Whether nothing differs that matters to a decision."""
    return (
        before.member == after.member
        and before.policy is after.policy
        and before.template is after.template
        and before.facts.node == after.facts.node
        and before.facts.waits == after.facts.waits
    )


def _identity(workload: Workload) -> object:
    """What of a workload says which policy governs its pods and which group they are in."""
    return workload.kind, workload.api_version, workload.name, workload.revision, workload.skip, workload.bare


def _more(template: Template, key: GroupKey) -> None:
    template.groups[key] = template.groups.get(key, 0) + 1


def _less(template: Template, key: GroupKey) -> None:
    left = template.groups[key] - 1
    if left:
        template.groups[key] = left
    else:
        del template.groups[key]


def _owners(metadata: ObjectMeta, workload: Workload) -> tuple[_Owner, ...]:
    """The owners whose change may be one of the workload."""
    made_by = metadata.controller
    if made_by is None:
        return ()
    namespace = metadata.namespace
    above = workload.kind, namespace, workload.name
    return tuple(dict.fromkeys(((made_by.kind, namespace, made_by.name), above)))


def _key(metadata: ObjectMeta) -> _Key:
    controller = metadata.controller
    if controller is None:
        return (metadata.uid, metadata.key, metadata.labels.get(REPLICAS_LABEL, ""))
    said = [metadata.labels.get(label, "") for label in (*REVISIONS, REPLICAS_LABEL)]
    made_by = controller.api_version, controller.kind, controller.name, controller.uid
    mirror = "mirror" if MIRROR in metadata.annotations else ""
    return (metadata.namespace, *made_by, *said, mirror)
