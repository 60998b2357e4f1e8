#!/usr/bin/env python3
"""Checks the files of deploy/ as far as that can be done without deploying.

Compose files are YAML, their services build the one Containerfile, and each variable SPIREA_... is the override of a
key of deploy/spirea.toml; the unit passes `systemd-analyze verify`, where there is one; the image runs as no root. The
manifest for KubeRay is what KubeRay's schema allows, and its configuration one that `spirea cluster` takes.
"""

import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import jsonschema
import yaml

ROOT = Path(__file__).resolve().parent.parent
DEPLOY = ROOT / "deploy"


def known_variables():
    """The variables that override the keys of the example, commented out or not."""
    lines = (DEPLOY / "spirea.toml").read_text(encoding="utf-8").splitlines()
    example = "\n".join(line.removeprefix("# ") if " = " in line else line for line in lines)
    variables = set()
    for key, value in tomllib.loads(example).items():
        names = [f"{key}__{inner}" for inner in value] if isinstance(value, dict) else [key]
        variables.update("SPIREA_" + name.upper() for name in names)
    return variables


def check_compose(path, variables):
    services = yaml.safe_load(path.read_text(encoding="utf-8"))["services"]
    for name, service in services.items():
        for variable, value in service["environment"].items():
            if variable.startswith("SPIREA_") and variable not in variables:
                sys.exit(f"{path}: {name}: {variable} is no setting")
            if variable == "SPIREA_DATABASES":
                tomllib.loads(f"databases = {value}")
        image = (path.parent / service["build"]["context"] / service["build"]["dockerfile"]).resolve()
        if image != DEPLOY / "Containerfile":
            sys.exit(f"{path}: {name} builds {image}")
        if not service["read_only"] or service["cap_drop"] != ["ALL"]:
            sys.exit(f"{path}: {name} may do more than it needs")
    return len(services)


def check_containerfile():
    text = (DEPLOY / "Containerfile").read_text(encoding="utf-8")
    users = re.findall(r"^USER (\d+)", text, re.MULTILINE)
    if not users or "0" in users or "HEALTHCHECK" not in text or text.count("\nFROM ") != 2:
        sys.exit("Containerfile: two stages, a user that is not root, and a check of health are wanted")
    return 1


def check_unit():
    """The unit with a program that exists here in the place of the one that it starts."""
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        return 0
    text = (DEPLOY / "spirea.service").read_text(encoding="utf-8").replace("/usr/bin/spirea", "/bin/true")
    copy = DEPLOY.parent / "target" / "spirea.service"
    copy.parent.mkdir(exist_ok=True)
    copy.write_text(text, encoding="utf-8")
    done = subprocess.run([analyze, "verify", str(copy)], capture_output=True, text=True, check=False)
    wrong = [line for line in done.stderr.splitlines() if "spirea.service" in line]
    if wrong:
        sys.exit("\n".join(wrong))
    return 1


def check_image(folder, ray):
    """The image has the manifest's Ray, and what the extras of the package name that a cluster and its store want."""
    text = (folder / "Containerfile").read_text(encoding="utf-8")
    found = re.search(r"rayproject/ray:([0-9.]+)-", text)
    required = (folder / "requirements.txt").read_text(encoding="utf-8")
    pinned = dict(re.findall(r"^([a-z0-9-]+)==(\S+)", required, re.MULTILINE))
    if found is None or found[1] != ray or pinned["ray"] != ray:
        sys.exit(f"{folder}: the image and the manifest have different Rays")
    if "deploy/kuberay/requirements.txt" not in text:
        sys.exit(f"{folder}/Containerfile: it does not install requirements.txt")
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    for extra in ("cluster", "s3", "gcs"):
        for wanted in extras[extra]:
            name = re.match(r"[A-Za-z0-9-]+", wanted)[0].lower()
            if name not in pinned:
                sys.exit(f"{folder}/requirements.txt: {name} is missing, which the extra {extra} names")


def check_kuberay():
    """Against KubeRay's schema (scripts/kuberay_schema.py), and that its parts belong together."""
    folder = DEPLOY / "kuberay"
    documents = list(yaml.safe_load_all((folder / "ray-cluster.yaml").read_text(encoding="utf-8")))
    [cluster] = [document for document in documents if document["kind"] == "RayCluster"]
    schema = json.loads((folder / "ray-cluster.schema.json").read_text(encoding="utf-8"))
    validator = jsonschema.Draft202012Validator(schema)
    for error in validator.iter_errors(cluster):
        sys.exit(f"{folder}/ray-cluster.yaml: {'.'.join(map(str, error.path))}: {error.message}")
    broken = json.loads(json.dumps(cluster))
    broken["spec"]["workerGroupSpecs"][0]["replica"] = 1
    if validator.is_valid(broken):
        sys.exit(f"{folder}/ray-cluster.schema.json: it allows members that KubeRay does not have")
    kinds = {(document["kind"], document["metadata"]["name"]) for document in documents}
    groups = [cluster["spec"]["headGroupSpec"], *cluster["spec"]["workerGroupSpecs"]]
    check_image(folder, cluster["spec"]["rayVersion"])
    if not cluster["spec"].get("enableInTreeAutoscaling"):
        sys.exit(f"{folder}: replicas by load want pods for them (docs/scale-out.md): enableInTreeAutoscaling")
    head = cluster["spec"]["headGroupSpec"]["template"]["spec"]["containers"][0]
    if "spirea cluster up" not in str(head["lifecycle"]["postStart"]):
        sys.exit(f"{folder}: a head that starts anew must bring the cluster up")
    for group in groups:
        pod = group["template"]["spec"]
        if not pod["securityContext"]["runAsNonRoot"]:
            sys.exit(f"{folder}: pods run as root")
        if ("ServiceAccount", pod["serviceAccountName"]) not in kinds:
            sys.exit(f"{folder}: there is no ServiceAccount {pod['serviceAccountName']}")
        for volume in pod["volumes"]:
            claim, mapped = volume.get("persistentVolumeClaim"), volume.get("configMap")
            wanted = ("PersistentVolumeClaim", claim["claimName"]) if claim else ("ConfigMap", mapped["name"]) if mapped else None
            if wanted is not None and wanted not in kinds:
                sys.exit(f"{folder}: there is no {wanted[0]} {wanted[1]}")
    return 1


def main():
    variables = known_variables()
    passed = sum(check_compose(path, variables) for path in sorted(DEPLOY.glob("compose*.yml")))
    passed += check_containerfile() + check_unit() + check_kuberay()
    print(f"{passed} passed, 0 failed")


if __name__ == "__main__":
    main()
