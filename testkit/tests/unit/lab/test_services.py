"""Requests to a service of a scenario are disturbed: 503, no response, a lost response."""

import asyncio
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from widgets import By, Widget, widget

import konverge as kv
from konverge_testing import Lab
from konverge_testing.lab import Plan, explore
from konverge_testing.lab.planning import plans_of
from konverge_testing.lab.plans import ServiceFault
from konverge_testing.lab.runs import run

REFERENCE = Plan(name="reference")


class Tickets:
    """A service that issues a ticket for each POST, or for each name of a PUT."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def app(self) -> web.Application:
        app = web.Application()
        app.router.add_post("/tickets", self._post)
        app.router.add_put("/tickets/{name}", self._put)
        return app

    async def _post(self, _: web.Request) -> web.Response:
        self.names.append(f"ticket-{len(self.names)}")
        return web.json_response({"name": self.names[-1]})

    async def _put(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        self.names += [name] if name not in self.names else []
        return web.json_response({"name": name})


async def call(method: str, url: str) -> str:
    async with (
        aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=10)) as session,
        session.request(method, url) as response,
    ):
        response.raise_for_status()
        return str((await response.json())["name"])


def operator(how: str, url: str) -> Any:
    async def reconcile(w: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        try:
            if w.status.note is None:
                posts = how == "posts"
                ctx.status.draft.note = await call(
                    "POST" if posts else "PUT", f"{url}/tickets" if posts else f"{url}/tickets/ticket-0"
                )
        except (TimeoutError, aiohttp.ClientError) as error:
            if how == "swallows":
                return kv.Done()
            raise kv.RetryAfter(5, f"the service does not respond: {error}") from error
        ctx.status.set_condition("Ready", True, "Made")
        return kv.Done()

    return By(reconcile)


def scenario(how: str) -> Any:
    async def play(lab: Lab) -> None:
        tickets = Tickets()
        server = await lab.enter(TestServer(tickets.app(), host="127.0.0.1"))
        url = str(server.make_url("")).rstrip("/")
        await lab.start(lambda manager: manager.add(kv.Controller.of(Widget).reconciled_by(operator(how, url))))
        await lab.create(widget())
        await asyncio.sleep(60)
        assert tickets.names == ["ticket-0"], f"{len(tickets.names)} tickets"
        await lab.until(Widget, "one", kv.is_true("Ready"), timeout=60)

    return play


def plans(how: str) -> list[Plan]:
    reference = run(scenario(how), REFERENCE)
    assert reference.problems == []
    return [plan for plan in plans_of(reference, process="lab").plans if plan.services]


def failing(how: str) -> list[str]:
    """Return the faults in the failing plans of an operator."""
    report = explore(scenario(how), only=plans(how))
    assert report.ran == 3
    return sorted(fault.do for failure in report.failures for fault in failure.plan.services)


def test_each_request_of_a_service_has_a_plan_for_each_fault() -> None:
    assert [plan.name for plan in plans("puts")] == [
        "request 1 of service 1 (PUT /tickets/ticket-0) is answered with 503",
        "request 1 of service 1 (PUT /tickets/ticket-0) gets no response",
        "request 1 of service 1 (PUT /tickets/ticket-0) is carried out, and its response is lost",
    ]


@pytest.mark.parametrize(  # aiohttp itself repeats a PUT whose response is lost
    ("how", "found"), [("puts", []), ("posts", ["lost"]), ("swallows", ["silent", "unavailable"])]
)
def test_an_operator_that_calls_a_service_is_tried_with_its_faults(how: str, found: list[str]) -> None:
    assert failing(how) == found


def test_a_fault_of_a_service_is_in_the_timeline() -> None:
    fault = ServiceFault(service="service 1", request=1, do="lost")
    text = run(scenario("puts"), Plan(name="x", services=(fault,))).timeline.text()
    assert text.count("request 1 of service 1 (PUT /tickets/ticket-0): lost") == 1


def test_the_plan_of_a_service_reads_back_from_json() -> None:
    plan = Plan(name="x", services=(ServiceFault(service="service 2", request=3, do="silent"),))
    assert Plan.from_json(plan.to_json()) == plan
    assert plan.without(0).services == ()
