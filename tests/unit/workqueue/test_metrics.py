"""The calls of the metrics interface: when and how often."""

import pytest

from konverge.workqueue import Bucket, ItemExponential, NoMetrics, QueueCore, QueueMetrics, Throttle


class Recorder:
    """Records every call."""

    def __init__(self) -> None:
        self.adds = 0
        self.retries = 0
        self.depths: dict[int, int] = {}
        self.waits: list[float] = []
        self.works: list[float] = []

    def added(self) -> None:
        self.adds += 1

    def depth(self, priority: int, entries: int) -> None:
        self.depths[priority] = entries

    def waited(self, seconds: float) -> None:
        self.waits.append(seconds)

    def worked(self, seconds: float) -> None:
        self.works.append(seconds)

    def retried(self) -> None:
        self.retries += 1


@pytest.fixture
def measures() -> Recorder:
    return Recorder()


@pytest.fixture
def core(measures: Recorder) -> QueueCore[str]:
    return QueueCore[str](metrics=measures, limiter=ItemExponential(1.0, 100.0))


def test_a_recorder_and_the_null_object_are_metrics() -> None:
    collectors: list[QueueMetrics] = [Recorder(), NoMetrics()]
    assert len(collectors) == 2


def test_an_add_that_merges_into_a_ready_entry_is_not_counted(core: QueueCore[str], measures: Recorder) -> None:
    core.add("a", 0.0, reason="event")
    core.add("a", 1.0, reason="event")
    assert (measures.adds, measures.depths) == (1, {0: 1})


def test_add_during_work_counts_once_as_depth_before_work_is_done(core: QueueCore[str], measures: Recorder) -> None:
    core.add("a", 0.0, reason="event")
    core.get(1.0)
    assert measures.depths == {0: 0}
    core.add("a", 2.0, reason="event")
    core.add("a", 3.0, reason="event")
    assert (measures.adds, measures.depths) == (2, {0: 1})
    core.done("a", 5.0)
    assert (measures.adds, measures.depths, measures.works) == (2, {0: 1}, [4.0])
    core.get(6.0)
    assert (measures.waits, measures.depths) == ([1.0, 4.0], {0: 0})


def test_delayed_add_counts_as_a_retry_at_once_and_add_when_due(core: QueueCore[str], measures: Recorder) -> None:
    core.add_after("a", 5.0, 0.0, reason="asked")
    assert (measures.retries, measures.adds, measures.depths) == (1, 0, {})
    core.advance(4.9)
    assert measures.adds == 0
    core.advance(7.0)
    assert (measures.adds, measures.depths) == (1, {0: 1})
    core.get(9.0)
    assert measures.waits == [4.0], "counted from the time it was asked for, not from when somebody looked"


def test_every_delayed_add_is_a_retry_merged_or_not(core: QueueCore[str], measures: Recorder) -> None:
    core.add_after("a", 5.0, 0.0, reason="asked")
    core.add_after("a", 9.0, 0.0, reason="asked")
    core.add_rate_limited("a", 0.0, reason="retry")
    core.add_after("a", 0.0, 0.0, reason="asked")
    assert (measures.retries, measures.adds) == (3, 1)


def test_a_retry_without_delay_is_only_an_add(measures: Recorder) -> None:
    core = QueueCore[str](metrics=measures, limiter=Bucket())
    core.add_rate_limited("a", 0.0, reason="retry")
    assert (measures.retries, measures.adds) == (0, 1)


def test_an_event_delayed_by_the_throttle_is_not_counted_as_a_retry(measures: Recorder) -> None:
    core = QueueCore[str](metrics=measures, throttle=Throttle(debounce=1.0))
    core.add("a", 0.0, reason="event")
    core.add("a", 0.5, reason="event")
    core.get(2.0)
    assert (measures.retries, measures.adds, measures.waits) == (0, 1, [0.5])


@pytest.mark.parametrize("in_work", [False, True])
def test_depth_follows_a_raised_priority(core: QueueCore[str], measures: Recorder, in_work: bool) -> None:
    if in_work:
        core.add("a", 0.0, reason="event", priority=-100)
        core.get(0.0)
    core.add("a", 0.0, reason="event", priority=-100)
    core.add("b", 0.0, reason="event", priority=-100)
    core.add("a", 0.0, reason="event", priority=7)
    assert measures.depths == {-100: 1, 7: 1}
    assert core.statistics(0.0).depth == {-100: 1, 7: 1}


def test_the_priority_of_a_delayed_key_is_not_depth_before_its_time(core: QueueCore[str], measures: Recorder) -> None:
    core.add_after("a", 5.0, 0.0, reason="asked", priority=1)
    core.add_after("a", 5.0, 0.0, reason="asked", priority=2)
    assert measures.depths == {}
    core.advance(5.0)
    assert measures.depths == {2: 1}


def test_a_removed_key_leaves_the_depth_and_is_not_observed(core: QueueCore[str], measures: Recorder) -> None:
    core.add("a", 0.0, reason="event", priority=4)
    core.remove("a")
    assert (measures.depths, measures.waits) == ({4: 0}, [])


def test_refused_adds_are_not_counted(core: QueueCore[str], measures: Recorder) -> None:
    core.shut_down(0.0)
    core.add("a", 0.0, reason="event")
    core.add_after("a", 1.0, 0.0, reason="asked")
    core.add_rate_limited("a", 0.0, reason="retry")
    assert (measures.adds, measures.retries, measures.depths) == (0, 0, {})


def test_the_ages_of_work_are_computed_on_demand(core: QueueCore[str]) -> None:
    core.add("a", 0.0, reason="event")
    core.add("b", 0.0, reason="event")
    core.get(1.0)
    core.get(4.0)
    statistics = core.statistics(10.0)
    assert (statistics.unfinished_work_seconds, statistics.longest_running_seconds) == (15.0, 9.0)
    core.done("a", 10.0)
    statistics = core.statistics(11.0)
    assert (statistics.unfinished_work_seconds, statistics.longest_running_seconds) == (7.0, 7.0)
    core.done("b", 11.0)
    statistics = core.statistics(12.0)
    assert (statistics.unfinished_work_seconds, statistics.longest_running_seconds) == (0.0, 0.0)


def test_statistics_count_adds_and_retries_as_the_metrics_do(core: QueueCore[str], measures: Recorder) -> None:
    core.add("a", 0.0, reason="event")
    core.get(0.0)
    core.add("a", 0.0, reason="event", priority=3)
    core.add("b", 0.0, reason="event")
    core.add_rate_limited("c", 0.0, reason="retry")
    statistics = core.statistics(0.5, getters=2)
    assert (statistics.ready, statistics.held, statistics.delayed, statistics.working) == (1, 1, 1, 1)
    assert (statistics.adds, statistics.retries) == (measures.adds, measures.retries) == (3, 1)
    assert (statistics.depth, statistics.getters, statistics.failing) == ({0: 1, 3: 1}, 2, 1)
