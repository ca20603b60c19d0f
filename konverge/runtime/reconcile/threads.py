"""The threads of blocking reconcilers, started at the first use."""

from __future__ import annotations

from concurrent.futures import Executor, ThreadPoolExecutor

__all__ = ["Threads"]


class Threads:
    """A thread pool of one controller, as large as its concurrency. Constructing it starts nothing."""

    def __init__(self, controller: str, size: int) -> None:
        self._controller = controller
        self._size = size
        self._pool: ThreadPoolExecutor | None = None

    def executor(self) -> Executor:
        """Return the pool."""
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._size, thread_name_prefix=f"konverge-{self._controller}")
        return self._pool

    def close(self) -> None:
        """Let running threads end, and start no more."""
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
