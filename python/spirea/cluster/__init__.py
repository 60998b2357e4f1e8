"""Databases larger than one machine, on Ray: `spirea cluster` (docs/scale-out.md).

What decides has no Ray in it and no clock: `config`, `state`, `scaling`, `simulation`, `costs`. What acts is around it: `work`
and `gateway` watch the two programs, `actors` has them on Ray, `controller` has the loop.
"""
