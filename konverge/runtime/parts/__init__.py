"""The parts of a manager: each opens what it owns, starts it, drains it, closes it, and declares rules and a report.

    part.py           the interface of a part
    core.py           the state that the parts share
    resources.py      the client, the recorder of Events, the caches, the event-loop monitor
    webhooks.py       the webhooks
    controllers.py    the controllers; start_checks.py: the checks of a controller that is added. Pure
    background.py     the work that no controller does

Election and sharding are parts beside these, in rooms of their own. No part knows the manager.
"""
