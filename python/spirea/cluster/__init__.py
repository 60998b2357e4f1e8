"""Databases larger than one machine, on Ray: `spirea cluster` (docs/scale-out.md).

The modules that decide use neither Ray nor a clock: `config`, `state`, `scaling`, `simulation`, `costs`. The modules that act
are around them: `work` and `gateway` watch the two programs, `actors` runs them on Ray, `controller` has the loop.
"""
