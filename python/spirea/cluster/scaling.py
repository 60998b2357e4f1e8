"""Number of replicas of a shard, by the number of waiting requests: bounds, hysteresis and a pause between changes."""

from __future__ import annotations

from dataclasses import dataclass

from .config import Scale


@dataclass
class Scaler:
    """State between two decisions."""

    wanted: int
    above_since: float | None = None
    below_since: float | None = None
    changed_at: float | None = None

    def decide(self, rules: Scale, queue: float, now: float) -> int:
        """Returns the number of replicas that each shard should have at the time `now`, if `queue` requests wait for each.

        Adds a replica if more than `high` requests have waited for `up_after` seconds. Removes one if fewer than `low` have
        waited for `down_after` seconds, and the others would have at most `high`: so a constant load cannot reverse its own
        change.
        """
        self.wanted = min(max(self.wanted, rules.least), rules.most)
        self.above_since = (now if self.above_since is None else self.above_since) if queue > rules.high else None
        fewer = queue * self.wanted / (self.wanted - 1) if self.wanted > 1 else 0.0
        idle = queue < rules.low and fewer <= rules.high
        self.below_since = (now if self.below_since is None else self.below_since) if idle else None
        if self.changed_at is not None and now - self.changed_at < rules.pause:
            return self.wanted
        if self.above_since is not None and now - self.above_since >= rules.up_after and self.wanted < rules.most:
            self._change(self.wanted + 1, now)
        elif self.below_since is not None and now - self.below_since >= rules.down_after and self.wanted > rules.least:
            self._change(self.wanted - 1, now)
        return self.wanted

    def _change(self, wanted: int, now: float) -> None:
        self.wanted, self.changed_at, self.above_since, self.below_since = wanted, now, None, None
