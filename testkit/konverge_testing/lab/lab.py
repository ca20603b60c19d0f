"""One environment for a test of a reconciler: a namespace, a running manager, and methods for what the test expects.

It is the same on the in-memory API server (the default), on a real control plane and on a cluster; only `server` and `crash` need the
first.

    async def test_a_backup_waits_for_its_secret(lab: Lab) -> None:
        await lab.start(build)
        await lab.create(Backup.new("nightly", spec=BackupSpec(schedule="0 3 * * *")))
        backup = await lab.until(Backup, "nightly", kv.is_false("Ready"))

Guarantees: the manager watches only the lab's own namespace, is strict about conditions, and is drained and stopped at the end. The CRDs
of the resources that a `build` names are installed and established before the manager starts. `until` waits for a state, never only for a
time. Its timeout error has the awaited state, the object's last state, its last reconciles with their reasons, and the last writes.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, ExitStack
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from random import Random
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from konverge.client import Client, ClientConfig
from konverge.client.naming import user_agent
from konverge.crds import crd_manifests
from konverge.errors import AlreadyExists, NotFound, NotServed, UsageError
from konverge.keys import Key
from konverge.kinds import Kind, Resource, kind, kind_of
from konverge.metrics import Metrics
from konverge.objects import Object
from konverge.runtime import Manager, ManagerSettings, State, WebhookSettings
from konverge.runtime.admission.configurations import empty_secret
from konverge.runtime.admission.settings import IN_PROCESS, place_of
from konverge_testing.admission import handler_of
from konverge_testing.lab.allowances import Allowances
from konverge_testing.lab.conversions import paths_of, serves, wait_until_trusted, without_bundles
from konverge_testing.lab.definitions import is_served, missing_words, models_of, needs_of
from konverge_testing.lab.finalizing import LabManager
from konverge_testing.lab.findings import Findings, Mistakes, unawaited_coroutines
from konverge_testing.lab.plans import Lease
from konverge_testing.lab.polling import Polling, next_look
from konverge_testing.lab.process import FinalizeGate, Gate, Wire, killable
from konverge_testing.lab.ready import Ready, is_ready
from konverge_testing.lab.replicas import Replica, elected, wrong_clock
from konverge_testing.lab.rights import Account, Rights
from konverge_testing.lab.services import ServiceGate, is_service
from konverge_testing.lab.stories import busiest_keys, managers_story, object_story
from konverge_testing.lab.webhook_probe import wait_until_called
from konverge_testing.loop import VirtualTimeLoop
from konverge_testing.ports import ReservedPort

if TYPE_CHECKING:
    from konverge.runtime.admission.router import WebhookRouter
    from konverge_testing.memory_server import ApiServer

__all__ = ["Lab", "Unmet", "install_crds"]

R = TypeVar("R", bound=Resource)
T = TypeVar("T")

CRD = kind("apiextensions.k8s.io/v1", "CustomResourceDefinition", namespaced=False, plural="customresourcedefinitions")
_POLL = 0.02
_FOR_EVER = 10
"""Failures in a row that count as failing for ever: by the default backoff they take five seconds."""
_REST = 7200.0
"""Virtual seconds that a key has to recover or to fail so often; the longest backoff is 1000."""


class Unmet(AssertionError, TimeoutError):
    """A wait of the lab timed out; the message describes the object, its last reconciles and the managers."""


async def install_crds(client: Client, manifests: list[dict[str, Any]], *, timeout: float = 30.0) -> None:
    """Apply CRDs and wait until each is established and served; raises Unmet with the CRD that is not."""
    for manifest in manifests:
        await client.apply(CRD, manifest, force=True)
    waits_for = ""
    try:
        async with asyncio.timeout(timeout):
            for manifest in manifests:
                waits_for = manifest["metadata"]["name"]
                await _established(client, waits_for)
            client.forget_discovery()  # once: all CRDs are served now, and several share a group
            for manifest in manifests:
                waits_for = manifest["metadata"]["name"]
                await _served(client, manifest["spec"])
    except TimeoutError:
        lines = [f"{CRD.kind} {waits_for}: waited {timeout:g} s until it is established and served"]
        raise Unmet("\n".join([*lines, *object_story(await client.get(CRD, waits_for))])) from None


async def _established(client: Client, name: str) -> None:
    while True:
        condition = (await client.get(CRD, name)).find_condition("Established")
        if condition is not None and condition.is_true:
            return
        await asyncio.sleep(_POLL)


async def _served(client: Client, spec: dict[str, Any]) -> None:
    served = next(version["name"] for version in spec["versions"] if version["served"])
    resource = kind(f"{spec['group']}/{served}", spec["names"]["kind"])
    while True:
        try:
            await client.resource(resource)
            return
        except NotServed:
            await asyncio.sleep(_POLL)
            client.forget_discovery(resource.api_version)


def _workers(replicas: list[Manager]) -> Iterator[tuple[Manager, bool]]:
    """Yield replicas of one manager, each with whether its elected controllers work: the leader's, or all while none leads."""
    led = any(manager.leads for manager in replicas)
    for manager in replicas:
        yield manager, manager.leads or not led


@dataclass(slots=True)
class _Life:
    """One manager that was started, with everything that is needed to start it again."""

    build: Callable[[Manager], None]
    name: str
    config: ClientConfig
    settings: ManagerSettings
    metrics: Metrics
    manager: Manager
    wire: Wire | None
    up: bool = True
    """False from a crash until the successor has started."""
    halted: bool = False
    """Whether it was killed without a successor."""
    standby: Replica | None = None
    """Its second replica, in plans with faults of the lease."""
    seed: int | None = None
    """The seed of its jitter and of its identity."""
    account: Account | None = None
    """The user with the rules that it declares."""

    async def stop(self) -> None:
        """Stop the replicas, the standby first: otherwise the standby would take over."""
        if self.standby is not None:
            await self.standby.manager.stop()
        await self.manager.stop()


class Lab(Allowances):
    """A test's namespace on an API server, and the managers under test. The fixture `lab` creates it.

    `server` is the in-memory API server if the lab runs on one; `gate` is called around every write of its managers; `patience` multiplies
    the timeouts of `until` and similar methods, for runs with faults, and `outage` is added to them: the process may be down for so long.
    """

    def __init__(
        self,
        client: Client,
        config: ClientConfig,
        namespace: str,
        *,
        server: ApiServer | None = None,
        gate: Gate | None = None,
        patience: float = 1.0,
        outage: float = 0.0,
        random: Random | None = None,
        order: Random | None = None,
        install: bool = True,
        findings: Findings | None = None,
        leases: Sequence[Lease] = (),
    ) -> None:
        super().__init__()
        self.client = client
        self.config = config
        self.namespace = namespace
        self.metrics = Metrics()
        self.gate = gate
        self._server = server
        self._patience = patience
        self._outage = outage
        self._random = random
        self._order = order
        self._install = install
        self._leases = leases
        self.findings = Findings() if findings is None else findings
        """Mistakes of the program under test. They fail the end of the lab, unless the caller passed `findings`."""
        self.services: ServiceGate | None = None
        """Disturbs the requests to the services of the scenario; None in an ordinary test."""
        self._rights = None if server is None else Rights(server, self.findings.missing_rule)
        self._reported = 0
        self._silent = findings is not None
        self._dismissed = False
        self._hooks = ExitStack()
        self._lives: list[_Life] = []
        self._dying: set[asyncio.Task[None]] = set()
        self._numbers = count(1)
        self._others = AsyncExitStack()
        self.always = self.findings.always
        """Predicates that must hold after every write; each raises AssertionError. Checked in memory only."""

    async def __aenter__(self) -> Self:
        self._hooks.enter_context(unawaited_coroutines(self.findings.never_awaited))
        loop = asyncio.get_running_loop()
        if isinstance(loop, VirtualTimeLoop):
            self._hooks.callback(setattr, loop, "explain", loop.explain)
            self.findings.most_at_once = loop.give_up
            loop.explain = lambda: "\n".join(
                [*busiest_keys(self.managers, self._server), *(f"finding: {one}" for one in self.findings.problems)]
            )
        return self

    async def __aexit__(
        self, kind_: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind_ is None:
            await self.verify()
        with self._hooks:
            for life in reversed(self._lives):
                await life.stop()
            await self._others.aclose()
            if self._dying:
                await asyncio.wait(self._dying)
            if kind_ is None and not self._dismissed:
                for life in self._lives:
                    await life.manager.wait()  # raises the error that ended it, if one did
        if kind_ is None:
            self._raise_mistakes()

    # --- mistakes of the program under test ----------------------------------------------------------------------------------

    def expects(self, error: type[BaseException], match: str = "") -> None:
        """Expect reconciles, event handlers, webhooks or tasks to fail with an error of this type, with `match` in its text.

        Without this an exception other than an error of the API fails the test, and so does a key that fails for ever. In a run without
        faults the error has to occur, or the end of the test fails.
        """
        self.findings.expect(error, match)

    async def verify(self) -> None:
        """Wait until the keys that fail have recovered, and raise Mistakes for all findings so far.

        The fixture calls it when a test is done. Faults that are still armed are removed first. On a real API server it does not wait.
        """
        if self._silent:
            return
        if not self.findings.problems:
            await self._rest()
        self.findings.problems += self.findings.unmet()
        self._raise_mistakes()

    def dismiss(self) -> None:
        """Raise no more Mistakes: the test has failed for another reason."""
        self._silent = self._dismissed = True

    def fails_for_ever(self) -> list[str]:
        """Return a finding for each key that a controller retries again and again, and whose error the test does not expect."""
        return [
            f"{controller} {key.path} fails again and again ({times} times in a row), the last time with "
            f"{type(error).__name__}: {error}"
            for controller, key, times, error in self._failing()
            if times >= _FOR_EVER and not self.findings.is_finding(error)
        ]

    def _failing(self) -> Iterator[tuple[str, Key, int, BaseException]]:
        for (controller, key), error in self.findings.failing.items():
            for manager in (one.manager for one in self.replicas()):
                if any(spec.name == controller for spec in manager.controllers if manager.leads or not spec.elected):
                    # Only the leader retries: the failures of another replica do not predict what its successor does.
                    times = manager.runner(controller).queue.failures(key)
                    if times and not self.findings.expects(error):
                        yield controller, key, times, error

    async def _rest(self) -> None:
        """Wait until the keys that fail have recovered; a key that fails again and again is a finding."""
        enough = {(controller, key): max(times + 2, _FOR_EVER) for controller, key, times, _ in self._failing()}
        if self._server is None or not enough:
            return
        self._server.faults.clear()
        loop = asyncio.get_running_loop()
        end = loop.time() + _REST
        while loop.time() < end and any(times < enough.get((c, k), _FOR_EVER) for c, k, times, _ in self._failing()):
            await asyncio.sleep(1.0)
        self.findings.problems += self.fails_for_ever()

    def _raise_mistakes(self) -> None:
        self.findings.collect()
        problems = self.findings.problems[self._reported :]
        if problems and not self._silent:
            self._reported += len(problems)
            raise Mistakes(problems)

    @property
    def server(self) -> ApiServer:
        """The in-memory API server; raises LookupError if the lab runs on another server."""
        if self._server is None:
            raise LookupError("this lab runs on a real API server; lab.server is there with --lab-on=memory only")
        return self._server

    @property
    def patience(self) -> float:
        """The factor of timeouts: 1 if no fault disturbs the run."""
        return self._patience

    def limit(self, timeout: float) -> float:
        """Return the seconds that a scenario's own wait may take: `timeout` if no fault disturbs the run.

        A plan may keep the process down for hours, several times.
        """
        return timeout * self._patience + self._outage

    @property
    def manager(self) -> Manager:
        """The manager that was started last."""
        if not self._lives:
            raise LookupError("no manager was started; begin with await lab.start(build)")
        return self._lives[-1].manager

    @property
    def managers(self) -> tuple[Manager, ...]:
        """The managers that run, in the order of their starts."""
        return tuple(life.manager for life in self._lives if not life.halted)

    async def start(
        self,
        build: Callable[[Manager], None],
        *,
        name: str = "lab",
        config: ClientConfig | None = None,
        settings: ManagerSettings | None = None,
        wait: bool = True,
        crds: bool = True,
        absent: Iterable[Kind[Any] | type[Any]] = (),
        rbac: bool = True,
    ) -> Manager:
        """Run a manager with these controllers in the lab's namespace; returns when it is ready (unless not `wait`).

        First installs the CRDs of the kinds that it reconciles, owns, watches and reads, if konverge has a model of the kind. Raises
        UsageError if the server does not serve another of these kinds. Optional kinds and kinds in `absent` get no CRD, and the start does
        not wait for them. With `crds` False nothing is installed and nothing checked.

        In memory the manager has exactly the rights that it declares (`manager.rules()`), unless `config` names another user; a request
        without a right is a finding. With `rbac` False the manager may do everything.
        """
        chosen = settings or ManagerSettings(namespace=self.namespace, strict=True)
        if self._leases:
            chosen = elected(chosen, name, "first")
        metrics = self.metrics if not self._lives else Metrics()
        account = None
        if rbac and config is None and self._server is not None and self._rights is not None:
            # The lab's own settings restrict only the watches to its namespace; the RBAC rules are a cluster-wide operator's.
            user = self._rights.new_user(self.namespace, name)
            account = Account(user, "" if settings is None else chosen.namespace or "")
            config = self._server.config(user=user, namespace=self.namespace)
        life = self._life(build, name, config or self.config, chosen, metrics, account=account)
        if serves(life.manager) and chosen.webhooks == WebhookSettings():
            # Built again with the address of the webhooks, which is part of the settings.
            chosen = replace(chosen, webhooks=self._reachable(name))
            life = self._life(build, name, config or self.config, chosen, metrics, account=account)
        without = frozenset(kind_of(what) for what in absent)
        if crds:
            await self._define(life.manager, without)
        if account is not None and serves(life.manager):
            await self._create_webhook_secret(name, chosen.webhooks)
        self._lives.append(life)
        await life.manager.start()
        if serves(life.manager):
            await self._register(life)
        if wait and not without & needs_of(life.manager).keys():
            await life.manager.wait_ready(timeout=self.limit(30))
            await self._wait_until_called(life)
        if self._leases:
            await self._start_standby(life)
        return life.manager

    async def _start_standby(self, life: _Life) -> None:
        """Start the second replica of a manager, for faults of its lease."""
        twins = any(fault.do == "twins" for fault in self._leases)
        settings = replace(life.settings, instance="first" if twins else "second")
        seed = life.seed if twins else None
        again = self._life(life.build, life.name, life.config, settings, Metrics(), seed=seed, account=life.account)
        life.standby = Replica(again.manager, again.wire)
        with wrong_clock(self._leases):
            await again.manager.start()

    def replicas(self) -> list[Replica]:
        """Return the replicas of the running managers: one for each manager, or two in plans with faults of the lease."""
        lives = [life for life in self._lives if not life.halted]
        standbys = [life.standby for life in lives if life.standby is not None]
        return [*(Replica(life.manager, life.wire) for life in lives), *standbys]

    async def _define(self, manager: Manager, absent: frozenset[Kind[Any]]) -> None:
        """Install the CRDs that can be generated, and raise UsageError if the server does not serve another kind that the manager needs."""
        if self._install:
            clients = manager.conversion_clients()
            await install_crds(self.client, crd_manifests(models_of(manager, absent), webhooks=clients))
            if self._server is None:
                await without_bundles(self.client, clients)
        needs = {kind: words for kind, words in needs_of(manager).items() if kind not in absent}
        missing = {kind: words for kind, words in needs.items() if not await is_served(kind, self.client, self._server)}
        if missing:
            raise UsageError(missing_words(missing, installs=self._install))

    def _reachable(self, name: str) -> WebhookSettings:
        """Return where webhooks are served: in process, or on a port of this machine, which a real API server on it can reach."""
        host, address, look = f"{name}.{self.namespace}.example.com", IN_PROCESS, 10.0
        if self._server is None:
            port = ReservedPort("127.0.0.1")
            self._others.callback(port.release)
            host = address = f"127.0.0.1:{port.number}"
            look = 1.0
        return WebhookSettings(
            address=address,
            url=f"https://{host}",
            configuration=f"{name}-{self.namespace}",
            secret=f"{self.namespace}/{name}-webhooks",
            look_seconds=look,
        )

    async def _create_webhook_secret(self, name: str, webhooks: WebhookSettings) -> None:
        """Create the empty Secret that `konverge webhooks` prints: a manager has no right to create it."""
        if webhooks.certificates or webhooks.address == IN_PROCESS:
            return
        secret = Object(empty_secret(place_of(name, webhooks), name))
        with contextlib.suppress(AlreadyExists):
            await self.create(secret)

    async def _register(self, life: _Life) -> None:
        """Register a manager's webhooks with the API server for the life of the lab."""
        if self._server is not None:
            for path in paths_of(life.manager):
                self._server.webhooks[f"{life.settings.webhooks.url}{path}"] = handler_of(
                    lambda: self._router(life.name), path, self.findings.webhook_failed
                )
        for configuration in life.manager.webhook_configurations():
            what = kind_of(Object(configuration))
            await self.client.apply(what, configuration, force=True)
            if self._server is None:
                self._others.push_async_callback(self.client.delete, what, life.settings.webhooks.configuration)

    async def _wait_until_called(self, life: _Life) -> None:
        """Wait until a real API server calls the webhooks; the in-memory server calls them at once. A test with certificates of its own has
        to wait itself.
        """
        webhooks = life.settings.webhooks
        if self._server is not None or webhooks.certificates or not webhooks.url:
            return
        for configuration in life.manager.webhook_configurations():
            await wait_until_called(
                self.client,
                kind_of(Object(configuration)),
                configuration["metadata"]["name"],
                url=webhooks.url,
                namespace=self.namespace,
                timeout=self.limit(30),
            )
        await wait_until_trusted(self.client, life.manager.conversion_clients(), timeout=self.limit(30))

    def _router(self, name: str) -> WebhookRouter | None:
        """Return the webhook router of the first manager of a name that is up."""
        for life in self._lives:
            if life.name != name or not life.up or not serves(life.manager):
                continue
            if life.manager.admission.state is State.RUNNING:
                return life.manager.admission.door
        return None

    def _life(
        self,
        build: Callable[[Manager], None],
        name: str,
        config: ClientConfig,
        settings: ManagerSettings,
        metrics: Metrics,
        seed: int | None = None,
        account: Account | None = None,
    ) -> _Life:
        wire = None if self._server is None else Wire(lambda: next(self._numbers), self.gate)
        behind = config if wire is None else killable(config, wire)
        if seed is None and self._random is not None:
            seed = self._random.getrandbits(64)
        random = None if seed is None else Random(seed)  # noqa: S311  # jitter, no secret
        manager = self._manager(name, behind, metrics, settings, random, wire)
        manager.observer = self.findings
        manager.reorder = None if self._order is None else self._order.shuffle
        build(manager)
        if account is not None and self._rights is not None:
            self._rights.grant(account, manager)
        return _Life(build, name, config, settings, metrics, manager, wire, seed=seed, account=account)

    def _manager(
        self,
        name: str,
        config: ClientConfig,
        metrics: Metrics,
        settings: ManagerSettings,
        random: Random | None,
        wire: Wire | None,
    ) -> Manager:
        if wire is None or not isinstance(self.gate, FinalizeGate):
            return Manager(name, config, metrics=metrics, settings=settings, random=random)
        return LabManager(name, config, gate=self.gate, wire=wire, metrics=metrics, settings=settings, random=random)

    async def enter(self, other: AbstractAsyncContextManager[T]) -> T:
        """Enter a context manager for the life of the lab: a stand-in for another controller, a webhook, a service.

        The plans disturb the requests to a service that is a TestServer of aiohttp.
        """
        if self.services is not None and is_service(other):
            self.services.guard(other)
        return await self._others.enter_async_context(other)

    def rng(self) -> Random:
        """Return a random number generator for such a stand-in: seeded if the lab is, so that its runs repeat."""
        return Random() if self._random is None else Random(self._random.getrandbits(64))  # noqa: S311  # jitter, no secret

    async def stop(self) -> None:
        """Stop the manager that was started last; another may be started after it."""
        await self._lives.pop().stop()

    def crash(self, manager: Manager | None = None, *, down: float = 0.0) -> None:
        """Kill a manager (None: the last) as SIGKILL would, and start it again, `down` seconds later; its successor is not ready yet.

        Its requests in flight may or may not have been stored. Needs the in-memory API server: raises LookupError elsewhere.
        """
        life = next(life for life in self._lives if manager in (None, life.manager)) if manager else self._lives[-1]
        if life.wire is None:
            raise LookupError("a manager can be killed on the in-memory API server only (--lab-on=memory)")
        life.wire.cut()
        dying = life.manager
        place = self._lives.index(life)
        again = self._lives[place] = self._life(
            life.build, life.name, life.config, life.settings, life.metrics, account=life.account
        )
        again.up, again.standby = False, life.standby

        async def succeed() -> None:
            if down:
                await asyncio.gather(dying.stop(), asyncio.sleep(down))
            await again.manager.start()
            again.up = not again.halted
            await dying.stop()

        self._spawn(succeed(), "konverge lab crash")

    def halt(self) -> None:
        """Kill every manager, without a successor: it sends nothing more and retries nothing. In memory only, as `crash`."""
        for life in self._lives:
            if life.wire is not None and not life.halted:
                life.wire.cut()
                life.halted, life.up = True, False
                if life.standby is not None and life.standby.wire is not None:
                    life.standby.wire.cut()
                self._spawn(life.stop(), "konverge lab halt")

    def _spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._dying.add(task)
        task.add_done_callback(self._dying.discard)

    def _in_namespace(self, object_: R) -> R:
        if object_.namespace:
            return object_
        what: Kind[R] = kind_of(object_)
        data = object_.to_dict()
        data["metadata"]["namespace"] = self.namespace
        return what.decode(data)

    async def create(self, object_: R) -> R:
        """Create an object, in the lab's namespace unless it names one; returns it as stored."""
        info = await self.client.resource(kind_of(object_))
        return await self.client.create(self._in_namespace(object_) if info.namespaced else object_)

    async def get(self, what: Kind[R] | type[R], name: str, namespace: str | None = None) -> R:
        """Read an object live, in the lab's namespace unless another is given or the kind is cluster-scoped; raises NotFound."""
        return await self.client.get(what, name, await self._place(what) if namespace is None else namespace)

    async def _place(self, what: Kind[Any] | type[Any]) -> str:
        """Return the namespace of this lab, "" for a cluster-scoped kind."""
        info = await self.client.resource(kind_of(what))
        return self.namespace if info.namespaced else ""

    async def find(self, what: Kind[R] | type[R], name: str) -> R | None:
        """Read an object live, or None if there is none."""
        try:
            return await self.get(what, name)
        except NotFound:
            return None

    async def patch(self, what: Kind[R] | type[R], name: str, patch: dict[str, Any], *, subresource: str = "") -> R:
        """Merge-patch an object, as a person with `kubectl edit` would."""
        return await self.client.patch(
            what, name, await self._place(what), patch=patch, style="merge", subresource=subresource
        )

    async def delete(self, what: Kind[Any] | type[Any], name: str) -> None:
        """Delete an object; does nothing if it does not exist."""
        await self.client.delete(what, name, await self._place(what))

    async def namespace_also(self, name: str) -> str:
        """Ensure that another namespace exists."""
        try:
            await self.client.create(kind("v1", "Namespace", namespaced=False).new(name))
        except AlreadyExists:
            pass
        return name

    async def until(self, what: Kind[R] | type[R], name: str, test: Callable[[R], bool], *, timeout: float = 20.0) -> R:
        """Wait until an object exists and passes a test; returns it. Raises Unmet on a timeout."""
        found = await self._poll(what, name, lambda one: one is not None and test(one), test, timeout)
        assert found is not None
        return found

    async def ready(self, what: Kind[R] | type[R], name: str, *, seconds: float = 1.0, timeout: float = 20.0) -> R:
        """Play the controllers of a workload in memory: the object becomes ready, now and after each change; returns it as ready.

        For a Deployment, ReplicaSet, StatefulSet, DaemonSet or Pod; a Job succeeds. The object becomes ready `seconds` after it was created
        or changed. It need not exist yet. On a real API server the lab only waits for its controllers. Raises Unmet on a timeout.
        """
        kind: Kind[R] = kind_of(what)
        if self._server is None:
            return await self.until(kind, name, is_ready, timeout=timeout)
        stand_in = await self.enter(Ready(self.config, kind, self.namespace, name, seconds=seconds, random=self.rng()))
        timeout = self.limit(timeout) + seconds
        try:
            async with asyncio.timeout(timeout):
                return kind.decode((await stand_in.wait()).to_dict())
        except TimeoutError:
            last = await self.find(kind, name)
            raise Unmet(self._story("to be ready", kind, name, last, timeout, self.namespace)) from None

    async def until_gone(self, what: Kind[Any] | type[Any], name: str, *, timeout: float = 20.0) -> None:
        """Wait until an object no longer exists. Raises Unmet on a timeout."""
        await self._poll(what, name, lambda one: one is None, "to be gone", timeout)

    async def _poll(
        self, what: Kind[R] | type[R], name: str, test: Callable[[R | None], bool], awaited: Any, timeout: float
    ) -> R | None:
        timeout = self.limit(timeout)
        polling = Polling(partial(self.find, what, name), test, self._server, user_agent(self.client.name))
        try:
            async with asyncio.timeout(timeout):
                await polling.wait()
        except TimeoutError:
            place = await self._place(what)
            raise Unmet(self._story(awaited, kind_of(what), name, polling.last, timeout, place)) from None
        return polling.last

    async def settled(self, *, quiet: float = 0.3, timeout: float = 20.0) -> None:
        """Wait until no controller of any manager, and none of the in-memory server, has had anything to do for `quiet` seconds.

        The queues of replicas that do not lead are full on purpose, and count only while no replica leads. Raises Unmet on a timeout.
        """
        loop = asyncio.get_running_loop()
        since, seen, began = loop.time(), -1, loop.time()
        timeout = self.limit(timeout)
        try:
            async with asyncio.timeout(timeout):
                while True:
                    busy, adds = self._activity()
                    if busy or adds != seen:
                        since, seen = loop.time(), adds
                    elif loop.time() - since >= quiet:
                        return
                    await asyncio.sleep(next_look(began, loop.time()) - loop.time())
        except TimeoutError:
            raise Unmet(self._story(f"{quiet:g} s without work", None, "", None, timeout)) from None

    def _activity(self) -> tuple[bool, int]:
        """Whether any controller is busy, and how many keys were added so far."""
        lives = [life for life in self._lives if not life.halted]
        queues = [
            manager.runner(spec.name).queue.statistics()
            for group in self._electorates(lives)
            for manager, elected in _workers(group)
            for spec in manager.controllers
            if elected or not spec.elected
        ]
        busy = any(queue.ready or queue.held or queue.working for queue in queues) or any(not life.up for life in lives)
        return busy or (self._server is not None and not self._server.idle), sum(queue.adds for queue in queues)

    def _electorates(self, lives: list[_Life]) -> list[list[Manager]]:
        """Return the running managers, in groups that elect one leader."""
        groups: dict[object, list[Manager]] = {}
        for life in lives:
            election = life.settings.election
            group = groups.setdefault(election.name or life.name if election.enabled else id(life), [])
            group += [life.manager] * life.up
            if life.standby is not None:
                group.append(life.standby.manager)
        return list(groups.values())

    def _story(
        self,
        awaited: Any,
        what: Kind[Any] | None,
        name: str,
        last: Resource | None,
        timeout: float,
        namespace: str = "",
    ) -> str:
        words = awaited if isinstance(awaited, str) else getattr(awaited, "__qualname__", repr(awaited))
        managers = [(life.manager, life.up) for life in self._lives]
        if what is None:
            lines = [f"waited {timeout:g} s for {words}", *managers_story(managers, None, None)]
        else:
            key = Key("", what, namespace, name)
            lines = [f"{what.kind} {key.path}: waited {timeout:g} s for {words}", *object_story(last)]
            lines += managers_story(managers, what, key)
        return "\n".join([*lines, *(f"  finding: {problem}" for problem in self.findings.problems)])
