"""The configuration of a Cluster's agent, and the state that it shows to the Cluster's reconciler."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any

from konverge.reconcilers.clusters.metrics import PullMetrics
from konverge.reconcilers.clusters.secrets import AgentCredentials, SecretOwner
from konverge.reconcilers.clusters.settings import Settings
from konverge.reconcilers.clusters.words import Mode

__all__ = ["AgentConfig", "AgentState", "StateReport", "Step"]


class Step(StrEnum):
    """The state of an agent."""

    STARTING = "starting"
    REGISTERING = "registering"
    CONNECTED = "connected"
    DISCONNECTED = "disconnected"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentConfig:
    """The control plane of a Cluster, and its one-time requests: register by a token, replace the credential."""

    owner: SecretOwner
    endpoint: str
    namespace: str
    token: str = field(default="", repr=False)
    token_digest: str = ""
    rotate: str = ""
    """The request to replace the credential; empty: none."""
    settings: Settings

    def needs_restart(self, running: AgentConfig) -> bool:
        """Tell whether a change to another configuration needs a restart of the agent."""
        once: dict[str, Any] = {"token": "", "token_digest": "", "rotate": ""}
        return (
            replace(self, **once) != replace(running, **once)
            or self.token_digest not in ("", running.token_digest)
            or self.rotate not in ("", running.rotate)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentState:
    """The state that the reconciler of the Cluster reports."""

    step: Step = Step.STARTING
    last_round_trip: datetime | None = None
    credentials: AgentCredentials | None = None
    reason: str = ""
    """Why it stopped: a reason of Authenticated."""
    message: str = ""
    waits_until: datetime | None = None
    """The end of the control plane's Retry-After; None: it sent none."""
    rotation: str = ""
    """Why a requested rotation failed; the present credential stays in use."""


class StateReport:
    """The state of a running agent; `changed` is called after each change of it, except for a mere new time of the last round trip."""

    def __init__(self, metrics: PullMetrics, *, changed: Callable[[], None], now: Callable[[], datetime]) -> None:
        self.state = AgentState()
        self.changed = changed
        self._metrics = metrics
        self._now = now

    def enter(self, step: Step, *, reason: str = "", message: str = "") -> None:
        """Set another step."""
        state = replace(self.state, step=step, reason=reason, message=message)
        if state != self.state:
            self.state = state
            self.changed()

    def responded(self, *, connected: bool = True) -> None:
        """Record a round trip; `connected`: the control plane fulfilled the request."""
        self.state = replace(self.state, last_round_trip=self._now())
        if connected and self.state.step is not Step.CONNECTED:
            self.show(1)
            self.enter(Step.CONNECTED)

    def waits(self, until: datetime | None) -> None:
        """Record the end of the control plane's Retry-After."""
        if until != self.state.waits_until:
            self.state = replace(self.state, waits_until=until)
            self.changed()

    def rotation(self, message: str) -> None:
        """Record why the credential was not replaced; empty: it was replaced, or no rotation is requested."""
        if message != self.state.rotation:
            self.state = replace(self.state, rotation=message)
            self.changed()

    def uses(self, credentials: AgentCredentials | None) -> None:
        """Record the credential of the requests that follow."""
        self.state = replace(self.state, credentials=credentials)

    def show(self, value: int) -> None:
        """Set the metric of the connection: 1 connected, 0 not, -1 stopped."""
        self._metrics.connectivity.labels(mode=Mode.PULL).set(value)
