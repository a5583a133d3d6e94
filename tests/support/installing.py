"""Ways to install Fairlead, side by side: what chart, command and kustomize make of the same values."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import yaml

from fairlead.install.manifests import DEPLOYMENTS
from fairlead.install.rendering import render
from fairlead.install.values import read_values
from support.rig import programs

Obj = dict[str, Any]
Objects = dict[tuple[str, str, str, str], Obj]

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "charts" / "fairlead"
NAMESPACE = "fairlead-system"
COMPONENTS = tuple(DEPLOYMENTS)
TOGETHER = (
    *([name] for name in COMPONENTS),
    ["scheduler", "webhook", "rebalance"],
    ["scheduler", "webhook", "extender", "rebalance"],
    ["extender", "serve"],
    ["webhook", "burst"],
)


def turned_on(*names: str, **settings: Any) -> Obj:
    """Values in which these components are on and no others."""
    return {"components": {name: {"enabled": name in names, **settings.get(name, {})} for name in COMPONENTS}}


def helm(
    *arguments: str | Path, code: int | None = 0, stdin: str | None = None, **env: str
) -> subprocess.CompletedProcess[str]:
    (binary,) = programs("helm")
    done = subprocess.run(
        [binary, *arguments],
        input=stdin,
        env={"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", **env},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert code is None or done.returncode == code, done.stdout + done.stderr
    return done


def by_chart(values: Obj, namespace: str = NAMESPACE, chart: Path = CHART) -> Objects:
    """What `helm template` renders, tests of the release aside."""
    done = helm("template", "fairlead", chart, "-n", namespace, "-f", "-", stdin=json.dumps(values))
    return keyed(one for one in yaml.safe_load_all(done.stdout) if one and not is_hook(one))


def by_command(values: Obj, namespace: str = NAMESPACE) -> Objects:
    """What `fairlead install` renders, its namespace aside."""
    return keyed(render(read_values([("values", json.dumps(values))]), namespace))


def by_kustomize(folder: Path) -> Objects:
    (kubectl,) = programs("kubectl")
    done = subprocess.run([kubectl, "kustomize", folder], capture_output=True, text=True, check=True)
    return keyed(one for one in yaml.safe_load_all(done.stdout) if one)


def is_hook(item: Obj) -> bool:
    return "helm.sh/hook" in (item["metadata"].get("annotations") or {})


def keyed(objects: Any) -> Objects:
    """The objects by what names them, each once; configuration as what it says, because two programs
    write the same YAML differently.
    """
    found: Objects = {}
    for one in objects:
        key = (one["apiVersion"], one["kind"], one["metadata"].get("namespace", ""), one["metadata"]["name"])
        assert key not in found
        if one["kind"] == "ConfigMap" and "fairlead.yaml" in (one.get("data") or {}):
            one["data"] = {"fairlead.yaml": yaml.safe_load(one["data"]["fairlead.yaml"])}
        found[key] = one
    return found
