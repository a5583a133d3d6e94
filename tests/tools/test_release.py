"""The parts of a release: what must be the same everywhere, what must not be in it, and that bytes repeat."""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import subprocess
import tarfile
import tomllib
import zipfile
from importlib import metadata
from pathlib import Path

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from tools.release import ROOT, ReleaseError, require
from tools.release.__main__ import checksums
from tools.release.archive import normalised, write_tar
from tools.release.bom import bill_of_materials
from tools.release.debian import Package, apt_sources, kept
from tools.release.image import Config, normalise, pack
from tools.release.leaks import leaks
from tools.release.licences import PAGE, debian_licences, listed, page
from tools.release.pins import needed, parse_pins, read_pins, target_environment
from tools.release.source import Origin, version, versions

EPOCH = 1_700_000_000
ORIGIN = Origin("1.2.3", "f" * 40, EPOCH)
PYTHONS = ("3.11", "3.12", "3.13", "3.14")


class TestTheVersion:
    def test_is_the_same_everywhere(self) -> None:
        assert set(versions(ROOT).values()) == {version(ROOT)}

    def test_that_differs_in_one_place_is_named_with_it(self, tmp_path: Path) -> None:
        for name in ("pyproject.toml", "CHANGELOG.md", "src/fairlead/__init__.py"):
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, tmp_path / name)
        chart = tmp_path / "charts" / "one" / "Chart.yaml"
        chart.parent.mkdir(parents=True)
        chart.write_text("version: 0.0.9\nappVersion: 0.0.9\n")
        with pytest.raises(ReleaseError, match=r"charts/one/Chart.yaml version: 0\.0\.9"):
            version(tmp_path)


class TestRequirements:
    run = read_pins("run")

    @pytest.mark.parametrize("python", PYTHONS)
    @pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
    def test_nothing_that_the_image_needs_is_missing(self, python: str, machine: str) -> None:
        pinned = {pin.name for pin in needed(self.run, python, machine)}
        environment = {key: str(value) for key, value in target_environment(python, machine).items()}
        wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
        waiting = [Requirement(one) for one in wanted]
        found: set[str] = set()
        while waiting:
            one = waiting.pop()
            name = canonicalize_name(one.name)
            if name in found or (one.marker and not one.marker.evaluate({**environment, "extra": ""})):
                continue
            found.add(name)
            waiting += map(Requirement, metadata.requires(name) or ())
        assert pinned == found

    def test_they_are_the_versions_that_are_tested(self) -> None:
        lines = (ROOT / "constraints.txt").read_text().splitlines()
        tested = dict(line.split("==") for line in lines if not line.startswith("#"))
        tested = {canonicalize_name(name): number for name, number in tested.items()}
        assert {pin.name: pin.version for pin in self.run}.items() <= tested.items()

    def test_the_ranges_of_the_wheel_allow_them(self) -> None:
        wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
        versions_by_name = {pin.name: pin.version for pin in self.run}
        for one in map(Requirement, wanted):
            assert versions_by_name[canonicalize_name(one.name)] in one.specifier

    def test_a_pin_without_a_hash_is_refused(self) -> None:
        with pytest.raises(ReleaseError, match="with hashes"):
            parse_pins("click==8.1\n", "run")


class TestLicences:
    def test_the_page_is_what_the_packages_say(self) -> None:
        assert PAGE.read_text() == page(listed())

    def test_of_a_copyright_file_every_licence_is_named_once(self) -> None:
        text = "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n\n"
        text += "Files: *\nLicense: MIT or GPL-2+\n\nFiles: b\nLicense: MIT\n\nLicense: MIT\n text\n"
        assert debian_licences("libone", text) == ["GPL-2+", "MIT"]

    def test_one_that_is_prose_needs_a_reader(self) -> None:
        with pytest.raises(ReleaseError, match="libone is prose"):
            debian_licences("libone", "This is free software.")


class TestArchives:
    def test_an_archive_forgets_when_where_and_by_whom_it_was_made(self) -> None:
        made = []
        for order, mtime, user in ((1, 1.0, "root"), (-1, 2e9, "builder")):
            packed = io.BytesIO()
            with tarfile.open(fileobj=packed, mode="w:gz") as archive:
                for name in ("chart/Chart.yaml", "chart/a.txt")[::order]:
                    entry = tarfile.TarInfo(name)
                    entry.size, entry.mtime, entry.uname, entry.uid = 2, mtime, user, order + 1
                    archive.addfile(entry, io.BytesIO(b"ab"))
            made.append(normalised(packed.getvalue(), EPOCH))
        assert made[0] == made[1]
        with tarfile.open(fileobj=io.BytesIO(made[0])) as archive:
            assert {entry.mtime for entry in archive} == {EPOCH}

    def test_the_files_of_a_folder_give_the_same_bytes_in_any_order(self, tmp_path: Path) -> None:
        files = {"blobs/sha256/b": b"2", "blobs/sha256/a": b"1", "index.json": b"{}"}
        write_tar(tmp_path / "one.tar", files, EPOCH)
        write_tar(tmp_path / "two.tar", dict(reversed(files.items())), EPOCH)
        assert (tmp_path / "one.tar").read_bytes() == (tmp_path / "two.tar").read_bytes()

    def test_the_checksums_are_those_that_sha256sum_checks(self, tmp_path: Path) -> None:
        for name in ("b.whl", "a.tar"):
            (tmp_path / name).write_text(name)
        sums = checksums(tmp_path.iterdir())
        assert sums.splitlines()[0] == f"{hashlib.sha256(b'a.tar').hexdigest()}  a.tar"
        (tmp_path / "SHA256SUMS").write_text(sums)
        subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=tmp_path, check=True)


class TestLeaks:
    def test_a_host_is_found_in_archives_within_archives(self, tmp_path: Path) -> None:
        inner = io.BytesIO()
        with tarfile.open(fileobj=inner, mode="w:gz") as archive:
            entry = tarfile.TarInfo("etc/apt/sources.list")
            text = b"deb http://mirror.example.net/debian bookworm main\n"
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text))
        write_tar(tmp_path / "image.tar", {"blobs/one": inner.getvalue()}, EPOCH)
        with zipfile.ZipFile(tmp_path / "a.whl", "w", zipfile.ZIP_DEFLATED) as wheel:
            wheel.writestr("direct_url.json", '{"url": "https://mirror.example.net/a.whl"}')
        found = leaks(sorted(tmp_path.iterdir()), [b"mirror.example.net"])
        assert len(found) == 2
        assert "a.whl:direct_url.json" in found[0]
        assert "image.tar:blobs/one" in found[1]

    def test_a_link_to_a_folder_of_the_machine_is_found(self, tmp_path: Path) -> None:
        (tmp_path / "python").symlink_to("/home/builder/python")
        assert leaks([tmp_path], [b"/home/builder"])


class TestDebiansPackages:
    def test_sources_of_other_projects_are_left_out(self, tmp_path: Path) -> None:
        parts = tmp_path / "etc" / "sources.list.d"
        parts.mkdir(parents=True)
        (tmp_path / "etc" / "sources.list").write_text(
            "# deb http://old.example/debian bookworm main\n"
            "deb [arch=amd64] http://a.example/debian bookworm main\n"
            "deb https://packages.example/apt cloud-sdk-bookworm main\n"
        )
        (parts / "mixed.sources").write_text(
            "Types: deb\nURIs: http://b.example/debian\nSuites: bookworm-security\nComponents: main\n\n"
            "Types: deb\nURIs: https://packages.example/node\nSuites: nodistro\nComponents: main\n"
        )
        files = apt_sources(tmp_path, tmp_path / "etc")
        text = "".join(file.read_text() for file in files)
        assert "a.example" in text
        assert "b.example" in text
        assert "packages.example" not in text
        assert "old.example" not in text

    def test_a_machine_without_the_suite_is_told_what_to_configure(self, tmp_path: Path) -> None:
        with pytest.raises(ReleaseError, match="no apt source of Debian's bookworm"):
            apt_sources(tmp_path, tmp_path)

    def test_what_only_maintainer_scripts_need_is_left_out_and_the_rest_is_kept(self) -> None:
        def package(name: str, *depends: tuple[str, ...], provides: tuple[str, ...] = ()) -> Package:
            return Package(name, "1", "amd64", depends, frozenset(provides), "", Path(name))

        chosen = kept(
            [
                package("base-files", ("awk",)),
                package("mawk", provides=("awk",)),
                package("ca-certificates", ("openssl",), ("debconf", "debconf-2.0")),
                package("debconf", ("perl-base",)),
                package("perl-base"),
                package("openssl"),
                package("libpython3.11-stdlib", ("libssl3", "libressl")),
                package("libssl3"),
                package("libstdc++6"),
                package("python3.11-minimal"),
            ]
        )
        names = [one.name for one in chosen]
        assert names == [
            "base-files",
            "ca-certificates",
            "libpython3.11-stdlib",
            "libssl3",
            "libstdc++6",
            "python3.11-minimal",
        ]

    def test_programs_that_are_missing_are_all_named_with_how_to_install_them(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        there = shutil.which
        monkeypatch.setattr(
            shutil, "which", lambda name, **given: there(name, **given) if name == "env" else None
        )
        with pytest.raises(
            ReleaseError, match=r"^not installed: mmdebstrap, umoci; .* install mmdebstrap umoci$"
        ):
            require("env", "mmdebstrap", "umoci")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A root with one Debian package and one Python package."""
    found = tmp_path / "root"
    status = found / "var/lib/dpkg/status.d/libone"
    status.parent.mkdir(parents=True)
    status.write_text("Package: libone\nVersion: 1:2-3\nArchitecture: amd64\n")
    text = found / "usr/share/doc/libone/copyright"
    text.parent.mkdir(parents=True)
    text.write_text(
        "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\nLicense: MIT\n"
    )
    said = found / "opt/fairlead/lib/python3.11/site-packages/some_thing-4.5.dist-info/METADATA"
    said.parent.mkdir(parents=True)
    said.write_text(
        "Metadata-Version: 2.4\nName: Some_Thing\nVersion: 4.5\nLicense-Expression: BSD-3-Clause\n"
    )
    return found


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    found = tmp_path / "some_thing-4.5-py3-none-any.whl"
    found.write_bytes(b"a wheel")
    return found


class TestTheBillOfMaterials:
    def test_names_what_the_root_has_with_versions_licences_and_hashes(self, root: Path, wheel: Path) -> None:
        text = bill_of_materials(root, [wheel], ORIGIN, "sha256:" + "a" * 64)
        assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
        said = json.loads(text)
        debian, python = said["components"]
        assert debian["purl"] == "pkg:deb/debian/libone@1:2-3?arch=amd64&distro=debian-12"
        assert debian["licenses"] == [{"license": {"id": "MIT"}}]
        assert python["purl"] == "pkg:pypi/some-thing@4.5"
        assert python["licenses"] == [{"license": {"id": "BSD-3-Clause"}}]
        assert python["hashes"] == [{"alg": "SHA-256", "content": hashlib.sha256(b"a wheel").hexdigest()}]
        assert said["metadata"]["component"]["version"] == "1.2.3"

    def test_is_the_same_each_time(self, root: Path, wheel: Path) -> None:
        digest = "sha256:" + "a" * 64
        assert bill_of_materials(root, [wheel], ORIGIN, digest) == bill_of_materials(
            root, [wheel], ORIGIN, digest
        )

    def test_what_came_into_the_image_by_another_way_is_refused(self, root: Path) -> None:
        with pytest.raises(ReleaseError, match="some-thing, which was not installed from a wheel"):
            bill_of_materials(root, [], ORIGIN, "sha256:" + "a" * 64)


class TestTheImage:
    @pytest.fixture
    def packed(self, root: Path, tmp_path: Path) -> list[Path]:
        """The root's image, made twice."""
        if shutil.which("umoci") is None or os.getuid() != 0:
            pytest.skip("that takes umoci, and root for the owners of files")
        made = []
        for name in ("one", "two"):
            scratch = tmp_path / name
            scratch.mkdir()
            normalise(root, EPOCH)
            made.append(scratch / "image.oci.tar")
            pack(root, made[-1], scratch, ORIGIN)
        return made

    def test_made_twice_is_the_same(self, packed: list[Path]) -> None:
        assert packed[0].read_bytes() == packed[1].read_bytes()

    def test_runs_as_the_dockerfile_says(self, packed: list[Path]) -> None:
        files = unpacked(packed[0])
        (described,) = json.loads(files["index.json"])["manifests"]
        manifest = json.loads(files["blobs/" + described["digest"].replace(":", "/")])
        config = json.loads(files["blobs/" + manifest["config"]["digest"].replace(":", "/")])
        said, wanted = config["config"], Config.read()
        assert (said["User"], said["Entrypoint"], said["Cmd"]) == ("65532:65532", ["fairlead"], ["scheduler"])
        assert dict(one.split("=", 1) for one in said["Env"]) == wanted.env
        assert wanted.env["PATH"].startswith("/opt/fairlead/bin:/usr/local/sbin:")
        assert said["Labels"]["org.opencontainers.image.revision"] == ORIGIN.revision
        assert config["created"] == "2023-11-14T22:13:20Z"

    def test_containerd_and_docker_find_it_under_one_name(self, packed: list[Path]) -> None:
        files = unpacked(packed[0])
        (described,) = json.loads(files["index.json"])["manifests"]
        name = described["annotations"]["io.containerd.image.name"]
        assert name == "docker.io/library/fairlead:1.2.3"
        (legacy,) = json.loads(files["manifest.json"])
        assert legacy["RepoTags"] == ["fairlead:1.2.3"]
        assert {legacy["Config"], *legacy["Layers"]} <= files.keys()
        assert json.loads(files["oci-layout"]) == {"imageLayoutVersion": "1.0.0"}


def unpacked(archive: Path) -> dict[str, bytes]:
    with tarfile.open(archive) as source:
        return {
            entry.name: content.read()
            for entry in source
            if (content := source.extractfile(entry)) is not None
        }
