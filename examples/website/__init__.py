"""The Website operator of the short tutorial (docs/tutorial/website/README.md)."""

import konverge as kv
from website.reconciler import CONTROLLER


def build(manager: kv.Manager) -> None:
    """Add the controller to the manager; every command of konverge takes this function."""
    manager.add(CONTROLLER)
