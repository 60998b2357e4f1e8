#!/usr/bin/env python3
"""Looks values up privately: the reference client of docs/wire.md.

Exit status: 0 if everything was found, 1 if something was not, 2 for an error, which is never an absence.
"""

import argparse
import json
import sys

from reference import forms
from reference.errors import ClientError
from reference.look_up import Client
from reference.streams import OsRandom


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("url", help="address of the server, such as http://127.0.0.1:8080")
    parser.add_argument("database", help="name of the database")
    parser.add_argument("key", nargs="*", help="keys to look up")
    parser.add_argument("--index", type=int, action="append", default=[], help="look up by position, from 0")
    parser.add_argument("--other", help="address of the other server, for a protocol with two")
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    parser.add_argument("--token", help="the token that the server asks for")
    parser.add_argument("--pin-key", help="the operator's public key: refuse what it did not sign")
    parser.add_argument("--least-sequence", type=int, default=0, help="refuse versions with a lower sequence number")
    parser.add_argument("--accept-weak-prf", action="store_true", help="ask also under siphash or highwayhash")
    given = parser.parse_args()
    if bool(given.key) == bool(given.index):
        parser.error("give keys, or positions with --index")
    return given


def shown(label, name, fields, table, as_json):
    """A line for a value; as JSON it is what `spirea get --json` prints, without the version."""
    if not as_json:
        if fields is None:
            return "(not found)"
        # A key of a set has no fields.
        return "\t".join(field.decode(errors="replace") for field in fields) if fields else name
    line = {label: name, "found": fields is not None}
    if fields:
        types = table.get("types", [None] * len(fields))
        line["value"] = dict(zip(table["fields"], map(forms.shown, types, fields)))
    return json.dumps(line)


def main():
    given = arguments()
    try:
        client = Client([given.url] + [given.other] * bool(given.other), given.database, OsRandom(), given)
        values = client.look_up([key.encode() for key in given.key], given.index)
    except ClientError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    label, names = ("key", given.key) if given.key else ("index", given.index)
    for name, value in zip(names, values):
        print(shown(label, name, value, client.found.base.table, given.json))
    return int(any(value is None for value in values))


if __name__ == "__main__":
    sys.exit(main())
