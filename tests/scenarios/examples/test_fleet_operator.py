"""The example of small caches under every plan."""

from test_fleet import (
    test_a_fleet_keeps_its_token_and_counts_nodes_without_their_images,
    test_each_isolated_namespace_has_a_policy,
)

__all__ = [
    "test_a_fleet_keeps_its_token_and_counts_nodes_without_their_images",
    "test_each_isolated_namespace_has_a_policy",
]
