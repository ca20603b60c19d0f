"""The examples of the guides pass as the guides show them."""

from __future__ import annotations

from test_dump_database import test_a_database_that_is_up_is_dumped
from test_fleet import (
    test_a_fleet_keeps_its_token_and_counts_nodes_without_their_images,
    test_a_read_of_the_images_of_a_node_is_refused,
    test_each_isolated_namespace_has_a_policy,
)
from test_leave_kubebuilder import test_fields_that_konverge_does_not_write_are_removed_if_handed_over
from test_page import test_a_page_is_published_changed_and_withdrawn, test_nothing_of_kopf_stays
from test_render import (
    test_a_paused_film_is_not_rendered_until_it_is_resumed,
    test_previews_are_first_and_a_farm_that_is_down_is_spared,
)
from test_replace_pods import test_finished_pods_are_replaced
from test_report import test_a_report_is_ready_once_its_job_has_succeeded
from test_stock import test_the_page_shows_the_levels_of_the_warehouse
from test_traced import test_the_span_of_the_reconciler_is_inside_the_span_of_the_reconcile

__all__ = [
    "test_a_database_that_is_up_is_dumped",
    "test_a_paused_film_is_not_rendered_until_it_is_resumed",
    "test_a_fleet_keeps_its_token_and_counts_nodes_without_their_images",
    "test_a_read_of_the_images_of_a_node_is_refused",
    "test_each_isolated_namespace_has_a_policy",
    "test_a_page_is_published_changed_and_withdrawn",
    "test_a_report_is_ready_once_its_job_has_succeeded",
    "test_fields_that_konverge_does_not_write_are_removed_if_handed_over",
    "test_finished_pods_are_replaced",
    "test_nothing_of_kopf_stays",
    "test_previews_are_first_and_a_farm_that_is_down_is_spared",
    "test_the_page_shows_the_levels_of_the_warehouse",
    "test_the_span_of_the_reconciler_is_inside_the_span_of_the_reconcile",
]
