#!/usr/bin/env python3
"""Trims KubeRay's schema of a RayCluster to the members that deploy/kuberay/ray-cluster.yaml uses.

Usage: kuberay_schema.py CRD COMMIT

CRD is helm-chart/kuberay-operator/crds/ray.io_rayclusters.yaml of github.com/ray-project/kuberay (Apache-2.0) at COMMIT. The
schema must have all members that the manifest uses. For these it is unchanged: types, formats, patterns, required members.
Unused members are omitted. If the manifest uses a new member, the test refuses it until this script has run again.
"""

import json
import sys
from pathlib import Path

import yaml

DEPLOY = Path(__file__).resolve().parent.parent / "deploy" / "kuberay"
VERSION = "v1"


def trimmed(schema, values, place):
    """Returns the schema with only the members that occur in the values, and the required ones."""
    kept = {name: value for name, value in schema.items() if name not in ("description", "properties", "items")}
    if schema.get("x-kubernetes-int-or-string"):
        return kept
    if "properties" in schema:
        used = sorted({name for value in values for name in value})
        if unknown := [name for name in used if name not in schema["properties"]]:
            sys.exit(f"{place}: KubeRay has no member {unknown[0]}")
        required = schema.get("required", [])
        kept["properties"] = {
            name: trimmed(schema["properties"][name], [value[name] for value in values if name in value], f"{place}.{name}")
            for name in sorted({*used, *required})
        }
        kept["additionalProperties"] = False
    elif isinstance(schema.get("additionalProperties"), dict):
        inner = [entry for value in values for entry in value.values()]
        kept["additionalProperties"] = trimmed(schema["additionalProperties"], inner, f"{place}.*")
    if "items" in schema:
        kept["items"] = trimmed(schema["items"], [entry for value in values for entry in value], f"{place}[]")
    return kept


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    crd = yaml.safe_load(Path(sys.argv[1]).read_text(encoding="utf-8"))
    [schema] = [version["schema"]["openAPIV3Schema"] for version in crd["spec"]["versions"] if version["name"] == VERSION]
    documents = yaml.safe_load_all((DEPLOY / "ray-cluster.yaml").read_text(encoding="utf-8"))
    [cluster] = [document for document in documents if document["kind"] == "RayCluster"]
    made = {
        "$comment": "Trimmed by scripts/kuberay_schema.py of helm-chart/kuberay-operator/crds/ray.io_rayclusters.yaml at "
        f"github.com/ray-project/kuberay, commit {sys.argv[2]}, licensed under Apache-2.0.",
        # Every Kubernetes object has metadata; the schema does not restrict them.
        **trimmed(schema | {"properties": schema["properties"] | {"metadata": {"type": "object"}}}, [cluster], "RayCluster"),
    }
    path = DEPLOY / "ray-cluster.schema.json"
    path.write_text(json.dumps(made, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    print(f"{path}: {len(path.read_bytes())} bytes")


if __name__ == "__main__":
    main()
