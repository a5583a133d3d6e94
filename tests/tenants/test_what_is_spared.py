"""What nobody asked to be deleted stays: other namespaces, guests, everything when the file is empty."""

from __future__ import annotations

import pytest

from fairlead.tenants.apply import Applier, Deadline, Halted
from fairlead.tenants.live_objects import Kinds, objects_of
from fairlead.tenants.plan import Change, plan
from support.cluster import Cluster, Host
from support.manifests import config_map
from support.tenancy import Recorder, Tenancy, through
from support.tenants import tenant, tenant_type


def test_pruning_goes_only_where_the_files_tenants_are(tenancy: Tenancy) -> None:
    tenancy.create("innocent")
    other = tenancy.cluster.add_namespace()
    tenancy.cluster.namespace = tenancy.home
    file = tenancy.tenants_file({"name": "x", "type": "small", "namespace": other})
    tenancy.ok("apply", "-f", str(file), "--prune", "--yes")
    assert "innocent" in tenancy.listed()


def test_a_file_without_tenants_deletes_nobody(tenancy: Tenancy) -> None:
    tenancy.create("a")
    for file in (tenancy.tenants_file(), tenancy.write("none.yaml", {"kind": "Tenants"})):
        assert "error: " in tenancy.fails(2, "apply", "-f", str(file), "--prune", "--yes")
    assert "a" in tenancy.listed()


def test_a_tenants_own_namespace_stays_while_guests_are_in_it(tenancy: Tenancy) -> None:
    own = f"{tenancy.home}-own"
    tenancy.cluster.owns(f"/api/v1/namespaces/{own}")
    tenancy.ok("create", "-t", "small", "--name", own, "--namespace-per-tenant")
    tenancy.ok("create", "-t", "small", "--name", "guest", "-n", own)
    said = tenancy.fails(1, "delete", "--name", own, "--yes")
    assert f"its namespace {own} would go with it, and tenants guest are in it" in said
    kept = tenancy.tenants_file({"name": "guest", "type": "small", "namespace": own})
    assert "tenants guest are in it" in tenancy.fails(1, "apply", "-f", str(kept), "--prune", "--yes")
    new = tenancy.tenants_file({"name": "new", "type": "small", "namespace": own}, name="new.yaml")
    assert "tenants new are in it" in tenancy.fails(1, "apply", "-f", str(new), "--prune", "--yes")
    assert set(tenancy.listed("-n", own)) == {own, "guest"}
    tenancy.ok("delete", "--name", own, "--name", "guest", "--yes")
    assert tenancy.listed("-n", own) == {}


@pytest.mark.real
async def test_an_object_in_another_version_of_its_api_is_the_same_object(real_host: Host) -> None:
    cluster = Cluster(real_host)
    try:
        scaled = {
            "kind": "HorizontalPodAutoscaler",
            "metadata": {"name": "${name}"},
            "spec": {
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "${name}"},
                "maxReplicas": 2,
            },
        }
        who = tenant(namespace=cluster.namespace)
        async with through(cluster, Recorder()) as client:
            kinds = Kinds(client)
            first = tenant_type(objects=[{"apiVersion": "autoscaling/v1", **scaled}])
            for step in (await plan(kinds, who, first)).steps:
                await client.apply(await kinds.of(step.item), step.item, manager="fairlead-tenant")
            later = tenant_type(objects=[{"apiVersion": "autoscaling/v2", **scaled}])
            steps = (await plan(kinds, who, later)).steps
        changes = [step.change for step in steps if step.item["kind"] == "HorizontalPodAutoscaler"]
        assert Change.DELETE not in changes
        assert len(changes) == 1
    finally:
        cluster.close()


async def test_what_somebody_else_makes_at_the_same_time_is_not_mixed_with_ours(
    tenancy: Tenancy,
) -> None:
    who = tenant(namespace=tenancy.home)
    async with through(tenancy.cluster, Recorder()) as client:
        kinds = Kinds(client)
        ours = await plan(kinds, who, tenant_type())
        theirs = await plan(kinds, who, tenant_type(name="large"))
        await Applier(kinds).carry_out(theirs, Deadline(10))
        with pytest.raises(Halted, match="was just made for a tenant of type large by another writer"):
            await Applier(kinds).carry_out(ours, Deadline(10))


async def test_what_took_a_name_since_the_plan_is_neither_changed_nor_deleted(
    tenancy: Tenancy,
) -> None:
    who, cluster = tenant(namespace=tenancy.home), tenancy.cluster
    async with through(cluster, Recorder()) as client:
        kinds = Kinds(client)
        await Applier(kinds).carry_out(await plan(kinds, who, tenant_type()), Deadline(10))
        changed = await plan(kinds, who, tenant_type(config={"A": "1"}))
        held = await objects_of(kinds, "a", tenancy.home)
        cluster.delete("ConfigMap", "a")
        cluster.wait(lambda: "ConfigMap/a" not in tenancy.objects("a"), "the ConfigMap to be gone")
        cluster.create(config_map("a"))
        with pytest.raises(Halted):
            await Applier(kinds).carry_out(changed, Deadline(10))
        with pytest.raises(Halted):
            await Applier(kinds).remove(who, held, None)
        assert cluster.get("ConfigMap", "a")["data"] == {"key": "value"}
