"""The tests of the short tutorial pass: children by apply, a complete list of children, and fields of another manager."""

from website.test_website import (
    test_changed_or_deleted_children_are_repaired,
    test_children_are_deleted_with_their_website,
    test_ingress_exists_while_the_spec_has_a_host,
    test_number_of_pods_is_left_to_an_autoscaler,
    test_website_has_either_an_image_or_a_page,
    test_website_is_ready_when_its_pods_are_ready,
)

__all__ = [
    "test_changed_or_deleted_children_are_repaired",
    "test_children_are_deleted_with_their_website",
    "test_ingress_exists_while_the_spec_has_a_host",
    "test_number_of_pods_is_left_to_an_autoscaler",
    "test_website_has_either_an_image_or_a_page",
    "test_website_is_ready_when_its_pods_are_ready",
]
