"""The lab: a test's environment, and every fault tried on what runs in it. See `Lab` and `explore`."""

from konverge_testing.lab.explore import Report, explore, replay
from konverge_testing.lab.lab import CRD, Lab, Unmet, install_crds
from konverge_testing.lab.plans import Crash, Foreign, Plan, Timed

__all__ = ["CRD", "Crash", "Foreign", "Lab", "Plan", "Report", "Timed", "Unmet", "explore", "install_crds", "replay"]
