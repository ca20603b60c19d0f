"""The examples of the guides of the manager, of scripts, and of moving from kopf pass as the guides show them."""

from __future__ import annotations

from test_fleet import (
    test_a_fleet_keeps_its_token_and_counts_nodes_without_their_images,
    test_each_isolated_namespace_has_a_policy,
)
from test_page import test_a_page_is_published_changed_and_withdrawn, test_nothing_of_kopf_stays
from test_replace_pods import test_finished_pods_are_replaced
from test_stock import test_the_page_shows_the_levels_of_the_warehouse

__all__ = [
    "test_a_fleet_keeps_its_token_and_counts_nodes_without_their_images",
    "test_each_isolated_namespace_has_a_policy",
    "test_a_page_is_published_changed_and_withdrawn",
    "test_finished_pods_are_replaced",
    "test_nothing_of_kopf_stays",
    "test_the_page_shows_the_levels_of_the_warehouse",
]
