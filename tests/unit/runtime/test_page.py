"""The page of `/debug/ui`: hostile texts, its data from a manager at work, its responses."""

import asyncio
import base64
import hashlib
import re
from datetime import UTC, datetime
from html.parser import HTMLParser
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request
from widgets import SECRET, By, Widget, widget

import konverge as kv
from konverge.errors import Terminal
from konverge.keys import Key
from konverge.kinds import kind_of
from konverge.runtime.http.debug import DebugPages
from konverge.runtime.http.page import POLICY, object_page, overview_page
from konverge.runtime.manager.overview import unready
from konverge.runtime.observability.record import ReconcileRecord
from konverge.runtime.sharding.settings import ShardingSettings
from konverge_testing import Lab

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)
HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "</style><style>*{display:none}</style>",
    "</title></table><iframe src=//x>",
    "&lt;b&gt; &#60;b&#62;",
    "javascript:alert(1)",
    "{{ 7*7 }} ${x}",
    "a\x00b\x1b[31m",
    "\u202egnp.exe\u202c",
    "\ud800",
    "x" * 5000,
]
NAMES = {
    *("html", "head", "meta", "title", "style", "body", "main", "h1", "h2", "p", "a", "section", "table", "thead"),
    *(
        "tbody",
        "tr",
        "th",
        "td",
        "div",
        "span",
        "small",
        "strong",
        "time",
        "form",
        "label",
        "input",
        "button",
        "footer",
    ),
}


class Reader(HTMLParser):
    """Reads a page: its elements, its attributes, its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.names: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_data(self, data: str) -> None:
        self.text += data + "\n"


def waits(text: str) -> dict[str, Any]:
    return {"inSeconds": 90.0, "wait": text, "failures": 3, "reasons": [text]}


def condition(text: str) -> dict[str, Any]:
    return dict.fromkeys(("type", "status", "reason", "message", "lastTransitionTime"), text)


def overview_with(text: str) -> str:
    entry = dict.fromkeys(("controller", "kind", "namespace", "name", "since", "reason", "message", "error"), text)
    last = {"started": "2030-01-01T11:59:00.000000Z", "duration": 0.5, "error": text}
    data = {
        "name": text,
        "instance": text,
        "now": "2030-01-01T12:00:00Z",
        "leads": False,
        "parts": [{"name": text, "ready": False, "note": text}],
        "unready": [{**entry, "status": "False", "waits": waits(text)}],
        "leftOut": 3,
        "owners": [{"controller": text, "owner": text, "objects": 2}],
    }
    problem = {"kind": text, "message": text}
    controller = {"ready": False, "state": text, "problems": [problem], "lastError": text, "lastPasses": [last] * 2}
    return overview_page(data, {text: controller}, {text: {"statistics": {"ready": 4, "held": 1, "failing": 1}}})


def object_with(text: str, changed: str = "2030-01-01T11:00:00Z", started: str = "2030-01-01T11:59:00.0Z") -> str:
    record = {
        "started": started,
        "duration": 0.5,
        "reasons": [text],
        "outcome": text,
        "error": text,
        "writes": [text],
        "skipped": 1,
        "reconcileID": text,
    }
    explanation = {
        "controller": text,
        "ready": False,
        "why": text,
        "cached": False,
        "generation": 3,
        "paused": text,
        "conditions": [condition(text), {**condition(text), "lastTransitionTime": changed}],
        "reconciles": [record],
        "waits": waits(text),
    }
    return object_page(text, text, text, [explanation], NOW) + object_page(text, text, text, [], NOW)


@pytest.mark.parametrize("render", [overview_with, object_with])
@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
def test_hostile_text_changes_no_element_and_no_attribute(render: Any, text: str) -> None:
    page = render(text)
    page.encode()  # lone surrogates are replaced
    shown, plain = Reader(page), Reader(render("plain"))
    assert set(shown.names) <= NAMES
    assert [name for name, _ in shown.attributes] == [name for name, _ in plain.attributes]
    assert shown.names == plain.names
    addresses = [value for name, value in shown.attributes if name in ("href", "action")]
    assert [address for address in addresses if not address.startswith("/debug")] == []
    assert not re.search("[\x00-\x08\x0e-\x1f\x7f\u202a-\u202e]", page)
    if text.isprintable():
        assert text[:300] in shown.text


def test_the_policy_allows_the_style_of_the_page_and_nothing_else() -> None:
    (style,) = re.findall(r"<style>(.*?)</style>", overview_with("a"), re.DOTALL)
    allowed = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert POLICY.split("; ") == [
        *("default-src 'none'", "base-uri 'none'", "form-action 'self'", "frame-ancestors 'none'"),
        f"style-src 'sha256-{allowed}'",
    ]
    assert not re.search(r"url\(|@import|[<&]", style)


def test_figures_of_a_controller_are_of_its_last_reconciles() -> None:
    text = Reader(overview_with("a")).text
    for figure in ("5 ready", "2 a minute", "mean 500 ms", "2 of the last 2", "1 failing now", "in 1 min 30 s"):
        assert figure in text
    assert "3 more are not listed" in text


@pytest.mark.parametrize(("started", "first"), [("11:59:00.7", "a became a"), ("11:59:01.0", "reconcile, 500 ms")])
def test_a_condition_follows_the_reconcile_of_its_second(started: str, first: str) -> None:
    page = object_with("a", changed="2030-01-01T11:59:00Z", started=f"2030-01-01T{started}Z")
    assert re.findall('data-label="What">(.*?)<', page)[:2] == ["next reconcile", first]


def test_the_timeline_begins_with_the_next_run_and_goes_back_in_time() -> None:
    rows = re.findall(r'<th scope="row" role="rowheader"><div>(.*?)</div>', object_with("a"))
    assert [re.sub("<[^>]*>", "", row) for row in rows] == ["in 1 min 30 s", "1 min ago", "1 h ago"]


def record(second: int, error: str = "") -> ReconcileRecord:
    started = NOW.replace(second=second)
    key = Key("", kind_of(Widget), "web", "a")
    return ReconcileRecord(key=key, reconcile_id="1", started=started, duration=0, reasons=(), outcome="", error=error)


@pytest.mark.parametrize(
    ("ready", "records", "expected"),
    [
        ({}, [], None),
        ({"status": "True"}, [record(1)], None),
        (
            {"status": "False", "reason": "R", "message": "m", "lastTransitionTime": "t"},
            [],
            ("t", "False", "R", "m", ""),
        ),
        ({"status": "Unknown"}, [], ("", "Unknown", "", "", "")),
        ({"status": ["odd"]}, [], ("", "['odd']", "", "", "")),
        ({"status": "True"}, [record(1, "a"), record(2, "b")], ("2030-01-01T12:00:01Z", "True", "", "", "b")),
        ({"status": "True"}, [record(1, "a"), record(2)], None),
        ({}, [record(1, "a"), record(2), record(3, "c")], ("2030-01-01T12:00:03Z", "", "", "", "c")),
        ({"status": "False", "lastTransitionTime": "t"}, [record(1, "a")], ("t", "False", "", "", "a")),
    ],
)
def test_an_object_is_unready_by_its_condition_or_its_last_reconcile(
    ready: dict[str, Any], records: list[ReconcileRecord], expected: Any
) -> None:
    conditions = [{"type": "Other", "status": "False"}, *([{"type": "Ready", **ready}] if ready else [])]
    assert unready({"conditions": conditions}, records) == expected


@pytest.mark.parametrize("conditions", [None, "odd", {}, [None, 1, {"type": ""}]])
def test_odd_conditions_are_ignored(conditions: Any) -> None:
    assert unready({"conditions": conditions}) is None


# --- a manager at work --------------------------------------------------------------------------------------------------------


async def fetch(
    manager: kv.Manager, path: str, remote: str = "127.0.0.1", host: str = "localhost", ui: bool = True
) -> web.Response:
    """Return the response of the page at a path."""
    router = web.UrlDispatcher()
    DebugPages(manager, ui=ui).add_to(router)
    request = make_mocked_request("GET", path, headers={"Host": host}).clone(remote=remote)
    response = await (await router.resolve(request)).handler(request)
    assert isinstance(response, web.Response)
    return response


async def by_mode(found: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
    if found.spec.mode == "fails":
        raise Terminal("no <b>bucket</b>")
    ctx.status.set_condition("Ready", found.spec.mode == "plain", "Asked", "as the <i>spec</i> wants")
    return kv.RequeueAfter(300)


async def test_the_page_lists_what_is_not_ready_and_links_to_its_timeline(lab: Lab) -> None:
    lab.expects(Terminal)
    await lab.start(lambda manager: manager.add(kv.Controller.of(Widget).reconciled_by(By(by_mode))))
    for mode in ("plain", "waits", "fails"):
        await lab.create(widget(mode, mode=mode))
        await lab.settled()
        await asyncio.sleep(2)
    response = await fetch(lab.manager, "/debug/ui")
    assert (response.status, response.content_type) == (200, "text/html")
    assert response.headers["Content-Security-Policy"] == POLICY
    page = Reader(response.text or "")
    links = [value for name, value in page.attributes if name == "href" and "object" in value]
    assert [re.sub(".*name=", "", link) for link in links] == ["waits", "fails"]
    assert "Ready is False: Asked" in page.text
    assert "as the <i>spec</i> wants" in page.text
    assert "Ready is False: ReconcileFailed" in page.text
    assert "no <b>bucket</b>" in page.text
    for link, facts in zip(
        links, (["Ready became False", "next reconcile"], ["failed: no <b>bucket</b>"]), strict=True
    ):
        timeline = await fetch(lab.manager, link)
        assert (timeline.status, timeline.headers["Content-Security-Policy"]) == (200, POLICY)
        shown = Reader(timeline.text or "").text
        assert [fact for fact in facts if fact not in shown] == []


@pytest.mark.parametrize(
    ("path", "remote", "host", "status"),
    [
        ("/debug/ui", "10.0.0.1", "localhost", 403),
        ("/debug/ui", "127.0.0.1", "evil.example.com", 403),
        ("/debug/ui/object?kind=widget&name=a", "10.0.0.1", "localhost", 403),
        ("/debug/ui/object", "127.0.0.1", "localhost", 400),
        ("/debug/ui/object?kind=%3Cb%3E&name=%ff%00", "127.0.0.1", "localhost", 404),
        ("/debug/ui/object?kind=widget&namespace=a&name=%3Cscript%3E", "127.0.0.1", "localhost", 200),
    ],
)
async def test_the_page_serves_loopback_and_escapes_its_query(
    lab: Lab, path: str, remote: str, host: str, status: int
) -> None:
    await lab.start(lambda manager: manager.add(kv.Controller.of(Widget).reconciled_by(By(by_mode))))
    response = await fetch(lab.manager, path, remote, host)
    assert response.status == status
    if response.content_type == "text/html":
        assert set(Reader(response.text or "").names) <= NAMES


@pytest.mark.parametrize(
    ("path", "remote", "status"),
    [
        ("/debug/ui", "127.0.0.1", 404),
        ("/debug/ui/object?kind=widget&name=a", "127.0.0.1", 404),
        ("/debug/ui/object", "127.0.0.1", 404),
        ("/debug/ui", "10.0.0.1", 403),
        ("/debug/overview", "127.0.0.1", 200),
    ],
)
async def test_a_page_that_is_off_names_the_setting(lab: Lab, path: str, remote: str, status: int) -> None:
    await lab.start(lambda manager: manager.add(kv.Controller.of(Widget).reconciled_by(By(by_mode))))
    response = await fetch(lab.manager, path, remote, ui=False)
    assert response.status == status
    if status == 404:
        assert {"debug_ui=true", "KONVERGE_DEBUG_UI=true", "settings.debug_ui:"} <= set((response.text or "").split())


async def test_the_content_of_secrets_and_specs_is_not_shown(lab: Lab) -> None:
    async def fail(found: Any, ctx: kv.Context[Any]) -> kv.Outcome:
        raise Terminal("the key is missing")

    def build(manager: kv.Manager) -> None:
        manager.add(kv.Controller.of(SECRET).reconciled_by(By(fail)))
        manager.add(kv.Controller.of(Widget).reconciled_by(By(by_mode)))

    lab.expects(Terminal)
    await lab.start(build)
    content = base64.b64encode(b"hunter2").decode()
    await lab.create(SECRET.new("login", data={"password": content}))
    await lab.create(widget("a", mode="hunter2"))
    await lab.settled()
    link = "/debug/ui/object?kind={}&namespace=" + lab.namespace + "&name={}"
    texts = [
        (await fetch(lab.manager, path)).text or ""
        for path in ("/debug/ui", "/debug/overview", link.format("Secret", "login"), link.format("Widget", "a"))
    ]
    assert [("login" in text, "hunter2" in text, content in text) for text in texts] == [
        *[(True, False, False)] * 3,
        (False, False, False),
    ]


async def test_the_overview_has_the_leader_the_ring_and_the_owners(lab: Lab) -> None:
    controller = kv.Controller.of(Widget).sharded().reconciled_by(By(by_mode))
    settings = kv.ManagerSettings(sharding=ShardingSettings(mode="hash"))
    await lab.start(lambda manager: manager.add(controller), settings=settings)
    for number in range(3):
        await lab.create(widget(f"w{number}"))
    await lab.settled()
    data = await lab.manager.overview()
    assert [entry["objects"] for entry in data["owners"]] == [3]
    assert "shard-ring" in {part["name"] for part in data["parts"]}
    page = Reader((await fetch(lab.manager, "/debug/ui")).text or "").text
    assert "Shared objects by owner" in page
    assert data["owners"][0]["owner"] in page
