"""The list of what a program is made of, in CycloneDX's format."""

import json
import subprocess
import uuid
from datetime import UTC, datetime

from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.license import LicenseExpression
from cyclonedx.output import make_outputter
from cyclonedx.schema import OutputFormat, SchemaVersion
from packageurl import PackageURL


def component(package, checksums):
    """A crate. Crates of this project have no checksum, since they are in no registry."""
    name, version = package["name"], package["version"]
    checksum = checksums.get((name, version))
    url = PackageURL("cargo", name=name, version=version)
    return Component(
        name=name,
        version=version,
        type=ComponentType.LIBRARY,
        purl=url,
        bom_ref=str(url),
        licenses=[LicenseExpression(package["license"])] if package["license"] else [],
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=checksum)] if checksum else [],
    )


def checksums(lock):
    """The checksums of Cargo.lock, by name and version."""
    return {(p["name"], p["version"]): p["checksum"] for p in lock["package"] if "checksum" in p}


def compiled(metadata, root):
    """The package ids that are linked into `root`, each with those that it depends on: no tools of tests and builds."""
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    edges, waiting = {}, [root]
    while waiting:
        node = waiting.pop()
        if node not in edges:
            kinds = {d["pkg"]: {kind["kind"] for kind in d["dep_kinds"]} for d in nodes[node]["deps"]}
            edges[node] = sorted(package for package, kind in kinds.items() if None in kind)
            waiting += edges[node]
    return edges


def of_package(cargo, folder, lock, name, target, time):
    """The document for a package of the workspace compiled for a target, as text."""
    command = [cargo, "metadata", "--format-version", "1", "--locked", "--filter-platform", target]
    metadata = json.loads(subprocess.run(command, cwd=folder, check=True, stdout=subprocess.PIPE).stdout)
    packages = {package["id"]: package for package in metadata["packages"]}
    root = next(id for id, package in packages.items() if package["name"] == name)
    edges, known = compiled(metadata, root), checksums(lock)
    components = {id: component(packages[id], known) for id in edges}
    bom = Bom(components=[part for id, part in components.items() if id != root])
    bom.metadata.component = components[root]
    bom.metadata.component.type = ComponentType.APPLICATION
    bom.metadata.timestamp = datetime.fromtimestamp(time, UTC)
    for id, others in edges.items():
        bom.register_dependency(components[id], [components[other] for other in others])
    # A number of its own for each content.
    parts = sorted(part.bom_ref.value for part in components.values())
    bom.serial_number = uuid.uuid5(uuid.NAMESPACE_URL, f"{target} {time} {parts}")
    return make_outputter(bom, OutputFormat.JSON, SchemaVersion.V1_6).output_as_string(indent=2)
