"""The numbers of a controller: its limits, delays and timeouts."""

from __future__ import annotations

import msgspec

from konverge.errors import UsageError

__all__ = ["Numbers"]


class Numbers(msgspec.Struct, frozen=True, kw_only=True):
    """The numbers of one controller."""

    concurrency: int = 1
    """Reconciles at once; one key never runs twice at a time. 1, as in controller-runtime: many controllers run in parallel."""
    timeout: float = 120.0
    """Seconds that a reconcile may take; then it is cancelled and retried. On by default: a hung reconcile blocks its key for ever."""
    barrier: float = 10.0
    """Seconds to wait for the cache to show the controller's own writes; then the reconcile runs nevertheless, which a metric counts."""
    min_interval: float = 0.0
    """The least number of seconds between the starts of two reconciles of one key."""
    debounce: float = 0.0
    """Seconds of quiet to wait for after an event, so that a burst becomes one reconcile."""
    resync: float = 36000.0
    """Seconds between two resyncs, which enqueue every object, give or take 10 %; 10 h, as controller-runtime. 0: never."""
    base_delay: float = 0.005
    """Seconds before the first retry; doubles with each failure."""
    max_delay: float = 1000.0
    """Seconds between retries at most."""

    def __post_init__(self) -> None:
        """Raise UsageError for an invalid number."""
        if self.concurrency < 1 or self.timeout <= 0 or self.base_delay <= 0:
            raise UsageError("concurrency is at least 1, and timeout and base_delay are above 0")
        if self.max_delay < self.base_delay:
            raise UsageError(f"max_delay={self.max_delay:g} is below base_delay={self.base_delay:g}")
        for name in ("barrier", "min_interval", "debounce", "resync"):
            if getattr(self, name) < 0:
                raise UsageError(f"{name}={getattr(self, name):g}: it is 0 or more")
