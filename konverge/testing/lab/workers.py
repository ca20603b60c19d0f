"""Work in processes of its own, so that exploring uses every core.

Promises: what is to be done is handed out in order, one piece to whoever is free; what comes back is plain data (it is pickled), in any
order, with the place of the piece. Nothing of a worker outlives the iteration, however that ends. What a piece of work raises is raised
here as `WorkFailed`, and so is the death of a worker, each with the place of its piece.

Does not promise: workers where processes cannot be forked (`possible` tells). A scenario is a function of a test module, often a closure:
only a copy of this very process has it.
"""

from __future__ import annotations

import multiprocessing
import traceback
import warnings
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, Final

__all__ = ["WorkFailed", "possible", "spread"]

_END: Final = -1


class WorkFailed(RuntimeError):
    """A piece of work raised, or its worker died; the message says what and where."""

    def __init__(self, place: int, words: str) -> None:
        super().__init__(words)
        self.place = place


def possible() -> bool:
    """Tell whether there can be workers on this system."""
    return "fork" in multiprocessing.get_all_start_methods()


def spread(
    work: Callable[[int], Any], places: int, workers: int, more: Callable[[], bool]
) -> Iterator[tuple[int, Any]]:
    """Yield `(place, work(place))` for the places from 0 as they are done.

    `more` is asked before each is handed out; False hands out no more.
    """
    crew: dict[Connection, BaseProcess] = {}
    busy: dict[Connection, int] = {}
    following = iter(range(places))
    try:
        for _ in range(min(workers, places)):
            ours, process = _hire(work, tuple(crew))
            crew[ours] = process
            _hand_out(ours, following, busy, more)
        while busy:
            for ready in wait(list(busy)):
                assert isinstance(ready, Connection)
                yield _taken(ready, busy.pop(ready))
                _hand_out(ready, following, busy, more)
    finally:
        for ours, process in crew.items():
            ours.close()
            process.terminate()
            process.join()


def _hire(work: Callable[[int], Any], others: tuple[Connection, ...]) -> tuple[Connection, BaseProcess]:
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    process = context.Process(
        target=_serve, args=(work, theirs, (ours, *others)), name="konverge lab worker", daemon=True
    )
    with warnings.catch_warnings():
        # Threads that are there belong to others, a debugger's or a test runner's, and the copy never asks anything of them.
        warnings.simplefilter("ignore", DeprecationWarning)
        process.start()
    theirs.close()
    return ours, process


def _hand_out(
    ours: Connection, following: Iterator[int], busy: dict[Connection, int], more: Callable[[], bool]
) -> None:
    place = next(following, _END) if more() else _END
    if place != _END:
        busy[ours] = place
        ours.send(place)


def _taken(ours: Connection, place: int) -> tuple[int, Any]:
    try:
        error, outcome = ours.recv()
    except (EOFError, OSError):
        raise WorkFailed(place, "the worker process died") from None
    if error:
        raise WorkFailed(place, error)
    return place, outcome


def _serve(work: Callable[[int], Any], theirs: Connection, not_mine: tuple[Connection, ...]) -> None:
    """Do what is handed out until the other side is gone."""
    for one in not_mine:
        one.close()
    while True:
        try:
            place = theirs.recv()
        except EOFError:
            return
        try:
            told = ("", work(place))
        except Exception:  # noqa: BLE001  # whatever it is, the parent tells it
            told = (traceback.format_exc(), None)
        theirs.send(told)
