"""The format of log lines, and the secrets that they must not contain."""

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
import structlog
from spans import Spans

from konverge.daemon.logs import HIDDEN, configure, hide_secrets
from konverge.daemon.tracing import add_trace_ids


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    """A stream for logs; the process's logging is restored afterwards."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    before = structlog.get_config()
    yield io.StringIO()
    structlog.configure(**before)
    root.handlers, root.level = handlers, level


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_line_is_one_json_object_in_a_fixed_order(stream: io.StringIO) -> None:
    configure(form="json", stream=stream)
    structlog.get_logger("konverge.runtime").bind(controller="backup").info("reconciled", key="web/nightly", n=1)
    (line,) = lines(stream)
    assert list(line) == ["timestamp", "level", "logger", "event", "controller", "key", "n"]
    assert (line["level"], line["logger"], line["event"]) == ("info", "konverge.runtime", "reconciled")
    assert line["timestamp"].endswith("Z")


@pytest.mark.parametrize(("level", "expected"), [("debug", 3), ("info", 2), ("error", 1)])
def test_a_line_below_the_level_is_not_written(stream: io.StringIO, level: Any, expected: int) -> None:
    configure(level=level, form="json", stream=stream)
    log = structlog.get_logger("x")
    log.debug("a")
    log.info("b")
    log.error("c")
    assert len(lines(stream)) == expected


def test_lines_of_the_standard_library_have_the_same_form(stream: io.StringIO) -> None:
    configure(form="json", stream=stream)
    logging.getLogger("aiohttp.server").error("refused %s", "Bearer abcdefghijkl")
    logging.getLogger("aiohttp.server").info("chatter")
    (line,) = lines(stream)
    assert (line["logger"], line["event"]) == ("aiohttp.server", f"refused Bearer {HIDDEN}")


def test_an_exception_is_text_without_secrets(stream: io.StringIO) -> None:
    configure(form="json", stream=stream)
    try:
        raise ValueError("https://me:hunter2@example.com said no")
    except ValueError:
        structlog.get_logger("x").exception("failed")
    (line,) = lines(stream)
    assert "ValueError" in line["exception"]
    assert "hunter2" not in stream.getvalue()


def test_setting_up_twice_does_not_write_twice(stream: io.StringIO) -> None:
    configure(form="json", stream=stream)
    configure(form="json", stream=stream)
    logging.getLogger("a").error("once")
    structlog.get_logger("b").info("once")
    assert len(lines(stream)) == 2


def test_console_lines_are_not_coloured_without_a_terminal(stream: io.StringIO) -> None:
    configure(form="console", stream=stream)
    structlog.get_logger("x").info("hello", key="web/nightly")
    assert "hello" in stream.getvalue()
    assert "\x1b" not in stream.getvalue()


def test_format_auto_is_json_without_a_terminal(stream: io.StringIO) -> None:
    configure(form="auto", stream=stream)
    structlog.get_logger("x").info("hello")
    assert lines(stream)[0]["event"] == "hello"


def test_a_value_that_json_cannot_encode_is_still_written(stream: io.StringIO) -> None:
    configure(form="json", stream=stream)
    loop: list[Any] = []
    loop.append(loop)
    structlog.get_logger("x").info("odd", value=object(), loop=loop, lone="\ud800", set={1})
    assert lines(stream)[0]["event"]


@pytest.mark.parametrize(
    "key",
    [
        "token",
        "password",
        "Authorization",
        "api_key",
        "client_secret",
        "bearer_token",
        "client-key-data",
        "data",
        "stringData",
    ],
)
def test_keys_that_name_a_secret_are_hidden(key: str) -> None:
    assert hide_secrets(None, "info", {"event": "x", key: "hunter2"})[key] == HIDDEN
    nested = hide_secrets(None, "info", {"event": "x", "outer": [{key: {"a": "hunter2"}}]})
    assert nested["outer"] == [{key: HIDDEN}]


@pytest.mark.parametrize("key", ["key", "secret", "name", "controller", "keys", "tokens_left", "database"])
def test_keys_that_resemble_secret_names_are_not_hidden(key: str) -> None:
    assert hide_secrets(None, "info", {"event": "x", key: "nightly"})[key] == "nightly"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Authorization: Bearer abc.def-ghi", f"Authorization: Bearer {HIDDEN}"),
        ("basic dXNlcjpwYXNzd29yZA==", f"basic {HIDDEN}"),
        ("token eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhIn0.c2ln end", f"token {HIDDEN} end"),
        ("-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----", HIDDEN),
        ("-----BEGIN PRIVATE KEY-----\ncut off", HIDDEN),
        ("https://me:hunter2@host/path", f"https://{HIDDEN}@host/path"),
        ("the bearer of news", "the bearer of news"),
        ("https://host:8443/path", "https://host:8443/path"),
    ],
)
def test_values_that_look_like_credentials_are_hidden_at_any_depth(text: str, expected: str) -> None:
    event = hide_secrets(None, "info", {"event": text, "nested": {"list": [text]}})
    assert event["event"] == expected
    assert event["nested"] == {"list": [expected]}


def test_bytes_are_measured_and_not_shown() -> None:
    assert hide_secrets(None, "info", {"event": "x", "body": b"hunter2"})["body"] == "<7 bytes>"


def test_a_line_within_a_span_has_the_ids_of_its_trace(stream: io.StringIO) -> None:
    configure(form="json", stream=stream, processors=(add_trace_ids,))
    log = structlog.get_logger("konverge.controller")
    log.info("outside")
    with Spans().provider.get_tracer("test").start_as_current_span("reconcile") as span:
        log.info("inside")
    outside, inside = map(json.loads, stream.getvalue().splitlines())
    assert not outside.keys() & {"trace_id", "span_id"}
    found = span.get_span_context()
    assert (inside["trace_id"], inside["span_id"]) == (f"{found.trace_id:032x}", f"{found.span_id:016x}")
