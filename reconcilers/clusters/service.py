"""The agents of a manager: one for each Cluster, as background work; reconciles start, change and stop them here."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import TypeAlias

from konverge.crds.ops_v1alpha1 import Cluster
from konverge.informers import Change
from konverge.keys import Key
from konverge.kinds import Kind, kind_of
from konverge.objects import Object
from konverge.reconcilers.clusters.agent import Agent
from konverge.reconcilers.clusters.agent_state import AgentConfig, AgentState, Step
from konverge.reconcilers.clusters.events import deletion, managed, transitions
from konverge.reconcilers.clusters.metrics import PullMetrics
from konverge.reconcilers.clusters.transport import PlaneTransport
from konverge.reconcilers.clusters.words import CONTROLLER
from konverge.runtime.parts.background import BackgroundServices
from konverge.tasks import Broadcast, wait_first

__all__ = ["AgentService", "Connect"]

Connect: TypeAlias = Callable[[AgentConfig], PlaneTransport]
"""Creates the transport to the control plane of a configuration."""


class AgentService:
    """Keeps the agents that are wanted running; `run` is the background work of the manager."""

    def __init__(self, metrics: PullMetrics, connect: Connect) -> None:
        self.metrics = metrics
        self.statuses: Callable[[], Iterable[Object]] = tuple
        """Returns the objects whose status is reported."""
        self._connect = connect
        self._wanted: dict[str, AgentConfig] = {}
        self._agents: dict[str, tuple[Agent, asyncio.Task[None]]] = {}
        self._anew: set[str] = set()
        self._stopped_at: dict[str, str] = {}
        self._news = Broadcast()
        self._ended = Broadcast()
        self._stale = False

    # --- called by reconciles ------------------------------------------------------------------------------------------------

    def want(self, name: str, config: AgentConfig, credential_version: str) -> None:
        """Run an agent with this configuration; a stopped agent starts again if the Secret with its credential has changed since."""
        if self._wanted.get(name) != config:
            self._wanted[name] = config
            self._wake()
        running = self._agents.get(name)
        if running is None or running[0].state.step is not Step.STOPPED:
            self._stopped_at.pop(name, None)
        elif self._stopped_at.setdefault(name, credential_version) != credential_version:
            del self._stopped_at[name]
            self._anew.add(name)
            self._wake()

    async def forget(self, name: str) -> None:
        """Stop the agent of this Cluster, and return when it has ended."""
        if self._wanted.pop(name, None) is not None:
            self._wake()
        while name in self._agents:
            await self._ended.wait()

    def state(self, name: str) -> AgentState:
        """Return the state of an agent; STARTING if it does not run yet."""
        running = self._agents.get(name)
        return AgentState() if running is None else running[0].state

    def overflowed(self, name: str) -> bool:
        """Tell whether the buffer dropped events whose loss the control plane does not know of yet."""
        running = self._agents.get(name)
        return running is not None and running[0].buffer.overflowed

    def record(self, kind: Kind[Object], change: Change) -> bool:
        """Take the transitions of a change of an object for all agents; returns False, because no Cluster is to be reconciled for it."""
        shown = change.new or change.old
        if not self._agents or change.initial or shown is None or not managed(shown.metadata):
            return False
        old = None if change.old is None else change.old.decode(kind)
        if change.new is None:
            events = [deletion(old)] if old is not None else []
        else:
            events = list(transitions(old, change.new.decode(kind)))
        for agent, _ in self._agents.values():
            for event in events:
                agent.record(event)
        return False

    def _present(self) -> Iterable[Object]:
        return self.statuses()

    def _wake(self) -> None:
        self._stale = True
        self._news.notify()

    # --- the background work -------------------------------------------------------------------------------------------------

    async def run(self, services: BackgroundServices) -> None:
        """Run the agents that are wanted until cancelled."""
        self._stale = True
        try:
            while True:
                if self._stale:
                    self._stale = False
                    await self._match(services)
                else:
                    await wait_first(self._news.wait(), *(task for _, task in self._agents.values()))
        finally:
            await self._end(tuple(self._agents))

    async def _match(self, services: BackgroundServices) -> None:
        ending = [
            name
            for name, (agent, _) in self._agents.items()
            if name in self._anew or name not in self._wanted or self._wanted[name].needs_restart(agent.config)
        ]
        self._anew.clear()
        await self._end(ending)
        for name, config in self._wanted.items():
            if name in self._agents:
                self._agents[name][0].config = config
            else:
                self._agents[name] = self._start(name, config, services)

    def _start(self, name: str, config: AgentConfig, services: BackgroundServices) -> tuple[Agent, asyncio.Task[None]]:
        key = Key("", kind_of(Cluster), "", name)
        agent = Agent(
            config,
            client=services.client,
            manager=services.manager,
            transport=self._connect(config),
            random=services.random,
            metrics=self.metrics,
            statuses=self._present,
            changed=lambda: services.enqueue(CONTROLLER, key),
        )
        return agent, asyncio.create_task(agent.run(), name=f"konverge agent {name}")

    async def _end(self, names: Iterable[str]) -> None:
        ending = {name: self._agents[name][1] for name in names}
        for task in ending.values():
            task.cancel()
        if ending:
            await asyncio.wait(set(ending.values()))
        for name in ending:
            del self._agents[name]
        self._ended.notify()
