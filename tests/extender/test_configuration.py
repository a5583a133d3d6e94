"""`fairlead extender config`: what is printed works as it is printed."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from fairlead.client.authority import Authority
from fairlead.doors.extender.configuration import Wanted, written
from fairlead.rig.processes import free_ports
from fairlead.world.patches import json_patch
from support.admission import exact
from support.cluster import Cluster, RealHost
from support.command import run_command
from support.extender import Extended, extended

NAME = "fairlead-extender.fairlead-system.svc"


def printed(*arguments: str, code: int = 0) -> str:
    """What the command says."""
    done = run_command("extender", "config", *arguments)
    assert done.returncode == code, done.stderr
    return done.stdout if code == 0 else done.stderr


def documents(*arguments: str) -> list[Any]:
    return list(yaml.safe_load_all(printed(*arguments)))


def test_every_node_is_scored_and_a_missing_extender_stops_nobody() -> None:
    (config,) = documents("--url=http://10.0.0.5:9444/")
    (entry,) = config["extenders"]

    assert config["percentageOfNodesToScore"] == 100
    assert entry["urlPrefix"] == "http://10.0.0.5:9444"
    assert (entry["nodeCacheCapable"], entry["ignorable"]) == (True, True)
    assert [entry[verb] for verb in ("filterVerb", "prioritizeVerb", "preemptVerb")] == [
        "filter",
        "prioritize",
        "preempt",
    ]


def test_it_says_how_to_verify_and_how_to_go_back() -> None:
    for more in ((), ("--kubeadm",)):
        text = printed("--url=http://10.0.0.5:9444", *more)
        assert "# Verify" in text
        assert "http://10.0.0.5:9444/readyz" in text
        assert "# Roll back" in text


def test_https_with_and_without_an_authority() -> None:
    (config,) = documents("--url=https://10.0.0.5:9444", "--ca-file=/etc/ca.pem")
    assert config["extenders"][0]["tlsConfig"] == {"caFile": "/etc/ca.pem"}
    text = printed("--url=https://10.0.0.5:9444")
    assert "does not verify" in text
    assert yaml.safe_load(text)["extenders"][0]["enableHTTPS"] is True


def test_a_name_is_warned_about_because_hosts_do_not_resolve_it() -> None:
    assert "no *.svc name resolves" in printed("--url=http://fairlead-extender.fairlead-system.svc:9444")
    assert "no *.svc name resolves" not in printed("--url=http://10.0.0.5:9444")


@pytest.mark.parametrize(
    "url",
    [
        "10.0.0.5:9444",
        "ftp://10.0.0.5",
        "http://",
        "http://a/b?c=d",
        "http://10.0.0.5:99999",
        "http://10.0.0.5:port",
        "http://[::1",
        "http://0.0.0.0:9444",
        "http://[::]:9444",
    ],
)
def test_an_address_that_could_not_work_is_refused(url: str) -> None:
    said = printed(f"--url={url}", code=2)
    assert "--url" in said
    assert "Traceback" not in said


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--ca-file=/ca.pem",), "--ca-file is for an address with https"),
        (
            ("--client-cert-file=/a", "--client-key-file=/b"),
            "--client-cert-file is for an address with https",
        ),
        (("--client-cert-file=/a",), "go together"),
        (("--https",), "--https goes with --service"),
        (("--scheduler-kubeconfig=scheduler.conf",), "--scheduler-kubeconfig"),
    ],
)
def test_flags_that_do_not_go_together_are_refused(flags: tuple[str, ...], said: str) -> None:
    assert said in printed("--url=http://10.0.0.5:9444", *flags, code=2)


def test_whatever_the_configuration_names_is_mounted_into_the_static_pod() -> None:
    files = ("--ca-file=/fl/ca.pem", "--client-cert-file=/fl/client.crt", "--client-key-file=/fl/client.key")
    text = printed("--url=https://10.0.0.5:9444", *files, "--kubeadm")
    config, patch = yaml.safe_load_all(text)
    mounted = {step["value"]["mountPath"] for step in patch if step["path"].endswith("/volumeMounts/-")}

    tls = config["extenders"][0]["tlsConfig"]
    assert tls == {"caFile": "/fl/ca.pem", "certFile": "/fl/client.crt", "keyFile": "/fl/client.key"}
    assert set(tls.values()) < mounted
    assert len({step["value"]["name"] for step in patch if step["path"] == "/spec/volumes/-"}) == 4
    assert text.count("#          hostPath: ") == 4


def test_the_patch_for_kubeadm_applies_to_its_static_pod() -> None:
    config, patch = documents("--url=http://10.0.0.5:9444", "--kubeadm")
    manifest = {
        "apiVersion": "v1",
        "kind": "Pod",
        "spec": {
            "containers": [
                {
                    "name": "kube-scheduler",
                    "command": ["kube-scheduler", "--kubeconfig=/etc/kubernetes/scheduler.conf"],
                    "volumeMounts": [{"name": "kubeconfig", "mountPath": "/etc/kubernetes/scheduler.conf"}],
                }
            ],
            "volumes": [{"name": "kubeconfig", "hostPath": {"path": "/etc/kubernetes/scheduler.conf"}}],
        },
    }
    changed = json_patch(manifest, patch)
    (container,) = changed["spec"]["containers"]

    assert config["clientConnection"]["kubeconfig"] == "/etc/kubernetes/scheduler.conf"
    file = container["command"][-1].removeprefix("--config=")
    assert [mount["mountPath"] for mount in container["volumeMounts"]][-1] == file
    assert changed["spec"]["volumes"][-1]["hostPath"]["path"] == file


def test_the_address_is_the_services_cluster_ip(cluster: Cluster) -> None:
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "fairlead-extender"},
        "spec": {"ports": [{"port": 9444}], "selector": {"app": "fairlead"}},
    }
    address = f"{cluster.create(service)['spec']['clusterIP']}:9444"
    flags = (f"--kubeconfig={cluster.kubeconfig}", f"--system-namespace={cluster.namespace}")
    (config,) = documents(*flags)

    assert config["extenders"][0]["urlPrefix"] == f"http://{address}"
    assert "no Service other" in printed(*flags, "--service=other", code=2)

    # Certificates have its name, not its address.
    name = f"fairlead-extender.{cluster.namespace}.svc"
    text = printed(*flags, "--https", "--ca-file=/fl/ca.pem")
    (entry,) = yaml.safe_load(text)["extenders"]
    assert entry["urlPrefix"] == f"https://{address}"
    assert entry["tlsConfig"] == {"caFile": "/fl/ca.pem", "serverName": name}
    assert f"--cacert /fl/ca.pem --connect-to {name}:9444:{address} https://{name}:9444/readyz" in text
    (config,) = documents(*flags, "--https")
    assert config["extenders"][0]["tlsConfig"] == {"insecure": True}


@pytest.mark.skipif(shutil.which("curl") is None, reason="runs curl")
def test_the_printed_check_says_ok_only_where_kube_schedulers_tls_would(
    cluster: Cluster, tmp_path: Path
) -> None:
    (port,) = free_ports(1)
    authority = Authority()
    pair = authority.server([NAME], [])
    files = {"ca.pem": authority.pair.public, "tls.crt": pair.public, "tls.key": pair.private}
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    named = Wanted(f"https://127.0.0.1:{port}", str(tmp_path / "ca.pem"), server_name=NAME)

    def check(wanted: Wanted) -> tuple[int, str]:
        found = re.search(r"^#   (curl .*/readyz)$", written(wanted, kubeadm=False), re.MULTILINE)
        assert found
        done = subprocess.run(shlex.split(found[1]), capture_output=True, text=True, check=False)
        return done.returncode, done.stdout

    with extended(cluster, port) as own:
        own.run(
            arguments=(f"--tls-cert-file={tmp_path / 'tls.crt'}", f"--tls-key-file={tmp_path / 'tls.key'}")
        )
        assert check(named) == (0, "ok")
        # curl's 60: the certificate is for somebody else.
        assert check(replace(named, server_name="other.fairlead-system.svc")) == (60, "")
        assert check(replace(named, server_name="")) == (60, "")


@pytest.fixture
def configured(real_host: RealHost) -> Any:
    """A corner whose kube-scheduler has nothing but the printed configuration."""
    plane = real_host.plane
    (port,) = free_ports(1)
    kubeconfig = plane.kubeconfig_for("system:kube-scheduler")
    (config,) = documents(f"--url=http://127.0.0.1:{port}", f"--scheduler-kubeconfig={kubeconfig}")
    file = Path(plane.folder) / "printed.yaml"
    file.write_text(yaml.safe_dump(config))
    plane.stop_program("kube-scheduler")
    try:
        plane.start_scheduler(arguments=(f"--config={file}",))
        cluster = Cluster(real_host)
        with extended(cluster, port) as own:
            yield own
        cluster.close()
    finally:
        if "kube-scheduler" in plane.programs:
            plane.stop_program("kube-scheduler")
        plane.start_scheduler(qps=500)


@pytest.mark.real
def test_the_real_kube_scheduler_takes_what_is_printed(configured: Extended) -> None:
    configured.nodes()
    configured.run()
    configured.deploy("web", 10)

    assert configured.settled("web", 10) == exact(10)
    assert "fairlead_extender_never_called 0.0" in configured.read("/metrics")[1]
