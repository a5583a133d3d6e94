"""Other ways for the real kube-scheduler to ask: with whole nodes, and over HTTPS."""

from __future__ import annotations

import pytest

from fairlead.rig.processes import free_ports
from support.admission import exact
from support.cluster import Cluster, RealHost
from support.extender import calling, extended

pytestmark = pytest.mark.real


def test_a_scheduler_that_sends_whole_nodes_gets_the_same_splits(real_host: RealHost) -> None:
    (port,) = free_ports(1)
    cluster = Cluster(real_host)
    with calling(real_host.plane, port, nodeCacheCapable=False), extended(cluster, port) as corner:
        corner.nodes()
        corner.run()
        corner.deploy("web", 10)
        assert corner.settled("web", 10) == exact(10)
    cluster.close()


def test_a_scheduler_asks_over_https_and_verifies_whom(real_host: RealHost) -> None:
    (port,) = free_ports(1)
    cluster = Cluster(real_host)
    https = {
        "urlPrefix": f"https://127.0.0.1:{port}",
        "enableHTTPS": True,
        "tlsConfig": {"caFile": str(real_host.plane.ca_file)},
    }
    pair = real_host.serving_pair()
    with calling(real_host.plane, port, **https), extended(cluster, port) as corner:
        cert, key = corner.folder / "tls.crt", corner.folder / "tls.key"
        cert.write_bytes(pair.public)
        key.write_bytes(pair.private)
        corner.nodes()
        corner.run(arguments=(f"--tls-cert-file={cert}", f"--tls-key-file={key}"))
        corner.deploy("web", 10)
        assert corner.settled("web", 10) == exact(10)
        assert corner.replicas[0].log("first_call")
    cluster.close()
