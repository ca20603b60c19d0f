"""The metrics of one controller; each series is looked up once. The metrics of its queue are in `queue_metrics`."""

from __future__ import annotations

from functools import lru_cache

from prometheus_client import Counter

from konverge.metrics import RESULTS, Metrics
from konverge.runtime.controller.requeue import RequeueDecision
from konverge.words import Why

__all__ = ["BARRIER_RESULTS", "ControllerMetrics"]

BARRIER_RESULTS = ("shown", "timeout")
"""The values of the label `result` of waits for own writes; both exist at 0 from the start of a controller."""

_WORDS: tuple[str, ...] = tuple(word for name, word in vars(Why).items() if name.isupper())


class ControllerMetrics:
    """Counts the reconciles of one controller. Controllers of one name that share their metrics add up."""

    def __init__(self, metrics: Metrics, controller: str, *, workers: int) -> None:
        self._metrics = metrics
        self._controller = controller
        self.active = 0
        """Workers that reconcile a key now."""
        self._results = {
            result: metrics.reconcile_total.labels(controller=controller, result=result) for result in RESULTS
        }
        self._errors = metrics.reconcile_errors.labels(controller=controller)
        self._terminal = metrics.terminal_errors.labels(controller=controller)
        self._panics = metrics.panics.labels(controller=controller)
        self._timeouts = metrics.timeouts.labels(controller=controller)
        self._seconds = metrics.reconcile_seconds.labels(controller=controller)
        self._stale = metrics.stale_skips.labels(controller=controller)
        self._waited = {
            result: metrics.barrier_waits.labels(controller=controller, result=result) for result in BARRIER_RESULTS
        }
        # At 0 from the start, since a rate shows no first event of a series that begins with it.
        metrics.blocking_calls.labels(controller=controller)
        self._decode_errors = metrics.decode_errors.labels(controller=controller)
        self._reasons: dict[str, Counter] = {}
        together = self._together = _sharing(metrics, controller)
        # Computed at a scrape.
        metrics.active_workers.labels(controller=controller).set_function(
            lambda: sum(one.active for one in tuple(together))
        )
        metrics.max_concurrent.labels(controller=controller).set(workers)

    def open(self) -> None:
        """Show the active workers of this controller."""
        self._together.append(self)

    def close(self) -> None:
        """Show them no more."""
        self._together.remove(self)

    def reconciled(
        self, decision: RequeueDecision, duration: float, reasons: tuple[str, ...], *, invalid: bool
    ) -> None:
        """Count one reconcile; `invalid`: the object did not decode."""
        self._results[decision.result].inc()
        self._seconds.observe(duration)
        for word in {_word(reason) for reason in reasons}:
            counter = self._reasons.get(word)
            if counter is None:  # a series begins with its first reconcile
                counter = self._reasons[word] = self._metrics.reasons.labels(controller=self._controller, reason=word)
            counter.inc()
        if invalid:
            self._decode_errors.inc()
        if not decision.failed:
            return
        self._errors.inc()
        if decision.terminal:
            self._terminal.inc()
        if decision.timeout:
            self._timeouts.inc()
        if decision.unexpected:
            self._panics.inc()

    def gone(self) -> None:
        """Count a key whose object is gone."""
        self._results["success"].inc()

    def defect(self) -> None:
        """Count an exception of the runtime itself."""
        self._panics.inc()

    def waits(self) -> None:
        """Count a reconcile that was put off because the cache did not show the controller's own writes."""
        self._stale.inc()

    def waited(self, result: str) -> None:
        """Count the end of such a wait: one of `BARRIER_RESULTS`."""
        self._waited[result].inc()


def _sharing(metrics: Metrics, controller: str) -> list[ControllerMetrics]:
    shared: list[ControllerMetrics] = metrics.shared.setdefault((ControllerMetrics, controller), [])
    return shared


@lru_cache(maxsize=1024)  # nearly all reconciles have one of a few reasons
def _word(reason: str) -> str:
    """Return the first words of a reason, without names: a label value of bounded variety."""
    return next((word for word in _WORDS if reason.startswith(word)), "other")
