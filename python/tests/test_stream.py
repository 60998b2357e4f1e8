"""Streams of changes: every change is published once, whatever is killed."""

import itertools
import os
import signal
import subprocess
import sys

import pytest

import spirea

# Each block has changes of three keys; every fourth one deletes a key. The cursor is the block's number.
BLOCKS = 40
PRODUCER = """
import sys, spirea
from test_stream import blocks
for version in spirea.publish_stream(blocks, repository=sys.argv[1], every_changes=3):
    print(version.cursor, flush=True)
"""


def change(number, place):
    key = f"k{(number * 7 + place) % 20}"
    return {"key": key, "deleted": True} if (number + place) % 4 == 0 else {"key": key, "value": f"{number}.{place}"}


def blocks(cursor):
    """Returns the changes behind a cursor."""
    for number in range(0 if cursor is None else int(cursor) + 1, BLOCKS):
        yield from (change(number, place) for place in range(2))
        yield change(number, 2) | {"cursor": str(number)}


def expected():
    table = {f"k{i}": f"v{i}" for i in range(20)}
    for one in (one for number in range(BLOCKS) for one in (change(number, place) for place in range(3))):
        table[one["key"]] = one.get("value")
    return table


@pytest.fixture
def repository(tmp_path):
    base = spirea.build([{"key": f"k{i}", "value": f"v{i}"} for i in range(20)], key="key", name="table", protocol="simple")
    folder = tmp_path / "repository"
    subprocess.run([sys.executable, "-m", "spirea", "publish", "--repository", folder, "--base", base.path], check=True)
    return folder


def contents(repository):
    with spirea.Server(repository) as server, spirea.Client(server, "table") as client:
        found = {f"k{i}": client.get(f"k{i}") for i in range(20)}
    return {key: record and record.text("value") for key, record in found.items()}


def test_a_killed_producer_resumes_behind_the_last_version(repository):
    environment = os.environ | {"PYTHONPATH": os.path.dirname(__file__)}
    published = -1
    for kill_at in (3, 11, 12):
        command = [sys.executable, "-c", PRODUCER, repository]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment, start_new_session=True) as process:
            for line in process.stdout:
                assert int(line) > published
                published = int(line)
                if published >= kill_at:
                    os.killpg(process.pid, signal.SIGKILL)
                    break
    versions = list(spirea.publish_stream(blocks, repository=repository, every_changes=3))
    cursors = [int(version.cursor) for version in versions]
    # A version that was current when the producer was killed may not have been printed.
    assert cursors[0] in (published + 1, published + 2) and cursors == list(range(cursors[0], BLOCKS))
    first = versions[0].sequence
    assert [version.sequence for version in versions] == list(range(first, first + len(versions)))
    assert len(versions[-1].version) == 64 and versions[-1].changes > 0
    assert contents(repository) == expected()
    assert list(spirea.publish_stream(blocks, repository=repository)) == []


def test_a_server_publishes_and_the_source_may_have_no_end(repository):
    with spirea.Server(repository, admin_listen="127.0.0.1:0") as server, spirea.Client(server, "table") as client:
        asked = []

        def endless(cursor):
            asked.append(cursor)
            for number in itertools.count():
                yield {"key": "k1", "value": f"edition {number}", "cursor": str(number)}

        stream = spirea.publish_stream(endless, server=server.admin_url, database="table", every_changes=1)
        first = next(stream)
        assert (asked, first.cursor) == ([None], "0")
        next(stream)
        stream.close()
        # The client hears of the new version with its first answer.
        client.get("k1")
        assert client.get("k1").text("value").startswith("edition ")


def test_errors_have_their_causes(repository):
    def failing(cursor):
        yield {"key": "k1", "value": "1", "cursor": "1"}
        raise LookupError("the node is gone")

    def publish(*changes):
        return list(spirea.publish_stream(lambda cursor: changes, repository=repository))

    with pytest.raises(LookupError, match="the node is gone"):
        list(spirea.publish_stream(failing, repository=repository))
    with pytest.raises(spirea.PublishError, match="standard input:2: "):
        publish({"key": "k1", "value": "1"}, {"key": "k2"})
    with pytest.raises(spirea.PublishError, match="no cursor follows"):
        publish({"key": "k1", "value": "1"})
    with pytest.raises(spirea.PublishError, match="absent"):
        list(spirea.publish_stream(blocks, repository=repository.parent / "absent"))
    for options, part in [
        ({}, "either a repository or a server"),
        ({"repository": "r", "server": "http://127.0.0.1:1"}, "either a repository or a server"),
        ({"server": "http://127.0.0.1:1"}, "belong together"),
        ({"server": "http://127.0.0.1:1", "database": "d", "sign": "key"}, "its own key"),
    ]:
        with pytest.raises(spirea.OptionError, match=part):
            spirea.publish_stream(blocks, **options)
