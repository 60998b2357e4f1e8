"""A snapshot larger than memory is built, by a builder in a control group with less memory than the table."""

import base64
import contextlib
import hashlib
import os
import subprocess
import sys
import time
from pathlib import Path

import bed
import pyarrow
import pyarrow.parquet
import pytest

import spirea

pytestmark = [pytest.mark.full, pytest.mark.skipif(not bed.LONG, reason="the long form has it: make test-cluster")]

PARTS, ROWS, VALUE_BYTES = 40, 25_000, 1000
"""Number of parts, rows of a part, and bytes of a value: a gigabyte in total."""
MEMORY = 512 << 20
"""Limit of memory for Python, Ray's client and the builder together, including the page cache of their files."""

GROUPS = Path("/sys/fs/cgroup")


def text(row):
    """Returns the value of a row, which is incompressible."""
    return base64.b64encode(hashlib.shake_128(b"%d" % row).digest(VALUE_BYTES * 3 // 4)).decode()


@contextlib.contextmanager
def limited(memory):
    """Provides the prefix of a command that limits its memory. Supports both versions of control groups."""
    old = (GROUPS / "memory").is_dir()
    group = (GROUPS / "memory" if old else GROUPS) / f"spirea-{os.getpid()}"
    try:
        group.mkdir()
        (group / ("memory.limit_in_bytes" if old else "memory.max")).write_text(str(memory))
    except OSError as error:
        with contextlib.suppress(OSError):
            group.rmdir()
        pytest.skip(f"control groups are not allowed here: {error}")
    try:
        yield ["sh", "-c", f'echo $$ > {group / "cgroup.procs"} && exec "$@"', "sh"]
    finally:
        group.rmdir()


def test_a_snapshot_is_built_in_half_of_the_memory_that_it_takes(nodes, tmp_path):
    folder = tmp_path / "rows"
    folder.mkdir()
    for part in range(PARTS):
        rows = range(part * ROWS, (part + 1) * ROWS)
        table = pyarrow.table({"key": [f"key-{row}" for row in rows], "value": [text(row) for row in rows]})
        pyarrow.parquet.write_table(table, folder / f"{part:02}.parquet", compression="none", use_dictionary=False)
    cluster = bed.Bed(tmp_path, nodes.address, [{"name": "words", "snapshot": "words", "shards": 2, "replicas": 1}])
    arguments = ["words", "--input", folder, "--key", "key", "--value", "value", "--protocol", "simple"]
    command = [sys.executable, "-m", "spirea", "cluster", "build", cluster.path, *arguments]
    began = time.monotonic()
    with limited(MEMORY) as within:
        done = subprocess.run([*within, *map(str, command)], capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    url = done.stdout.strip().rpartition(" at ")[2]
    took, stored = time.monotonic() - began, os.path.getsize(Path(url) / "matrix.bin")
    print(f"a matrix of {stored >> 20} MiB was built in {MEMORY >> 20} MiB in {took:.0f} s")
    assert stored >= 2 * MEMORY
    with spirea.Server(url) as server, spirea.Client(server) as client:
        for row in (0, ROWS - 1, ROWS, PARTS * ROWS - 1):
            assert bytes(client.get(f"key-{row}")) == text(row).encode()
        assert client.get(f"key-{PARTS * ROWS}") is None
