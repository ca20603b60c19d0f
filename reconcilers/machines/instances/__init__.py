"""NstanceMachines: one instance on demand for each Machine.

decide       where an instance is placed, under which id, and what its state means (pure)
reconciler   the controller
"""

from __future__ import annotations
