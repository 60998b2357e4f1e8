"""The memory that Ray reserves for a worker, and the limits that the worker gives its program."""

import pytest

import spirea
from spirea.cluster import memory
from spirea.cluster.files import Wanted

SHARE = 10 << 30
FILES = (Wanted("matrix.bin", 4 * SHARE, ((0, SHARE // 2), (SHARE, SHARE + SHARE // 2))),)
MAPPED = ("--memory", "mapped")


def read(options):
    """Returns the two limits among the program's options."""
    return {name: int(size) for name, size in zip(options[::2], options[1::2], strict=True)}


@pytest.mark.parametrize("given", [None, 12 << 30, 64 << 30])
def test_share_and_limits_fit_into_what_is_reserved(given):
    reserved = memory.planned(FILES, given, ())
    assert given is None or reserved == given
    limits = read(memory.limits(reserved, FILES, ()))
    assert set(limits) == {"--request-memory", "--keys-memory"}
    assert 64 << 20 <= sum(limits.values()) <= reserved - SHARE
    assert limits["--request-memory"] == 3 * limits["--keys-memory"]


def test_memory_without_room_for_requests_is_refused():
    with pytest.raises(spirea.ClusterError, match=r"^workers\.memory: 10737418240 bytes .* at least 11328MiB"):
        memory.planned(FILES, SHARE, ())
    assert memory.planned(FILES, 11328 << 20, ()) == 11328 << 20


@pytest.mark.parametrize("options", [MAPPED, ("--memory=mapped",)])
def test_a_mapped_share_may_be_larger_than_the_memory(options):
    assert memory.planned(FILES, 4 << 30, options) == 4 << 30
    assert sum(read(memory.limits(4 << 30, FILES, options)).values()) == 4 << 30


def test_limits_in_the_configuration_go_first():
    assert read(memory.limits(12 << 30, FILES, ("--request-memory=2GiB",))).keys() == {"--keys-memory"}
    assert memory.limits(12 << 30, FILES, ("--request-memory", "2GiB", "--keys-memory", "1GiB")) == ()
