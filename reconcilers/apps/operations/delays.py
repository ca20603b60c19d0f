"""The delay of Operations until objects are read again that they do not watch."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

__all__ = ["LOOK_AGAIN"]

LOOK_AGAIN: Final = timedelta(seconds=30)
"""Until an Operation reads unwatched objects again (a right, the Lease, a namespace), and a finalizer a silent engine."""
