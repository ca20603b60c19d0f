"""The world below the VolSync stand-in: volumes, repositories and movers."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["VolSyncWorld"]


@dataclass(slots=True)
class VolSyncWorld:
    """Outcomes by the name of the volume. Change it while the controller runs."""

    seconds: float = 3.0
    """How long a mover runs."""
    failing: dict[str, str] = field(default_factory=dict)
    """Volumes whose mover fails, with the last line of its log."""
    missing_volumes: set[str] = field(default_factory=set)
    missing_secrets: set[str] = field(default_factory=set)
    waiting_snapshots: set[str] = field(default_factory=set)
    """Volumes whose snapshots never become ready."""
    flickers: bool = True
    """A run shows Synchronizing=False/Error for a moment, as most real runs do."""
