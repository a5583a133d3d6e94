"""The licences of what a release contains, from what the packages themselves say.

``python -m tools.release.licences [ROOT]`` writes `docs/reference/licences.md`. Of Python packages the
installed metadata speaks, of Debian's packages the copyright files of an image's root.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping
from importlib import metadata
from pathlib import Path

from tools.release import ROOT, ReleaseError
from tools.release.pins import read_pins

__all__ = ["PAGE", "debian_licences", "listed", "of_root", "page", "python_licence"]

PAGE = ROOT / "docs" / "reference" / "licences.md"

_HEAD = """\
# Licences

What a release contains besides Fairlead itself, which is under the
[Apache License 2.0](https://www.apache.org/licenses/LICENSE-2.0). This page is written by
`python -m tools.release.licences`; versions, hashes and the same licences are in the bill of materials of a
release (`fairlead-VERSION-linux-ARCH.cdx.json`).

## Python packages

The wheel depends on these, and the image contains them, with the licence texts in
`/opt/fairlead/lib/python3.*/site-packages/*.dist-info`. Wheels with compiled code may bring libraries of
their own, numpy's OpenBLAS, say; their licences are in the same folders.

| package | version | licence |
|---|---|---|
"""

_DEBIAN = """
## Debian packages

The image that `make release` builds has these. A Debian package collects many files, so it names many
licences; the full texts are in the image, in `/usr/share/doc/PACKAGE/copyright`. An image built from the
Dockerfile has the packages of its base image instead.

| package | licences |
|---|---|
"""

# Copyright files that are prose: the licence of the package as a whole, as that prose states it first.
_PROSE: Mapping[str, str] = {
    "base-files": "GPL-2+",
    "gcc-12-base": "GPL-3+ with the GCC runtime library exception",
    "libc6": "LGPL-2.1+",
    "libcrypt1": "LGPL-2.1+",
    "libgcc-s1": "GPL-3+ with the GCC runtime library exception",
    "libstdc++6": "GPL-3+ with the GCC runtime library exception",
    "libpython3.11-minimal": "PSF-2.0",
    "libpython3.11-stdlib": "PSF-2.0",
    "python3.11-minimal": "PSF-2.0",
}

_CLASSIFIERS: Mapping[str, str] = {
    "Apache Software License": "Apache-2.0",
    "BSD License": "BSD",
    "MIT License": "MIT",
    "Python Software Foundation License": "PSF-2.0",
}


def python_licence(said: metadata.PackageMetadata) -> str:
    """The licence of a distribution: its expression, else its short field, else its classifier."""
    fields = said.json
    if expression := fields.get("license_expression"):
        return str(expression)
    field = str(fields.get("license", "")).strip()
    if field and "\n" not in field and len(field) < 40:
        return {"Apache 2": "Apache-2.0", "Apache 2.0": "Apache-2.0", "MIT License": "MIT"}.get(field, field)
    names = [
        one.rpartition(" :: ")[2]
        for one in fields.get("classifier", ())
        if one.startswith("License :: OSI Approved :: ")
    ]
    if not names:
        raise ReleaseError(f"{said['Name']} does not say its licence; look it up before it is shipped")
    return " AND ".join(_CLASSIFIERS.get(name, name) for name in names)


def debian_licences(package: str, copyright_file: str) -> list[str]:
    """The short names of the licences in a copyright file, which Debian has a format for."""
    if "copyright-format/1.0" not in copyright_file[:2000]:
        if package not in _PROSE:
            raise ReleaseError(f"the copyright file of {package} is prose; add its licence to _PROSE here")
        return [_PROSE[package], "others in its copyright file"]
    said = re.findall(r"^License:[ \t]*(\S.*)$", copyright_file, re.MULTILINE)
    parts = (part for one in said for part in re.split(r"\s+(?:and/or|and|or)\s+|,\s*", one))
    return sorted({part.strip() for part in parts if part.strip()})


def page(debian: Mapping[str, Iterable[str]]) -> str:
    """The page, of the pinned Python packages, as they are installed, and the given Debian ones."""
    python = [
        f"| {pin.name} | {pin.version} | {python_licence(metadata.metadata(pin.name))} |\n"
        for pin in read_pins("run")
    ]
    packages = [f"| {name} | {', '.join(names)} |\n" for name, names in sorted(debian.items())]
    return _HEAD + "".join(python) + _DEBIAN + "".join(packages)


def of_root(root: Path) -> dict[str, list[str]]:
    """The licences of the Debian packages of an image's root."""
    found = {}
    for status in sorted((root / "var" / "lib" / "dpkg" / "status.d").iterdir()):
        file = root / "usr" / "share" / "doc" / status.name / "copyright"
        found[status.name] = debian_licences(status.name, file.read_text(errors="replace"))
    return found


def listed() -> dict[str, list[str]]:
    """The Debian packages as the page lists them now."""
    rows = re.findall(
        r"^\| (\S+) \| (.*) \|$", PAGE.read_text().partition("## Debian packages")[2], re.MULTILINE
    )
    return {name: names.split(", ") for name, names in rows if name != "package"}


def main() -> None:
    """Write the page; Debian's packages are those of the root that is given, else as listed."""
    debian = of_root(Path(sys.argv[1])) if sys.argv[1:] else listed()
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text(page(debian))


if __name__ == "__main__":
    main()
