"""The text of `konverge explain`."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from click.testing import CliRunner

from konverge.daemon.explain import text_of
from konverge.daemon.main import program

RECONCILE: dict[str, Any] = {
    "key": "ApplicationInstance web/shop",
    "reconcileID": "00ab",
    "started": "2030-01-01T00:00:00.000000Z",
    "duration": 0.0314,
    "reasons": ["owned: HelmRelease shop changed", "resync"],
    "outcome": "Done",
    "error": "",
    "writes": ["apply HelmRelease web/shop", "status"],
    "skipped": 1,
    "nextRun": "when something changes",
}
KNOWN: dict[str, Any] = {
    "controller": "applicationinstance",
    "key": "ApplicationInstance web/shop",
    "namespaced": True,
    "cached": True,
    "generation": 3,
    "conditions": [],
    "ready": True,
    "why": "",
    "reconciles": [RECONCILE],
    "waits": None,
}


def test_an_object_at_rest_is_explained_with_conditions_and_reconciles() -> None:
    assert text_of([KNOWN]) == (
        "ApplicationInstance web/shop, controller applicationinstance\n"
        "  Last ran 2030-01-01T00:00:00.000000Z, for 31 ms (reconcile id 00ab)\n"
        "    because of: owned: HelmRelease shop changed; resync\n"
        "    wrote: apply HelmRelease web/shop, status, and left 1 as it was\n"
        "    ended: Done\n"
        "  It runs next when something changes."
    )


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"cached": False}, "cache has no such object"),
        ({"ready": False, "why": "no CRD\ninstall it"}, "The controller is not ready: no CRD\n    install it"),
        ({"reconciles": []}, "It has not run since the daemon started"),
        ({"paused": "the annotation a/b is set"}, "\n  It is paused: the annotation a/b is set\n"),
        ({"reconciles": [{**RECONCILE, "error": "boom\nat x"}]}, "    failed: boom\n      at x"),
        ({"reconciles": [{**RECONCILE, "writes": [], "skipped": 0}]}, "    wrote: nothing\n"),
        ({"reconciles": [RECONCILE, RECONCILE]}, "  Before that 2030"),
        (
            {
                "waits": {
                    "inSeconds": 12.5,
                    "wait": "its retry after a failure",
                    "reasons": ["retry: Boom"],
                    "failures": 3,
                }
            },
            "  It runs next in 12.5 s (waits for its retry after a failure), because of: retry: Boom\n  It failed 3 times in a row.",
        ),
        (
            {"waits": {"inSeconds": 0.0, "wait": "a worker", "reasons": ["changed"], "failures": 0}},
            "  It runs next as soon as a worker is free (waits for a worker), because of: changed",
        ),
    ],
    ids=[
        "not cached",
        "not ready",
        "never ran",
        "paused",
        "failed",
        "wrote nothing",
        "two reconciles",
        "backing off",
        "ready",
    ],
)
def test_an_object_with_failures_is_explained_with_their_causes(changed: dict[str, Any], said: str) -> None:
    assert said in text_of([{**KNOWN, **changed}])


WAITING = {
    "type": "Ready",
    "status": "False",
    "reason": "WaitingForSecret",
    "message": "no Secret vals",
    "lastTransitionTime": "2030-01-01T00:00:00Z",
    "observedGeneration": 3,
}


def test_the_explanation_lists_the_unready_condition_first() -> None:
    text = text_of([{**KNOWN, "conditions": [{"type": "Released", "status": "True"}, WAITING]}])
    assert text.splitlines()[1:4] == [
        "  It waits for: WaitingForSecret: no Secret vals",
        "  Released=True ",
        "  Ready=False WaitingForSecret: no Secret vals (since 2030-01-01T00:00:00Z)",
    ]
    assert "earlier spec" not in text
    assert "earlier spec" in text_of([{**KNOWN, "generation": 4, "conditions": [WAITING]}])
    assert "waits for:" not in text_of([{**KNOWN, "conditions": [{**WAITING, "status": "True"}]}])


def test_each_controller_of_a_kind_is_explained() -> None:
    assert text_of([KNOWN, {**KNOWN, "controller": "other"}]).count("ApplicationInstance web/shop, controller") == 2


class _Daemon(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        answers = {
            "kind=appinst&namespace=web&name=shop": (200, [KNOWN]),
            "kind=appinst&namespace=web&name=gone": (200, [{**KNOWN, "cached": False}]),
            "kind=appinst&namespace=&name=shop": (200, [{**KNOWN, "cached": False}]),
            "kind=nobody&namespace=&name=x": (200, []),
        }
        status, body = answers.get(self.path.partition("?")[2], (403, "no"))
        self.send_response(status)
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # the signature is http.server's
        pass


@pytest.fixture
def url() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), _Daemon)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_explain_reads_from_the_daemon(url: str) -> None:
    result = CliRunner().invoke(program, ["explain", "appinst/shop", "-n", "web", "--url", url])
    assert (result.exit_code, result.output) == (0, text_of([KNOWN]) + "\n")
    data = CliRunner().invoke(program, ["explain", "appinst/shop", "-n", "web", "--url", f"{url}/", "-o", "json"])
    assert json.loads(data.output) == [KNOWN]


def test_explain_finds_the_daemon_by_a_variable(url: str) -> None:
    result = CliRunner().invoke(program, ["explain", "appinst/shop", "-n", "web"], env={"KONVERGE_URL": url})
    assert result.exit_code == 0


@pytest.mark.parametrize(
    "variables",
    [
        {"KONVERGE_DEBUG": "{address}"},
        {"KONVERGE_HEALTH": "{address}", "KONVERGE_DEBUG": "0"},
        {"KONVERGE_HEALTH": "{address}", "KONVERGE_DEBUG": "127.0.0.1:1"},
    ],
    ids=["of debug", "of health", "of health, and none of debug"],
)
def test_explain_reads_the_daemons_own_addresses(url: str, variables: dict[str, str]) -> None:
    environment = {name: text.format(address=url.removeprefix("http://")) for name, text in variables.items()}
    result = CliRunner().invoke(program, ["explain", "appinst/shop", "-n", "web"], env=environment)
    assert (result.exit_code, result.output) == (0, text_of([KNOWN]) + "\n")


def test_explain_names_the_first_address_if_none_answers() -> None:
    environment = {"KONVERGE_DEBUG": "127.0.0.1:1", "KONVERGE_HEALTH": "127.0.0.1:2"}
    result = CliRunner().invoke(program, ["explain", "appinst/shop"], env=environment)
    assert result.exit_code == 1
    assert "no daemon responds at http://127.0.0.1:1" in result.stderr


def test_explain_of_a_kind_without_a_controller_fails(url: str) -> None:
    result = CliRunner().invoke(program, ["explain", "nobody/x", "--url", url])
    assert result.exit_code == 1
    assert "is for nobody" in result.stderr


def test_an_error_of_the_daemon_is_printed_as_it_is(url: str) -> None:
    result = CliRunner().invoke(program, ["explain", "appinst/other", "--url", url])
    assert result.exit_code == 1
    assert '403 "no"' in result.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["appinst/gone", "-n", "web"],
            "no appinst/gone in namespace web, as the daemon's cache knows it. Check the name with kubectl",
        ),
        (["appinst/shop"], "name it, konverge explain appinst/shop -n NAMESPACE"),
    ],
    ids=["absent", "without a namespace"],
)
def test_explain_of_a_missing_object_fails_with_the_remedy(url: str, words: list[str], said: str) -> None:
    result = CliRunner().invoke(program, ["explain", *words, "--url", url])
    assert result.exit_code == 1
    assert said in result.stderr
