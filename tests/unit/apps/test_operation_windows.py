"""Maintenance windows: when they are open, when the next window opens, and the errors of invalid texts."""

from datetime import UTC, datetime, timedelta

import pytest

from konverge.reconcilers.apps.operations.waiting.windows import BadWindow, next_opening, opened_at, parse_windows

NIGHTS = "Sat,Sun 22:00-06:00 Europe/Berlin"
SPRING, AUTUMN = "Sun 01:30-03:30 Europe/Berlin", "Sun 01:30-03:30 Europe/Berlin"


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "now", "opened"),
    [
        pytest.param("02:00-04:00", "2030-01-01T01:59:59", None, id="before it"),
        pytest.param("02:00-04:00", "2030-01-01T02:00:00", "2030-01-01T02:00", id="at its opening"),
        pytest.param("02:00-04:00", "2030-01-01T03:59:59", "2030-01-01T02:00", id="in its last second"),
        pytest.param("02:00-04:00", "2030-01-01T04:00:00", None, id="at its end"),
        pytest.param("22:00-24:00", "2030-01-01T23:59:59", "2030-01-01T22:00", id="until midnight"),
        pytest.param("22:00-24:00", "2030-01-02T00:00:00", None, id="at midnight"),
        pytest.param("00:00-24:00", "2030-01-01T12:00:00", "2030-01-01T00:00", id="a whole day"),
        pytest.param("06:00-06:00", "2030-01-01T05:00:00", "2029-12-31T06:00", id="equal times are a day"),
        pytest.param(NIGHTS, "2030-01-05T21:30:00", "2030-01-05T21:00", id="Saturday night, by the clock of its zone"),
        pytest.param(NIGHTS, "2030-01-07T04:59:00", "2030-01-06T21:00", id="over midnight into Monday"),
        pytest.param(NIGHTS, "2030-01-07T05:00:00", None, id="Monday morning"),
        pytest.param(NIGHTS, "2030-01-05T04:00:00", None, id="the night before its first day"),
        pytest.param("Fri-Mon 10:00-11:00", "2030-01-06T10:30:00", "2030-01-06T10:00", id="a range of days over Sunday"),
        pytest.param("Fri-Mon 10:00-11:00", "2030-01-08T10:30:00", None, id="outside of a range of days"),
        pytest.param("Tue 10:00-12:00; 11:00-13:00", "2030-01-01T11:30:00", "2030-01-01T11:00", id="the latest of several"),
        pytest.param("10:00-10:30; Tue 12:00-13:00", "2030-01-01T11:00:00", None, id="between two"),
        # Clocks go forward in Berlin on 31 March 2030 at 01:00 UTC, and back on 27 October at 01:00 UTC.
        pytest.param(SPRING, "2030-03-31T00:29:59", None, id="before a window with a missing hour"),
        pytest.param(SPRING, "2030-03-31T01:29:59", "2030-03-31T00:30", id="in a window with a missing hour"),
        pytest.param(SPRING, "2030-03-31T01:30:00", None, id="a window with a missing hour ends by the clock"),
        pytest.param(AUTUMN, "2030-10-26T23:30:00", "2030-10-26T23:30", id="a window with an hour twice"),
        pytest.param(AUTUMN, "2030-10-27T02:29:59", "2030-10-26T23:30", id="a window with an hour twice ends by the clock"),
        pytest.param("Sun 02:30-03:00 Europe/Berlin", "2030-03-31T01:45:00", "2030-03-31T01:30", id="an opening left out"),
        pytest.param("Sun 02:15-02:45 Europe/Berlin", "2030-03-31T01:30:00", "2030-03-31T01:15", id="a window left out"),
    ],
)  # fmt: skip
def test_a_window_is_open_from_its_opening_to_its_end(text: str, now: str, opened: str | None) -> None:
    assert opened_at(parse_windows(text), at(now)) == (None if opened is None else at(opened))


@pytest.mark.parametrize(
    ("text", "now", "opens"),
    [
        ("02:00-04:00", "2030-01-01T01:00:00", "2030-01-01T02:00"),
        ("02:00-04:00", "2030-01-01T02:00:00", "2030-01-02T02:00"),
        ("Mon 02:00-04:00", "2030-01-07T02:30:00", "2030-01-14T02:00"),
        ("Mon 02:00-04:00; Wed 02:00-03:00", "2030-01-01T00:00:00", "2030-01-02T02:00"),
        (NIGHTS, "2030-01-01T00:00:00", "2030-01-05T21:00"),
        (NIGHTS, "2030-07-01T12:00:00", "2030-07-06T20:00"),
        ("Sun 02:30-03:00 Europe/Berlin", "2030-03-30T12:00:00", "2030-03-31T01:30"),
        ("00:30-01:00 Pacific/Auckland", "2030-01-01T12:00:00", "2030-01-02T11:30"),
    ],
)
def test_the_next_window_opens_at_a_known_moment(text: str, now: str, opens: str) -> None:
    assert next_opening(parse_windows(text), at(now)) == at(opens)


def test_window_opens_exactly_at_its_next_opening() -> None:
    for text in (NIGHTS, SPRING, "Mon-Fri 23:30-00:30 America/New_York", "12:00-13:00; Sun 05:00-05:01 Asia/Kolkata"):
        windows, now = parse_windows(text), at("2030-01-01T00:00:00")
        for _ in range(120):
            now = next_opening(windows, now)
            assert opened_at(windows, now) == now
            assert opened_at(windows, now - timedelta(seconds=1)) != now


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "names no window"),
        (" ; ", "names no window"),
        ("Saturday 22:00-06:00", "has a day that is none of Mon, Tue"),
        ("Sat- 22:00-06:00x", "has a window without times"),
        ("Sat", "has a window without times"),
        ("Sat 22-06", "has a window without times"),
        ("22:00-25:00", "has a day that is none of"),
        ("24:00-06:00", "has a day that is none of"),
        ("0 22 * * 6 8h", "has a day that is none of"),
        ("Sat 22:00-06:00 Europe/Atlantis", "names a time zone that is not known here"),
        ("Sat 22:00-06:00 ../../etc/passwd", "names a time zone that is not known here"),
        ("Sat 22:00-06:00 Europe", "names a time zone that is not known here"),
        ("Sat 22:00-06:00 Europe/Berlin please", "has more than days, times and a zone"),
        ("22:00-06:00;" * 100, "is longer than 1024 characters"),
    ],
)
def test_an_unreadable_window_is_refused_with_an_example(text: str, said: str) -> None:
    with pytest.raises(BadWindow, match=said) as refused:
        parse_windows(text)
    assert "write" in str(refused.value)
    assert "Sat,Sun 22:00-06:00 Europe/Berlin" in str(refused.value)
