"""One run of a scenario under a plan, on an in-memory API server and a loop of its own.

Guarantees: nothing outside of the run is touched, and nothing of it remains. The same scenario, plan and seed give the same run, to the
byte of its timeline. A run ends: a run that does not converge within `HORIZON` virtual seconds is a finding, and so is a wait for an
event that never happens.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import warnings
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final, TypeAlias

import structlog

from konverge import errors
from konverge.client import Client
from konverge.kinds import Kind
from konverge.runtime import Manager
from konverge.words import Why
from konverge_testing.blocking import refused
from konverge_testing.lab.branching import SharedPrefix
from konverge_testing.lab.drawn import DrawnValues
from konverge_testing.lab.fault_injector import FaultInjector
from konverge_testing.lab.findings import Findings
from konverge_testing.lab.foreign import ForeignWriter
from konverge_testing.lab.lab import Lab
from konverge_testing.lab.leaks import LeakSearch, captured_logs
from konverge_testing.lab.masks import State, key_of, state_of
from konverge_testing.lab.orphans import orphans
from konverge_testing.lab.owned import owned_paths
from konverge_testing.lab.plans import MOST_DOWN, MOST_JOINED, Plan
from konverge_testing.lab.reconcile_oracle import ReconcileOracle
from konverge_testing.lab.replicas import LeaseFaults
from konverge_testing.lab.services import ServiceGate
from konverge_testing.lab.timeline import Timeline, TimelineEntry
from konverge_testing.loop import MOST_SECONDS, MOST_TURNS, Deadlock, Livelock, VirtualTimeLoop
from konverge_testing.memory_server import ApiServer

__all__ = ["EXPECTATION", "HORIZON", "PATIENCE", "REQUEST", "Run", "Scenario", "rest_until_steady", "run"]

Scenario: TypeAlias = Callable[[Lab], Awaitable[None]]

USER: Final = "lab-user"
FOREIGN_WRITER: Final = "foreign-writer"
EXPECTATION: Final = "the scenario's own expectation failed"
REQUEST: Final = "the scenario failed"
HORIZON: Final = 7200.0
"""Virtual seconds that a run has to converge after the last fault; the longest backoff is 1000."""
STEADY: Final = 1100.0
"""Virtual seconds without a write that count as converged."""
PATIENCE: Final = 200.0
"""The factor of a scenario's timeouts under a plan: they were chosen for real machines, and time is virtual."""
_AFTER_END: Final = 61.5
"""Virtual seconds from the end to the last look: not a round number, because requests that are due each minute are in the queue at full
minutes."""
_LONG: Final = 11 * 3600.0
"""Virtual seconds that a long run continues after it converged, so that it includes the resync of each controller."""
_SHORT: Final = 3600.0
"""Virtual seconds that a run with an early resync continues after it converged, until the resync."""


@dataclass(slots=True)
class Run:
    """The result of one run."""

    plan: Plan
    timeline: Timeline = field(default_factory=Timeline)
    state: State = field(default_factory=dict)
    owned: dict[str, frozenset[str]] = field(default_factory=dict)
    """The fields of each object that a client set; of the reference run only."""
    problems: list[str] = field(default_factory=list)
    """Problems that do not depend on the reference run."""
    created: Counter[str] = field(default_factory=Counter)
    deleted: Counter[str] = field(default_factory=Counter)
    finalizes: list[str] = field(default_factory=list)
    """The objects of the calls of `finalize`, in the order of their starts."""
    requests: dict[str, list[str]] = field(default_factory=dict)
    """Requests of the services of the scenario, in the order of their arrival."""
    touched: set[str] = field(default_factory=set)
    places: dict[str, str] = field(default_factory=dict)
    """Objects whose names the server drew, each with its key in `state` and in the counts."""
    watched: dict[str, int] = field(default_factory=dict)
    """Lines of watches that the process was sent, by `plural.group`."""
    definitions: tuple[str, ...] = ()
    """Custom resources that were served, as `plural.group`."""
    seconds: float = 0.0
    """Virtual seconds until it had converged."""
    may_differ: frozenset[str] = frozenset()
    """Resources (`plural.group`) whose objects may differ in number and content, as the scenario declares."""
    may_be_gone: frozenset[str] = frozenset()
    """Objects that may be missing at the end of another run, as in `state`, and resources whose objects may all be missing."""
    skipped: tuple[tuple[str, str], ...] = ()
    """Patterns of plans that do not apply, and why."""
    allowed: tuple[str, ...] = ()
    """The reasons of allowed differences."""


class _LabProcess:
    """The lab's manager as the process under test."""

    def __init__(self) -> None:
        self.lab: Lab | None = None

    @property
    def process(self) -> str:
        assert self.lab is not None
        return self.lab.manager.name

    def crash(self, down: float) -> None:
        assert self.lab is not None
        self.lab.crash(down=down)

    def halt(self) -> None:
        assert self.lab is not None
        self.lab.halt()


def run(
    scenario: Scenario,
    plan: Plan,
    *,
    long: bool = False,
    early_resync: bool = False,
    prefix: SharedPrefix | None = None,
    seconds: float = MOST_SECONDS,
) -> Run:
    """Run a scenario under a plan. `long` continues for eleven hours after convergence, to check that nothing is written at rest.

    `early_resync` continues for an hour, and then each controller that has a resync enqueues all objects, as it would after ten hours.

    A run that uses more CPU time than `seconds`, or waits for a thread that does not return, is cut off, which is a finding.

    With a `prefix` the run is the common beginning of other plans' runs. It may also return in copies of the process, each as the run of
    one of these plans. Its loop is not closed, because the copies share its descriptors.

    With faults of the lease the process runs as two replicas that elect one of them.
    """
    result = Run(plan)
    loop = VirtualTimeLoop(Random(plan.seed) if plan.seed else None)  # noqa: S311  # the seed is the plan's
    loop.most_turns = MOST_TURNS
    loop.limit(seconds=seconds)
    disturbed = bool(plan.faults) or prefix is not None
    findings = Findings(result.problems, disturbed=disturbed)
    loop.set_exception_handler(lambda _, context: findings.unhandled(context))
    leaks = LeakSearch()
    with _logged(loop, result, leaks), refused(result.problems.append), warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        try:
            rest = _LONG if long else _SHORT if early_resync else 0.0
            loop.run_until_complete(_run_scenario(scenario, plan, result, findings, leaks, rest, prefix))
        except (Deadlock, Livelock) as error:
            result.problems.append(f"the run hangs: {error}")
            _cancel_everything(loop)
        except Exception as error:  # noqa: BLE001  # a lab has to find whatever ends a manager
            result.problems.append(f"the run broke off: {_innermost(error)}")
            _cancel_everything(loop)
        finally:
            loop.run_until_complete(loop.shutdown_asyncgens())
            if prefix is None:
                loop.close()
    return result


def _innermost(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}"


def _cancel_everything(loop: VirtualTimeLoop) -> None:
    """End what is left of a run that hangs."""
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    loop.most_turns = MOST_TURNS
    with contextlib.suppress(Deadlock, Livelock, ValueError):
        loop.run_until_complete(asyncio.wait(tasks, timeout=HORIZON))


async def _run_scenario(
    scenario: Scenario,
    plan: Plan,
    result: Run,
    findings: Findings,
    leaks: LeakSearch,
    rest: float,
    prefix: SharedPrefix | None,
) -> None:
    random = Random(f"konverge {plan.seed}")  # noqa: S311  # the seed is the plan's
    async with ApiServer(random=random, rbac=False) as server:
        config = server.config(namespace="lab")
        async with (
            Client(config, name=USER, random=random) as client,
            Client(config, name=FOREIGN_WRITER, random=random) as other_client,
        ):
            target = _LabProcess()
            injector = FaultInjector(
                plan, server.faults, target, ForeignWriter(other_client, server.registry), result.timeline, prefix
            )
            injector.leaks = leaks
            server.store.observers.append(injector.observe)
            server.on_call.append(lambda _, about, answer: _count(result, about, answer))
            await client.create(_namespace("lab"))
            lab = target.lab = Lab(
                client,
                config,
                "lab",
                server=server,
                gate=injector,
                patience=PATIENCE if findings.disturbed else 1.0,
                outage=MOST_JOINED * MOST_DOWN if findings.disturbed else 0.0,
                random=random,
                order=Random(f"konverge order {plan.seed}"),  # noqa: S311  # the seed is the plan's
                findings=findings,
                leases=plan.leases,
            )
            injector.always = lab.always
            lab.services = ServiceGate(plan.services, injector.note_fault)
            findings.oracle = injector.oracle = ReconcileOracle(lab, findings.add)
            if plan.leases:
                faults = LeaseFaults(other_client, server.faults, lab.replicas)
                injector.disturb_lease, injector.other_leaders = faults.act, faults.other_leaders
            async with lab:
                injector.begin()
                await _play(scenario, lab, result)
                await injector.end()
                if lab.clock_end is None:
                    await _await_convergence(lab, injector, result, rest)
                else:
                    await _await_the_clock(lab.clock_end, injector, result)
                result.state = _state(server, lab)
                if rest:
                    result.owned = _owned(server)
                _take_allowances(result, server, lab)
                result.problems += injector.problems + _leaks(lab, server) + lab.findings.unmet()
                result.problems += leaks.findings(lab.allows_showing)
                if plan.same_end:
                    result.problems += orphans(server.store, lab.may_outlive_owners)
                    result.problems += lab.fails_for_ever()
                drawn = DrawnValues(server.draws.drawn)
                result.created, result.deleted = _shown(injector.created, drawn), _shown(injector.deleted, drawn)
                result.places = {where: drawn.text(where) for where in injector.created if drawn.text(where) != where}
                result.requests = lab.services.requests
                result.touched, result.finalizes = injector.touched, injector.finalizes
                result.definitions = tuple(one.qualified for one in server.registry.resources if one.custom)
            server.store.observers.remove(injector.observe)


async def _play(scenario: Scenario, lab: Lab, result: Run) -> None:
    try:
        await scenario(lab)
    except AssertionError as error:
        result.problems.append(f"{EXPECTATION}: {error}")
    except errors.KonvergeError as error:
        result.problems.append(f"{REQUEST}: {type(error).__name__}: {error}")


async def _await_convergence(lab: Lab, injector: FaultInjector, result: Run, rest: float) -> None:
    loop = asyncio.get_running_loop()
    began = loop.time()
    while True:
        await asyncio.sleep(rest_until_steady(max(injector.last_commit, began), loop.time()))
        now = loop.time()
        await injector.end()  # of faults that began after the scenario was done
        if loop.time() > now:
            began = loop.time()
        elif not rest_until_steady(injector.last_commit, now):
            break
        if loop.time() - began > HORIZON:
            result.problems.append(f"not converged {HORIZON:g} s after the last fault: writes go on")
            return
    result.seconds = injector.last_commit
    for manager in lab.managers:
        if not manager.report().ready:
            result.problems.append(f"not ready at the end: {manager.report()}")
    commits = injector.commits
    await asyncio.sleep(rest or _AFTER_END)
    if rest == _SHORT:
        for runner in (manager.runner(spec.name) for manager in lab.managers for spec in manager.controllers):
            if runner.spec.numbers.resync:
                await runner.events.enqueue_all(Why.RESYNC)
        await asyncio.sleep(_AFTER_END)
    if injector.commits != commits:
        result.problems.append(f"{injector.commits - commits} writes after convergence, with nothing left to do")


def rest_until_steady(last_write: float, now: float) -> float:
    """Return the seconds until a run counts as converged: 0 from `STEADY` on.

    Less than a millisecond counts as 0: a clock of some thousand seconds may round such a rest away, and a loop of sleeps for the rest
    would never end.
    """
    rest = last_write + STEADY - now
    return rest if rest > 1e-3 else 0.0


async def _await_the_clock(end: float, injector: FaultInjector, result: Run) -> None:
    """Wait for the end of the clock that the scenario declares, and at least for a minute: the process may have been started just now."""
    loop = asyncio.get_running_loop()
    await asyncio.sleep(end - loop.time() if loop.time() < end else 0.0)
    await injector.end()  # of faults that began after the scenario was done
    await asyncio.sleep(_AFTER_END)
    result.seconds = loop.time()


def _take_allowances(result: Run, server: ApiServer, lab: Lab) -> None:
    """Keep what the scenario declared, as plain data: a run may be sent to another process."""

    def qualified(what: Kind[Any]) -> Iterator[str]:
        group = what.api_version.rpartition("/")[0]
        return (one.qualified for one in server.registry.resources if (one.group, one.kind) == (group, what.kind))

    whole = [mask.kind for mask in lab.allowed if mask.kind is not None and not mask.parts]
    result.may_differ = frozenset(name for what in whole for name in qualified(what))
    result.may_be_gone = frozenset(
        f"{resource} {lab.namespace}/{name}" if name else resource
        for what, name, _ in lab.gone
        for resource in qualified(what)
    )
    result.skipped = tuple(lab.skipped)
    reasons = [(mask.kind, mask.why) for mask in lab.allowed] + [(what, why) for what, _, why in lab.gone]
    reasons += [*lab.resync_writers, *lab.silent, *lab.survivors]
    result.allowed = tuple(f"{'any kind' if what is None else what.kind}: {why}" for what, why in reasons)
    result.allowed += tuple(f"Secret {name}: {why}" for name, _, why in lab.shown_secrets)


def _namespace(name: str) -> Any:
    from konverge.kinds import kind

    return kind("v1", "Namespace", namespaced=False, plural="namespaces").new(name)


def _count(result: Run, about: Any, answer: Any) -> None:
    if answer.stream is None or about.verb != "watch" or about.user_agent.startswith((USER, FOREIGN_WRITER)):
        return
    answer.stream = _counted(result, about.qualified, answer.stream)


async def _counted(result: Run, what: str, lines: Any) -> Any:
    try:
        async for line in lines:
            if not line.startswith(b'{"type":"BOOKMARK"'):
                result.watched[what] = result.watched.get(what, 0) + 1
            yield line
    finally:
        await lines.aclose()


def _shown(counts: Counter[str], drawn: DrawnValues) -> Counter[str]:
    """Return counts by object with drawn names masked."""
    shown: Counter[str] = Counter()
    for where, times in counts.items():
        shown[drawn.text(where)] += times
    return shown


def _state(server: ApiServer, lab: Lab) -> State:
    objects = {
        (resource, entry.namespace, entry.name): entry.object()
        for resource in server.store.resources()
        for entry in server.store.list(resource)
    }
    return state_of(objects, lab.allowed, server.draws.drawn)


def _owned(server: ApiServer) -> dict[str, frozenset[str]]:
    """Return the fields of each stored object that a client set, by its key in a state."""
    return {
        key_of(resource, entry.namespace, entry.name): owned_paths(entry.object())
        for resource in server.store.resources()
        for entry in server.store.list(resource)
    }


def _leaks(lab: Lab, server: ApiServer) -> list[str]:
    """Return what grew, or was left over, without need."""
    problems = []
    for resource in server.store.resources():
        for entry in server.store.list(resource):
            if b'"deletionTimestamp"' in entry.raw:
                metadata = entry.metadata()
                if metadata.get("deletionTimestamp"):
                    held = ", ".join(metadata.get("finalizers") or ("nothing",))
                    problems.append(f"{resource[1]} {entry.key} is still being deleted at the end, held by {held}")
    for replica in lab.replicas():
        if replica.manager.leads:  # the queue of a standby is full on purpose
            problems += _leftovers(replica.manager)
    return problems


def _leftovers(manager: Manager) -> list[str]:
    """Return the leftovers of a manager at rest: work, failures without a retry, writes that no reconcile waits for."""
    problems, objects = [], 0
    for spec in manager.controllers:
        runner = manager.runner(spec.name)
        objects += len(runner.caches(spec.kind))
        statistics = runner.queue.statistics()
        if statistics.ready or statistics.held or statistics.working:
            problems.append(f"the queue of {spec.name} is not empty at the end: {statistics}")
        if statistics.failing > statistics.delayed:
            problems.append(
                f"the queue of {spec.name} remembers failures of {statistics.failing} keys at the end: {statistics}"
            )
    ledger = manager.client.ledger.statistics()
    if ledger.in_flight or ledger.writers > objects:
        problems.append(f"the ledger of {manager.name} has grown: {ledger} for {objects} objects")
    return problems


@contextlib.contextmanager
def _logged(loop: VirtualTimeLoop, result: Run, leaks: LeakSearch) -> Iterator[None]:
    """Add logged reconciles to the timeline, and search every log line for values of Secrets."""

    def take(_: Any, _level: str, event: MutableMapping[str, Any]) -> str:
        leaks.logged(f"{event}{sys.exc_info()[1] or ''}")
        controller = event.get("controller")
        if controller and event.get("event", "").startswith("reconcile"):
            reasons = "; ".join(event.get("reasons") or ())
            error = f" {event['error_type']}" if event.get("error_type") else ""
            text = (
                f"{controller} {event.get('key')}: {event.get('outcome', event['event'])}{error} because of {reasons}"
            )
            result.timeline.add(TimelineEntry(loop.time(), "pass", "process", text))
        raise structlog.DropEvent

    before = structlog.get_config() if structlog.is_configured() else None
    structlog.configure(
        processors=[take], wrapper_class=structlog.make_filtering_bound_logger(0), cache_logger_on_first_use=False
    )
    try:
        with captured_logs(leaks.logged):
            yield
    finally:
        if before is None:
            structlog.reset_defaults()
        else:
            structlog.configure(**before)
