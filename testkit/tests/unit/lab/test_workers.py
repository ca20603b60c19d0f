"""Work in several processes: order, results, failures, and that nothing stays behind."""

import gc
import multiprocessing
import os
import signal
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest

from konverge_testing.lab.branching import Batch
from konverge_testing.lab.workers import Link, Work, WorkFailed, possible, spread

pytestmark = pytest.mark.skipif(not possible(), reason="processes cannot be forked here")


def each(do: Callable[[int], Any]) -> Work:
    """Work that runs its items one by one."""

    def work(batch: Batch, link: Link) -> None:
        for place in batch.places:
            link.began(place)
            link.done(place, do(place))

    return work


def singles(count: int) -> list[Batch]:
    return [Batch((place,)) for place in range(count)]


def always() -> bool:
    return True


def test_every_place_is_done_once_in_other_processes() -> None:
    done = dict(
        spread(each(lambda place: (place * place, os.getpid())), [Batch((0, 1, 2)), *singles(7)[3:]], 2, always)
    )
    assert {place: value for place, (value, _) in done.items()} == {place: place * place for place in range(7)}
    assert os.getpid() not in {process for _, process in done.values()}
    assert done[0][1] == done[1][1] != done[3][1]


def test_nothing_more_is_handed_out_once_time_is_up() -> None:
    left = iter([True, True, True])
    done = spread(each(lambda place: place), singles(50), 2, lambda: next(left, False))
    assert sorted(place for place, _ in done) == [0, 1, 2]


def test_an_error_of_a_piece_of_work_names_its_place() -> None:
    with pytest.raises(WorkFailed, match="ZeroDivisionError") as failed:
        list(spread(each(lambda place: 1 // (2 - place)), [Batch((0, 1, 2, 3, 4))], 1, always))
    assert failed.value.place == 2


def test_the_death_of_a_worker_is_reported_and_blocks_nothing() -> None:
    with pytest.raises(WorkFailed, match="died") as failed:
        list(spread(each(lambda _: os._exit(3)), singles(3), 2, always))
    assert failed.value.place in (0, 1)


def test_pieces_that_a_worker_gives_back_are_done_by_another() -> None:
    def work(batch: Batch, link: Link) -> None:
        if batch.shared:
            link.done(batch.places[0], "together")
            link.end(batch.places[1:])
        each(lambda _: "alone")(batch, link)

    done = dict(spread(work, [Batch((0, 1, 2), shared=True)], 1, always))
    assert done == {0: "together", 1: "alone", 2: "alone"}


def test_closing_the_iterator_ends_the_workers_and_their_forks() -> None:
    inlet, outlet = os.pipe()

    def work(batch: Batch, link: Link) -> None:
        if os.fork() == 0:
            os.write(outlet, b"!")
            signal.pause()
        link.done(batch.places[0], None)
        signal.pause()

    outcomes = spread(work, singles(2), 2, always)
    assert next(outcomes)
    assert isinstance(outcomes, Generator)
    with os.fdopen(inlet, "rb") as pipe:
        assert pipe.read(2) == b"!!"
        outcomes.close()
        os.close(outlet)
        assert pipe.read() == b""  # the pipe ends when no process holds its other end
    assert multiprocessing.active_children() == []


@pytest.mark.linux
def test_no_descriptor_and_no_process_is_left_behind() -> None:
    list(spread(each(lambda place: place), singles(2), 2, always))
    gc.collect()
    before = descriptors(), children()
    list(spread(each(lambda place: place), singles(6), 2, always))
    assert (descriptors(), children()) == before


def descriptors() -> list[str]:
    return sorted(path.name for path in Path("/proc/self/fd").iterdir())


def children() -> set[str]:
    """The children of this process, zombies and those of session fixtures included."""
    return {pid for task in Path("/proc/self/task").iterdir() for pid in (task / "children").read_text().split()}
