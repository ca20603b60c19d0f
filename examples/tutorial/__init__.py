"""The CronJob operator of the tutorial (docs/tutorial/README.md). `konverge run tutorial:build`, the tests and the chart use `build`."""

import konverge as kv
from tutorial.reconciler import CONTROLLER
from tutorial.webhook import WEBHOOK


def build(manager: kv.Manager) -> None:
    """Add the controller and the webhook to the manager."""
    manager.add(CONTROLLER)
    manager.add(WEBHOOK)
