"""Free ports for programs that must know their port before they listen."""

import random
import socket
from pathlib import Path

FIRST = 20000
"""First port that is chosen: Ray gives its workers those from 10002 to 19999."""
RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
"""File of Linux: the first and the last port of those it gives to sockets that name none. By default, from 32768."""


def free_ports(count):
    """Returns ports on which nothing listens, none of them twice.

    They lie below the ports that the system gives to other sockets, which could have a port before its program listens.
    """
    below = int(RANGE.read_text(encoding="utf-8").split()[0]) if RANGE.exists() else 32768
    found = []
    candidates = list(range(FIRST, max(below, FIRST + 1000)))
    random.shuffle(candidates)
    for port in candidates:
        with socket.socket() as listener:
            # A listener of before may have connections that wait for their end.
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                listener.bind(("127.0.0.1", port))
            except OSError:
                continue
        found.append(port)
        if len(found) == count:
            return found
    raise OSError(f"there are no {count} free ports from {FIRST} to {below}")
