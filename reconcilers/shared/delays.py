"""Delays until an object is reconciled again without an event, named by their purpose.

A delay that an administrator may choose is a setting of its family, and the delay after an error is the work queue's backoff.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final

__all__ = ["END_OF_OBJECT", "NEXT_STEP", "READ_AGAIN", "SHORTEST_WAIT"]

NEXT_STEP: Final = timedelta(milliseconds=10)
"""Until the reconcile that continues from this reconcile's writes: the barrier holds it until the caches show these writes."""
READ_AGAIN: Final = timedelta(seconds=1)
"""After a lost race, or if a cache lags behind a read from the API server; the event of the change normally arrives first."""
SHORTEST_WAIT: Final = timedelta(milliseconds=10)
"""The least wait until a computed time: a shorter wait is below the resolution of the clock, and its reconcile would wait again."""
END_OF_OBJECT: Final = timedelta(seconds=5)
"""While a finalizer holds an object under deletion: the cluster unprotects a volume claim within seconds after its last pod."""
