from __future__ import annotations

import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any

import moto
import pytest

from fairlead.kube.quantity import value
from fairlead.nodegroups.catalog import FAMILIES, GPU, architecture, instance_type


@cache
def described() -> dict[str, Any]:
    """What EC2 said of its types, as recorded by moto."""
    recorded = Path(str(moto.__file__)).parent / "ec2" / "resources" / "instance_types.json.gz"
    found = json.loads(gzip.decompress(recorded.read_bytes()))
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize("name", [f"{family}.{size}" for family, sizes in FAMILIES.items() for size in sizes])
def test_a_type_is_as_EC2_describes_it(name: str) -> None:
    known, said = instance_type(name), described()[name]
    assert known is not None
    network = said["NetworkInfo"]
    interfaces = network["NetworkCards"][0]["MaximumNetworkInterfaces"]
    gpus = sum(one["Count"] for one in said.get("GpuInfo", {}).get("Gpus", ()))
    assert {resource: value(amount) for resource, amount in known.capacity.items()} == {
        "cpu": said["VCpuInfo"]["DefaultVCpus"],
        "memory": said["MemoryInfo"]["SizeInMiB"] * 2**20,
        "pods": interfaces * (network["Ipv4AddressesPerInterface"] - 1) + 2,
        **({GPU: gpus} if gpus else {}),
    }


def test_the_architecture_of_every_type_that_EC2_has_follows_from_its_name() -> None:
    wrong = [
        name
        for name, said in described().items()
        if not name.startswith("mac")
        and (architecture(name) == "arm64") != (said["ProcessorInfo"]["SupportedArchitectures"] == ["arm64"])
    ]
    assert wrong == []


def test_no_size_of_a_family_in_the_catalogue_is_missing() -> None:
    missing = [
        name
        for name, said in described().items()
        if name.partition(".")[0] in FAMILIES and not said["BareMetal"] and instance_type(name) is None
    ]
    assert missing == []


@pytest.mark.parametrize("name", ["", "t3a", "t3a.", ".medium", "t3a.enormous", "z9.large"])
def test_what_is_not_in_the_catalogue_is_not_known(name: str) -> None:
    assert instance_type(name) is None
