"""Workers without Ray: their certificates, and a wait for what they report."""

import time

from spirea.cluster import authority


def certify(work, folder):
    """Gives a worker the certificate that it asks for: its program starts then."""
    authorities = {role: authority.Authority(folder, role) for role in authority.ROLES}
    signed = authorities[authority.WORKERS].sign(work.report()["request"], 3600.0, "127.0.0.1")
    work.certify(signed, authorities[authority.COORDINATORS].certificate)


def eventually(work, holds, seconds=300):
    """Waits until a worker's report has what is waited for."""
    deadline = time.monotonic() + seconds
    while not holds(work.report()):
        assert time.monotonic() < deadline, work.report()
        time.sleep(0.05)
