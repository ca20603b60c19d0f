"""NstanceMachines: one instance on demand for each Machine.

indexes     indexes, and the objects that a change concerns
ownership   which instance belongs to an object (pure)
places      the shard and the id of a new instance (pure)
observe     an NstanceMachine, its Machine, its instance and its Nodes
decide      its plans (pure)
act         the calls of its shard
reconciler  the controller
"""

from __future__ import annotations
