"""The examples of docs/guide/manager.md and docs/guide/scripts.md pass as the guides show them."""

from __future__ import annotations

from test_replace_pods import test_finished_pods_are_replaced
from test_stock import test_the_page_shows_the_levels_of_the_warehouse

__all__ = ["test_finished_pods_are_replaced", "test_the_page_shows_the_levels_of_the_warehouse"]
