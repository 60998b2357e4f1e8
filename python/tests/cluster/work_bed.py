"""Helpers for workers without Ray: certificates, and waiting for reports."""

import time

from spirea.cluster import authority


def certify(work, folder):
    """Gives a worker the requested certificate, which starts its program."""
    authorities = {role: authority.Authority(folder, role) for role in authority.ROLES}
    signed = authorities[authority.WORKERS].sign(work.report()["request"], 3600.0, "127.0.0.1")
    work.certify(signed, authorities[authority.COORDINATORS].certificate)


def eventually(work, holds, seconds=300):
    """Waits until a worker's report fulfils a condition."""
    deadline = time.monotonic() + seconds
    while not holds(work.report()):
        assert time.monotonic() < deadline, work.report()
        time.sleep(0.05)
