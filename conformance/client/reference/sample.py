"""Samplers of secrets and noise (wire.md 1.6)."""

import math

import numpy as np

SIGMA = 3.2


def ternary(rng, count):
    """Draws uniformly from -1, 0 and 1: floor(3 u / 2^64) - 1."""
    u = rng.words(count)
    thirds = [-(-(i << 64) // 3) for i in (1, 2)]
    return sum((u >= np.uint64(third)).astype(np.int64) for third in thirds) - 1


def _tail():
    """Returns the table of the tail: entry k is 2^64 times the probability that the magnitude exceeds k. Omits entries below
    1."""
    furthest, beyond, total = math.ceil(14 * SIGMA), [], 0.0
    for k in range(furthest, 0, -1):
        total += 2 * math.exp(-(k**2) / (2 * SIGMA * SIGMA))
        beyond.append(total)
    tail = [int(mass / (1 + total) * 2.0**64) for mass in reversed(beyond)]
    return np.array([entry for entry in tail if entry], np.uint64)


TAIL = _tail()


def noise(rng, count):
    """Draws from the discrete Gaussian of standard deviation 3.2, by inversion."""
    u = rng.words(2 * count).reshape(-1, 2)
    magnitude = (u[:, :1] < TAIL[None, :]).sum(axis=1)
    return np.where(u[:, 1] & np.uint64(1), -magnitude, magnitude)
