"""A client of Spirea's servers, written from docs/wire.md only. It is readable, not fast.

It imports no code of Spirea. Comments such as "wire.md 5.2" cite the section that a function implements. Its time and memory
accesses depend on the looked-up key: it is for reading and for tests, not for machines that others can observe.
"""
