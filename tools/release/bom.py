"""The bill of materials: what an image contains, in CycloneDX's JSON.

Debian packages come from the root's list of packages, Python packages from what is installed in it, with the
hashes of the wheels that they were installed from.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from datetime import UTC, datetime
from email.parser import HeaderParser
from hashlib import sha256
from importlib.metadata import Distribution, distributions
from pathlib import Path

from cyclonedx.model import HashAlgorithm, HashType, Property
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.license import DisjunctiveLicense, License, LicenseExpression
from cyclonedx.output.json import JsonV1Dot6
from cyclonedx.spdx import is_expression, is_supported_id
from packageurl import PackageURL
from packaging.utils import canonicalize_name, parse_wheel_filename

from tools.release import ReleaseError
from tools.release.debian import PYTHON
from tools.release.image import architecture, repository
from tools.release.licences import of_root, python_licence
from tools.release.source import Origin

__all__ = ["bill_of_materials"]


def bill_of_materials(root: Path, wheels: Iterable[Path], origin: Origin, digest: str) -> str:
    """The text of the bill; the same image has the same."""
    bom = Bom(serial_number=uuid.uuid5(uuid.NAMESPACE_URL, f"{repository}@{digest}"))
    bom.metadata.timestamp = datetime.fromtimestamp(origin.epoch, UTC)
    bom.metadata.component = Component(
        name="fairlead",
        version=origin.version,
        type=ComponentType.CONTAINER,
        bom_ref="image",
        licenses=[LicenseExpression("Apache-2.0")],
        purl=PackageURL("oci", None, "fairlead", digest, {"arch": architecture(), "tag": origin.version}),
        properties=[Property(name="revision", value=origin.revision)],
    )
    parts = [*_debian_components(root), *_python_components(root, wheels)]
    for part in parts:
        bom.components.add(part)
    bom.register_dependency(bom.metadata.component, parts)
    return JsonV1Dot6(bom).output_as_string(indent=1) + "\n"


def _debian_components(root: Path) -> list[Component]:
    licences = of_root(root)
    found = []
    for file in sorted((root / "var" / "lib" / "dpkg" / "status.d").iterdir()):
        said = HeaderParser().parsestr(file.read_text())
        name, version, machine = said["Package"], said["Version"], said["Architecture"]
        found.append(
            Component(
                name=name,
                version=version,
                type=ComponentType.LIBRARY,
                bom_ref=f"deb:{name}",
                licenses=[_name(one) for one in licences[name]],
                purl=PackageURL("deb", "debian", name, version, {"arch": machine, "distro": "debian-12"}),
            )
        )
    return found


def _python_components(root: Path, wheels: Iterable[Path]) -> list[Component]:
    hashes = {}
    for wheel in wheels:
        name, _, _, _ = parse_wheel_filename(wheel.name)
        hashes[canonicalize_name(name)] = sha256(wheel.read_bytes()).hexdigest()
    site = root / "opt" / "fairlead" / "lib" / f"python{PYTHON}" / "site-packages"
    found = []
    for one in sorted(distributions(path=[str(site)]), key=lambda one: one.name.lower()):
        name = canonicalize_name(one.name)
        if name not in hashes:
            raise ReleaseError(
                f"the image contains {name}, which was not installed from a wheel of this release"
            )
        found.append(_python_component(one, name, hashes.pop(name)))
    if hashes:
        raise ReleaseError(f"the image lacks {', '.join(sorted(hashes))}, though its wheel was installed")
    return found


def _python_component(said: Distribution, name: str, digest: str) -> Component:
    return Component(
        name=name,
        version=said.version,
        type=ComponentType.LIBRARY,
        bom_ref=f"pypi:{name}",
        licenses=[_licence(python_licence(said.metadata))],
        purl=PackageURL("pypi", None, name, said.version),
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=digest)],
    )


def _name(said: str) -> DisjunctiveLicense:
    return DisjunctiveLicense(id=said) if is_supported_id(said) else DisjunctiveLicense(name=said)


def _licence(said: str) -> License:
    """By SPDX's name where it is one, or an expression of such names."""
    return _name(said) if is_supported_id(said) or not is_expression(said) else LicenseExpression(said)
