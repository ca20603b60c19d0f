"""Pods on demand: one Machine for each Pod that asks for an instance of its own.

observe      the demand of a Pod, the objects that were made for it, and the changes that matter (pure)
allowances   which Pods may ask for an instance, and how many (pure)
decide       the next step of each Pod and of each object that was made for one (pure)
render       the NstanceMachine and the Machine of a Pod (pure)
reconciler   the controller
"""

from __future__ import annotations
