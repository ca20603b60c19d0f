"""The page of a manager in a browser: wide and narrow, light and dark, without a script and without another address."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

import konverge as kv
from konverge.client import Client
from konverge.crds import crd
from konverge.daemon import engine
from konverge.daemon.settings import Settings
from konverge.errors import Terminal
from konverge_testing import ApiServer, install_crds

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

SCREENS = [(1300, "light"), (1300, "dark"), (360, "light"), (360, "dark")]
HOSTILE = "<img src=x onerror=alert(1)> <script>document.title='owned'</script> " + "w" * 300


class LampSpec(kv.Model):
    mode: str = "plain"


@kv.resource("tests.konverge.dev/v1", conditions=("Ready",))
class Lamp(kv.CustomResource[LampSpec, kv.Status]):
    """A thing that is ready, waits or fails, as its spec wants."""


class Lights:
    """Sets Ready as the spec wants."""

    async def reconcile(self, lamp: Lamp, ctx: kv.Context[Lamp]) -> kv.Outcome:
        if lamp.spec.mode == "fails":
            raise Terminal(HOSTILE)
        ctx.status.set_condition("Ready", lamp.spec.mode == "plain", "Switched", f"The lamp is {lamp.spec.mode}.")
        return kv.RequeueAfter(300)


async def serve(stop: Callable[[asyncio.Event], None], serving: Callable[[str], None]) -> None:
    """Run an operator with lamps over an API server in memory until its event is set."""
    ended, settled = asyncio.Event(), asyncio.Event()
    stop(ended)
    settings = Settings(metrics="0", health="0", debug="127.0.0.1:0", debug_ui=True)
    addresses: dict[str, str] = {}

    def build(manager: kv.Manager) -> None:
        manager.add(kv.Controller.of(Lamp).reconciled_by(Lights()))

    async with ApiServer(random=Random(1)) as server, Client(server.config(), name="admin", random=Random(2)) as admin:
        await install_crds(admin, [crd(Lamp)])
        for name, mode in (("hall", "plain"), ("attic", "dim"), ("cellar-" + "long-" * 30 + "name", "fails")):
            await admin.create(Lamp.new(name, "default", spec=LampSpec(mode=mode)))
        operator = engine.Operator(name="lights", build=build, settings=settings)
        running = asyncio.create_task(
            engine.operate(operator, ended, config=server.config(), serving=addresses.update, settled=settled.set)
        )
        await asyncio.wait({running, asyncio.create_task(settled.wait())}, return_when=asyncio.FIRST_COMPLETED)
        while not any(lamp.status for lamp in (await admin.list(Lamp, "default")).items):
            await asyncio.sleep(0.05)
        serving(addresses["debug"])
        await running


@pytest.fixture(scope="module")
def operator() -> Iterator[str]:
    """The address of `/debug` of an operator in a thread of its own."""
    started = threading.Event()
    known: dict[str, Any] = {}

    def stop(event: asyncio.Event) -> None:
        known["stop"], known["loop"] = event, asyncio.get_running_loop()

    def serving(address: str) -> None:
        known["address"] = address
        started.set()

    def run() -> None:
        try:
            asyncio.run(serve(stop, serving))
        finally:
            started.set()

    thread = threading.Thread(target=run)
    thread.start()
    started.wait(60)
    yield known["address"]
    known["loop"].call_soon_threadsafe(known["stop"].set)
    thread.join(60)


@pytest.fixture
def opened(browser: Browser, operator: str, request: pytest.FixtureRequest) -> Iterator[Page]:
    """The page in a browser without scripts, of the width and colours of the parameter; it may ask the operator only."""
    width, scheme = request.param
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme=scheme, java_script_enabled=False
    )
    page = context.new_page()
    odd: list[str] = []
    page.on("request", lambda sent: None if sent.url.startswith(f"{operator}/debug") else odd.append(sent.url))
    page.on("console", lambda message: odd.append(message.text))
    page.goto(f"{operator}/debug/ui")
    yield page
    context.close()
    assert [entry for entry in odd if "favicon" not in entry] == []


@pytest.mark.parametrize("opened", SCREENS, ids=str, indirect=True)
def test_the_tables_and_the_timeline_are_readable_without_scripts(opened: Page) -> None:
    assert opened.title() == "lights"
    controllers = opened.get_by_role("table", name="Controllers", exact=True)
    assert controllers.get_by_role("rowheader").all_inner_texts() == ["lamp"]
    unready = opened.get_by_role("table", name="Objects that are not ready")
    assert unready.get_by_role("row").count() == 3
    assert HOSTILE[:60] in unready.inner_text()
    unready.get_by_role("link", name="default/attic").click()
    timeline = opened.get_by_role("table", name="Timeline (lamp)")
    assert "Ready became False" in timeline.inner_text()
    opened.go_back()
    opened.get_by_label("Kind").fill("lamp")
    opened.get_by_label("Namespace").fill("default")
    opened.get_by_label("Name", exact=True).fill("hall")
    opened.get_by_role("button", name="Show").click()
    assert opened.get_by_role("heading", level=1).inner_text() == "lamp default/hall"


@pytest.mark.parametrize("screen", SCREENS, ids=str)
def test_no_page_overflows_and_each_passes_the_rules_of_accessibility(
    browser: Browser, operator: str, screen: tuple[int, Any]
) -> None:
    from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]  # it has no types

    width, scheme = screen
    # axe runs inside of the page, which the policy of the page forbids.
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme, bypass_csp=True)
    page = context.new_page()
    faults = []
    page.goto(f"{operator}/debug/ui")
    links = [link.get_attribute("href") for link in page.get_by_role("link").all()]
    paths = ["/debug/ui", *(path for path in links if path and "object" in path)]
    assert len(paths) == 3
    for path in paths:
        page.goto(f"{operator}{path}")
        for other in (width, 700, 970):
            page.set_viewport_size({"width": other, "height": 900})
            if page.evaluate("document.documentElement.scrollWidth > window.innerWidth"):
                faults.append((path, "overflow", str(other)))
        page.set_viewport_size({"width": width, "height": 900})
        faults += [
            (path, rule["id"], node["html"])
            for rule in Axe().run(page).response["violations"]
            for node in rule["nodes"]
        ]
    context.close()
    assert faults == []


def test_the_policy_stops_a_script_and_an_image(browser: Browser, operator: str) -> None:
    page = browser.new_page()
    page.goto(f"{operator}/debug/ui")
    blocked: list[str] = []
    page.on("console", lambda message: blocked.append(message.text))
    page.evaluate(
        """() => { const script = document.createElement('script'); script.textContent = 'document.title = "owned"';
        document.body.append(script); const image = new Image(); image.src = '/debug'; document.body.append(image); }"""
    )
    page.wait_for_timeout(200)
    assert page.title() == "lights"
    assert sum("Content Security Policy" in text for text in blocked) >= 2
    page.close()
