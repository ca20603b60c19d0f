"""Work in processes of its own, so that exploring uses every core.

Guarantees: batches are handed out in order, one to each free worker; outcomes are plain data (they are pickled) and arrive in any order,
with the place of the piece, as soon as it is done. Nothing of a worker outlives the iteration, however that ends: neither it nor what it
forked. An error of a piece of work is raised here as `WorkFailed`, and so is the death of a worker, each with the place of its piece.

Caveats: workers need `fork` (see `possible`). A scenario is a function of a test module, often a closure: only a copy of this very process
has it.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import traceback
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, Final, NoReturn, TypeAlias

from konverge_testing.lab.branching import Batch

__all__ = ["Link", "Work", "WorkFailed", "possible", "spread"]

_BEGAN: Final = "began"
_DONE: Final = "done"
_FAILED: Final = "failed"
_END: Final = "end"


class WorkFailed(RuntimeError):
    """A piece of work raised, or its worker died; the message has the error and its place."""

    def __init__(self, place: int, words: str) -> None:
        super().__init__(words)
        self.place = place


def possible() -> bool:
    """Return whether there can be workers on this system."""
    return "fork" in multiprocessing.get_all_start_methods()


class Link:
    """The messages of a worker: the piece that it began, the outcome of a piece, and its end."""

    def __init__(self, theirs: Connection) -> None:
        self._theirs = theirs

    def began(self, place: int) -> None:
        """Report the piece that is blamed if the worker dies."""
        self._theirs.send((_BEGAN, place))

    def done(self, place: int, outcome: Any) -> None:
        """Send the outcome of a piece."""
        self._theirs.send((_DONE, (place, outcome)))

    def failed(self, words: str) -> NoReturn:
        """Report the failure of the piece that began last, and end the process."""
        self._leave(_FAILED, words)

    def end(self, back: tuple[int, ...] = ()) -> NoReturn:
        """End the process; another process does the pieces in `back`, each separately."""
        self._leave(_END, back)

    def close(self) -> None:
        """Close the pipe in a copy of the worker, which has nothing to report."""
        self._theirs.close()

    def _leave(self, kind: str, what: Any) -> NoReturn:
        try:
            self._theirs.send((kind, what))
        finally:
            os._exit(0)  # inherited resources are neither cleaned up nor flushed


Work: TypeAlias = Callable[[Batch, Link], None]
"""Does a batch; the process ends with it."""


@dataclass(slots=True)
class _Worker:
    process: BaseProcess
    place: int


def spread(work: Work, batches: Iterable[Batch], workers: int, more: Callable[[], bool]) -> Iterator[tuple[int, Any]]:
    """Yield `(place, outcome)` for each piece as its outcome arrives; `workers` processes at a time, each with a batch.

    `more` is called before each batch is handed out; False hands out no more.
    """
    waiting = deque(batches)
    crew: dict[Connection, _Worker] = {}
    try:
        while True:
            while waiting and len(crew) < workers and more():
                ours, process = _start_worker(work, waiting[0], tuple(crew))
                crew[ours] = _Worker(process, waiting.popleft().places[0])
            if not crew:
                return
            for ready in wait(list(crew)):
                assert isinstance(ready, Connection)
                kind, what = _receive(ready, crew[ready])
                if kind == _BEGAN:
                    crew[ready].place = what
                elif kind == _DONE:
                    yield what
                else:
                    waiting.extend([Batch(what)] * bool(what))
                    _stop_worker(ready, crew.pop(ready).process)
    finally:
        for ours, worker in crew.items():
            _stop_worker(ours, worker.process, kill=True)


def _start_worker(work: Work, batch: Batch, others: tuple[Connection, ...]) -> tuple[Connection, BaseProcess]:
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    process = context.Process(
        target=_serve, args=(work, batch, theirs, (ours, *others)), name="konverge lab worker", daemon=True
    )
    with warnings.catch_warnings():
        # Existing threads belong to others, a debugger or a test runner, and the copy never uses them.
        warnings.simplefilter("ignore", DeprecationWarning)
        process.start()
    theirs.close()
    _own_process_group(process.pid or 0)
    return ours, process


def _own_process_group(process: int) -> None:
    """Put a worker and its forks into a process group of their own. Parent and worker both do so, and the later call changes
    nothing.
    """
    with contextlib.suppress(OSError):
        os.setpgid(process, process)


def _stop_worker(ours: Connection, process: BaseProcess, *, kill: bool = False) -> None:
    ours.close()
    if kill and process.pid is not None:
        with contextlib.suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)
    process.join()
    process.close()


def _receive(ours: Connection, worker: _Worker) -> tuple[str, Any]:
    try:
        kind, what = ours.recv()
    except (EOFError, OSError):
        raise WorkFailed(worker.place, "the worker process died") from None
    if kind == _FAILED:
        raise WorkFailed(worker.place, what)
    return kind, what


def _serve(work: Work, batch: Batch, theirs: Connection, not_mine: tuple[Connection, ...]) -> None:
    """Do a batch, and leave."""
    for one in not_mine:
        one.close()
    _own_process_group(os.getpid())
    link = Link(theirs)
    try:
        work(batch, link)
    except BaseException:  # noqa: BLE001  # the parent raises it again
        link.failed(traceback.format_exc())
    link.end()
