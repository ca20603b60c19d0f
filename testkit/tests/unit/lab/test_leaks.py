"""A value of a Secret in an Event, a status or a line of the log is a finding, unless the value is public."""

import base64
import logging
from collections.abc import Callable
from typing import Any

import pytest
from widgets import CONFIG_MAP, SECRET, By, Widget, widget

import konverge as kv
from konverge_testing import Lab
from konverge_testing.lab import Plan
from konverge_testing.lab.runs import run

VALUE = 'hunter2 "very" secret'
Show = Callable[[kv.Context[Widget], str], None]


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def in_an_event(ctx: kv.Context[Widget], text: str) -> None:
    ctx.event("Login", f"with {text}")


def in_a_condition(ctx: kv.Context[Widget], text: str) -> None:
    ctx.status.set_condition("Blocked", True, "Made", f"uses {text}")


def in_a_status(ctx: kv.Context[Widget], text: str) -> None:
    ctx.status.draft.note = text


def in_the_log(ctx: kv.Context[Widget], text: str) -> None:
    ctx.log.info("logged in", password=text)


def in_a_debug_line(ctx: kv.Context[Widget], text: str) -> None:
    ctx.log.debug("logged in", answer={"token": text})


def in_the_log_of_python(_: kv.Context[Widget], text: str) -> None:
    logging.getLogger("program").warning("logged in with %s", text)


def nowhere(_: kv.Context[Widget], __: str) -> None:
    return None


def scenario(show: Show, *, key: str = "password", value: str = VALUE, form: Any = str, also: Any = None) -> Any:
    """Return a scenario with a Secret whose value a reconciler reads and shows."""

    async def reconcile(w: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        secret = await ctx.live(SECRET).get(w.namespace, "s")
        show(ctx, form(base64.b64decode(secret.get("data", key)).decode()))
        ctx.status.set_condition("Ready", True, "Made")
        return kv.Done()

    async def play(lab: Lab) -> None:
        if also is not None:
            await also(lab)
        await lab.create(SECRET.new("s", data={key: encoded(value)}))
        controller = kv.Controller.of(Widget).needs(kv.Rule("", ("secrets",), ("get",)))
        await lab.start(lambda manager: manager.add(controller.reconciled_by(By(reconcile))))
        await lab.create(widget())
        await lab.until(Widget, "one", kv.is_true("Ready"))

    return play


def problems(play: Any) -> list[str]:
    return run(play, Plan(name="reference")).problems


@pytest.mark.parametrize("form", [str, encoded])
@pytest.mark.parametrize(
    ("show", "place"),
    [
        (in_an_event, "an Event lab/"),
        (in_a_condition, "an Event lab/"),  # the transition has an Event
        (in_a_status, "the status of widgets.tests.konverge.dev lab/one"),
        (in_the_log, "a line of the log"),
        (in_a_debug_line, "a line of the log"),
        (in_the_log_of_python, "a line of the log"),
    ],
)
def test_a_value_of_a_secret_that_is_shown_is_a_finding(show: Show, place: str, form: Any) -> None:
    [problem] = problems(scenario(show, form=form, value="hunter2-very-secret"))
    assert problem.startswith(f"the value of 'password' in Secret lab/s is in {place}")
    assert "hunter2" not in problem
    assert encoded("hunter2-very-secret") not in problem


@pytest.mark.parametrize("show", [in_an_event, in_a_status, in_the_log])
def test_a_value_with_quotes_is_found(show: Show) -> None:
    assert len(problems(scenario(show))) == 1


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("password", "short"),
        ("username", "administrator"),
        ("DB_HOST", "database.lab.svc"),
        ("tls.crt", "not even a certificate"),
        ("url", "https://example.com/path"),
    ],
)
def test_a_public_value_may_be_shown(key: str, value: str) -> None:
    assert problems(scenario(in_an_event, key=key, value=value)) == []


@pytest.mark.parametrize("url", ["https://me:hunter2hunter2@example.com", "https://example.com/?token=hunter2hunter2"])
def test_a_url_with_credentials_is_a_secret(url: str) -> None:
    assert len(problems(scenario(in_an_event, key="url", value=url))) == 1


def test_a_value_in_plain_sight_may_be_shown() -> None:
    async def also(lab: Lab) -> None:
        await lab.create(CONFIG_MAP.new("settings", data={"name": "administration"}))

    assert problems(scenario(in_an_event, key="p", value="administration", also=also)) == []


def test_a_secret_that_stays_hidden_passes() -> None:
    assert problems(scenario(nowhere)) == []


@pytest.mark.parametrize(
    ("name", "key", "found"), [("s", "", 0), ("s", "password", 0), ("s", "other", 1), ("t", "", 1)]
)
def test_a_scenario_may_allow_a_value_to_be_shown(name: str, key: str, found: int) -> None:
    async def also(lab: Lab) -> None:
        lab.may_show_secret(name, key, why="the code of a public invitation")

    result = run(scenario(in_an_event, also=also), Plan(name="reference"))
    assert len(result.problems) == found
    assert result.allowed == (f"Secret {name}: the code of a public invitation",)
