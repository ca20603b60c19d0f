"""Settings: durations in the usual notation, ranges that are checked at the start."""

from datetime import timedelta
from typing import Any

import pytest
from pydantic import ValidationError

from konverge.reconcilers.apps import ForbiddenVersions, Settings


def test_everything_has_a_default_and_the_gates_are_off() -> None:
    settings = Settings()
    assert (settings.interval, settings.timeout, settings.source_grace) == (
        timedelta(minutes=5),
        timedelta(minutes=5),
        timedelta(seconds=30),
    )
    gates = (settings.require_managed_by, settings.require_cluster_id, settings.require_namespace_label)
    assert gates == (False, False, False)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [("30s", 30), ("1h30m", 5400), ("30d", 30 * 86400), ("1d12h", 129600), (90, 90), (timedelta(minutes=1), 60)],
)
def test_a_duration_is_written_as_go_does_with_days_besides(value: Any, seconds: float) -> None:
    assert Settings.model_validate({"interval": value}).interval.total_seconds() == seconds


@pytest.mark.parametrize("value", ["", "5", "5 minutes", "0s", 0, -1])
def test_a_malformed_duration_is_refused(value: Any) -> None:
    with pytest.raises(ValidationError):
        Settings.model_validate({"interval": value})


def test_a_malformed_range_of_forbidden_versions_is_refused_at_load_time() -> None:
    with pytest.raises(ValidationError, match="no exact version"):
        ForbiddenVersions(chart="shop", versions="<latest")


def test_a_misspelt_setting_is_an_error() -> None:
    with pytest.raises(ValidationError):
        Settings.model_validate({"intervall": "5m"})
