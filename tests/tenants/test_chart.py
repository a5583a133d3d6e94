"""The chart renders what the command applies: same types, same parameters, same objects."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.errors import FairleadError
from fairlead.kube.resources import BUILT_IN as RESOURCES
from fairlead.tenants.manifests import render
from fairlead.tenants.tenant import Tenant, merged, place
from fairlead.tenants.types import default_text, default_types, read_types
from support.rig import programs
from support.tenancy import Tenancy
from support.tenants import plain_types

CHART = Path(__file__).parents[2] / "charts" / "fairlead-tenant"

# A type that uses every field, and placeholders in every position.
RICH: dict[str, Any] = {
    "name": "rich",
    "namespace": "team-${name}",
    "parameters": {"replicas": 2, "tag": "1.10", "hosts": ["a", "b"], "config": {"A": 1}, "loud": False},
    "image": "registry.example/${name}:${tag}",
    "replicas": "${replicas}",
    "nodeLabels": {"size": "large", "generation": 7, "for-${name}": True},
    "tolerations": [
        "size=large:NoSchedule",
        "alone:NoExecute",
        {"key": "x", "operator": "Exists", "effect": "", "tolerationSeconds": 30},
    ],
    "exclusive": "${loud}",
    "schedulerName": "fairlead",
    "resources": {"requests": {"cpu": "250m", "memory": "64Mi"}},
    "ports": [{"port": 80, "targetPort": 8080, "name": "http"}, {"port": 9090, "protocol": "UDP"}],
    "config": "${config}",
    "secret": {"TOKEN": "of ${name} & <friends> $${not-this}", "NUMBER": 5},
    "quota": {"pods": 4, "requests.cpu": "2"},
    "network": {"policyTypes": ["Ingress"], "ingress": []},
    "disruption": {"minAvailable": 0},
    "strategy": {"type": "Recreate"},
    "pod": {
        "hostNetwork": False,
        "affinity": {
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {"labelSelector": {"matchLabels": {"a": "b"}}, "topologyKey": "zone"}
                ]
            }
        },
    },
    "container": {"args": "${hosts}", "env": [{"name": "WHO", "value": "${type}/${name}"}], "tty": False},
    "objects": [
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": "${name}-setup", "labels": {"step": 1}, "annotations": {"note": 2}},
            "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": []}}, "backoffLimit": 0},
        },
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "${name}-more"}, "data": {}},
    ],
    "dependsOn": {"Deployment/${name}": ["Job/${name}-setup", "ConfigMap/${name}-more"]},
}


CONFIG_MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, "data": {}}


def helm(*arguments: str, code: int = 0, stdin: str | None = None) -> str:
    (binary,) = programs("helm")
    done = subprocess.run(
        [binary, *arguments], input=stdin, capture_output=True, text=True, check=False, timeout=120
    )
    assert (done.returncode == 0) == (code == 0), f"{done.returncode}: {done.stdout}{done.stderr}"
    return done.stdout if code == 0 else done.stderr


def template(release: str, values: dict[str, Any], *flags: str, code: int = 0) -> str:
    # Values as JSON, which YAML reads as it is.
    arguments = ("template", release, str(CHART), "-n", "shop", "-f", "-", *flags)
    return helm(*arguments, code=code, stdin=json.dumps(values, ensure_ascii=False))


def charted(release: str, **values: Any) -> dict[str, Any]:
    return by_ref(yaml.safe_load_all(template(release, values)))


def by_ref(objects: Any) -> dict[str, Any]:
    found = [one for one in objects if one is not None]
    refs = {f"{one['kind']}/{one['metadata']['name']}": one for one in found}
    assert len(refs) == len(found)
    return refs


def ours(kind: str, name: str, parameters: dict[str, Any], text: str = "") -> dict[str, Any]:
    types = read_types(yaml.safe_load_all(text), "types.yaml") if text else default_types()
    namespace, own = place(types[kind], name, "shop")
    return by_ref(render(Tenant(name, kind, namespace, parameters, own), types[kind]))


def test_the_chart_has_the_default_types() -> None:
    assert (CHART / "files" / "tenant-types.yaml").read_text() == default_text()


@pytest.mark.real
def test_the_chart_is_without_fault() -> None:
    assert "0 chart(s) failed" in helm("lint", "--strict", str(CHART))


@pytest.mark.real
@pytest.mark.parametrize("kind", ["standard", "premium"])
def test_default_types_are_rendered_alike(kind: str) -> None:
    given = {"replicas": 3, "config": {"LOG": "debug"}, "secret": {"KEY": "s3cret"}, "cpu": "1"}
    assert charted("a", type=kind) == ours(kind, "a", {})
    assert charted("a", type=kind, parameters=given) == ours(kind, "a", given)
    assert charted("release", type=kind, name="b") == ours(kind, "b", {})


@pytest.mark.real
def test_every_field_of_a_type_is_rendered_alike() -> None:
    text = yaml.safe_dump(plain_types(RICH))
    numbers = {"B": 0.5, "C": 1.0, "D": 0.00001, "E": 10**7}
    given = {"loud": True, "tag": 2, "hosts": [], "config": {"A": "no", **numbers}, "replicas": "7"}
    assert charted("a", type="rich", types=text) == ours("rich", "a", {}, text)
    assert charted("a", type="rich", types=text, parameters=given) == ours("rich", "a", given, text)


def texts() -> st.SearchStrategy[str]:
    return st.text(
        st.characters(codec="utf-8", exclude_categories=["Cs", "Cc", "Cn"], include_characters="${}\n"),
        max_size=12,
    )


@pytest.mark.real
@pytest.mark.slow
def test_whatever_parameters_hold_is_rendered_alike(count: Callable[[int, int], int]) -> None:
    types = plain_types(
        {
            "name": "any",
            "image": "i",
            "parameters": {"text": "", "number": 0, "yes": False, "list": [], "map": {}},
            "config": {"whole": "${text}", "part": "<${text}|${number}|${yes}>", "k-${number}": "x"},
            "container": {"args": "${list}"},
            "pod": {"hostname": "${text}", "overhead": "${map}"},
            "replicas": "${number}",
            "exclusive": "${yes}",
        }
    )
    text = yaml.safe_dump(types)

    @settings(max_examples=count(8, 150), deadline=None)
    @given(
        st.fixed_dictionaries(
            {},
            optional={
                "text": texts(),
                "number": st.integers(0, 2**31 - 1),
                "yes": st.booleans(),
                "list": st.lists(texts(), max_size=3),
                "map": st.dictionaries(st.text("abc", min_size=1), st.integers(0, 10**9), max_size=3),
            },
        )
    )
    def alike(parameters: dict[str, Any]) -> None:
        assert charted("a", type="any", types=text, parameters=parameters) == ours(
            "any", "a", parameters, text
        )

    alike()


@pytest.mark.real
def test_without_a_number_of_replicas_both_leave_it_to_somebody_else() -> None:
    text = yaml.safe_dump(plain_types({"name": "small", "image": "i", "replicas": None}))
    made = charted("a", type="small", types=text)
    assert made == ours("small", "a", {}, text)
    assert "replicas" not in made["Deployment/a"]["spec"]


@pytest.mark.real
@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"type": "gold"}, 'there is no tenant type "gold"; there are: standard, premium'),
        ({"name": "Bad_Name"}, 'tenant "Bad_Name": names are of lower case letters'),
        ({"parameters": {"colour": "red"}}, 'type standard has no parameter "colour"; there are: config'),
        ({"parameters": {"replicas": "many"}}, "many is not a whole number"),
        ({"parameters": {"name": "b"}}, 'parameter "name" comes from the tenant itself'),
        ({"types": "types: []"}, "values.types: is not apiVersion fairlead.dev/v1alpha1"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_what_the_command_refuses_the_chart_refuses(values: dict[str, Any], said: str) -> None:
    assert said in template("a", values, code=1)


@pytest.mark.real
@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"image": "${image}"}, 'type small needs the parameter "image": --set parameters.image=VALUE'),
        ({"colour": "red"}, "colour: there is no such field"),
        ({"tolerations": ["size=large:NO_SCHEDULE"]}, "tolerations[0]"),
        ({"pod": {"nodeSelector": {}}}, "pod.nodeSelector: may not be said here"),
        ({"config": {"A": "${a b}"}}, "is not a placeholder like ${name}"),
        ({"tolerations": [{"key": "a", "efect": "NoSchedule"}]}, "tolerations[0].efect: there is no such"),
        ({"tolerations": [{"key": "a", "effect": "NO_SCHEDULE"}]}, "tolerations[0].effect"),
        ({"dependsOn": {"Deployment/nowhere": ["Foo/bar"]}}, "there is no Deployment/nowhere among"),
        ({"image": 5}, "image: is not a text"),
        ({"replicas": "many"}, "replicas: many is not a whole number"),
        ({"exclusive": "yes"}, "exclusive: yes is neither true nor false"),
        ({"namespace": 5}, "namespace: is neither true, false nor a name"),
        ({"parameters": {"a b": "x"}}, "parameters.a b: is not a parameter's name"),
        ({"parameters": {"name": "x"}}, "parameters.name: every tenant has this parameter by itself"),
        ({"objects": [CONFIG_MAP, CONFIG_MAP]}, "objects: there are two of ConfigMap/x"),
        ({"objects": [CONFIG_MAP | {"kind": "Namespace"}]}, "Namespace belongs to no namespace"),
    ],
)
def test_types_that_cannot_be_used_are_refused(fields: dict[str, Any], said: str) -> None:
    types = yaml.safe_dump(plain_types({"name": "small", "image": "i", **fields}))
    assert said in template("a", {"type": "small", "types": types}, code=1)
    with pytest.raises(FairleadError):
        ours("small", "a", {}, types)


@pytest.mark.real
@pytest.mark.parametrize(
    ("others", "said"),
    [
        ([{"name": "small", "image": "i"}], 'there are two tenant types "small"'),
        ([{"name": "Large", "image": "i"}], 'tenant type "Large": names are of lower case letters'),
        ([{"image": "i"}], "types[1].name: is missing"),
        (
            [{"name": "large", "image": "i", "colour": "red"}],
            "tenant type large: colour: there is no such field",
        ),
    ],
)
def test_a_file_of_types_is_refused_for_any_of_them(others: list[dict[str, Any]], said: str) -> None:
    types = yaml.safe_dump(plain_types({"name": "small", "image": "i"}, *others))
    assert said in template("a", {"type": "small", "types": types}, code=1)
    with pytest.raises(FairleadError):
        ours("small", "a", {}, types)


def test_the_chart_knows_every_kind_that_belongs_to_no_namespace() -> None:
    text = (CHART / "templates" / "_objects.tpl").read_text()
    for resource in RESOURCES:
        assert (f'"{resource.api_version}/{resource.kind}"' in text) or resource.namespaced, resource


@pytest.mark.real
@pytest.mark.slow
def test_what_helm_installs_is_what_the_command_applies(tenancy: Tenancy, tmp_path: Path) -> None:
    cluster = tenancy.cluster
    tenancy.ok("create", "-t", "small", "--name", "a", "--set", "config.LOG=debug", "--set", "secret.KEY=x")
    applied = tenancy.outcome("a")
    tenancy.ok("delete", "--name", "a", "-n", tenancy.home, "--yes")
    cluster.wait(lambda: not tenancy.objects("a"), "the tenant to be gone")

    flags = [f"--kubeconfig={cluster.kubeconfig}", f"--namespace={tenancy.home}"]
    flags += ["--set=type=small", f"--set-file=types={tenancy.types_file}"]
    flags += ["--set=parameters.config.LOG=debug", "--set=parameters.secret.KEY=x"]
    helm("install", "a", str(CHART), *flags)
    assert tenancy.outcome("a") == {ref: helmed(one, tenancy.home) for ref, one in applied.items()}
    assert tenancy.listed()["a"]["helmRelease"] == "a"
    cluster.wait(
        lambda: tenancy.objects("a")["Deployment/a"].get("status", {}).get("replicas") == 1,
        "the tenant's pod",
    )
    helm("uninstall", "a", *flags[:2])
    cluster.wait(lambda: not tenancy.objects("a"), "the tenant to be gone")


def helmed(item: dict[str, Any], namespace: str) -> dict[str, Any]:
    """The object as Helm marks it: as its own."""
    label = {"labels": {"app.kubernetes.io/managed-by": "Helm"}}
    notes = {"meta.helm.sh/release-name": "a", "meta.helm.sh/release-namespace": namespace}
    return merged(merged(item, label), {"annotations": notes})
