"""An API server that goes away in the middle: a later run ends where an undisturbed one does."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from fairlead.client.api import Client
from fairlead.errors import FairleadError
from fairlead.tenants.apply import Applier, Deadline, Halted
from fairlead.tenants.live_objects import Kinds, objects_of
from fairlead.tenants.plan import plan
from fairlead.tenants.status import find_tenants
from fairlead.tenants.tenant import Tenant
from fairlead.tenants.types import TenantType
from support.faults import Answer, LoseReply, LoseRequest, RequestFault
from support.tenancy import Recorder, Tenancy, run_through, through
from support.tenants import tenant_type

FAULTS: tuple[RequestFault, ...] = (Answer(503, "ServiceUnavailable"), LoseReply(), LoseRequest())

JOB = {
    "apiVersion": "batch/v1",
    "kind": "CronJob",
    "metadata": {"name": "${name}-nightly"},
    "spec": {
        "schedule": "0 0 1 1 *",
        "jobTemplate": {
            "spec": {
                "template": {
                    "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "image"}]}
                }
            }
        },
    },
}


def small(**fields: Any) -> TenantType:
    usual = {"ports": [{"port": 80}], "config": {"A": "1"}, "objects": [JOB]}
    return tenant_type(**{**usual, **fields})


async def bring(client: Client, tenant: Tenant, kind: TenantType) -> None:
    kinds = Kinds(client)
    applier = Applier(kinds)
    await applier.settle(tenant, Deadline(30))  # as the command does: deletions end in their own time
    await applier.carry_out(await plan(kinds, tenant, kind), Deadline(30))


async def remove(client: Client, tenant: Tenant) -> None:
    kinds = Kinds(client)
    held = await objects_of(kinds, tenant.name, tenant.namespace)
    await Applier(kinds).remove(tenant, held, Deadline(30))


class TestOrder:
    async def test_what_others_refer_to_is_applied_first_and_removed_last(self, tenancy: Tenancy) -> None:
        who = Tenant("a", "small", tenancy.home)
        plan_ = Recorder()
        async with through(tenancy.cluster, plan_) as client:
            await bring(client, who, small())
            made, plan_.writes = plan_.refs(), []
            await remove(client, who)
        order = [
            "serviceaccounts/a",
            "configmaps/a",
            "secrets/a",
            "poddisruptionbudgets/a",
            "services/a",
            "deployments/a",
            "cronjobs/a-nightly",
        ]
        assert made == [f"PATCH {one}" for one in order]
        assert plan_.refs() == [f"DELETE {one}" for one in reversed(order)]
        assert tenancy.objects() == {}

    async def test_a_steady_tenant_sees_no_write(self, tenancy: Tenancy) -> None:
        who = Tenant("a", "small", tenancy.home)
        plan_ = Recorder()
        async with through(tenancy.cluster, plan_) as client:
            await bring(client, who, small())
            plan_.writes = []
            await bring(client, who, small())
        assert plan_.writes == []


@pytest.fixture
def ways(count: Callable[[int, int], int]) -> Callable[[int], tuple[RequestFault, ...]]:
    """How a write fails: in each way in turn or, where there is time, in all of them."""
    number = count(1, len(FAULTS))
    return lambda write: tuple(FAULTS[(write + each) % len(FAULTS)] for each in range(number))


Ways = Callable[[int], tuple[RequestFault, ...]]


class TestEveryWrite:
    """Each write in turn fails; then the same command runs undisturbed."""

    async def converge(
        self,
        tenancy: Tenancy,
        steps: Callable[[Client], Awaitable[None]],
        ways: Ways,
        *,
        clean: dict[str, Any],
        writes: int,
        before: Callable[[Client], Awaitable[None]] | None = None,
    ) -> None:
        for number, fault in [(write, fault) for write in range(writes) for fault in ways(write)]:
            async with through(tenancy.cluster, Recorder()) as client:
                if before is not None:
                    await before(client)
            async with through(tenancy.cluster, Recorder(fault, number, for_good=True)) as client:
                with pytest.raises(Halted) as halted:
                    await steps(client)
                assert "run the same command again to go on" in str(halted.value)
            async with through(tenancy.cluster, Recorder()) as client:
                await steps(client)
                assert tenancy.outcome() == clean, f"after {fault} at write {number}"
                await remove(client, Tenant("a", "small", tenancy.home))

    async def test_of_a_creation(self, tenancy: Tenancy, ways: Ways) -> None:
        who = Tenant("a", "small", tenancy.home)
        plan_ = Recorder()
        async with through(tenancy.cluster, plan_) as client:
            await bring(client, who, small())
            clean = tenancy.outcome()
            writes = len(plan_.writes)
            await remove(client, who)
        assert writes == 7
        await self.converge(
            tenancy, lambda client: bring(client, who, small()), ways, clean=clean, writes=writes
        )

    async def test_of_a_change_with_deletions(self, tenancy: Tenancy, ways: Ways) -> None:
        who = Tenant("a", "small", tenancy.home)
        less = small(ports=[], objects=[], config={"B": "2"})
        plan_ = Recorder()
        async with through(tenancy.cluster, plan_) as client:
            await bring(client, who, small())
            plan_.writes = []
            await bring(client, who, less)
            clean = tenancy.outcome()
            writes = len(plan_.writes)
            await remove(client, who)
        # The account, config, Deployment; CronJob and Service go; the account no longer names CronJobs.
        assert writes == 6

        await self.converge(
            tenancy,
            lambda client: bring(client, who, less),
            ways,
            clean=clean,
            writes=writes,
            before=lambda client: bring(client, who, small()),
        )

    async def test_of_a_removal(self, tenancy: Tenancy, ways: Ways) -> None:
        who = Tenant("a", "small", tenancy.home)
        for number, fault in [(write, fault) for write in range(7) for fault in ways(write)]:
            async with through(tenancy.cluster, Recorder()) as client:
                await bring(client, who, small())
            async with through(tenancy.cluster, Recorder(fault, number, for_good=True)) as client:
                with pytest.raises(FairleadError):
                    await remove(client, who)
            async with through(tenancy.cluster, Recorder()) as client:
                await remove(client, who)
            assert tenancy.objects() == {}, f"after {fault} at write {number}"


async def test_a_namespace_without_anything_in_it_is_a_tenant_to_go_on_with(tenancy: Tenancy) -> None:
    name = tenancy.cluster.unique("own")
    tenancy.cluster.owns(f"/api/v1/namespaces/{name}")
    who = Tenant(name, "small", name, own_namespace=True)
    async with through(tenancy.cluster, Recorder(LoseRequest(), 1, for_good=True)) as client:
        with pytest.raises(Halted, match="stopped after 1 of 8 changes"):
            await bring(client, who, small())
    async with through(tenancy.cluster, Recorder()) as client:
        (held,) = await find_tenants(client, name)
        assert (held.name, held.own_namespace, held.progress.reason) == (
            name,
            True,
            "its Deployment is not there",
        )
        await bring(client, who, small())
        assert len(await objects_of(Kinds(client), name, name)) == 8
        await remove(client, who)
    assert tenancy.cluster.try_get("Namespace", name).status == 404


async def test_the_command_says_how_far_it_came_and_goes_on_when_run_again(tenancy: Tenancy) -> None:
    plan_ = Recorder(LoseRequest(), 3, for_good=True)
    code, said = await run_through(tenancy, plan_, "create", "-t", "small", "--name", "a")
    assert code == 1
    assert "stopped after 3 of 6 changes: PodDisruptionBudget" in said
    assert "Traceback" not in said
    assert sorted(tenancy.objects("a")) == ["ConfigMap/a", "Secret/a", "ServiceAccount/a"]
    assert "3 created, 3 unchanged" in tenancy.create("a")


async def test_one_lost_answer_is_nothing_to_speak_of(tenancy: Tenancy) -> None:
    code, said = await run_through(tenancy, Recorder(LoseReply(), 2), "create", "-t", "small", "--name", "a")
    assert (code, said.count("6 created")) == (0, 1)


async def test_an_object_that_took_the_name_meanwhile_is_left_alone(tenancy: Tenancy) -> None:
    who = Tenant("a", "small", tenancy.home)
    async with through(tenancy.cluster, Recorder()) as client:
        kinds = Kinds(client)
        found = await plan(kinds, who, small())
        theirs = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}, "stringData": {"K": "v"}}
        tenancy.cluster.create(theirs)
        with pytest.raises(Halted, match=r"Secret .*/a is taken"):
            await Applier(kinds).carry_out(found, Deadline(30))
    assert "labels" not in tenancy.cluster.get("Secret", "a")["metadata"]
