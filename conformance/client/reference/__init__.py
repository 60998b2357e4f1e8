"""A client of Spirea's servers, written from docs/wire.md alone: readable, not fast.

It imports nothing of Spirea's. Comments such as "wire.md 5.2" name the section that says so. Its time and memory
accesses depend on what is looked up: it is for reading and for tests, not for machines that others watch.
"""
