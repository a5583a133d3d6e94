"""Which API server, and as whom: kubeconfig files, merged as kubectl does, or the pod's own account."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any, NoReturn

import pytest
import yaml

from fairlead.client.config import Target, load
from fairlead.errors import BadKubeconfig


def config(
    *,
    server: str = "https://one",
    user: dict[str, Any] | None = None,
    cluster: dict[str, Any] | None = None,
    name: str = "dev",
    current: str | None = "dev",
    namespace: str = "",
) -> dict[str, Any]:
    written: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": {"server": server, **(cluster or {})}}],
        "users": [{"name": name, "user": {"token": "t"} if user is None else user}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name, "namespace": namespace}}],
    }
    if current:
        written["current-context"] = current
    return written


def write(path: Path, data: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(data if isinstance(data, str) else yaml.safe_dump(data))
    return path


def find(tmp_path: Path, flag: Path | None = None, *, context: str | None = None, **environ: str) -> Target:
    return load(
        flag, context=context, environ=environ, home=tmp_path / "home", service_account=tmp_path / "account"
    )


class TestWhereItIsLookedFor:
    @pytest.fixture
    def everywhere(self, tmp_path: Path) -> Path:
        write(tmp_path / "flag", config(server="https://flag"))
        write(tmp_path / "env", config(server="https://env"))
        write(tmp_path / "home/.kube/config", config(server="https://home"))
        write(tmp_path / "account/token", "from-the-pod")
        write(tmp_path / "account/ca.crt", "CA")
        write(tmp_path / "account/namespace", "shop")
        return tmp_path

    IN_A_POD = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "6443"}

    def test_the_flag_wins(self, everywhere: Path) -> None:
        found = find(everywhere, everywhere / "flag", KUBECONFIG=str(everywhere / "env"), **self.IN_A_POD)
        assert found.server.url == "https://flag"

    def test_then_the_environment(self, everywhere: Path) -> None:
        found = find(everywhere, KUBECONFIG=str(everywhere / "env"), **self.IN_A_POD)
        assert found.server.url == "https://env"

    def test_then_the_pods_own_account(self, everywhere: Path) -> None:
        found = find(everywhere, **self.IN_A_POD)
        assert found.server.url == "https://10.0.0.1:6443"
        assert found.user.token_file == everywhere / "account/token"
        assert found.namespace == "shop"
        assert found.server.ca is not None
        assert found.server.ca.read() == "CA"

    def test_a_pods_ipv6_address_is_put_in_brackets(self, everywhere: Path) -> None:
        assert find(everywhere, KUBERNETES_SERVICE_HOST="fd00::1").server.url == "https://[fd00::1]:443"

    def test_then_the_home_directory(self, everywhere: Path) -> None:
        assert find(everywhere).server.url == "https://home"

    def test_a_user_without_a_home_directory_needs_none_in_a_pod(
        self, everywhere: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def unknown(user: int) -> NoReturn:
            raise KeyError(f"getpwuid(): uid not found: {user}")

        monkeypatch.delenv("HOME")
        monkeypatch.setattr("pwd.getpwuid", unknown)
        account = everywhere / "account"
        assert load(environ=self.IN_A_POD, service_account=account).server.url == "https://10.0.0.1:6443"
        with pytest.raises(BadKubeconfig, match="there is no home folder"):
            load(environ={}, service_account=account)

    def test_nowhere_is_an_error_that_says_where(self, tmp_path: Path) -> None:
        with pytest.raises(BadKubeconfig, match=r"home/\.kube/config does not exist"):
            find(tmp_path)


class TestMerging:
    def test_the_first_file_to_name_an_entry_has_it_whole(self, tmp_path: Path) -> None:
        first = write(tmp_path / "a", config(server="https://first", user={"username": "u", "password": "p"}))
        second = write(tmp_path / "b", config(server="https://second", user={"token": "t"}, namespace="n"))
        found = find(tmp_path, KUBECONFIG=f"{first}:{second}")
        assert found.server.url == "https://first"
        assert found.user.token is None
        assert found.user.basic == ("u", "p")

    def test_a_context_may_use_entries_of_other_files(self, tmp_path: Path) -> None:
        contexts = {
            "current-context": "x",
            "contexts": [{"name": "x", "context": {"cluster": "dev", "user": "dev"}}],
        }
        first = write(tmp_path / "a", contexts)
        second = write(tmp_path / "b", config())
        assert find(tmp_path, KUBECONFIG=f"{first}:{second}").server.url == "https://one"

    def test_the_first_current_context_wins(self, tmp_path: Path) -> None:
        first = write(tmp_path / "a", config(name="a", server="https://a", current=None))
        second = write(tmp_path / "b", config(name="b", server="https://b", current="b"))
        third = write(tmp_path / "c", config(name="c", server="https://c", current="c"))
        assert find(tmp_path, KUBECONFIG=f"{first}:{second}:{third}").server.url == "https://b"

    def test_missing_files_and_empty_parts_are_passed_over(self, tmp_path: Path) -> None:
        there = write(tmp_path / "b", config())
        assert find(tmp_path, KUBECONFIG=f"{tmp_path}/none::{there}").server.url == "https://one"

    def test_relative_files_are_relative_to_the_kubeconfig_they_stand_in(self, tmp_path: Path) -> None:
        write(tmp_path / "sub/ca.pem", "CA")
        user = {"tokenFile": "token", "client-certificate": "c.pem", "client-key": "k.pem"}
        path = write(tmp_path / "sub/config", config(cluster={"certificate-authority": "ca.pem"}, user=user))
        found = find(tmp_path, path)
        assert found.server.ca is not None
        assert found.server.ca.read() == "CA"
        assert found.user.token_file == tmp_path / "sub/token"


class TestWhatIsRead:
    def test_json_is_as_good_as_yaml(self, tmp_path: Path) -> None:
        assert find(tmp_path, write(tmp_path / "c", json.dumps(config()))).server.url == "https://one"

    def test_another_context_can_be_chosen(self, tmp_path: Path) -> None:
        data = config()
        data["contexts"].append(
            {"name": "x", "context": {"cluster": "dev", "user": "dev", "namespace": "other"}}
        )
        found = find(tmp_path, write(tmp_path / "c", data), context="x")
        assert found.namespace == "other"

    def test_tls_options(self, tmp_path: Path) -> None:
        data = base64.b64encode(b"PEM").decode()
        path = write(
            tmp_path / "c",
            config(cluster={"certificate-authority-data": data, "tls-server-name": "kubernetes"}),
        )
        server = find(tmp_path, path).server
        assert server.ca is not None
        assert (server.ca.read(), server.tls_name, server.verify) == ("PEM", "kubernetes", True)
        insecure = write(tmp_path / "i", config(cluster={"insecure-skip-tls-verify": True}))
        assert not find(tmp_path, insecure).server.verify

    def test_data_wins_over_a_file(self, tmp_path: Path) -> None:
        data = base64.b64encode(b"PEM").decode()
        cluster = {"certificate-authority-data": data, "certificate-authority": "nowhere"}
        server = find(tmp_path, write(tmp_path / "c", config(cluster=cluster))).server
        assert server.ca is not None
        assert server.ca.read() == "PEM"

    def test_impersonation_becomes_headers(self, tmp_path: Path) -> None:
        user = {"token": "t", "as": "jane", "as-groups": ["a", "b"], "as-user-extra": {"scope": ["x"]}}
        found = find(tmp_path, write(tmp_path / "c", config(user=user)))
        assert found.user.headers == (
            ("Impersonate-User", "jane"),
            ("Impersonate-Group", "a"),
            ("Impersonate-Group", "b"),
            ("Impersonate-Extra-scope", "x"),
        )

    def test_nulls_are_as_good_as_absent(self, tmp_path: Path) -> None:
        data = config()
        data["clusters"][0]["cluster"]["proxy-url"] = None
        data["preferences"] = None
        assert find(tmp_path, write(tmp_path / "c", data)).server.proxy_url is None

    def test_secrets_are_not_shown(self, tmp_path: Path) -> None:
        found = find(tmp_path, write(tmp_path / "c", config(user={"token": "hush"})))
        assert "hush" not in repr(found)


class TestMistakesAreNamed:
    @pytest.mark.parametrize(
        ("data", "said"),
        [
            ("a: [", "neither YAML nor JSON"),
            ({"clusters": "none"}, "clusters"),
            (config(current=None), "no current-context; choose one of: dev"),
            (config(current="prod"), "no context 'prod'; there are: dev"),
            (config(server=""), "cluster 'dev': no server"),
            (config(server="ftp://x"), "cluster 'dev': server 'ftp://x'"),
            (config(user={"token": 5}), "users 'dev', users\\[0\\].user.token"),
            (config(user={"client-key": "k"}), "user 'dev': client-certificate and client-key go together"),
            (
                config(user={"client-key-data": "AP8=", "client-certificate": "c"}),
                "user 'dev': client-key-data",
            ),
            (config(user={"auth-provider": {"name": "gcp"}}), "user 'dev': auth-provider was removed"),
            (
                config(
                    user={"exec": {"command": "x", "apiVersion": "client.authentication.k8s.io/v1alpha1"}}
                ),
                "v1alpha1",
            ),
            (
                config(user={"exec": {"command": "x", "apiVersion": "client.authentication.k8s.io/v1"}}),
                "interactiveMode",
            ),
            (config(user={"exec": {"apiVersion": "client.authentication.k8s.io/v1"}}), "exec: no command"),
            (config(user={"as-groups": ["x"]}), "need as"),
            (config(cluster={"proxy-url": "socks5://x"}), "cluster 'dev': proxy-url"),
            (
                config(cluster={"insecure-skip-tls-verify": True, "certificate-authority": "x"}),
                "exclude each other",
            ),
        ],
    )
    def test_with_the_file_and_the_entry(self, tmp_path: Path, data: Any, said: str) -> None:
        with pytest.raises(BadKubeconfig, match=f"{tmp_path}/c.*{said}"):
            find(tmp_path, write(tmp_path / "c", data))

    def test_an_entry_twice_in_one_file(self, tmp_path: Path) -> None:
        data = config()
        data["users"] *= 2
        with pytest.raises(BadKubeconfig, match="user 'dev' is there twice"):
            find(tmp_path, write(tmp_path / "c", data))

    def test_a_context_that_names_what_is_not_there(self, tmp_path: Path) -> None:
        data = config()
        data["contexts"][0]["context"]["cluster"] = "gone"
        with pytest.raises(BadKubeconfig, match="context 'dev' names cluster 'gone'; there are: dev"):
            find(tmp_path, write(tmp_path / "c", data))

    def test_a_flag_for_a_file_that_is_not_there(self, tmp_path: Path) -> None:
        with pytest.raises(BadKubeconfig, match="cannot be read"):
            find(tmp_path, tmp_path / "none")

    def test_data_that_is_not_base64(self, tmp_path: Path) -> None:
        data = config()
        data["clusters"][0]["cluster"]["certificate-authority-data"] = "!!!"
        with pytest.raises(BadKubeconfig, match="certificate-authority-data: not base64"):
            find(tmp_path, write(tmp_path / "c", data))

    def test_only_missing_files_in_the_environment(self, tmp_path: Path) -> None:
        with pytest.raises(BadKubeconfig, match=r"KUBECONFIG names .*none: no such file"):
            find(tmp_path, KUBECONFIG=str(tmp_path / "none"))
