"""The status, its text and page, queues for the scaler, and merged metrics of many programs."""

import html.parser
import socket
import threading
import urllib.request

from spirea.cluster import config, scrape, state, status
from spirea.cluster.pages import Pages

DATABASE = config.Database("words", "/words", 2)
CONFIG = config.Config("library", "/store", "/state", "/work", (DATABASE,))
VERSION = "ab" * 32


def cluster():
    made = state.State()
    state.publish(made, DATABASE, VERSION, "/store/words", [1 << 30, 1 << 30], 100, 0.0)
    state.advance(made, CONFIG, {}, {}, 0.0)
    seen = {n: state.Seen("ready", f"node-{n}", f"https://10.0.0.{n}:70") for n in (0, 1)}
    state.advance(made, CONFIG, seen, {}, 1.0)
    return made


def coordinator(queues=(3, 5), waiting=4, ready="ready"):
    shares = [
        [{"url": f"https://10.0.0.{n}:70", "state": ready, "queue": queue, "p99_ms": 12.345}] for n, queue in enumerate(queues)
    ]
    snapshot = {"path": "/here", "version": VERSION, "in_flight": 3, "shares": shares}
    database = {"name": "words", "waiting": waiting, "queries_per_second": 9.5, "current": VERSION, "snapshots": [snapshot]}
    return {"databases": [database]}


def document(**changes):
    reports = {0: {"fetched": 10, "of": 20, "bytes": 2048, "restarts": 1, "trouble": ""}, 1: {"trouble": "<no disk>"}}
    given = {"coordinator": coordinator(), "trouble": ""} | changes
    return status.document(CONFIG, cluster(), reports, {"pid": 7}, given["coordinator"], given["trouble"])


def test_the_queue_of_a_database_is_that_of_its_longest_share():
    assert status.told(coordinator(), cluster()) == {"words": state.Told(VERSION, 9.0, {VERSION: 3})}


def test_a_coordinator_that_says_nothing_is_not_one_that_knows_of_nothing():
    assert status.told({"error": "away"}, cluster()) == {}
    [said] = status.told({"databases": []}, cluster()).values()
    assert said.finished(VERSION) and not state.Told(None, None).finished(VERSION)


def test_text_says_what_answers_where_and_what_is_wrong():
    said = status.text(document(trouble="the disk is full"))
    assert "words: answers with abababababab, 9.5 queries a second, 4 requests waiting" in said
    assert "10.0.0.0:70" in said and "2.0 KiB" in said and "12.3 ms" in said
    assert "trouble: controller: the disk is full" in said
    away = status.text(document(coordinator={"error": "it does not answer"}))
    assert "words: does not answer" in away and "trouble: coordinator: it does not answer" in away


def test_serving_and_settled_are_what_the_coordinator_says():
    assert status.serving(document(), "words", VERSION) and not status.serving(document(), "words", "cd" * 32)
    assert status.settled(document())
    assert not status.settled(document(coordinator=coordinator(ready="connecting")))


def test_why_a_worker_was_lost_is_said():
    made = cluster()
    state.advance(made, CONFIG, {0: state.Seen("dead", why="the node was out of memory")}, {}, 2.0)
    said = status.text(status.document(CONFIG, made, {}, {}, {}, ""))
    assert "trouble: words: share 0: worker 0: the node was out of memory" in said


def test_the_port_says_where_something_is_wrong_and_not_what_programs_write():
    made = cluster()
    made.databases["words"].versions[0].url = "s3://key:secret@bucket/words?token=secret"
    made.databases["words"].versions[0].workers[1].phase = "starting"
    reports = {1: {"trouble": "a line of the log: --otlp http://secret"}}
    whole = status.document(CONFIG, made, reports, {}, coordinator(), "")
    assert whole["databases"][0]["versions"][0]["url"] == "s3://bucket/words" and "line of the log" in status.text(whole)
    pages = Pages("127.0.0.1:0", lambda: whole, lambda: "")
    for path in ("", "status.json"):
        with urllib.request.urlopen(f"http://127.0.0.1:{pages.port}/{path}", timeout=300) as answer:
            said = answer.read().decode()
        assert "secret" not in said and "spirea cluster status says why" in said


def test_the_port_has_so_many_at_a_time_and_no_more():
    wait = threading.Event()
    pages = Pages("127.0.0.1:0", dict, lambda: wait.wait(300) and "x 1\n")
    asked = [socket.create_connection(("127.0.0.1", pages.port)) for _ in range(20)]
    for connection in asked:
        connection.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
        connection.settimeout(300)
    # Excess connections are cut off while the others wait.
    assert [connection.recv(1) for connection in asked[16:]] == [b""] * 4
    wait.set()
    for connection in asked[:16]:
        with connection.makefile("rb") as answer:
            assert answer.read().endswith(b"\r\n\r\nx 1\n")
    for connection in asked:
        connection.close()


def test_the_page_is_well_formed_and_escapes_what_it_shows():
    class Reader(html.parser.HTMLParser):
        opened, cells = [], 0

        def handle_starttag(self, tag, attributes):
            self.cells += tag == "td"
            if tag != "meta" and tag != "!doctype":
                self.opened.append(tag)

        def handle_endtag(self, tag):
            assert self.opened.pop() == tag

    page = status.page(document(trouble="<script>alert(1)</script>"))
    reader = Reader()
    reader.feed(page)
    assert reader.opened == [] and reader.cells == 2 * 12
    assert "<script" not in page and "&lt;script" in page


def test_metrics_keep_families_together_and_get_labels():
    page = (
        "# HELP t_seconds Times.\n# TYPE t_seconds histogram\n"
        't_seconds_bucket{le="1"} 3\nt_seconds_sum 2.5\nt_seconds_count 3\n# HELP n Number.\n# TYPE n counter\nn 1\n'
    )
    merged = scrape.merged([({"share": "0"}, page), ({"share": "1"}, page), ({}, 'n{share="x"} 2\n')])
    lines = merged.splitlines()
    assert lines.count("# TYPE t_seconds histogram") == 1 and lines.count("# HELP n Number.") == 1
    first = lines.index("# TYPE t_seconds histogram")
    assert lines[first + 1 : first + 4] == [
        't_seconds_bucket{le="1",share="0"} 3', 't_seconds_sum{share="0"} 2.5', 't_seconds_count{share="0"} 3',
    ]  # fmt: skip
    assert 'n{share="0"} 1' in lines and 'n{share="x"} 2' in lines
    assert 'n{exported_share="x",share="a\\"b"} 2' in scrape.merged([({"share": 'a"b'}, 'n{share="x"} 2\n')])


def test_the_cluster_has_metrics_of_its_own():
    pages = "".join(status.gauges(document()))
    assert 'spirea_cluster_replicas{database="words",version="abababababababab",phase="ready"} 2' in pages
    assert "spirea_cluster_trouble 0" in pages
    assert "spirea_cluster_trouble 1" in "".join(status.gauges(document(trouble="x")))
