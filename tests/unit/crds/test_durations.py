from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from konverge.crds import Duration, Model, format_duration, parse_duration


class Timed(Model):
    every: Duration = timedelta(minutes=5)


@pytest.mark.parametrize(
    ("text", "duration", "written"),
    [
        ("5m", timedelta(minutes=5), "5m"),
        ("90s", timedelta(seconds=90), "1m30s"),
        ("1h30m", timedelta(hours=1, minutes=30), "1h30m"),
        ("1.5h", timedelta(minutes=90), "1h30m"),
        ("30m1h", timedelta(minutes=90), "1h30m"),
        ("100h", timedelta(hours=100), "100h"),
        ("250ms", timedelta(milliseconds=250), "250ms"),
        ("0s", timedelta(0), "0s"),
    ],
)
def test_durations_are_read_and_written_as_go_does(text: str, duration: timedelta, written: str) -> None:
    assert parse_duration(text) == duration
    assert format_duration(duration) == written
    assert Timed.model_validate({"every": text}).wire() == {"every": written}


@pytest.mark.parametrize(
    "text", ["", "5", "m", "30d", "-5m", "5 m", "5m ", "PT5M", "1,5h", "\N{ARABIC-INDIC DIGIT FIVE}m", "9" * 40 + "h"]
)
def test_a_malformed_duration_is_refused_without_quoting_it(text: str) -> None:
    with pytest.raises(ValueError, match=r"write a duration as in 90s, 5m or 1h30m|too long"):
        parse_duration(text)
    with pytest.raises(ValidationError):
        Timed.model_validate({"every": text})


@pytest.mark.parametrize("value", [300, None, [], timedelta(seconds=-1)])
def test_only_texts_and_durations_are_durations(value: object) -> None:
    with pytest.raises(ValidationError):
        Timed.model_validate({"every": value})


def test_a_negative_duration_is_not_written() -> None:
    with pytest.raises(ValueError, match="not negative"):
        format_duration(timedelta(seconds=-1))


@given(st.timedeltas(min_value=timedelta(0), max_value=timedelta(days=10000)))
def test_a_duration_is_read_back_as_it_was_written_to_the_millisecond(duration: timedelta) -> None:
    assert parse_duration(format_duration(duration)) == duration - duration % timedelta(milliseconds=1)
