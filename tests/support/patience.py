"""The time limits of labs on a real control plane: no test there measures a duration, so a limit ends only what hangs."""

from typing import Final

PATIENCE: Final = 4.0
"""The factor of a lab's timeouts."""
