"""The delay after a failed call, for the reconcilers that send one object's settings."""

from __future__ import annotations

from typing import Final

from konverge.reconcilers.machines.settings import MachineSettings
from konverge.reconcilers.machines.shards.failures import FailureKind, ShardFailure

__all__ = ["FailureDelays"]

_MOST_DOUBLINGS: Final = 10


class FailureDelays:
    """Counts the failures of each object by its uid."""

    def __init__(self, settings: MachineSettings) -> None:
        self._settings = settings
        self._failures: dict[str, int] = {}

    def after(self, uid: str, failure: ShardFailure) -> float:
        """Return the seconds until the next try: doubled with each refusal, and constant while the shard is unreachable."""
        if failure.kind is FailureKind.UNREACHABLE:
            return self._settings.unreachable_retry
        failures = self._failures.get(uid, 0)
        self._failures[uid] = min(failures + 1, _MOST_DOUBLINGS)
        return min(self._settings.retry * float(2**failures), self._settings.retry * 10)

    def forget(self, uid: str) -> None:
        """Begin with the first delay again."""
        self._failures.pop(uid, None)
