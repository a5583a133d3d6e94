"""Tenant types are data: what a file may say, and what is said of one that cannot be used."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead.errors import BadInput, BadObject, FairleadError
from fairlead.tenants.types import default_types, read_types
from support.tenants import plain_types, tenant_type


def refused(**fields: Any) -> str:
    with pytest.raises(FairleadError) as error:
        tenant_type(**fields)
    assert error.value.exit_code == 2
    return str(error.value)


class TestDefaults:
    def test_there_are_standard_and_premium(self) -> None:
        types = default_types()
        assert {name: one.template["nodeLabels"] for name, one in types.items()} == {
            "standard": {"size": "medium"},
            "premium": {"size": "large"},
        }

    def test_they_leave_the_scheduler_and_the_namespace_to_the_cluster(self) -> None:
        for one in default_types().values():
            assert "schedulerName" not in one.template
            assert one.namespace is False
            assert one.required == ()

    def test_they_have_one_replica(self) -> None:
        assert {one.parameters["replicas"] for one in default_types().values()} == {1}


class TestFiles:
    def test_a_parameter_without_a_default_has_to_be_given(self) -> None:
        assert tenant_type(parameters={"a": None, "b": "x"}, config={"C": "${c}"}).required == ("a", "c")

    @pytest.mark.parametrize(
        ("fields", "said"),
        [
            ({"nodeLabel": {}}, "types.yaml: tenant type small: nodeLabel: there is no such field"),
            ({"replicas": "many"}, "tenant type small: replicas: "),
            ({"replicas": -1}, "replicas: -1 is negative"),
            ({"exclusive": "perhaps"}, "exclusive: "),
            ({"ports": [{"port": 70000}]}, "ports[0].port: 70000 is not between 1 and 65535"),
            ({"ports": [{"prot": 1}]}, "ports[0]"),
            ({"config": [1]}, "config: Expected `object`, got `array`"),
            ({"config": {"A": "${"}}, "config.A: '${' is not a placeholder like ${name}"),
            ({"config": {"A": "${X:-y}"}}, "for a plain ${ write $${"),
            ({"parameters": {"name": "x"}}, "parameters.name: every tenant has this parameter by itself"),
            ({"parameters": {"a b": "x"}}, "parameters.a b: "),
            ({"parameters": {"a": "${b}"}}, "parameters.a: a default may use name, namespace, type"),
            ({"parameters": [1]}, "parameters: expected an object, got list"),
            ({"namespace": 3}, "namespace: is neither true, false nor a name"),
            ({"namespace": "x-${a}"}, "namespace: only ${name} and ${type} may be used here"),
            ({"name": "Small"}, "upper case letter 'S' at position 1"),
            ({"name": 3}, "types[0].name: is not a text"),
        ],
    )
    def test_what_cannot_be_used_is_named(self, fields: dict[str, Any], said: str) -> None:
        assert said in refused(**fields)

    def test_an_image_is_needed(self) -> None:
        with pytest.raises(BadObject, match="tenant type small: image: is missing"):
            read_types([plain_types({"name": "small"})], "types.yaml")

    @pytest.mark.parametrize(
        ("document", "said"),
        [
            ({"kind": "TenantTypes"}, "types.yaml: apiVersion: None is not"),
            (
                {"apiVersion": "fairlead.dev/v1alpha1", "kind": "Tenants"},
                "kind: 'Tenants' is not 'TenantTypes'",
            ),
            ({**plain_types(), "typs": []}, "types.yaml: .*typs"),
            ({**plain_types(), "types": [1]}, r"types\[0\]: Expected `object`"),
            ({**plain_types(), "types": []}, "types.yaml: has no tenant types"),
            ([], "types.yaml: "),
        ],
    )
    def test_another_document_is_refused(self, document: object, said: str) -> None:
        with pytest.raises(FairleadError, match=said):
            read_types([document], "types.yaml")

    def test_two_types_of_one_name_are_refused(self) -> None:
        twice = plain_types({"name": "a", "image": "i"}, {"name": "a", "image": "i"})
        with pytest.raises(BadInput, match="there are two tenant types 'a'"):
            read_types([twice], "types.yaml")
