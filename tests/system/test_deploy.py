"""Checks of the files of deploy/ that need no deployment.

Compose files are YAML. Their services build the one Containerfile, and each variable SPIREA_... overrides a key of
deploy/spirea.toml. systemd accepts the unit. The image does not run as root. KubeRay's schema accepts the manifest
(scripts/kuberay_schema.py), and KubeRay's image has the packages of the Python package's extras.
"""

import hashlib
import ipaddress
import json
import re
import subprocess
import sys
import tomllib

import jsonschema
import pytest
import yaml

import check_images
import debian
import pin_images
from system.programs import PATIENCE, ROOT, Folder, run

DEPLOY = ROOT / "deploy"
KUBERAY = DEPLOY / "kuberay"
COMPOSE = {path.name: yaml.safe_load(path.read_text(encoding="utf-8"))["services"] for path in DEPLOY.glob("compose*.yml")}


def known_variables():
    """Returns the variables that override keys of the example, including keys that are commented out."""
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


def test_compose_repository_is_writable():
    """A server that takes publications writes to its repository."""
    for name, services in COMPOSE.items():
        for service in services.values():
            if "SPIREA_ADMIN_LISTEN" in service["environment"]:
                [path] = re.findall(r'path = "([^"]+)"', service["environment"]["SPIREA_DATABASES"])
                [mount] = [volume for volume in service["volumes"] if path.startswith(volume.split(":")[1] + "/")]
                assert not mount.endswith(":ro"), f"{name}: {mount}"


def test_image_context():
    """The image's compiler is its tag's: rustup would follow rust-toolchain.toml. Docker reads .dockerignore alone."""
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert {"rust-toolchain.toml", "target", ".git"} <= set(ignored)
    assert not (ROOT / ".containerignore").exists(), "Podman would read it instead"


def test_unit_user_is_created():
    unit = (DEPLOY / "spirea.service").read_text(encoding="utf-8")
    sysusers = (DEPLOY / "spirea.sysusers.conf").read_text(encoding="utf-8")
    created = set(re.findall(r"^u (\S+)", sysusers, re.MULTILINE))
    named = re.findall(r"^(?:User|Group|SupplementaryGroups)=(.+)$", unit, re.MULTILINE)
    assert named
    assert {name for names in named for name in names.split()} <= created
    # systemd refuses a dynamic user whose name is a group's alone.
    assert "DynamicUser" not in unit


def test_alerts():
    """Every alert says what it means and what to do; the server's tests hold its metrics against those that there are."""
    alerts = yaml.safe_load((DEPLOY / "alerts.yml").read_text(encoding="utf-8"))
    rules = [rule for group in alerts["groups"] for rule in group["rules"]]
    assert len({rule["alert"] for rule in rules}) == len(rules) > 10
    for rule in rules:
        assert rule["expr"]
        assert rule["labels"]["severity"] in ("critical", "warning", "info")
        assert rule["annotations"].keys() == {"summary", "description"}


def test_containerfile():
    """The image has two stages, a user other than root, and a health check."""
    text = (DEPLOY / "Containerfile").read_text(encoding="utf-8")
    users = re.findall(r"^USER (\d+)", text, re.MULTILINE)
    assert users and "0" not in users
    assert "HEALTHCHECK" in text
    assert text.count("\nFROM ") == 2


@pytest.mark.needs("systemd-analyze")
def test_unit(tmp_path):
    """systemd accepts the unit, whose program is replaced by one that exists on this machine."""
    text = (DEPLOY / "spirea.service").read_text(encoding="utf-8")
    assert "/usr/bin/spirea" in text
    copy = tmp_path / "spirea.service"
    copy.write_text(text.replace("/usr/bin/spirea", "/bin/true"), encoding="utf-8")
    # The exit code also depends on the machine's other units, so only the messages count.
    said = run("bash", "-c", f"{debian.find('systemd-analyze')} verify {copy} || true").stderr
    assert not [line for line in said.splitlines() if "spirea.service" in line], said
    copy.write_text(copy.read_text().replace("[Service]", "[Service]\nUser"), encoding="utf-8")
    said = run("bash", "-c", f"{debian.find('systemd-analyze')} verify {copy} || true").stderr
    assert "spirea.service" in said, "a fault is not found"


def admitted():
    """Returns the calls that the unit's filter admits. Later lines add to earlier lines, or remove from them."""
    sets, name = {}, None
    for line in run(debian.find("systemd-analyze"), "syscall-filter").stdout.splitlines():
        if line.startswith("@"):
            name = line.strip()
            sets[name] = set()
        elif name and (entry := line.split("#")[0].strip()):
            sets[name].add(entry)

    def calls(entry):
        return set().union(*map(calls, sets[entry])) if entry.startswith("@") else {entry}

    unit = (DEPLOY / "spirea.service").read_text(encoding="utf-8")
    found = set()
    for entries in re.findall(r"^SystemCallFilter=(.+)$", unit, re.MULTILINE):
        of_line = set().union(*map(calls, entries.removeprefix("~").split()))
        found = found - of_line if entries.startswith("~") else found | of_line
    return found


@pytest.mark.needs("strace", "systemd-analyze")
def test_unit_admits_all_calls_of_a_server(spirea, tmp_path):
    """A call outside the filter kills the server. This one loads a table, answers, publishes, compacts and ends."""
    strace = debian.find("strace")
    if subprocess.run([strace, "-o", "/dev/null", "true"], check=False).returncode != 0:
        pytest.skip("this environment forbids tracing")
    folder = Folder(spirea, tmp_path)
    folder.write("table.csv", "key,value\none,1\ntwo,2\n")
    folder.write("changes.jsonl", '{"key": "one", "value": "3"}\n')
    options = [
        "--name",
        "table",
        "--key",
        "key",
        "--value",
        "value",
        "--protocol",
        "exppack-simple",
        "--keys",
        "per-query",
        "--out",
        "snapshot",
    ]
    folder.run("build", "--input", "table.csv", *options)
    folder.run("publish", "--repository", "table", "--base", "snapshot")
    free = ["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"]
    trace = [strace, "-f", "-qq", "-o", tmp_path / "trace", spirea, "serve", "table", *free]
    with subprocess.Popen(trace, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        try:
            url, admin = (server.stdout.readline().split()[-1] for _ in range(2))
            assert folder.run("get", url, "table", "one", "--wait", "60").stdout.strip() == "1"
            for operation in [["publish", "--changes", "changes.jsonl"], ["compact"]]:
                folder.run(*operation, "--server", admin, "--database", "table")
                assert folder.run("get", url, "table", "one").stdout.strip() == "3"
        finally:
            # The tracer passes no signals on.
            [process] = run("pgrep", "-P", str(server.pid)).stdout.split()
            run("kill", process)
        assert server.wait(PATIENCE) == 0
    called = set(re.findall(r"^\d+ +(\w+)\(", (tmp_path / "trace").read_text(encoding="utf-8"), re.MULTILINE))
    assert {"setpriority", "sched_setscheduler"} <= called and len(called) > 40, sorted(called)
    assert called <= admitted(), sorted(called - admitted())


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
    """The image has the manifest's version of Ray, and the packages of the extras for a cluster and its store."""
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
    """Pods do not run as root, and all objects that they name are in the manifest."""
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
    """Ray requires its token from everyone; workers have a separate account, and no token for Kubernetes."""
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
    for container in containers:
        assert {"name": "RAY_worker_niceness", "value": "0"} in container["env"], "look-ups would be slow on a busy node"
    policies = [document["spec"] for document in documents if document["kind"] == "NetworkPolicy"]
    for role in ("coordinator", "worker"):
        assert any(policy["podSelector"]["matchLabels"]["role"] == role for policy in policies)


def selects(selector, labels):
    return selector["matchLabels"].items() <= labels.items()


def admits(peer, target):
    """True if a peer of a rule includes the target: an address, or the labels of a pod and of its namespace."""
    if isinstance(target, str):
        block, address = peer.get("ipBlock"), ipaddress.ip_address(target)
        inside = block is not None and address in ipaddress.ip_network(block["cidr"])
        return inside and not any(address in ipaddress.ip_network(outside) for outside in block.get("except", []))
    if "ipBlock" in peer:
        return False
    labels, namespace = target
    in_namespace = selects(peer["namespaceSelector"], namespace) if "namespaceSelector" in peer else namespace == {}
    return in_namespace and selects(peer["podSelector"], labels)


def may_reach(documents, pod, target, port, protocol="TCP"):
    """True if the policies allow a pod to connect to a port of the target."""
    policies = [document["spec"] for document in documents if document["kind"] == "NetworkPolicy"]
    policies = [policy for policy in policies if selects(policy["podSelector"], pod) and "Egress" in policy["policyTypes"]]
    return not policies or any(
        ("to" not in rule or any(admits(peer, target) for peer in rule["to"]))
        and ("ports" not in rule or {"port": port, "protocol": protocol} in rule["ports"])
        for policy in policies
        for rule in policy["egress"]
    )


WORKER, COORDINATOR = ({"app": "spirea", "role": role} for role in ("worker", "coordinator"))
NAMES = ({"k8s-app": "kube-dns"}, {"kubernetes.io/metadata.name": "kube-system"})
STORE, METADATA, PRIVATE = "52.218.0.1", "169.254.169.254", ["10.96.0.1", "172.16.3.4", "192.168.1.1", "100.64.0.9"]


def test_kuberay_workers_reach_the_cluster_and_the_store_alone(documents):
    for pod in (COORDINATOR, WORKER):
        for port in (6379, 7000, 31234):
            assert may_reach(documents, WORKER, (pod, {}), port)
    assert may_reach(documents, WORKER, NAMES, 53, "UDP") and may_reach(documents, WORKER, STORE, 443)
    assert not may_reach(documents, WORKER, NAMES, 443) and not may_reach(documents, WORKER, STORE, 80)
    assert not may_reach(documents, WORKER, ({"app": "another"}, {}), 443)
    assert not may_reach(documents, WORKER, (WORKER, {"kubernetes.io/metadata.name": "another"}), 443)
    for address in [METADATA, *PRIVATE]:
        for port in (80, 443, 6443):
            assert not may_reach(documents, WORKER, address, port), f"{address}:{port}"


def test_kuberay_coordinator_reaches_kubernetes_besides(documents):
    assert may_reach(documents, COORDINATOR, (WORKER, {}), 7000)
    assert may_reach(documents, COORDINATOR, NAMES, 53, "UDP") and may_reach(documents, COORDINATOR, STORE, 443)
    assert may_reach(documents, COORDINATOR, "10.96.0.1", 443) and may_reach(documents, COORDINATOR, "10.0.0.1", 6443)
    assert not may_reach(documents, COORDINATOR, STORE, 80) and not may_reach(documents, COORDINATOR, METADATA, 80)
    assert not may_reach(documents, COORDINATOR, ({"app": "another"}, {}), 7000)


CONTAINERFILES = [DEPLOY / "Containerfile", KUBERAY / "Containerfile"]
RAW = b'{"schemaVersion": 2}'
"""The manifest of every image that the programs of `registry` know."""


def test_images_have_digests_but_for_those_that_the_documents_list():
    files = [*CONTAINERFILES, *DEPLOY.rglob("*.yml"), *DEPLOY.rglob("*.yaml")]
    named = {image for file in files for _, image in check_images.images(file.read_text(encoding="utf-8"))}
    assert "spirea" in named and any(image.startswith("docker.io/") for image in named)
    without = {image for image in named if not check_images.PINNED.fullmatch(image) and not pin_images.is_operators(image)}
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    [listed] = re.findall(r"^These images are not pinned yet,.*?:\s+(.*?)\.\s", text, re.MULTILINE | re.DOTALL)
    assert {image.rpartition(":")[0] for image in without} == set(re.findall(r"`([^`]+)`", listed))


@pytest.fixture(params=["skopeo", "docker"])
def registry(request, tmp_path, monkeypatch):
    """A program that prints an image's manifest, as skopeo or docker does, except for images called `gone`."""
    programs = tmp_path / "programs"
    programs.mkdir()
    program = programs / request.param
    program.write_text(
        f"#!{sys.executable}\nimport sys\nif 'gone' in sys.argv[-1]:\n    sys.exit('no such image')\n"
        f"assert '--raw' in sys.argv\nsys.stdout.buffer.write({RAW!r})\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(programs))


@pytest.mark.usefixtures("registry")
def test_digests_are_written_where_there_are_tags(tmp_path, capsys):
    check = [sys.executable, str(ROOT / "scripts" / "check_images.py")]
    for file in CONTAINERFILES:
        copy = tmp_path / "Containerfile"
        copy.write_text(re.sub("@sha256:[0-9a-f]{64}", "", file.read_text(encoding="utf-8")), encoding="utf-8")
        before = copy.read_text(encoding="utf-8")
        assert pin_images.main([copy]) == 0
        assert run(*check, copy).stdout == ""
        assert copy.read_text(encoding="utf-8").replace(f"@sha256:{hashlib.sha256(RAW).hexdigest()}", "") == before
        pinned = copy.read_bytes()
        assert pin_images.main([copy]) == 0 and copy.read_bytes() == pinned, "a pinned image changed"
    manifest, text = tmp_path / "pods.yaml", "image: spirea-cluster:0.1.0\nimage: registry.example/gone:1\n"
    manifest.write_text(text, encoding="utf-8")
    capsys.readouterr()
    assert pin_images.main([manifest]) == 1 and manifest.read_text(encoding="utf-8") == text
    said = capsys.readouterr()
    assert f"{manifest}:1: spirea-cluster:0.1.0 is built by the operator" in said.out
    assert f"{manifest}:2: registry.example/gone:1: " in said.err and "no such image" in said.err


def test_digests_want_a_program(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PATH", str(tmp_path))
    file = tmp_path / "Containerfile"
    file.write_text("FROM debian:trixie\n")
    assert pin_images.main([file]) == 1 and file.read_text() == "FROM debian:trixie\n"
    assert "skopeo" in capsys.readouterr().err


def test_images_of_a_release_have_digests(tmp_path):
    """The release's check accepts files whose images all have digests, and names each image without one."""
    check = [sys.executable, str(ROOT / "scripts" / "check_images.py")]
    digest = f"@sha256:{'0123456789abcdef' * 4}"
    text = f"FROM docker.io/library/rust:1.95{digest} AS build\nFROM docker.io/library/debian:trixie{digest}\nFROM build\n"
    pinned, manifest = tmp_path / "Containerfile", tmp_path / "pods.yaml"
    pinned.write_text(text.replace("FROM ", "FROM --platform=linux/amd64 ", 1), encoding="utf-8")
    manifest.write_text(f'  - image: "spirea-cluster{digest}"\n    image: spirea-cluster{digest}\n', encoding="utf-8")
    assert run(*check, pinned, manifest).stdout == ""

    wrong = [
        ("FROM debian", "debian"),
        ("- image: a:1", "a:1"),
        (f"  image: a{digest[:-1]}", f"a{digest[:-1]}"),
        ("FROM $B", "$B"),
    ]
    for line, image in wrong:
        pinned.write_text(f"{text}{line}\n", encoding="utf-8")
        done = subprocess.run([*check, manifest, pinned], capture_output=True, text=True, check=False)
        assert done.returncode == 1
        assert done.stdout.startswith(f"{pinned}:{len(text.splitlines()) + 1}: {image} has no digest"), done.stdout
