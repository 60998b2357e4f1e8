"""A table that changes with every block of a chain, while clients without state ask for the newest accounts.

This is the short form of `spirea-lab chain`; `make chain` runs the whole one. Nothing here depends on times: no answer is
wrong or lost, every block becomes visible, and a compaction takes place meanwhile.
"""

import json

from system.programs import run

BLOCKS, EVERY_SECONDS = 5, 2


def test_no_answer_is_wrong_or_lost_and_every_block_is_seen(spirea, lab, tmp_path):
    size = ["--gib", "0.002", "--value-bytes", "64", "--changes", "100"]
    time = ["--every-seconds", str(EVERY_SECONDS), "--minutes", str(EVERY_SECONDS * BLOCKS / 60)]
    said = run(lab, "chain", "--spirea", spirea, "--folder", tmp_path, *size, *time, "--json").stdout
    report = json.loads(said)
    assert report["blocks"] == BLOCKS
    assert [database["database"] for database in report["databases"]] == ["dpf-xor", "exppack-simple"]
    for database in report["databases"]:
        assert (database["wrong"], database["unknown"], database["lost"]) == (0, 0, 0), database
        assert (database["visible"]["count"], database["invisible"]) == (BLOCKS, 0), database
        # A block is published before it is visible.
        assert database["then_visible"]["count"] == BLOCKS and database["then_visible"]["p50"] > 0, database
        # The base, the block that is published before the others, a version for each of these, and the compaction.
        assert database["versions"] == BLOCKS + 2 + database["compactions"], database
        assert database["compactions"] > 0 and database["changing"]["count"] > 0, database
    assert not list(tmp_path.iterdir()), "the tables are deleted"
