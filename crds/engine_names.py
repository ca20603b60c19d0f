"""The engines of Operations, which `spec.engine` admits. Generated from their rows by:

python -m konverge.reconcilers.apps.operations.engines.generate
"""

from __future__ import annotations

from typing import Literal

__all__ = ["EngineName"]

EngineName = Literal["velero", "workflow", "job", "helm", "volsync", "helmHookJob"]
