"""Plans as data frames."""

import pandas
import polars
import pyarrow
import pytest

import spirea


@pytest.fixture
def rates(measurement):
    return measurement.rates


def test_rates(rates):
    seconds = rates.seconds()
    assert seconds["ScannedByte"] > 0 and all(value >= 0 for value in seconds.values())


def test_a_plan_is_a_data_frame(rates):
    plan = spirea.plan(records=1_000_000, record_bytes=32, rates=rates)
    assert isinstance(plan, pandas.DataFrame) and plan["protocol"].nunique() == 9
    # Three protocols have two lines: with registered keys, and with keys in queries.
    assert len(plan) == 12 and (plan["keys"] == "per-query").sum() == 3
    assert plan["recommended"].sum() == 1
    assert {"protocol", "upload_bytes", "download_bytes", "server_seconds", "steps"} <= set(plan.columns)


@pytest.mark.parametrize(("frame", "kind"), [("polars", polars.DataFrame), ("pyarrow", pyarrow.Table), ("dicts", list)])
def test_frames_of_other_kinds(rates, frame, kind):
    assert isinstance(spirea.plan(records=1000, record_bytes=32, rates=rates, frame=frame), kind)


def test_bins_and_two_servers(rates, pair):
    rows = spirea.plan(records=100_000, record_bytes=64, bins=100, servers=2, rates=rates, frame="dicts")
    [best] = [row for row in rows if row["recommended"]]
    assert best["protocol"] in ("dpf-xor", "dpf-sum") and best["bins"] == 100
    copied = spirea.plan(records=100_000, record_bytes=64, bins=100, copies=3, servers=2, rates=rates, frame="dicts")
    memory = [row["memory_bytes"] for row in (*rows, *copied) if row["protocol"] == "dpf-xor"]
    assert 2.9 < memory[1] / memory[0] < 3.1
    snapshot = spirea.build({"v": ["a"] * 1000}, protocol="dpf-xor")
    assert spirea.plan(snapshot, rates=rates, frame="dicts")


def test_what_cannot_be_planned(rates):
    for options in ({}, {"records": 10}, {"record_bytes": 3}):
        with pytest.raises(spirea.OptionError, match="records and record_bytes"):
            spirea.plan(rates=rates, **options)
    for options, cause in (
        ({"servers": 3}, "servers"),
        ({"qps": float("nan")}, "qps"),
        ({"frame": "excel"}, "excel"),
        ({"records": 10**18}, "split it"),
        ({"security": "none"}, "security"),
    ):
        with pytest.raises(spirea.SpireaError, match=cause):
            spirea.plan(**{"records": 1000, "record_bytes": 32, "rates": rates} | options)
    with pytest.raises(spirea.BuildError):
        spirea.plan("/no/such/snapshot", rates=rates)
