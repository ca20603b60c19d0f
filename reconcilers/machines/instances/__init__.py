"""NstanceMachines: one instance on demand for each Machine.

decide       the place and id of an instance, and the meaning of its state (pure)
reconciler   the controller
"""

from __future__ import annotations
