"""Configurations: accepted ones, and errors with file, line, key and remedy."""

import json
import re
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import spirea
from spirea.cluster import config

LEAST = """\
name: library
store: store
state: /var/lib/spirea
work: work
databases:
  - name: words
    snapshot: words
    shards: 2
"""

EVERY_KEY = (
    LEAST.replace("store: store", "store: s3://bucket/spirea")
    + """\
    replicas: {least: 1, most: 4, high: 6, low: 0.5, up_after: 5s, down_after: 2min, pause: 1h}
  - {name: more, snapshot: "s3://bucket/more", shards: 16, replicas: 3}
ray: {address: "127.0.0.1:6379"}
coordinator: {listen: "0.0.0.0:443", certificate: a.pem, key: b.pem, options: [--queue, "9"]}
workers: {cpus: 8, gpus: 0.5, memory: 12GiB, threads: 7, spread: preferred}
roll_over: {surge: 3, keep: 90s, room_after: 500ms}
timing: {tick: 250ms, silent: 3s}
operations: {listen: "127.0.0.1:9000"}
"""
)


def load(tmp_path, text):
    path = tmp_path / "cluster.yaml"
    path.write_text(text, encoding="utf-8")
    return config.load(path)


def test_paths_are_those_beside_the_file_and_the_rest_has_defaults(tmp_path):
    made = load(tmp_path, LEAST)
    assert made.store == str(tmp_path / "store") and made.state == "/var/lib/spirea"
    [words] = made.databases
    assert (words.snapshot, words.shards, words.replicas.least, words.replicas.most) == (str(tmp_path / "words"), 2, 1, 1)
    assert made.coordinator.listen == "127.0.0.1:7080" and made.workers.memory is None
    assert made.database("words") is words and made.database("other") is None


def test_every_key_is_read(tmp_path):
    made = load(tmp_path, EVERY_KEY)
    assert made.store == "s3://bucket/spirea" and made.ray.address == "127.0.0.1:6379"
    words, more = made.databases
    assert (words.replicas.most, words.replicas.down_after, words.replicas.pause) == (4, 120.0, 3600.0)
    assert (more.snapshot, more.replicas.least, more.replicas.most) == ("s3://bucket/more", 3, 3)
    assert made.coordinator.certificate == str(tmp_path / "a.pem") and made.coordinator.options == ("--queue", "9")
    assert (made.workers.memory, made.workers.gpus, made.workers.threads) == (12 << 30, 0.5, 7)
    assert (made.roll_over.room_after, made.timing.tick) == (0.5, 0.25)
    assert config.from_json(config.to_json(made)) == made


def test_a_configuration_that_another_release_wrote_down_is_read(tmp_path):
    made = load(tmp_path, LEAST)
    said = json.loads(config.to_json(made))
    said["timing"] |= {"unheard_of": 1}
    said["databases"][0]["unheard_of"] = [1]
    del said["timing"]["opening"], said["roll_over"], said["workers"]["options"]
    assert config.from_json(json.dumps(said)) == made


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("shards: 2", "shard: 2"), r"cluster.yaml:8: databases\[0\].shard: unknown key; did you mean shards\?"),
        (("shards: 2", "shards: many"), r":8: databases\[0\].shards: give an integer from 1 to 4096"),
        (("shards: 2", "shards: true"), r":8: databases\[0\].shards: give an integer"),
        (("shards: 2", "shards: [2]"), r":8: databases\[0\].shards: give an integer"),
        (("    shards: 2\n", ""), r":6: databases\[0\]: the key shards is missing; add it"),
        (("name: library", "name: The Library"), r":1: name: 'The Library' is no name"),
        (("name: words", "name: words\n    name: words"), r":7: databases\[0\].name: it stands twice"),
        (("state: /var/lib/spirea", "state:"), r":3: state: give text that is not empty"),
        (("databases:", "workers: {memory: 8 gallons}\ndatabases:"), r":5: workers.memory: give a size such as 8GiB"),
        (("databases:", "workers: {spread: wide}\ndatabases:"), r":5: workers.spread: 'wide' is none of strict, preferred"),
        (("databases:", "timing: {tick: 5}\ndatabases:"), r":5: timing.tick: give a time with its unit, such as 500ms"),
        (("databases:", "coordinator: {listen: here}\ndatabases:"), r":5: coordinator.listen: give HOST:PORT"),
        (("databases:", "coordinator: {key: a}\ndatabases:"), r":5: coordinator: certificate and key belong together"),
        (("databases:", "coordinator: {tokens: a}\ndatabases:"), r":5: coordinator.tokens: .* name its file as admin_token"),
        (("shards: 2", "shards: 2\n    replicas: {least: 3, most: 2}"), r":9: databases\[0\].replicas.most: it is below"),
        (("shards: 2", "shards: 2\n    replicas: {most: 2, low: 9}"), r":9: databases\[0\].replicas.low: it is not below"),
        (("shards: 2", "shards: 2\n    replicas: 0"), r":9: databases\[0\].replicas: give an integer from 1"),
        (("databases:", "ray: here\ndatabases:"), r":5: ray: give a mapping with the keys address"),
        (("shards: 2", "shards: 2\n  - {name: words, snapshot: b, shards: 1}"), r":6: databases\[0\]: two databases are"),
        (("name: library", "name: [library"), r"cluster.yaml:\d+: this is not YAML"),
        ((LEAST, ""), r"cluster.yaml: it is empty"),
        ((LEAST[LEAST.index("databases") :], "databases: []\n"), r":5: databases: name at least one database"),
    ],
)
def test_what_is_wrong_is_said_with_its_place_and_the_remedy(tmp_path, change, said):
    assert change[0] in LEAST
    with pytest.raises(spirea.ConfigError) as raised:
        load(tmp_path, LEAST.replace(*change, 1))
    assert re.search(said, str(raised.value)), raised.value


def test_a_file_that_cannot_be_read_is_said(tmp_path):
    with pytest.raises(spirea.ConfigError, match="absent.yaml: it cannot be read: No such file"):
        config.load(Path(tmp_path / "absent.yaml"))
    with pytest.raises(spirea.ConfigError, match="it is not UTF-8"):
        (tmp_path / "latin.yaml").write_bytes(b"name: \xff\n")
        config.load(tmp_path / "latin.yaml")


def test_the_manifest_for_kuberay_has_a_configuration(tmp_path):
    manifest = Path(__file__).resolve().parents[3] / "deploy" / "kuberay" / "ray-cluster.yaml"
    documents = yaml.safe_load_all(manifest.read_text(encoding="utf-8"))
    [mapped] = [document for document in documents if document["kind"] == "ConfigMap"]
    made = load(tmp_path, mapped["data"]["cluster.yaml"])
    assert made.databases[0].snapshot.startswith(made.store + "/")


# Values of every form that a key may have, and values that look like them.
VALUES = (
    "null", "3", "0", "-1", "1e999", ".inf", ".nan", "12GiB", "9" * 400, "9" * 5000, "9" * 400 + "s", "90s", "1_0s", "h",
    "true", "!!bool 3", "!!int ''", "!!float ''", "!!timestamp 3", "!!map x", "!!seq x", "!!binary é",
    "!!python/name:os.system", "127.0.0.1:80", "'127.0.0.1:\u00b2'", "'[::1]:0'", ":80", '"~\\0x"', '"~\\ud800"',
    "~nobody/x", "s3://b/p", "[]", "[1, a]", "{least: 2, most: 1}", "{a: 1, a: 2}", "[" * 3000, "[" * 3000 + "]" * 3000,
    "*a", "&a [*a]", "2001-99-99", "''", "\t", "- -",
)  # fmt: skip
KEYS = sorted(set(re.findall(r"(\w+):", EVERY_KEY)))
LINES = st.lists(st.tuples(st.sampled_from(KEYS), st.one_of(st.sampled_from(VALUES), st.text(max_size=8))), max_size=3)


@given(st.sampled_from([LEAST, EVERY_KEY]), LINES, st.sampled_from(["", "  ", "    "]))
@example("", [("name", "[" * 3000)], "")
@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_text_is_a_configuration_or_an_error_with_its_place(tmp_path, document, lines, indent):
    for key, value in lines:
        # Replaces the value of a key, or adds the key behind the last section.
        document, count = re.subn(rf"\b{key}: [^,}}\n]+", lambda _, said=f"{key}: {value}": said, document, count=1)
        document += "" if count else f"{indent}{key}: {value}\n"
    try:
        made = load(tmp_path, document)
    except spirea.ConfigError as error:
        assert str(error).startswith(str(tmp_path / "cluster.yaml"))
    except UnicodeEncodeError:
        pass  # The test cannot write lone surrogates.
    else:
        assert config.from_json(config.to_json(made)) == made
