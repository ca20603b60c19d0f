"""An operator that depends on the clock: it fetches a rate each hour from an HTTP service that limits the number of requests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

import konverge as kv
from konverge.crds import Duration
from konverge_testing import Lab

HOUR = 3600.0
WINDOW = 60.0
"""Seconds in which the service responds to `MOST` requests."""
MOST = 2


class RateSpec(kv.Model):
    currency: str
    every: Duration = timedelta(hours=1)


class RateStatus(kv.Status):
    rate: str | None = None
    fetched: datetime | None = None


@kv.resource("example.com/v1", conditions=("Ready",))
class Rate(kv.CustomResource[RateSpec, RateStatus]):
    """An exchange rate, at most an hour old."""


class RateReconciler:
    def __init__(self, service: str) -> None:
        self._service = service

    async def reconcile(self, rate: Rate, ctx: kv.Context[Rate]) -> kv.Outcome:
        fetched, now = rate.status.fetched, ctx.now()
        if fetched is not None and (due := fetched + rate.spec.every) > now:
            return kv.RequeueAfter(due - now)
        ctx.status.draft.rate = await self._fetch(rate.spec.currency)
        ctx.status.draft.fetched = now
        ctx.status.set_condition("Ready", True, "Fetched", "the rate is current")
        return kv.RequeueAfter(rate.spec.every)

    async def _fetch(self, currency: str) -> str:
        try:
            async with (
                aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=10)) as session,
                session.get(f"{self._service}/rates/{currency}") as response,
            ):
                if response.status == 429:
                    seconds = float(response.headers["Retry-After"])
                    raise kv.RetryAfter(max(seconds, 0.1), "the service limits requests")
                response.raise_for_status()
                return await response.text()
        except (TimeoutError, aiohttp.ClientError) as error:
            raise kv.RetryAfter(30, f"the service does not respond: {error}") from error


class RateService:
    """The service; it counts the requests that it rejected."""

    def __init__(self) -> None:
        self.refused = 0
        self._times: list[float] = []

    def app(self) -> web.Application:
        app = web.Application()
        app.router.add_get("/rates/{currency}", self._get)
        return app

    async def _get(self, request: web.Request) -> web.Response:
        now = asyncio.get_running_loop().time()
        self._times = [time for time in self._times if time > now - WINDOW]
        if len(self._times) >= MOST:
            self.refused += 1
            seconds = WINDOW - (now - self._times[0])
            return web.Response(status=429, headers={"Retry-After": f"{seconds:.0f}"})
        self._times.append(now)
        return web.Response(text=f"1 {request.match_info['currency']} = 7")


def build(service: str) -> Callable[[kv.Manager], None]:
    return lambda manager: manager.add(kv.Controller.of(Rate).reconciled_by(RateReconciler(service)))


@pytest.mark.scenario(quick=12)
async def test_each_rate_is_fetched_each_hour_within_the_limit(lab: Lab) -> None:
    lab.clock_ends(after=3 * HOUR + 1800)
    service = RateService()
    server = await lab.enter(TestServer(service.app(), host="127.0.0.1"))
    await lab.start(build(str(server.make_url("")).rstrip("/")))
    for currency in ("chf", "eur", "usd"):
        await lab.create(Rate.new(currency, spec=RateSpec(currency=currency)))
    for currency in ("chf", "eur", "usd"):
        rate = await lab.until(Rate, currency, kv.is_true("Ready"), timeout=10 * WINDOW)
        assert rate.status.rate == f"1 {currency} = 7"
    assert service.refused == 1 or lab.patience > 1, f"the service refused {service.refused} requests"
    first = (await lab.get(Rate, "chf")).status.fetched
    assert first is not None
    later = await lab.until(Rate, "chf", fetched_after(first), timeout=2 * HOUR)
    assert later.status.fetched is not None
    assert (later.status.fetched - first).total_seconds() >= HOUR


def fetched_after(moment: datetime) -> Callable[[Rate], bool]:
    return lambda rate: rate.status.fetched is not None and rate.status.fetched > moment
