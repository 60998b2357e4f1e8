"""Two replicas that share nothing, behind the balancers of deploy/balancers/.

Clients of a protocol with registered keys get every value, whichever replica answers. With stickiness, each client's keys are
at one replica only, and no query meets a replica without them. A larger request than a proxy's default passes.
"""

import json
import os
import re
import subprocess
import sysconfig
from contextlib import ExitStack, contextmanager
from pathlib import Path
from time import monotonic, sleep

import pytest
import yaml

import debian
from spirea_ports import free_ports
from system.programs import ROOT, Folder, get

BALANCERS = ROOT / "deploy" / "balancers"
REPLICAS = ["10.0.0.11:8080", "10.0.0.12:8080"]
WORDS = [f"word {i}" for i in range(40)]
PATIENCE = 60

# Debian has no Envoy. It comes from PyPI, with the packages of CI_FULL=1.
ENVOY = [pytest.param(name, marks=pytest.mark.full) for name in ("envoy.yaml", "envoy.sticky.yaml")]

balancers = pytest.mark.parametrize(
    "name",
    [
        pytest.param(f"{program}.{kind}", marks=pytest.mark.needs(program))
        for program, kind in [("haproxy", "cfg"), ("haproxy", "sticky.cfg"), ("nginx", "conf"), ("nginx", "sticky.conf")]
    ]
    + ENVOY,
)


def envoy():
    """Returns the path of Envoy in the environment of these tests."""
    path = Path(sysconfig.get_path("scripts"), "envoy")
    assert path.exists(), f"there is no {path}: install tests/requirements.cluster.txt, as make does with CI_FULL=1"
    return path


def command(name, config, folder):
    """Returns the command that runs a balancer in the foreground."""
    if name.startswith("haproxy"):
        return [debian.find("haproxy"), "-db", "-f", config]
    if name.startswith("envoy"):
        return [envoy(), "-c", config, "--concurrency", "1", "--disable-hot-restart", "--log-level", "error"]
    # nginx writes nothing outside the folder.
    names = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    paths = "".join(f"{each}_temp_path {folder / each};" for each in names)
    text = config.read_text(encoding="utf-8").replace("http {", f"http {{ access_log off; {paths}")
    # Another user could not enter the folder.
    user = "user root;" if os.geteuid() == 0 else ""
    head = f"daemon off; {user} pid {folder / 'pid'}; error_log {folder / 'error.log'};"
    config.write_text(f"{head}\n{text}", encoding="utf-8")
    return [debian.find("nginx"), "-c", config, "-p", folder, "-e", folder / "error.log"]


def placed(name, replicas, port):
    """Returns a configuration of deploy/balancers/ for these replicas and a port of this machine."""
    text = (BALANCERS / name).read_text(encoding="utf-8")
    if name.startswith("envoy"):
        separator, own = ", port_value: ", r"(address:) 0\.0\.0\.0, port_value: 8080"
    else:
        separator, own = ":", r"(bind|listen) :?8080"
    text, count = re.subn(own, rf"\1 127.0.0.1{separator}{port}", text)
    assert count == 1
    for placeholder, url in zip(REPLICAS, replicas):
        former, new = (address.replace(":", separator) for address in (placeholder, url.removeprefix("http://")))
        assert text.count(former) == 1
        text = text.replace(former, new)
    return text


def reaches(port, path="/v1/databases"):
    try:
        get(f"http://127.0.0.1:{port}{path}")
    except OSError:
        return False
    return True


@contextmanager
def balanced(name, replicas, folder, largest=None):
    """Runs a balancer of deploy/balancers/ in front of replicas, and yields its address.

    `largest` is another limit of bodies, for nginx.
    """
    folder.mkdir()
    [port] = free_ports(1)
    text = placed(name, replicas, port)
    if largest:
        text, count = re.subn(r"client_max_body_size \S+;", f"client_max_body_size {largest};", text)
        assert count == 1
    config = folder / name
    config.write_text(text, encoding="utf-8")
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command(name, config, folder), **quiet) as process:
        try:
            deadline = monotonic() + PATIENCE
            while process.poll() is None and not reaches(port):
                assert monotonic() < deadline, "the balancer reaches no replica"
                sleep(0.05)
            assert process.poll() is None, process.stderr.read()
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()


def metric(url, name):
    """Returns a metric of a server, summed over its labels."""
    lines = re.findall(rf"^{re.escape(name)}(?:{{[^}}]*}})? (\S+)$", get(f"{url}/metrics").decode(), re.MULTILINE)
    return sum(map(float, lines))


@pytest.fixture(scope="module")
def built(spirea, tmp_path_factory):
    """A table with registered keys, so long that a query with its keys behind it has more than 1 MiB."""
    folder = Folder(spirea, tmp_path_factory.mktemp("balancers"))
    folder.write("words.csv", "\n".join(["word", *WORDS]) + "\n")
    folder.run("build", "--input", "words.csv", "--value", "word", "--protocol", "hybrid", "--ring", "fast", "--out", "words")
    return folder


@contextmanager
def two_replicas(folder):
    with ExitStack() as stack:
        yield [stack.enter_context(folder.serving("words"))[0] for _ in range(2)]


def look_up(folder, url, indices):
    """Looks up words with a new client, which has new keys."""
    said = folder.run("get", url, "words", "--json", *(word for i in indices for word in ("--index", str(i)))).stdout
    found = [json.loads(line)["value"]["word"] for line in said.splitlines()]
    assert found == [WORDS[i] for i in indices]


@balancers
def test_clients_get_every_value(built, tmp_path, name, monkeypatch):
    # The least that clients keep to, so that each sends several requests, and its keys in pieces.
    monkeypatch.setenv("SPIREA_LIMITS__REQUEST_BYTES", "256KiB")
    clients = 3
    with two_replicas(built) as replicas, balanced(name, replicas, tmp_path / "balancer") as url:
        for _ in range(clients):
            look_up(built, url, [*range(len(WORDS))] * 3)
        asked = [metric(replica, "spirea_key_lookups_total") for replica in replicas]
        held = [metric(replica, "spirea_keys_bytes") > 0 for replica in replicas]
        unknown = sum(metric(replica, "spirea_unknown_keys_total") for replica in replicas)
        if "sticky" in name:
            assert unknown == 0, "a query met a replica without its keys"
            assert sum(metric(replica, "spirea_keys") for replica in replicas) == clients, "keys travelled more than once"
        else:
            assert all(held) and all(asked), "one replica had nothing to do"
            assert 0 < unknown <= 3 * clients
        for path in ("/metrics", "/readyz"):
            with pytest.raises(OSError, match="404"):
                get(url + path)


@balancers
def test_replica_that_stops_costs_no_look_up(built, tmp_path, name):
    with ExitStack() as stack:
        [staying] = stack.enter_context(built.serving("words"))
        with built.serving("words") as [leaving]:
            url = stack.enter_context(balanced(name, [staying, leaving], tmp_path / "balancer"))
            for client in range(2):
                look_up(built, url, [client, 7])
        look_up(built, url, [4, 5, 6])


# The default of nginx takes requests as clients divide them, and no query with its keys behind it.
@pytest.mark.needs("nginx")
@pytest.mark.parametrize(("largest", "outcome"), [(None, "ok"), ("1m", "warn"), ("512k", "FAIL")])
def test_doctor_finds_the_limit_of_a_proxy(built, tmp_path, largest, outcome):
    with built.serving("words") as [server], balanced("nginx.conf", [server] * 2, tmp_path / "proxy", largest) as url:
        done = subprocess.run([built.spirea, "doctor", url, "--json"], capture_output=True, text=True, check=False)
    [sizes] = [line for line in map(json.loads, done.stdout.splitlines()) if line["check"] == "sizes"]
    assert (sizes["outcome"], done.returncode != 0) == (outcome, outcome == "FAIL"), done.stdout
    if outcome != "ok":
        assert "413" in sizes["detail"] and "client_max_body_size" in sizes["remedy"]


@pytest.mark.parametrize("name", ["envoy.yaml", "envoy.sticky.yaml"])
def test_envoy_is_sticky_by_the_header_of_keys(name):
    text = (BALANCERS / name).read_text(encoding="utf-8")
    [cluster] = yaml.safe_load(text)["static_resources"]["clusters"]
    policy, hashed = ("RING_HASH", True) if "sticky" in name else ("ROUND_ROBIN", False)
    assert (cluster["lb_policy"], "spirea-affinity" in text) == (policy, hashed)


@pytest.mark.parametrize("name", ENVOY)
def test_envoy_accepts_its_configuration(name):
    command = [envoy(), "--mode", "validate", "-c", BALANCERS / name]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
