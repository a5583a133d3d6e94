"""What the tests of the manifests share: a real API server to judge them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fairlead.rig.controlplane import ControlPlane
from support.rig import programs


@pytest.fixture(scope="session")
def api_server() -> Iterator[ControlPlane]:
    """An API server and nothing else: what is applied stays as it was applied."""
    programs("etcd", "kube-apiserver", "kubectl")
    with ControlPlane() as plane:
        yield plane
