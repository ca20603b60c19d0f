"""`AgentServer`: the state with faults and long polls, and a transport to it without sockets."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from random import Random
from typing import Any

from konverge.clock import wall_clock
from konverge.reconcilers.clusters.protocol import JobResult, StatusEvent
from konverge.reconcilers.clusters.transport import NoResponse, PlaneRequest, PlaneResponse
from konverge.tasks import Broadcast, wait_first
from konverge_testing.agent_server.faults import Faults
from konverge_testing.agent_server.state import PlaneState, StoredJob, poll_wait, problem

__all__ = ["AgentServer", "Cut", "Exchange"]


class Cut(Exception):
    """The connection is cut."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """One request and its response, for tests."""

    request: PlaneRequest
    response: PlaneResponse


class AgentServer:
    """The control plane of one cluster. `random` generates its credentials.

    >>> plane = AgentServer("east")
    >>> plane.submit("intent", {"intent": "rotate-operator-credentials"})
    'job-1'
    """

    def __init__(
        self,
        cluster_id: str,
        *,
        tokens: tuple[str, ...] = ("registration-token",),
        random: Random | None = None,
        now: Callable[[], datetime] = wall_clock,
    ) -> None:
        draw = Random() if random is None else random  # noqa: S311  # a test's credentials
        self.state = PlaneState(cluster_id, tokens, lambda: f"credential-{draw.getrandbits(128):032x}")
        self.faults = Faults()
        self.exchanges: list[Exchange] = []
        """The requests and their responses, oldest first, without those that were cut before."""
        self._now = now
        self._news = Broadcast()

    # --- for tests -----------------------------------------------------------------------------------------------------------

    def submit(
        self, kind: str, payload: Mapping[str, Any], *, key: str = "", lifetime: float = 86400.0, job_id: str = ""
    ) -> str:
        """Add a job (apply, delete, intent); returns its id. Polls that wait get it at once."""
        outcome = self.state.submit(kind, payload, key=key, now=self._now(), lifetime=lifetime, job_id=job_id)
        self._news.notify()
        return outcome

    def job(self, job_id: str) -> StoredJob:
        """Return a job and the agent's report of it."""
        return self.state.jobs[job_id]

    async def result(self, job_id: str, *, timeout: float = 600.0) -> JobResult:
        """Wait for the result of a job; raises TimeoutError."""
        async with asyncio.timeout(timeout):
            while (outcome := self.state.jobs[job_id].result) is None:
                await self._news.wait()
        return outcome

    async def until(self, test: Callable[[], bool], *, timeout: float = 600.0) -> None:
        """Wait until `test` holds after some request; raises TimeoutError."""
        async with asyncio.timeout(timeout):
            while not test():
                await self._news.wait()

    @property
    def events(self) -> tuple[StatusEvent, ...]:
        """The events that the agent sent, each key once, oldest first."""
        return tuple(self.state.events.values())

    def connect(self, _config: object = None) -> InProcess:
        """Return a transport to this server, as `clusters.install(connect=...)` takes it."""
        return InProcess(self)

    # --- requests ------------------------------------------------------------------------------------------------------------

    async def handle(self, request: PlaneRequest) -> PlaneResponse:
        """Respond to a request; raises Cut if a fault cuts the connection."""
        fault = self.faults.take(request.method, request.path)
        if fault.delay:
            await asyncio.sleep(fault.delay)
        if fault.cut == "before":
            raise Cut
        if fault.status:
            response = (
                problem(fault.status, fault.reason or "Fault", retry_after=fault.retry_after)
                if fault.body is None
                else PlaneResponse(status=fault.status, body=fault.body)
            )
        else:
            await self._long_poll(request)
            response = self.state.respond(request)
            if fault.body is not None:
                response = PlaneResponse(status=response.status, body=fault.body)
        self.exchanges.append(Exchange(request=request, response=response))
        self._news.notify()
        if fault.cut == "after":
            raise Cut
        return response

    async def _long_poll(self, request: PlaneRequest) -> None:
        loop = asyncio.get_running_loop()
        end = loop.time() + poll_wait(request)
        while (left := end - loop.time()) > 0 and not self.state.ready(request):
            await wait_first(self._news.wait(), asyncio.sleep(left))


class InProcess:
    """A transport to a server in the same process; it yields to the loop before and after the call, so that other tasks run."""

    def __init__(self, server: AgentServer) -> None:
        self._server = server

    async def send(self, request: PlaneRequest) -> PlaneResponse:
        """Send a request; raises NoResponse."""
        try:
            async with asyncio.timeout(request.timeout):
                await asyncio.sleep(0)
                response = await self._server.handle(request)
                await asyncio.sleep(0)
        except Cut:
            raise NoResponse("the connection was cut") from None
        except TimeoutError:
            raise NoResponse("TimeoutError") from None
        if len(response.body) > request.most:
            raise NoResponse(f"the response has more than {request.most} bytes", too_large=True)
        return response

    async def close(self) -> None:
        """Nothing is open."""
