"""One operator as a process: signals, logs, metrics, health and a graceful shutdown; `konverge run` and `kv.run` use it.

    start    settings -> logs -> exporter of spans -> server of metrics and health -> manager
    SIGTERM  no longer ready; running reconciles drain within `drain` seconds; manager, server, exporter stop; exit code 0
    again    the process ends at once, with 128 plus the number of the signal

Guarantees: probes get responses from before the manager starts until after it has stopped. A fatal error (no kubeconfig, a port in use, a
mistake in a build) ends the process with one line that names the cause, and exit code 1. A missing CRD or right is not fatal.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

import msgspec
import prometheus_client
import structlog

from konverge.client import ClientConfig
from konverge.client.in_cluster import MOUNT
from konverge.daemon import garbage, logs
from konverge.daemon.loops import chosen_loop
from konverge.daemon.programs import Build, fill
from konverge.daemon.settings import Settings
from konverge.errors import ConfigError
from konverge.metrics import Metrics
from konverge.runtime import Manager, ManagerSettings
from konverge.runtime.http.health import Check, checks_of
from konverge.runtime.http.listener import OFF
from konverge.runtime.http.server import ProbeServer, ServerSettings
from konverge.tasks import wait_first
from konverge.words import LogKey

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider

__all__ = ["Operator", "Probes", "Signals", "manager_settings", "operate", "process_metrics", "set_up"]

SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
_OPEN_MAX: Final = 10_240
"""The open files that macOS allows at most, although its hard limit is infinite: OPEN_MAX of its sys/syslimits.h."""


class Operator(msgspec.Struct, frozen=True, kw_only=True):
    """An operator to run: the name of its manager, its build (None: the installed families), and its settings."""

    name: str
    build: Build | None
    settings: Settings


def set_up(settings: Settings) -> None:
    """Set up the process: logs, the form of the exposition, the limit of open files."""
    raise_file_limit()
    processors = (tracing().add_trace_ids,) if settings.tracing else ()
    logs.configure(level=settings.log_level, form=settings.log_format, processors=processors)
    # Dashboards for Go controllers do not expect `_created` series; the switch is process-wide, so it is here.
    disable: Callable[[], None] = prometheus_client.disable_created_metrics
    disable()


def tracing() -> ModuleType:
    """Return the module of spans; raises ConfigError if OpenTelemetry is not installed."""
    try:
        from konverge.daemon import tracing
    except ImportError as error:
        raise ConfigError("tracing=true, and OpenTelemetry is not installed: pip install 'konverge[otel]'") from error
    return tracing


def raise_file_limit() -> None:
    """Let the process open as many files as the kernel allows it; many systems start at 1,024, which connections use up."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for limit in (hard, _OPEN_MAX):
        if soft == limit or limit == _OPEN_MAX < soft:
            return
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
            return


def process_metrics() -> Metrics:
    """Return metrics on a registry of their own, with the process's and the interpreter's metrics."""
    registry = prometheus_client.CollectorRegistry()
    prometheus_client.ProcessCollector(registry=registry)
    prometheus_client.PlatformCollector(registry=registry)
    prometheus_client.GCCollector(registry=registry)
    return Metrics(registry)


def manager_settings(settings: Settings) -> ManagerSettings:
    """Return the manager's part of the settings."""
    return ManagerSettings(
        namespace=settings.namespace or None,
        drain=settings.drain,
        strict=settings.strict,
        stall_seconds=settings.stall,
        client=settings.client,
        informers=settings.informers,
        election=settings.election,
        sharding=settings.sharding,
        webhooks=settings.webhooks,
    )


async def client_config(settings: Settings) -> ClientConfig:
    """Find the API server; raises ConfigError with the places that were tried."""
    mount = Path(settings.service_account) if settings.service_account else MOUNT
    return await ClientConfig.load(
        kubeconfig=settings.kubeconfig or None, context=settings.context or None, mount=mount
    )


class Signals:
    """Sets an event on the first SIGTERM or SIGINT, and exits the process on the second."""

    def __init__(self, stop: asyncio.Event, *, leave: Callable[[int], Any] = os._exit) -> None:
        self._stop = stop
        self._leave = leave
        self._log = structlog.get_logger("konverge.daemon")

    @contextlib.contextmanager
    def handled(self) -> Iterator[None]:
        """Handle signals on the running loop until the block ends."""
        loop = asyncio.get_running_loop()
        for number in SIGNALS:
            loop.add_signal_handler(number, self.received, number)
        try:
            yield
        finally:
            for number in SIGNALS:
                loop.remove_signal_handler(number)

    def received(self, number: int) -> None:
        """Take one signal."""
        name = signal.Signals(number).name
        if self._stop.is_set():
            self._log.warning(
                "a second signal: the process ends at once, running reconciles may be cut off", signal=name
            )
            self._leave(128 + number)
            return
        self._log.info("stopping; another signal ends the process at once", signal=name)
        self._stop.set()


class Probes:
    """The checks of the liveness and readiness probes of a manager."""

    def __init__(self, manager: Manager, stop: asyncio.Event) -> None:
        self._manager = manager
        self._stop = stop
        self.phase = "starting"

    def live(self) -> Iterable[Check]:
        """Return the operator's own checks of liveness; apart from these a process that responds is alive."""
        return checks_of(self._manager.liveness())

    def ready(self) -> Iterable[Check]:
        """Yield the checks of the manager, its controllers, and its informers."""
        # At once, and not when the manager begins to stop: clients of the probe must not count on this process any more.
        phase = "stopping" if self._stop.is_set() else self.phase
        yield Check("manager", "" if phase == "running" else phase)
        yield from checks_of(self._manager.report())
        yield from informer_checks(self._manager.debug().get("informers", list)())


def informer_checks(informers: Iterable[Mapping[str, Any]]) -> Iterator[Check]:
    """Yield one check for each informer. A kind that the cluster does not serve only fails the checks of its controllers."""
    for informer in informers:
        problem = informer.get("problem") or {}
        reason, note = "", ""
        if problem.get("cause") == "NotServed":
            note = "not served"
        elif problem and not informer.get("synced"):
            reason = str(problem.get("message") or problem.get("cause"))
        elif not informer.get("synced"):
            reason = "the first list is not complete yet"
        elif problem:
            note = f"{problem.get('cause')}; what it has is from before"
        yield Check(f"informer/{informer.get('selection', '?')}", reason, note)


async def operate(
    operator: Operator,
    stop: asyncio.Event,
    *,
    config: ClientConfig | None = None,
    serving: Callable[[Mapping[str, str]], None] = lambda _addresses: None,
    built: Callable[[], None] = lambda: None,
    settled: Callable[[], None] = lambda: None,
    spans: TracerProvider | None = None,
) -> None:
    """Run an operator until `stop` is set, then drain it.

    `serving` is called once with the addresses that it serves, `built` once when its controllers are added, `settled` once when
    everything is ready for the first time. `spans` is the provider of its spans.

    Errors: ConfigError, UsageError, and unexpected errors of the runtime.
    """
    settings = operator.settings
    manager = Manager(
        operator.name,
        config,
        metrics=process_metrics(),
        settings=manager_settings(settings),
        tracing=spans,
    )
    with garbage.paused():
        await fill(manager, operator.build, settings)
    built()
    if settings.record:
        from konverge.recording import record

        record(manager, settings.record, size=settings.record_size << 20)
    if config is None:  # last, because the other mistakes can be seen without a cluster
        manager.configure(await client_config(settings))
    probes = Probes(manager, stop)
    server = ProbeServer(
        registry=manager.metrics.registry,
        live=probes.live,
        ready=probes.ready,
        debug=None if settings.debug == OFF else manager,
        settings=ServerSettings(
            metrics=settings.metrics,
            secure=settings.metrics_secure,
            certificates=settings.metrics_certificates,
            health=settings.health,
            debug=settings.debug,
            debug_ui=settings.debug_ui,
            limits=settings.listeners,
        ),
        client=lambda: manager.client,
    )
    log = structlog.get_logger("konverge.daemon")
    if operator.build is None:
        from konverge.daemon.families import left_out

        if without := left_out(settings):
            log.warning("families of cluster-wide objects do not run in one namespace", controllers=list(without))
    async with server:
        serving(server.addresses)
        log.info(
            "serving",
            **server.addresses,
            controllers=[controller.name for controller in manager.controllers],
            namespace=settings.namespace or "all",
            event_loop=type(asyncio.get_running_loop()).__module__.partition(".")[0],
        )
        try:
            await _run(manager, probes, stop, settled)
        finally:
            probes.phase = "stopping"
            await manager.stop()
    log.info("stopped")


async def _run(manager: Manager, probes: Probes, stop: asyncio.Event, settled: Callable[[], None]) -> None:
    """Start the manager and wait for `stop`; raises if the manager ends before."""
    await manager.start()
    probes.phase = "running"
    settling = asyncio.create_task(_settled(manager, settled))
    try:
        await wait_first(stop.wait(), manager.wait())
    finally:
        settling.cancel()
        await asyncio.wait({settling})


async def _settled(manager: Manager, settled: Callable[[], None]) -> None:
    """Call `settled` once every controller is ready."""
    if await manager.ready(timeout=None):
        settled()


async def main(operator: Operator, spans: TracerProvider | None = None) -> None:
    """Run an operator until SIGTERM or SIGINT."""
    stop = asyncio.Event()
    with Signals(stop).handled():
        await operate(operator, stop, built=garbage.freeze, settled=garbage.freeze, spans=spans)


def run(operator: Operator) -> None:
    """Run an operator on an event loop of its own until a signal; raises fatal errors."""
    loop = chosen_loop(operator.settings)
    set_up(operator.settings)
    structlog.get_logger("konverge.daemon").debug("settings", **{LogKey.NAME: operator.name})
    exported = tracing().exported_spans(operator.name) if operator.settings.tracing else contextlib.nullcontext()
    with exported as spans, asyncio.Runner(loop_factory=loop.factory) as runner:
        runner.run(main(operator, spans))
