"""Pods on demand: one Machine for each Pod that requests an instance of its own.

observe      the demand of a Pod, the objects of a Pod, and the changes that matter (pure)
allowances   which Pods may request an instance, and how many (pure)
decide       the next step of each Pod and of each object of a Pod (pure)
render       the NstanceMachine and the Machine of a Pod (pure)
reconciler   the controller
"""

from __future__ import annotations
