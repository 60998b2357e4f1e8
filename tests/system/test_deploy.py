"""The files of deploy/, as far as they can be checked without deploying.

Compose files are YAML, their services build the one Containerfile, and each variable SPIREA_... is the override of a key of
deploy/spirea.toml; systemd accepts the unit; the image does not run as root. KubeRay's schema accepts its manifest
(scripts/kuberay_schema.py), and the image has what the extras of the package name.
"""

import json
import re
import tomllib

import jsonschema
import pytest
import yaml

import debian
from system.programs import ROOT, run

DEPLOY = ROOT / "deploy"
KUBERAY = DEPLOY / "kuberay"
COMPOSE = {path.name: yaml.safe_load(path.read_text(encoding="utf-8"))["services"] for path in DEPLOY.glob("compose*.yml")}


def known_variables():
    """The variables that override the keys of the example, commented out or not."""
    lines = (DEPLOY / "spirea.toml").read_text(encoding="utf-8").splitlines()
    example = "\n".join(line.removeprefix("# ") if " = " in line else line for line in lines)
    variables = set()
    for key, value in tomllib.loads(example).items():
        names = [f"{key}__{inner}" for inner in value] if isinstance(value, dict) else [key]
        variables.update("SPIREA_" + name.upper() for name in names)
    return variables


@pytest.mark.parametrize(("file", "name"), sorted((file, name) for file, services in COMPOSE.items() for name in services))
def test_compose_service(file, name):
    service = COMPOSE[file][name]
    wanted = {variable for variable in service["environment"] if variable.startswith("SPIREA_")}
    assert wanted <= known_variables(), "a variable is no setting"
    if databases := service["environment"].get("SPIREA_DATABASES"):
        tomllib.loads(f"databases = {databases}")
    image = (DEPLOY / service["build"]["context"] / service["build"]["dockerfile"]).resolve()
    assert image == DEPLOY / "Containerfile"
    assert service["read_only"] and service["cap_drop"] == ["ALL"], "it may do more than it needs"


def test_containerfile():
    """Two stages, a user that is not root, and a check of health."""
    text = (DEPLOY / "Containerfile").read_text(encoding="utf-8")
    users = re.findall(r"^USER (\d+)", text, re.MULTILINE)
    assert users and "0" not in users
    assert "HEALTHCHECK" in text
    assert text.count("\nFROM ") == 2


@pytest.mark.needs("systemd-analyze")
def test_unit(tmp_path):
    """The unit, with a program that exists here in place of the one that it starts."""
    text = (DEPLOY / "spirea.service").read_text(encoding="utf-8")
    assert "/usr/bin/spirea" in text
    copy = tmp_path / "spirea.service"
    copy.write_text(text.replace("/usr/bin/spirea", "/bin/true"), encoding="utf-8")
    # Its exit code is also of the machine's other units.
    said = run("bash", "-c", f"{debian.find('systemd-analyze')} verify {copy} || true").stderr
    assert not [line for line in said.splitlines() if "spirea.service" in line], said
    copy.write_text(copy.read_text().replace("[Service]", "[Service]\nUser"), encoding="utf-8")
    said = run("bash", "-c", f"{debian.find('systemd-analyze')} verify {copy} || true").stderr
    assert "spirea.service" in said, "a fault is not found"


@pytest.fixture(scope="module")
def documents():
    return list(yaml.safe_load_all((KUBERAY / "ray-cluster.yaml").read_text(encoding="utf-8")))


@pytest.fixture(scope="module")
def cluster(documents):
    [cluster] = [document for document in documents if document["kind"] == "RayCluster"]
    return cluster


def test_kuberay_schema(cluster):
    schema = json.loads((KUBERAY / "ray-cluster.schema.json").read_text(encoding="utf-8"))
    validator = jsonschema.Draft202012Validator(schema)
    assert not [f"{'.'.join(map(str, error.path))}: {error.message}" for error in validator.iter_errors(cluster)]
    broken = json.loads(json.dumps(cluster))
    broken["spec"]["workerGroupSpecs"][0]["replica"] = 1
    assert not validator.is_valid(broken), "the schema allows members that KubeRay does not have"


def test_kuberay_image(cluster):
    """The image has the manifest's Ray, and what the extras of the package name that a cluster and its store want."""
    text = (KUBERAY / "Containerfile").read_text(encoding="utf-8")
    [ray] = re.findall(r"rayproject/ray:([0-9.]+)-", text)
    required = (KUBERAY / "requirements.txt").read_text(encoding="utf-8")
    pinned = dict(re.findall(r"^([a-z0-9-]+)==(\S+)", required, re.MULTILINE))
    assert ray == pinned["ray"] == cluster["spec"]["rayVersion"]
    assert "deploy/kuberay/requirements.txt" in text
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    wanted = [wanted for extra in ("cluster", "s3", "gcs") for wanted in extras[extra]]
    assert {re.match(r"[A-Za-z0-9-]+", name)[0].lower() for name in wanted} <= pinned.keys()


def test_kuberay_cluster(cluster):
    assert cluster["spec"].get("enableInTreeAutoscaling"), "replicas by load want pods for them (docs/scale-out.md)"
    head = cluster["spec"]["headGroupSpec"]["template"]["spec"]["containers"][0]
    started = str(head["lifecycle"]["postStart"])
    assert "spirea cluster up" in started, "a head that starts anew must bring the cluster up"


def test_kuberay_pods(documents, cluster):
    """Pods do not run as root, and all that they name is in the manifest."""
    kinds = {(document["kind"], document["metadata"]["name"]) for document in documents}
    for group in [cluster["spec"]["headGroupSpec"], *cluster["spec"]["workerGroupSpecs"]]:
        pod = group["template"]["spec"]
        assert pod["securityContext"]["runAsNonRoot"]
        assert ("ServiceAccount", pod["serviceAccountName"]) in kinds
        for volume in pod["volumes"]:
            if claim := volume.get("persistentVolumeClaim"):
                assert ("PersistentVolumeClaim", claim["claimName"]) in kinds
            elif mapped := volume.get("configMap"):
                assert ("ConfigMap", mapped["name"]) in kinds


def test_kuberay_privileges(documents, cluster):
    """Ray asks everybody for its token; workers have an account of their own, and no token for Kubernetes."""
    accounts = {document["metadata"]["name"]: document for document in documents if document["kind"] == "ServiceAccount"}
    head = cluster["spec"]["headGroupSpec"]["template"]["spec"]
    workers = [group["template"]["spec"] for group in cluster["spec"]["workerGroupSpecs"]]
    assert head["serviceAccountName"] not in {pod["serviceAccountName"] for pod in workers}
    for pod in workers:
        assert pod["automountServiceAccountToken"] is False
        assert accounts[pod["serviceAccountName"]]["automountServiceAccountToken"] is False
    containers = [container for pod in [head, *workers] for container in pod["containers"]]
    for environment in [*(container["env"] for container in containers), cluster["spec"]["autoscalerOptions"]["env"]]:
        variables = {variable["name"]: variable for variable in environment}
        assert variables["RAY_AUTH_MODE"]["value"] == "token"
        assert "secretKeyRef" in variables["RAY_AUTH_TOKEN"]["valueFrom"]
    policies = [document["spec"] for document in documents if document["kind"] == "NetworkPolicy"]
    for role in ("coordinator", "worker"):
        assert any(policy["podSelector"]["matchLabels"]["role"] == role for policy in policies)
