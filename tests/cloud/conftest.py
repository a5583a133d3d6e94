from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
from botocore.loaders import JSONFileLoader

from support.autoscaled import autoscaled
from support.aws import Aws
from support.cluster import Cluster, Host


@pytest.fixture(scope="session")
def served_aws() -> Iterator[Aws]:
    aws = Aws()
    try:
        yield aws
    finally:
        aws.close()


@pytest.fixture(scope="session")
def descriptions_read_once() -> Iterator[None]:
    """Each of boto3's sessions reads the descriptions of its services again: 0.2 s for EC2's alone."""
    read = cache(JSONFileLoader().load_file)

    def load_file(_: JSONFileLoader, file_path: str) -> Any:
        return read(file_path)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(JSONFileLoader, "load_file", load_file)
        yield


@pytest.fixture
def aws(served_aws: Aws, descriptions_read_once: None, monkeypatch: pytest.MonkeyPatch) -> Aws:
    """An account with an empty cluster, found by boto3 through the environment."""
    served_aws.reset()
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    for name, value in served_aws.env.items():
        monkeypatch.setenv(name, value)
    return served_aws


@pytest.fixture(scope="module")
def karpenter() -> Iterator[Host]:
    """A real control plane where Karpenter brings the nodes."""
    with autoscaled("real") as host:
        yield host


@pytest.fixture
def own(karpenter: Host) -> Iterator[Cluster]:
    """A namespace of the test's own there."""
    cluster = Cluster(karpenter)
    try:
        yield cluster
    finally:
        cluster.close()
