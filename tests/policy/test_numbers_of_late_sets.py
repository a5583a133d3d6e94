"""A StatefulSet's pod may be seen before the set: it gets its number once the set is known."""

from __future__ import annotations

from fairlead.kube.decode import convert
from fairlead.kube.pod import Pod
from fairlead.kube.workloads import Workload
from fairlead.policy.groups.index import GroupIndex
from fairlead.policy.groups.member import facts_of
from fairlead.policy.rule.matching import Policies
from support.policies import policy
from support.units import pod, workload

OWNER = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": "uid-db", "controller": True}


def test_a_pod_gets_its_number_once_its_set_is_known() -> None:
    index = GroupIndex()
    index.use(Policies([policy("p")]), tuple)
    for number in range(3):
        index.pod(f"db-{number}", facts_of(convert(pod(f"db-{number}", owner=OWNER), Pod)))
    (key,) = index.groups
    assert [member.ordinal for member in index.members(key)] == [None] * 3
    thing = workload("StatefulSet", "db", replicas=3)
    thing["metadata"]["uid"] = "uid-db"
    index.owner("StatefulSet", convert(thing, Workload))
    assert [member.ordinal for member in index.members(key)] == [0, 1, 2]
    thing["spec"]["ordinals"] = {"start": 1}
    index.owner("StatefulSet", convert(thing, Workload))
    assert [member.ordinal for member in index.members(key)] == [None, 0, 1]
