from __future__ import annotations

from collections.abc import Iterator

import pytest

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


@pytest.fixture
def aws(served_aws: Aws, monkeypatch: pytest.MonkeyPatch) -> Aws:
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
