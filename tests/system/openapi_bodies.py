"""Request bodies for Schemathesis, of the types that endpoints accept: valid bodies, damaged ones, and random bytes.

Schemathesis imports this module (SCHEMATHESIS_HOOKS); test_openapi.py writes the valid bodies into a folder.
"""

import os
from pathlib import Path

import schemathesis
from hypothesis import strategies

GOOD = Path(os.environ["SPIREA_OPENAPI_BODIES"])


@strategies.composite
def damaged(draw, bodies):
    """Draws a body that is truncated, or has one changed byte."""
    body = bytearray(draw(bodies))
    at = draw(strategies.integers(0, len(body) - 1))
    if draw(strategies.booleans()):
        return bytes(body[:at])
    body[at] = draw(strategies.integers(0, 255))
    return bytes(body)


for folder in sorted(GOOD.glob("*/*")):
    good = strategies.sampled_from([path.read_bytes() for path in sorted(folder.iterdir())])
    kinds = strategies.one_of(good, damaged(good), strategies.binary(max_size=200))
    schemathesis.openapi.media_type(f"{folder.parent.name}/{folder.name}", kinds)
