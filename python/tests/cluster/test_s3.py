"""A store in a bucket: building, publishing and fetching over the protocol of S3."""

import os
import socket
import subprocess
import sys
import time

import bed
import pyarrow
import pyarrow.parquet
import pytest

import spirea
from spirea.cluster.files import Folder
from spirea_ports import free_ports

pytestmark = [pytest.mark.full, pytest.mark.skipif(not bed.LONG, reason="the long form has it: make test-cluster")]


@pytest.fixture(scope="module", autouse=True)
def bucket():
    """Server of S3; its address is in the environment of all programs started later."""
    [port] = free_ports(1)
    wanted = {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}", "AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_DEFAULT_REGION": "us-east-1",
    }  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        for name, value in wanted.items():
            patch.setenv(name, value)
        command = [sys.executable, "-m", "moto.server", "--port", str(port)]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
            try:
                for _ in range(300):
                    with socket.socket() as probe:
                        if probe.connect_ex(("127.0.0.1", port)) == 0:
                            break
                    time.sleep(0.1)
                Folder("s3://spirea").files.mkdir("spirea")
                yield "s3://spirea"
            finally:
                server.terminate()


def test_a_bucket_is_a_store(bucket, nodes, tmp_path):
    given = bed.snapshot(tmp_path, "words", 1, "simple")
    databases = [{"name": "words", "snapshot": os.fspath(given), "shards": 2, "replicas": 1}]
    cluster = bed.Bed(tmp_path, nodes.address, databases, store=f"{bucket}/store")
    assert f"to {bucket}/store/words/{given.version}" in cluster.run("up", "--wait", 120)
    files = Folder(bucket).files
    for number in range(4):
        keys = [f"key-{i}" for i in range(500 * number, 500 * number + 500)]
        table = pyarrow.table({"key": keys, "value": [bed.value(key, 2).decode() for key in keys]})
        with files.open(f"spirea/rows/{number}.parquet", "wb") as file:
            pyarrow.parquet.write_table(table, file, row_group_size=250)
    with bed.Load(cluster.url, "words", editions=(1, 2)) as load:
        load.await_answers(20)
        arguments = ["--input", f"{bucket}/rows/*.parquet", "--key", "key", "--value", "value"]
        built = cluster.run("build", "words", *arguments).strip()
        assert Folder(f"{bucket}/store/words/{built}").version() == built
        cluster.run("publish", "words", f"{bucket}/store/words/{built}")
        load.await_answers(20)
    load.check()
    with spirea.Client(cluster.url, "words") as client:
        assert bytes(client.get("key-1999")) == bed.value("key-1999", 2)
    folders = {path.split("/")[3] for path in files.find("spirea/store/words")}
    assert folders == {given.version, built}, "parts are removed"
    cluster.run("down")
