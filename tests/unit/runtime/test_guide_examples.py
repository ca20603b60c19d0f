"""The examples of the guides pass as the guides show them."""

from test_dump_database import test_a_database_that_is_up_is_dumped
from test_fleet import test_a_read_of_the_images_of_a_node_is_refused
from test_howto import (
    test_a_dns_service_that_fails_is_called_again,
    test_a_login_is_ready_once_its_secret_has_a_password,
    test_a_terminal_error_is_not_retried_until_the_spec_changes,
    test_all_mailboxes_share_five_calls_a_second,
    test_an_object_without_an_owner_is_adopted_and_a_child_is_not,
    test_both_controllers_keep_their_conditions,
    test_each_app_of_a_shared_config_sees_its_change,
    test_each_night_has_one_job,
    test_each_operator_has_its_own_banners,
    test_only_a_change_of_the_spec_reconciles_the_page,
    test_the_former_field_counts_until_it_is_replaced,
    test_the_web_server_starts_after_the_database,
)
from test_howto_deletion import test_a_deleted_member_leaves_no_entry
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
    "test_a_dns_service_that_fails_is_called_again",
    "test_a_login_is_ready_once_its_secret_has_a_password",
    "test_a_terminal_error_is_not_retried_until_the_spec_changes",
    "test_all_mailboxes_share_five_calls_a_second",
    "test_an_object_without_an_owner_is_adopted_and_a_child_is_not",
    "test_both_controllers_keep_their_conditions",
    "test_each_app_of_a_shared_config_sees_its_change",
    "test_each_night_has_one_job",
    "test_each_operator_has_its_own_banners",
    "test_only_a_change_of_the_spec_reconciles_the_page",
    "test_the_former_field_counts_until_it_is_replaced",
    "test_the_web_server_starts_after_the_database",
    "test_a_deleted_member_leaves_no_entry",
    "test_a_database_that_is_up_is_dumped",
    "test_a_paused_film_is_not_rendered_until_it_is_resumed",
    "test_a_read_of_the_images_of_a_node_is_refused",
    "test_a_page_is_published_changed_and_withdrawn",
    "test_a_report_is_ready_once_its_job_has_succeeded",
    "test_fields_that_konverge_does_not_write_are_removed_if_handed_over",
    "test_finished_pods_are_replaced",
    "test_nothing_of_kopf_stays",
    "test_previews_are_first_and_a_farm_that_is_down_is_spared",
    "test_the_page_shows_the_levels_of_the_warehouse",
    "test_the_span_of_the_reconciler_is_inside_the_span_of_the_reconcile",
]
