"""The port for operations, certificates, files and messages, facing an attacker."""

import argparse
import http.client
import io
import os
import re
import socket
import stat
import sys
import threading
import time

import pyarrow.parquet
import pytest
from cryptography import x509

import spirea
from spirea.cluster import authority, command, config, files, pages, rows
from spirea.cluster.files import Folder
from spirea.cluster.state import State


@pytest.fixture
def serving():
    """A port for operations whose metrics wait until the end of the test."""
    let = threading.Event()
    port = pages.Pages("127.0.0.1:0", dict, lambda: let.wait(300) and "x 1\n").port
    yield port
    let.set()


def asked(port, path="/healthz", **headers):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
    connection.request("GET", path, headers=headers)
    return connection.getresponse().status


def test_a_page_of_another_site_reads_nothing(serving):
    for headers in ({"Host": "evil.example"}, {"Host": f"evil.example:{serving}"}, {"Origin": "http://evil.example"}):
        assert asked(serving, **headers) == 403
    for headers in ({}, {"Host": "localhost"}, {"Host": "[::1]:1"}, {"Origin": f"http://127.0.0.1:{serving}"}):
        assert asked(serving, **headers) == 200
    named = pages.Pages("127.0.0.1:0", dict, str, ("spirea.internal",)).port
    assert asked(named, Host="spirea.internal:7082") == 200


def test_a_request_names_one_host(serving):
    def status(version, *headers):
        with socket.create_connection(("127.0.0.1", serving), timeout=300) as connection:
            lines = [f"GET /healthz HTTP/{version}", *headers, "Connection: close", "", ""]
            connection.sendall("\r\n".join(lines).encode())
            with connection.makefile("rb") as response:
                return int(response.readline().split()[1])

    assert status("1.1") == 400 and status("1.1", "Host: localhost", "Host: localhost") == 400
    assert status("1.0", "Host: localhost", "Host: evil.example") == 400
    assert status("1.1", "Host: ") == 403
    assert status("1.0", "Origin: http://evil.example") == 403 and status("1.0", "Origin: http://None") == 403
    assert status("1.1", "Host: localhost", "Origin: http://localhost", "Origin: http://evil.example") == 403
    assert status("1.0") == 200 and status("1.1", "Host: localhost") == 200


def test_a_request_that_dribbles_is_cut_off(serving, monkeypatch):
    monkeypatch.setattr(pages, "_SECONDS", 0.3)
    with socket.create_connection(("127.0.0.1", serving)) as connection:
        connection.setblocking(False)
        for _ in range(2000):
            try:
                connection.send(b"G")
                if connection.recv(1) == b"":
                    return
            except BlockingIOError:
                time.sleep(0.05)
            except OSError:
                return
    raise AssertionError("it is still served")


def test_health_is_told_while_all_others_wait(serving):
    waiting = [socket.create_connection(("127.0.0.1", serving)) for _ in range(pages._AT_ONCE)]
    for connection in waiting:
        connection.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
    assert asked(serving) == 200
    for connection in waiting:
        connection.close()


def test_results_are_not_mixed_with_what_other_threads_print():
    results, events = io.StringIO(), io.StringIO()
    both = command.Results(results, events)
    thread = threading.Thread(target=lambda: print("a node died", file=both))
    thread.start()
    thread.join()
    print("{}", file=both, flush=True)
    assert (results.getvalue(), events.getvalue()) == ("{}\n", "a node died\n")


def test_a_worker_gets_a_certificate_for_the_address_that_ray_knows(tmp_path):
    signer = authority.Authority(tmp_path, authority.WORKERS)
    signed = signer.sign(authority.request("10.0.0.99").request, 60.0, "10.0.0.7")
    names = x509.load_pem_x509_certificate(signed).extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert [str(name.value) for name in names] == ["10.0.0.7"]


class Hands:
    """Workers, the first of which sends an invalid request."""

    def __init__(self):
        self.requests = {0: b"nonsense", 1: authority.request("10.0.0.99").request, 2: authority.request("10.0.0.3").request}
        self.given = {}

    def report(self, number):
        return {"request": self.requests[number]}

    def host(self, number):
        return None if number == 2 else f"10.0.0.{number}"

    def certify(self, number, certificate, trusted):
        self.given[number] = certificate


@pytest.mark.full
def test_a_request_that_cannot_be_signed_keeps_no_other_worker_waiting(controller, tmp_path):
    controller._hands = Hands()
    controller._authorities = {role: authority.Authority(tmp_path, role) for role in authority.ROLES}
    controller._config = config.Config("library", "/store", "/state", "/work", (config.Database("a", "/a", 1),))
    with pytest.raises(spirea.ClusterError, match="worker 0: "):
        controller._sign([0, 1, 2])
    assert list(controller._hands.given) == [1]
    names = x509.load_pem_x509_certificate(controller._hands.given[1]).extensions
    [name] = names.get_extension_for_class(x509.SubjectAlternativeName).value
    assert str(name.value) == "10.0.0.1"


@pytest.mark.full
def test_the_state_is_its_owners_alone(controller, tmp_path):
    controller._kept, controller._text, controller._state = tmp_path / "state.json", "", State(next_number=1)
    before = os.umask(0)
    try:
        controller._keep()
    finally:
        os.umask(before)
    assert stat.S_IMODE(controller._kept.stat().st_mode) == 0o600


SECRET = "s3://me:secret@bucket/words?X-Amz-Signature=secret"


def test_messages_mask_the_secrets_of_urls(tmp_path, keyed, monkeypatch):
    said = f"403: {SECRET} and https://me:secret@host/a?token=secret, or '{SECRET}'"
    assert "secret" not in files.masked(said) and files.masked(said).count("s3://bucket/words") == 2
    assert files.masked("see https://host/a, or /srv/a@b?") == "see https://host/a, or /srv/a@b?"
    conf = config.Config("library", SECRET, "/state", "/work", (config.Database("a", "/a", 1),))
    monkeypatch.setattr(Folder, "version", lambda self: "0" * 64)
    with pytest.raises(spirea.ClusterError) as refused:
        command._stored(conf, "a", "memory://me:secret@elsewhere/words?token=secret")
    assert "secret" not in str(refused.value)

    def fails(self, path, **_):
        raise OSError(f"403 for {SECRET}")

    store = Folder("memory://bucket/words")
    monkeypatch.setattr(type(store.files), "cat_file", fails)
    with pytest.raises(spirea.ClusterError) as refused:
        store.read("hint.bin")
    assert "secret" not in str(refused.value) and "403" in str(refused.value)


def parts_of(table, parts):
    for unit in table.units:
        rows.make_part(unit, table.url, table.columns, parts.url)


class Published:
    """A controller that records publications."""

    def __init__(self):
        self.given = []
        self.publish = self

    def remote(self, *given, may_shrink=False):
        self.given.append((*given, may_shrink))


def test_a_snapshot_is_published_by_what_build_prints_and_no_secret_is_printed(tmp_path, monkeypatch, capsys):
    pyarrow.parquet.write_table(pyarrow.table({"key": ["a", "b"], "value": ["1", "2"]}), tmp_path / "rows.parquet")
    store = "memory://me:secret@bucket/store"
    conf = tmp_path / "cluster.yaml"
    databases = "[{name: words, snapshot: words, shards: 1}]"
    conf.write_text(f"{{name: library, store: '{store}', state: state, work: work, databases: {databases}}}")
    controller = Published()
    monkeypatch.setattr(command, "_connected", lambda config: None)
    monkeypatch.setattr(command, "_controller", lambda config: controller)
    monkeypatch.setattr(command, "_ask", lambda method, *given, patience=0.0, **named: method.remote(*given, **named))
    monkeypatch.setattr(command, "_await", lambda *waited: None)
    monkeypatch.setattr(rows, "make_parts", lambda table, parts, telling: parts_of(table, parts))
    built = ["build", str(conf), "words", "--input", f"{tmp_path}/*.parquet", "--key", "key", "--value", "value"]
    assert command.main(built) == 0
    printed = capsys.readouterr()
    assert command.main(["publish", str(conf), "words", printed.out.strip()]) == 0
    said = capsys.readouterr()
    [(name, url, version, may_shrink)] = controller.given
    assert not may_shrink
    assert (name, url, Folder(url).version()) == ("words", f"{store}/words/{version}", version)
    assert "secret" not in printed.out + printed.err + said.out + said.err
    assert f"memory://bucket/store/words/{version}" in printed.err

    assert command.main(["publish", str(conf), "words", "0" * 64]) == 1
    absent = capsys.readouterr().err
    assert f"memory://bucket/store/words/{'0' * 64}: there is no manifest.json" in absent and "secret" not in absent


def test_a_port_in_use_is_named():
    port = pages.Pages("127.0.0.1:0", dict, str).port
    with pytest.raises(spirea.ClusterError, match=rf"operations\.listen: .* on 127\.0\.0\.1:{port}: .*in use"):
        pages.Pages(f"127.0.0.1:{port}", dict, str)


def test_a_user_who_waits_sees_what_is_missing(monkeypatch, capsys):
    share = {"trouble": "", "replicas": [{"phase": "starting", "number": 7, "trouble": "no file"}]}
    status = {
        "trouble": "", "coordinator": {"trouble": ""},
        "databases": [{"name": "words", "trouble": "", "versions": [{"shares": [share]}]}],
    }  # fmt: skip
    answers = [status, status, spirea.ClusterError(f"403: {SECRET}"), status]

    def ask(method):
        answer = answers.pop(0)
        if isinstance(answer, spirea.ClusterError):
            raise answer
        return answer

    monkeypatch.setattr(command, "_ask", ask)
    monkeypatch.setattr(command, "_controller", lambda config: argparse.Namespace(status=None))
    monkeypatch.setattr(command, "_ROUND", 0.001)
    monkeypatch.setattr(command, "_QUIET", 0.0)
    monkeypatch.setattr(command.statuses, "text", str)
    command._await(None, 60.0, lambda status: not answers, "the cluster")
    printed = re.sub(r"\d+ s: ", "", capsys.readouterr().err).splitlines()
    assert printed[:2] == [
        "waiting for the cluster, words: 0 of 1 shares have a ready worker",
        "waiting for the cluster, words: worker 7: no file",
    ]
    assert len(printed) == 3 and "secret" not in printed[2]


class Dying:
    """A method of a controller that has ended twice when it answers."""

    def __init__(self, error):
        self.left = [error, error]

    def remote(self, *given, **named):
        return self.left.pop() if self.left else (given, named)


def test_a_ray_that_wants_its_token_is_told_from_one_that_does_not_run(monkeypatch):
    ray = pytest.importorskip("ray")

    def init(*_, **__):
        raise ConnectionError("no connection") from RuntimeError("InvalidAuthToken: it is missing")

    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", init)
    monkeypatch.setattr(command, "_reached", lambda address: None)
    monkeypatch.setattr(sys, "stdout", sys.stdout)
    conf = config.Config("library", "/store", "/state", "/work", (config.Database("a", "/a", 1),))
    with pytest.raises(spirea.ClusterError, match="refuses us: set RAY_AUTH_MODE=token"):
        command._connected(conf)


def test_a_call_is_repeated_if_the_controller_dies_meanwhile(monkeypatch):
    ray = pytest.importorskip("ray")
    from ray.exceptions import GetTimeoutError, RayActorError

    def get(answer, timeout):
        # On a busy machine the patience may end before the call.
        assert 0 <= timeout <= command._PATIENCE
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(ray, "get", get)
    monkeypatch.setattr(command, "_ROUND", 0.001)
    assert command._ask(Dying(RayActorError()), 1, may_shrink=True) == ((1,), {"may_shrink": True})
    monkeypatch.setattr(command, "_PATIENCE", 0.002)
    with pytest.raises(spirea.ClusterError, match="does not answer"):
        command._ask(Dying(GetTimeoutError()))
    monkeypatch.setattr(command, "_PATIENCE", 30.0)
    broken = RayActorError(error_msg="its start raised\nspirea.errors.ClusterError: no port", actor_init_failed=True)
    with pytest.raises(spirea.ClusterError, match=r"^the controller cannot start: no port$"):
        command._ask(Dying(broken))
    monkeypatch.setattr(ray, "get", lambda answer, timeout: timeout)
    assert 599 < command._ask(Dying(None), patience=600.0) <= 600 and 29 < command._ask(Dying(None)) <= 30
