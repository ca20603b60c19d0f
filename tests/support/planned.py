"""A planned cluster over the lab's in-memory server, and the requests that reach the server."""

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import konverge as kv
from konverge.client import ClientConfig, ClientSettings, OpenStream, Response, Transport
from konverge.client.requests import Request
from konverge.planning import PlanReport, Selector, plan
from konverge_testing import Lab


class Sent:
    """The requests that reached the server."""

    def __init__(self) -> None:
        self.requests: list[Request] = []

    @property
    def stored_writes(self) -> list[Request]:
        """The writes without a dry run."""
        return [each for each in self.requests if each.writes and dict(each.params).get("dryRun") != "All"]


class _Recorded:
    def __init__(self, inner: Transport, sent: Sent) -> None:
        self._inner = inner
        self._sent = sent
        self.prepare, self.close = inner.prepare, inner.close

    async def send(self, request: Request) -> Response:
        self._sent.requests.append(request)
        return await self._inner.send(request)

    def stream(self, request: Request) -> AbstractAsyncContextManager[OpenStream]:
        self._sent.requests.append(request)
        return self._inner.stream(request)


def recording(config: ClientConfig, sent: Sent) -> ClientConfig:
    """Return a configuration whose requests are recorded before the server gets them."""

    def opened(_: ClientConfig, settings: ClientSettings, user_agent: str) -> Transport:
        return _Recorded(config.open(settings, user_agent), sent)

    return ClientConfig.over(opened, namespace=config.namespace)


def filling(*controllers: kv.Controller[Any]) -> Callable[[kv.Manager], Awaitable[None]]:
    """Return the function that adds these controllers to the manager of a plan."""

    async def fill(manager: kv.Manager) -> None:
        for controller in controllers:
            manager.add(controller)

    return fill


async def planned(
    lab: Lab, *controllers: kv.Controller[Any], sent: Sent | None = None, kind: str = "", name: str = ""
) -> PlanReport:
    """Return the plan of these controllers in the lab; nothing may be stored."""
    seen = Sent() if sent is None else sent
    config = recording(lab.server.config(namespace=lab.namespace), seen)
    selector = Selector(kind=kind, namespace=lab.namespace, name=name)
    report = await plan("planner", config, filling(*controllers), selector=selector)
    assert seen.stored_writes == []
    return report
