"""What cannot be used is said in one line, before any cluster is asked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from fairlead.cli.tenant import command
from fairlead.errors import FairleadError
from support.tenants import plain_types

CREATE = ("create", "-t", "standard")


def refused(*arguments: str) -> str:
    """What it says as it ends with 2."""
    done = CliRunner().invoke(command, [*arguments, "--kubeconfig", "there-is-none"])
    assert isinstance(done.exception, FairleadError), done.output
    assert done.exception.exit_code == 2
    assert done.output == ""
    return str(done.exception)


def test_every_mistake_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty.yaml").write_text("")
    (tmp_path / "broken.yaml").write_text("a: [")
    types = plain_types({"name": "small", "image": "i", "replica": 2})
    (tmp_path / "types.yaml").write_text(yaml.safe_dump(types))
    needy = plain_types({"name": "needy", "image": "i", "config": {"OWNER": "${owner}"}})
    (tmp_path / "needy.yaml").write_text(yaml.safe_dump(needy))
    tenants = {"apiVersion": "fairlead.dev/v1alpha1", "kind": "Tenants"}
    for name, entry in {
        "untyped": {"name": "a"},
        "unknown": {"name": "a", "type": "gold"},
        "misspelt": {"name": "a", "type": "standard", "paramters": {}},
    }.items():
        (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump({**tenants, "tenants": [entry]}))
    for arguments, said in {
        (*CREATE,): "name at least one tenant",
        (*CREATE, "--name", "A"): "tenant 'A': upper case letter 'A' at position 1",
        (*CREATE, "--name", "a", "--name", "a"): "tenant 'a' is named twice",
        ("create", "-t", "gold", "--name", "a"): "there is no tenant type 'gold'; the default",
        (*CREATE, "--name", "a", "--set", "x"): "--set 'x': expected NAME=VALUE",
        (*CREATE, "--name", "a", "--set", "x=y"): "type standard has no parameter 'x'; there are: config,",
        (
            *CREATE,
            "--name",
            "a",
            "--set",
            "replicas=two",
        ): "parameter 'replicas' of type standard: 'two' is not",
        ("create", "-t", "needy", "--name", "a", "--types", "needy.yaml"): (
            "tenant a: type needy needs the parameter 'owner': --set owner=VALUE"
        ),
        (*CREATE, "--name", "a", "--timeout", "soon"): "--timeout: 'soon' is not a duration",
        (*CREATE, "--name", "a", "--types", "no.yaml"): "no.yaml: cannot be read",
        (*CREATE, "--name", "a", "--types", "broken.yaml"): "broken.yaml: is neither YAML nor JSON",
        (
            *CREATE,
            "--name",
            "a",
            "--types",
            "types.yaml",
        ): "tenant type small: replica: there is no such field",
        (*CREATE, "--name", "a", "-f", "empty.yaml"): "no objects in empty.yaml",
        ("apply", "-f", "types.yaml"): "types.yaml: kind: 'TenantTypes' is not 'Tenants'",
        ("apply", "-f", "untyped.yaml"): "untyped.yaml: tenants[0]: Object missing required field `type`",
        ("apply", "-f", "unknown.yaml"): "unknown.yaml: tenant a: there is no tenant type 'gold'",
        ("apply", "-f", "misspelt.yaml"): "tenants[0]: Object contains unknown field `paramters`",
        ("apply", "-f", "untyped.yaml", "-A"): "--all-namespaces goes with --prune",
        ("delete",): "name at least one tenant",
        ("show",): "name at least one tenant",
        ("list",): "there-is-none: cannot be read",
    }.items():
        assert said in refused(*arguments)


def types(*arguments: str) -> str:
    done = CliRunner().invoke(command, ["types", *arguments])
    assert done.exit_code == 0, done.output
    return done.output


@pytest.mark.parametrize("form", ["yaml", "json"])
def test_printed_types_are_a_file_of_types(tmp_path: Path, form: str) -> None:
    file = tmp_path / "types.yaml"
    file.write_text(types("-o", form))
    said: Any = yaml.safe_load(types("--types", str(file), "-o", "yaml"))
    assert [one["name"] for one in said["types"]] == ["standard", "premium"]
    assert types("--types", str(file), "-o", "table") == types("-o", "table")
