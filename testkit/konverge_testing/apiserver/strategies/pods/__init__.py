"""Pod.

The text of a refused change of a pod's spec ends with a difference in v1 form; upstream it is in Go's internal structs.
Source: `pkg/registry/core/pod/strategy.go`, `pkg/apis/core/validation/validation.go`.
"""

from __future__ import annotations

from konverge_testing.apiserver.strategies.pods.changes import difference
from konverge_testing.apiserver.strategies.pods.strategy import Pod

__all__ = ["Pod", "difference"]
