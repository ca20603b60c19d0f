"""The engine `velero`: a Backup, or a Restore, of the target's namespace.

`parameters.py` reads the Operation's parameters, `render.py` renders the object, `observe.py` translates its status, and `engine.py`
combines them. Facts about Velero: docs/reference/velero.md.
"""

from __future__ import annotations

from konverge.reconcilers.apps.operations.engines.velero.engine import VeleroEngine

__all__ = ["VeleroEngine"]
