"""Other ways for the real kube-scheduler to ask: with whole nodes, and over HTTPS."""

from __future__ import annotations

import http.client
import json
import ssl
from pathlib import Path

import pytest

from fairlead.client.authority import Authority
from fairlead.doors.extender.configuration import Wanted, extender_entry
from fairlead.rig.processes import free_ports
from support.admission import exact
from support.cluster import Cluster, RealHost
from support.extender import calling, extended
from support.wire import PATIENCE_S

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


def test_both_ends_of_https_verify_each_other(real_host: RealHost, tmp_path: Path) -> None:
    (port,) = free_ports(1)
    cluster = Cluster(real_host)
    # As behind a Service: called by address, certified by name only.
    service = "fairlead-extender.fairlead-system.svc"
    servers, callers = Authority(), Authority()
    (tmp_path / "servers.pem").write_bytes(servers.pair.public)
    (tmp_path / "callers.pem").write_bytes(callers.pair.public)
    for name, pair in (
        ("server", servers.server([service], [])),
        ("client", callers.client("kube-scheduler")),
    ):
        (tmp_path / f"{name}.crt").write_bytes(pair.public)
        (tmp_path / f"{name}.key").write_bytes(pair.private)
    wanted = Wanted(
        f"https://127.0.0.1:{port}",
        str(tmp_path / "servers.pem"),
        cert_file=str(tmp_path / "client.crt"),
        key_file=str(tmp_path / "client.key"),
        server_name=service,
    )
    flags = (
        f"--tls-cert-file={tmp_path / 'server.crt'}",
        f"--tls-key-file={tmp_path / 'server.key'}",
        f"--client-ca-file={tmp_path / 'callers.pem'}",
    )
    with calling(real_host.plane, port, **extender_entry(wanted)), extended(cluster, port) as corner:
        corner.nodes()
        corner.run(arguments=flags)
        # Who shows nothing is told so, and is no scheduler.
        anybody = ssl.create_default_context(cadata=servers.pair.public.decode())
        anybody.check_hostname = False  # http.client cannot expect another name than it calls
        connection = http.client.HTTPSConnection("127.0.0.1", port, context=anybody, timeout=PATIENCE_S)
        connection.request("POST", "/filter", "{}")
        answer = connection.getresponse()
        assert answer.status == 401
        assert "--client-ca-file" in json.loads(answer.read())["Error"]
        connection.close()
        assert not corner.replicas[0].log("first_call")

        corner.deploy("web", 10)
        assert corner.settled("web", 10) == exact(10)
        assert corner.replicas[0].log("first_call")
    cluster.close()
