"""The timeline of a run, as lines that can be compared."""

import pytest

from konverge_testing.lab.timeline import Timeline, TimelineEntry, first_difference, summary


def timeline(*texts: str) -> Timeline:
    """Return a timeline of writes; a text that begins with a dot is a commit."""
    made = Timeline()
    for number, text in enumerate(texts):
        kind = "commit" if text.startswith(".") else "write"
        made.add(TimelineEntry(float(number), kind, "process", text, number))  # type: ignore[arg-type]  # one of two literals
    return made


def test_timeline_line_has_time_actor_action_and_write_number() -> None:
    entry = TimelineEntry(1.5, "write", "process", "apply jobs.batch lab/a", 3)
    assert str(entry) == "     1.500  write  process      apply jobs.batch lab/a #3"
    assert timeline("a", ".b").text() == "     0.000  write  process      a\n     1.000  commit process      .b #1\n"


def test_only_writes_of_the_process_are_listed_as_writes() -> None:
    assert [entry.text for entry in timeline("a", ".b", "c").writes()] == ["a", "c"]


@pytest.mark.parametrize(
    ("reference", "run", "place"),
    [
        (("a", "b"), ("a", "b"), None),
        (("a", "b"), ("a",), None),
        (("a", ".x", "b"), (".y", "a", ".z", "c"), 3),
        (("a",), ("a", ".x", "a"), 2),
        ((), ("a",), 0),
    ],
)
def test_the_first_write_that_the_reference_did_not_make_is_found(
    reference: tuple[str, ...], run: tuple[str, ...], place: int | None
) -> None:
    assert first_difference(timeline(*reference), timeline(*run)) == place


def test_a_row_of_equal_entries_is_one_line_of_the_summary() -> None:
    entries = [TimelineEntry(float(second), "pass", "process", text) for second, text in enumerate("abbba")]
    assert [line.split()[-1] if "times" not in line else line for line in summary(entries)] == [
        "a",
        "     1.000  pass   process      b (3 times, until 3.000)",
        "a",
    ]
