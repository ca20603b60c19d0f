"""Mistakes of the program under test that the runtime contains: they fail the test instead of only being logged.

Guarantees: an exception of the program's code, other than an error of the API, is a finding, once for each place, type and object. So is a
coroutine that was never awaited; a coroutine that a reconcile forgot fails that reconcile, as a forgotten `await ctx.own(...)` does. An
error that the test expects (`Lab.expects`) does not count.

Caveats: a coroutine in a reference cycle is found when it is collected, which may be after the test.
"""

from __future__ import annotations

import asyncio
import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from konverge.errors import Forbidden, ForgottenAwait, KonvergeError, ReconcileTimeout
from konverge.keys import Key
from konverge.runtime.controller.failure_message import is_mistake
from konverge.runtime.observability.failures import Failure
from konverge.runtime.observability.record import ReconcileRecord
from konverge_testing.apiserver.storage import Event
from konverge_testing.frames import line_of_error
from konverge_testing.lab.invariants import QUIET, broken
from konverge_testing.lab.reconcile_oracle import ReconcileOracle

__all__ = ["AT_ONCE", "Findings", "Mistakes", "unawaited_coroutines"]

AT_ONCE: Final = 300
"""Reconciles of one key at one moment that count as a hang."""
_HOOK: Final = "_warn_unawaited_coroutine"
"""The function of `warnings` that the interpreter calls; a warnings filter would depend on the test run's filters."""


class Mistakes(AssertionError):
    """The program under test made mistakes, although every expectation of the test was met; the message lists them."""

    def __init__(self, problems: list[str]) -> None:
        lines = "".join(f"\n  - {problem}" for problem in problems)
        super().__init__(
            f"the test is done, and the program under test went wrong:{lines}\n"
            "a test that expects such an error says so, before it occurs: lab.expects(ErrorType)"
        )


@dataclass(slots=True)
class _Expected:
    error: type[BaseException]
    match: str
    met: bool = False

    def covers(self, error: BaseException) -> bool:
        if isinstance(error, BaseExceptionGroup) and not isinstance(error, self.error):
            return any(self.covers(inner) for inner in error.exceptions)
        return isinstance(error, self.error) and re.search(self.match, str(error)) is not None

    def __str__(self) -> str:
        return f"{self.error.__name__}{f' with {self.match!r}' if self.match else ''}"


@dataclass(slots=True)
class Findings:
    """The findings of one lab; the observer of its managers."""

    problems: list[str] = field(default_factory=list)
    disturbed: bool = False
    """Whether faults are injected: code may then run into its own timeouts."""
    failing: dict[tuple[str, Key], BaseException] = field(default_factory=dict)
    """The last error of each key that a controller retries by backoff."""
    most_at_once: Callable[[], None] | None = None
    """Called if one key was reconciled `AT_ONCE` times at one moment."""
    always: list[Callable[[], None]] = field(default_factory=list)
    """Predicates that must hold after every write; each raises AssertionError."""
    oracle: ReconcileOracle | None = None
    """Judges each reconcile; None in an ordinary test, which may call for a resync itself."""
    _at: float = 0.0
    _times: Counter[tuple[str, Key]] = field(default_factory=Counter)
    _violated: list[Callable[[], None]] = field(default_factory=list)
    _expected: list[_Expected] = field(default_factory=list)
    _forgotten: dict[asyncio.Task[Any] | None, list[str]] = field(default_factory=dict)

    # --- what the test declares ----------------------------------------------------------------------------------------------

    def expect(self, error: type[BaseException], match: str) -> None:
        """Expect errors of this type whose text matches: the test is about them."""
        self._expected.append(_Expected(error, match))

    def expects(self, error: BaseException) -> bool:
        """Return whether the test expects an error, and remember that it occurred."""
        found = [one for one in self._expected if one.covers(error)]
        for one in found:
            one.met = True
        return bool(found)

    def unmet(self) -> list[str]:
        """Return the expected errors that did not occur; under faults they need not."""
        if self.disturbed:
            return []
        return [f"the test expects {one}, which did not occur" for one in self._expected if not one.met]

    # --- the observer of managers --------------------------------------------------------------------------------------------

    def failed(self, failure: Failure) -> None:
        """Record a contained exception: a finding if it is a mistake of the program and the test does not expect it."""
        forgotten, error = self._forgotten.pop(_task(), []), failure.error
        if failure.retried:
            self.failing[failure.where, failure.key] = error
        if self.expects(error):
            return
        where = f"in {failure.where} {failure.key.path}"
        if self.is_finding(error):
            self.add(f"unhandled {type(error).__name__} {where}: {error}{_place(error)}")
        for words in forgotten:
            self.add(f"{words} {where}")

    def reconciling(self, controller: str, key: Key, reasons: tuple[str, ...]) -> None:
        """Pass the beginning of a reconcile to the oracle of reconciles."""
        if self.oracle is not None:
            self.oracle.begins(controller, key, reasons)

    def reconciled(self, controller: str, record: ReconcileRecord) -> None:
        """Judge a reconcile, and count the reconciles of each key at one moment."""
        if self.oracle is not None:
            self.oracle.ends(record)
        now = asyncio.get_running_loop().time()
        if now != self._at:
            self._at = now
            self._times.clear()
        self._times[controller, record.key] += 1
        if self._times[controller, record.key] == AT_ONCE and self.most_at_once is not None:
            self.most_at_once()

    def check_reconcile(self) -> None:
        """Raise ForgottenAwait if the reconcile of the current task created a coroutine and never awaited it."""
        forgotten = self._forgotten.pop(_task(), None)
        if forgotten:
            raise ForgottenAwait(f"{', '.join(forgotten)}; write await before it")

    def never_awaited(self, coroutine: Any) -> None:
        """Record a coroutine that was collected before it was awaited."""
        code = getattr(coroutine, "cr_code", None) or coroutine.gi_code
        words = f"coroutine {coroutine.__qualname__} ({Path(code.co_filename).name}:{code.co_firstlineno}) was never awaited"
        self._forgotten.setdefault(_task(), []).append(words)

    def unhandled(self, context: dict[str, Any]) -> None:
        """Record a report of the event loop: an exception that no code retrieved."""
        error, message = context.get("exception"), context.get("message")
        if error is None:
            self.add(f"unhandled: {message}")
        elif not self.expects(error):
            self.add(f"unhandled: {message}: {type(error).__name__}: {error}{_place(error)}")

    def webhook_failed(self, path: str, error: BaseException) -> None:
        """Record an exception of a webhook's handler."""
        if not self.expects(error) and self.is_finding(error):
            self.add(f"unhandled {type(error).__name__} in the webhook {path}: {error}{_place(error)}")

    def missing_rule(self, error: Forbidden, words: str) -> None:
        """Record the rejection of a manager's request that no declared rule allows; `words` name the rule."""
        if not self.expects(error):
            self.add(words)

    def observe(self, event: Event) -> None:
        """Check the predicates after a commit; a predicate that failed is not checked again."""
        if event.entry.resource not in QUIET:
            left = [check for check in self.always if check not in self._violated]
            for check, words in broken(left, event):
                self._violated.append(check)
                self.add(words)

    # --- at the end ----------------------------------------------------------------------------------------------------------

    def collect(self) -> None:
        """Add the coroutines that were never awaited outside of reconciles."""
        for words in [words for forgotten in self._forgotten.values() for words in forgotten]:
            if not self.expects(ForgottenAwait(words)):
                self.add(words)
        self._forgotten.clear()

    def is_finding(self, error: BaseException) -> bool:
        """Return whether an unexpected error is a finding at its first occurrence, and not only if it persists."""
        if isinstance(error, TimeoutError | ReconcileTimeout):
            return not self.disturbed
        if isinstance(error, BaseExceptionGroup):
            return any(self.is_finding(inner) for inner in error.exceptions)
        return is_mistake(error)

    def add(self, problem: str) -> None:
        """Add a finding, once."""
        if problem not in self.problems:
            self.problems.append(problem)


def _task() -> asyncio.Task[Any] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:  # in a thread, or after the loop
        return None


def _place(error: BaseException) -> str:
    """Return the line of the program that raised, in brackets; errors of the library already name the remedy."""
    line = "" if isinstance(error, KonvergeError) else line_of_error(error)
    return f" ({line})" if line else ""


@contextmanager
def unawaited_coroutines(take: Callable[[Any], None]) -> Iterator[None]:
    """Pass each coroutine that is collected and was never awaited to `take` instead of warning of it."""
    before = getattr(warnings, _HOOK)
    setattr(warnings, _HOOK, take)
    try:
        yield
    finally:
        setattr(warnings, _HOOK, before)
