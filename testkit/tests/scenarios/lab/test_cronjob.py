"""The tests of the tutorial pass: an operator that the clock drives, and whose end state depends on time and history."""

from tutorial.test_cronjob import (
    test_cron_job_starts_at_each_due_time_and_keeps_recent_jobs,
    test_decision_follows_from_the_spec_and_the_jobs,
    test_jobs_of_a_deleted_cron_job_are_deleted,
    test_namespace_limits_how_often_a_job_starts,
    test_time_missed_beyond_the_starting_deadline_is_skipped,
)

__all__ = [
    "test_cron_job_starts_at_each_due_time_and_keeps_recent_jobs",
    "test_decision_follows_from_the_spec_and_the_jobs",
    "test_jobs_of_a_deleted_cron_job_are_deleted",
    "test_namespace_limits_how_often_a_job_starts",
    "test_time_missed_beyond_the_starting_deadline_is_skipped",
]
