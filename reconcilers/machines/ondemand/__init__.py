"""Pods on demand: one Machine for each Pod that requests an instance of its own.

demand       the demand of a Pod, its state, and its objects (pure)
indexes      indexes, and the Clusters that a change concerns
allowances   which Pods may request an instance, and how many (pure)
observe      the demands, the objects and the states of Pods
decide       the next step of each Pod and of each object of a Pod (pure)
render       the NstanceMachine and the Machine of a Pod (pure)
act          the writes of a step
reconciler   the controller
"""

from __future__ import annotations
