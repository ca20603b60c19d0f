"""The example of docs/guide/plan.md passes as the guide shows it."""

from test_host_plan import test_a_plan_shows_the_status_and_publishes_nothing

__all__ = ["test_a_plan_shows_the_status_and_publishes_nothing"]
