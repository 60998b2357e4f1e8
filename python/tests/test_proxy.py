"""Proxies of the environment see no token for this machine or the cluster, and never both shares of a query."""

from http.server import BaseHTTPRequestHandler
from types import SimpleNamespace

import pytest

VARIABLES = ("ALL_PROXY", "HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy")


@pytest.fixture
def proxy(answering):
    """A proxy that records requests and refuses them."""
    asked = []

    class Noting(BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append((self.command, self.path, self.headers.get("authorization")))
            self.send_error(502)

        do_POST = do_CONNECT = do_GET

        def log_message(self, *_):
            pass

    with answering(Noting) as url:
        yield SimpleNamespace(
            url=url, asked=asked, environment=dict.fromkeys(VARIABLES, url) | {"NO_PROXY": "", "no_proxy": ""}
        )


@pytest.fixture
def administered(answering):
    """A port for administration that records the tokens it receives."""
    shown = []

    class Administered(BaseHTTPRequestHandler):
        def do_GET(self):
            shown.append(self.headers.get("authorization"))
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *_):
            pass

    with answering(Administered) as url:
        yield SimpleNamespace(url=url, shown=shown)


LOOKS_UP = """
import sys, spirea
with spirea.Client(sys.argv[1], "keyed", token="secret", attempts=1) as client:
    print(client.get("k7"))
"""


def test_a_token_for_this_machine_meets_no_proxy(script, keyed_server, proxy):
    done = script(LOOKS_UP, keyed_server.url, **proxy.environment)
    assert done.returncode == 0 and not proxy.asked, (proxy.asked, done.stderr)


COMMAND = "import sys; from spirea import _spirea; sys.exit(_spirea.run_command(['spirea', *sys.argv[1:]]))"


@pytest.mark.parametrize(
    "arguments", [("doctor", "{url}"), ("rollback", "--server", "{url}", "--database", "keyed")], ids=lambda a: a[0]
)
def test_a_command_for_this_machine_meets_no_proxy(script, keyed_server, proxy, arguments):
    given = [argument.format(url=keyed_server.url) for argument in arguments]
    done = script(COMMAND, *given, SPIREA_TOKEN="secret", **proxy.environment)
    assert not proxy.asked, (proxy.asked, done.stderr)


ASKS_TWO = """
import sys, spirea
try:
    spirea.Client(sys.argv[1:3], "pair", attempts=1, accept_shared_proxy=len(sys.argv) > 3)
except spirea.SpireaError as error:
    print(type(error).__name__, error)
"""


def test_two_servers_are_not_asked_through_one_proxy_that_reads_both(script, proxy):
    servers = ("http://zero.example:1", "http://one.example:1")
    done = script(ASKS_TWO, *servers, **proxy.environment)
    assert "OptionError" in done.stdout and "reads both shares" in done.stdout, done
    assert not proxy.asked
    # Over TLS the proxy can read neither share, and with NO_PROXY it is not used.
    for others in ((servers[0], "https://one.example:1"), ("https://zero.example:1", "https://one.example:1")):
        assert "reads both shares" not in script(ASKS_TWO, *others, **proxy.environment).stdout
    done = script(ASKS_TWO, *servers, **(proxy.environment | {"NO_PROXY": "one.example"}))
    assert "reads both shares" not in done.stdout
    proxy.asked.clear()
    script(ASKS_TWO, *servers, "accepted", **proxy.environment)
    assert proxy.asked


def test_the_coordinators_token_meets_no_proxy(administered, proxy, tmp_path, monkeypatch):
    config, gateway = (pytest.importorskip(f"spirea.cluster.{name}") for name in ("config", "gateway"))
    for name, value in proxy.environment.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "token").write_text("secret")
    coordinator = config.Coordinator(admin=administered.url.removeprefix("http://"), admin_token_file=str(tmp_path / "token"))
    databases = (config.Database("keyed", "/keyed", 1),)
    conf = config.Config("library", "/store", "/state", str(tmp_path), databases, coordinator=coordinator)
    assert gateway.Gateway(conf).asked("/v1/placement") == b"{}"
    assert administered.shown == ["Bearer secret"] and not proxy.asked


def test_a_workers_metrics_meet_no_proxy(administered, proxy, monkeypatch):
    for name, value in proxy.environment.items():
        monkeypatch.setenv(name, value)
    kind = pytest.importorskip("spirea.cluster.work").Work
    work = kind.__new__(kind)
    work._program = SimpleNamespace(said={"metrics": f"{administered.url}/metrics"})
    assert work.metrics() == "{}" and not proxy.asked
