"""The root of the image: a few of Debian's packages, unpacked, without a package manager, a shell or a log.

mmdebstrap resolves, downloads and checks the packages from the apt sources that this machine is configured
with; the root that it makes is thrown away with those sources. Ours is unpacked from the same files: only
what Python needs, so that no maintainer script runs, and neither the hour nor the mirror leaves a trace.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tools.release import ReleaseError, program, run

__all__ = ["PYTHON", "SUITE", "Package", "apt_sources", "build_root", "download", "kept"]

SUITE = "bookworm"
PYTHON = "3.11"

# libstdc++6 is for wheels: those of manylinux expect it.
_WANTED = ("base-files", "ca-certificates", "libpython3.11-stdlib", "libstdc++6", "python3.11-minimal")

# Dependencies that are left out, why, and which files cannot work without them.
_LEFT_OUT: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "awk": ("for maintainer scripts, and none runs", ()),
    "debconf": ("for maintainer scripts, and none runs", ()),
    "dpkg": ("nothing is installed later", ()),
    "openssl": ("the program; the library is libssl3", ("usr/sbin/update-ca-certificates",)),
    "libdb5.3": ("for dbm files", ("usr/lib/python3.11/lib-dynload/_dbm.*",)),
    "libncursesw6": ("for terminals", ("usr/lib/python3.11/lib-dynload/_curses*",)),
    "libnsl2": ("for NIS", ("usr/lib/python3.11/lib-dynload/nis.*",)),
    "libreadline8": ("for terminals", ("usr/lib/python3.11/lib-dynload/readline.*",)),
    "libsqlite3-0": ("for SQLite", ("usr/lib/python3.11/lib-dynload/_sqlite3.*",)),
    "libtinfo6": ("for terminals", ()),
    "libtirpc3": ("for NIS", ()),
}

# What programs never read, and base-files' scripts for a login shell.
_NOT_NEEDED = (
    "etc/update-motd.d",
    "etc/profile*",
    "root/.*rc",
    "root/.profile",
    "usr/share/base-files",
    "usr/share/bug",
    "usr/share/doc/*/[!c]*",
    "usr/share/doc/*/changelog*",
    "usr/share/lintian",
    "usr/share/locale",
    "usr/share/man",
    "usr/share/pixmaps",
    "usr/lib/*/gconv",  # the C library's encodings; Python has its own
    "usr/lib/python3.11/lib2to3",
    "usr/lib/python3.11/pydoc_data",
    "usr/lib/python3.11/test",
    "var/cache",
    "var/backups",
)

_PASSWD = (
    "root:x:0:0:root:/root:/usr/sbin/nologin\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
)
_GROUP = "root:x:0:\nnogroup:x:65534:\n"


@dataclass(frozen=True, slots=True)
class Package:
    """A Debian package: what its control file says, and where it is."""

    name: str
    version: str
    architecture: str
    depends: tuple[tuple[str, ...], ...]
    provides: frozenset[str]
    control: str
    file: Path


def apt_sources(folder: Path, configured: Path = Path("/etc/apt")) -> list[Path]:
    """This machine's sources of the suite, without those of other projects, as files for mmdebstrap."""
    suites = {SUITE, f"{SUITE}-updates", f"{SUITE}-security"}
    lines, stanzas = [], []
    parts = configured / "sources.list.d"
    for file in [configured / "sources.list", *sorted(parts.glob("*.list"))]:
        for line in file.read_text().splitlines() if file.exists() else ():
            match = re.match(r"deb\s+(?:\[.*?\]\s+)?\S+\s+(\S+)\s", line)
            if match and match[1] in suites:
                lines.append(line)
    for file in sorted(parts.glob("*.sources")):
        for stanza in re.split(r"\n\s*\n", file.read_text()):
            match = re.search(r"^suites:(.*)$", stanza, re.MULTILINE | re.IGNORECASE)
            if match and (set(match[1].split()) & suites):
                stanzas.append(stanza.strip())
    found = []
    for name, texts, between in (("debian.list", lines, "\n"), ("debian.sources", stanzas, "\n\n")):
        if texts:
            found.append(folder / name)
            found[-1].write_text(between.join(texts) + "\n")
    if not found:
        raise ReleaseError(
            f"no apt source of Debian's {SUITE} in {configured}; configure one, or use Debian 12"
        )
    return found


def download(folder: Path) -> list[Package]:
    """The wanted packages and all that they depend on, as mmdebstrap downloads and checks them."""
    debs = folder / "debs"
    debs.mkdir()
    options = ["--quiet", "--variant=extract", "--format=null", f"--include={','.join(_WANTED)}"]
    options += [f"--extract-hook=copy-out /var/cache/apt/archives {debs}"]
    run([program("mmdebstrap"), *options, SUITE, "-", *apt_sources(folder)])
    found = [_package(file) for file in sorted(debs.glob("**/*.deb"))]
    if not found:
        raise ReleaseError("mmdebstrap has downloaded no packages")
    return found


def kept(packages: Iterable[Package]) -> list[Package]:
    """The packages that the root is made of, in order of their names."""
    by_name: dict[str, Package] = {}
    for package in packages:
        for name in (package.name, *package.provides):
            by_name.setdefault(name, package)
    found: dict[str, Package] = {}
    waiting = list(_WANTED)
    while waiting:
        package = by_name[waiting.pop()]
        if package.name in found:
            continue
        found[package.name] = package
        for choice in package.depends:
            if any(name in _LEFT_OUT for name in choice):
                continue
            available = [name for name in choice if name in by_name]
            if not available:
                raise ReleaseError(
                    f"{package.name} depends on {' or '.join(choice)}, which was not downloaded"
                )
            waiting.append(available[0])
    return [found[name] for name in sorted(found)]


def build_root(packages: Iterable[Package], root: Path) -> None:
    """Unpack the packages, and do what their maintainer scripts would have to."""
    # Debian's merged /usr; packages still name files by the old folders.
    for name in ("bin", "lib", "lib64", "sbin"):
        (root / "usr" / name).mkdir(parents=True, mode=0o755)
        (root / name).symlink_to(f"usr/{name}")
    status = root / "var" / "lib" / "dpkg" / "status.d"
    status.mkdir(parents=True)
    for package in packages:
        _extract(package.file, root)
        # What scanners of images without dpkg look for.
        (status / package.name).write_text(package.control)
    for pattern in (*_NOT_NEEDED, *(file for _, files in _LEFT_OUT.values() for file in files)):
        for path in root.glob(pattern):
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    for name, target in (("run", "/run"), ("lock", "/run/lock")):
        shutil.rmtree(root / "var" / name, ignore_errors=True)
        (root / "var" / name).symlink_to(target)
    (root / "etc" / "passwd").write_text(_PASSWD)
    (root / "etc" / "group").write_text(_GROUP)
    (root / "etc" / "nsswitch.conf").write_text("passwd: files\ngroup: files\nhosts: files dns\n")
    certificates = sorted(root.glob("usr/share/ca-certificates/mozilla/*.crt"))
    bundle = root / "etc" / "ssl" / "certs" / "ca-certificates.crt"
    bundle.parent.mkdir(parents=True, exist_ok=True)
    bundle.write_text("".join(one.read_text().rstrip("\n") + "\n" for one in certificates))
    shutil.rmtree(root / "usr" / "share" / "ca-certificates")
    defaults = root / "usr" / "lib" / "ssl"
    defaults.mkdir(exist_ok=True)
    for name, target in (("cert.pem", "/etc/ssl/certs/ca-certificates.crt"), ("certs", "/etc/ssl/certs")):
        (defaults / name).unlink(missing_ok=True)
        (defaults / name).symlink_to(target)
    python = root / "usr" / "bin" / "python3"
    python.unlink(missing_ok=True)
    python.symlink_to(f"python{PYTHON}")


def _extract(deb: Path, root: Path) -> None:
    """Unpack into a root where /lib and the like are links, which dpkg-deb would replace by folders."""
    with tempfile.TemporaryDirectory(dir=root.parent) as folder:
        run([program("dpkg-deb"), "--extract", deb, folder])
        for path in sorted(Path(folder).rglob("*")):
            target = root / path.relative_to(folder)
            if path.is_dir() and not path.is_symlink():
                target.mkdir(exist_ok=True)
                target.chmod(path.stat().st_mode & 0o1777)
            else:
                os.replace(path, target)
                if not target.is_symlink():
                    target.chmod(target.stat().st_mode & 0o777)  # no program becomes another user


def _package(file: Path) -> Package:
    control = run([program("dpkg-deb"), "--field", file])
    fields = dict(re.findall(r"^(\S+): (.*)$", control, re.MULTILINE))
    names = [
        tuple(re.split(r"[\s:(]", choice.strip())[0] for choice in one.split("|"))
        for key in ("Pre-Depends", "Depends")
        for one in fields.get(key, "").split(",")
        if one.strip()
    ]
    provides = (re.split(r"[\s:(]", one.strip())[0] for one in fields.get("Provides", "").split(","))
    return Package(
        fields["Package"],
        fields["Version"],
        fields["Architecture"],
        tuple(names),
        frozenset(name for name in provides if name),
        control,
        file,
    )
