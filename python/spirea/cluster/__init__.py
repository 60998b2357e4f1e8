"""Databases larger than one machine, on Ray: `spirea cluster` (docs/scale-out.md).

What decides has no Ray in it and no clock: `config`, `state`, `scaling`, `placement`, `simulation`, `costs`. What acts is
around it: `worker` and `gateway` watch the two programs, `actors` are those on Ray, `controller` has the loop.
"""
