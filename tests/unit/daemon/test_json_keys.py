"""Every key of the JSON that the daemon and its commands print is camelCase, as in Kubernetes: walked over real output."""

import asyncio
import json
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from fractions import Fraction
from http.server import BaseHTTPRequestHandler, HTTPServer
from random import Random
from typing import Any

import click
import msgspec
import pytest
from click.testing import CliRunner
from quota.capsule import migration_world
from widgets import By, Widget, widget

import konverge as kv
from konverge.client import Client
from konverge.crds import crd
from konverge.crds.quota_v1beta2 import ResourcePool, ResourcePoolClaim
from konverge.daemon.engine import informer_checks
from konverge.daemon.main import program
from konverge.daemon.quota import print_migration, tenant_seen
from konverge.planning.documents import Difference
from konverge.planning.overlay import Cause
from konverge.planning.report import NotTried, ObjectChange, PlanFailure, PlanReport
from konverge.planning.transport import RecordedEvent
from konverge.reconcilers.quota.migrate import plan
from konverge.runtime.http.health import Question, answer, checks_of
from konverge.runtime.http.tasks import tasks_of
from konverge_testing import ApiServer, Lab, install_crds

NAMES = {
    *("controllers", "queues"),  # by the name of a controller
    *("restarts", "fallbacks", "dropped"),  # by a cause, as metrics label it
    *("labels", "annotations", "matchLabels"),
    *("hard", "claim"),  # by the name of a Kubernetes resource
}
"""Members whose keys are names that others chose."""
FOREIGN = re.compile(r"x-kubernetes-[a-z-]+|\$ref")
"""Keys of OpenAPI, which Kubernetes defines."""
CAMEL = re.compile(r"[a-z][a-zA-Z0-9]*")


def odd_keys(data: Any, path: tuple[str, ...] = ()) -> Iterator[str]:
    """The paths of keys that are not camelCase, other than names."""
    if isinstance(data, Mapping):
        for key, value in data.items():
            named = bool(path) and path[-1] in NAMES
            if not named and not CAMEL.fullmatch(key) and not FOREIGN.fullmatch(key):
                yield ".".join((*path, key))
            yield from odd_keys(value, (*path, "*" if named else key))
    elif isinstance(data, list):
        for item in data:
            yield from odd_keys(item, path)


def keys_in(data: Any) -> set[str]:
    members = data.values() if isinstance(data, Mapping) else data if isinstance(data, list) else ()
    return set(data if isinstance(data, Mapping) else ()).union(*map(keys_in, members))


def printed(page: Any) -> Any:
    """A page as the server encodes it."""
    return json.loads(msgspec.json.encode(page, enc_hook=str))


def test_a_key_of_another_style_is_found() -> None:
    data = {"lastRun": [{"in_seconds": 1, "labels": {"app.kubernetes.io/name": {"Kind": 1}}}], "Name": 2}
    assert list(odd_keys(data)) == ["lastRun.in_seconds", "lastRun.labels.*.Kind", "Name"]


@contextmanager
def daemon(body: bytes) -> Iterator[str]:
    """A server with a single response, the body of `/debug/explain`."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # the signature is http.server's
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


async def busy(lab: Lab) -> None:
    """Ready objects, failed objects that wait for their retry, and objects in a reconcile; and a kind that is not served."""

    async def reconcile(found: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        if found.spec.mode == "hangs":
            await asyncio.sleep(1000)
        if found.spec.mode == "fails":
            raise ValueError("no")
        ctx.status.set_condition("Ready", True, "Fine")
        return kv.RequeueAfter(300)

    absent = kv.kind("example.com/v1", "Absent", namespaced=True)
    steady = kv.Controller.of(Widget).with_(concurrency=2, base_delay=100.0)

    def build(manager: kv.Manager) -> None:
        manager.add(steady.reconciled_by(By(reconcile)))
        manager.add(kv.Controller.of(absent).reconciled_by(By(reconcile)))

    lab.expects(ValueError, "no")
    await lab.start(build, absent=[absent])
    for mode in ("plain", "fails", "hangs"):
        await lab.create(widget(mode, mode=mode))
    await asyncio.sleep(5)


async def test_debug_probes_and_explain_print_camel_case_keys(lab: Lab) -> None:
    await busy(lab)
    manager = lab.manager
    checks = [*checks_of(manager.report()), *informer_checks(manager.debug()["informers"]())]
    found = {name: printed(page()) for name, page in manager.debug().items()}
    found["overview"] = printed(await manager.overview())
    found["tasks"] = printed(tasks_of(asyncio.get_running_loop()))
    found["readyz"] = json.loads(answer("readyz", checks, Question(as_json=True, exclude=frozenset({"no-such"}))).body)
    for name in ("plain", "fails", "hangs"):
        body = msgspec.json.encode(manager.explain("widget", lab.namespace, name), enc_hook=str)
        with daemon(body) as url:
            command = ["explain", f"widget/{name}", "-n", lab.namespace, "-o", "json", "--url", url]
            result = await asyncio.to_thread(CliRunner().invoke, program, command)
        assert result.exit_code == 0, result.output
        found[f"explain{name}"] = json.loads(result.stdout)
    assert list(odd_keys(found)) == []
    # The walk reached the nested parts.
    assert {
        "lastTransitionTime",
        "nextRun",
        "inSeconds",
        "unknownExclusions",
        "watchAge",
        "problem",
        "leftOut",
    } <= keys_in(found)


@pytest.mark.parametrize(
    "command",
    [
        ["config"],
        ["config", "--set", 'apps.forbidden_versions=[{"chart": "shop", "versions": ">=1.2.0"}]'],
        ["crds"],
        ["rbac", "--service-account", "konverge-system/konverge"],
        ["webhooks", "--service", "konverge-system/konverge"],
    ],
    ids=" ".join,
)
def test_a_command_prints_camel_case_keys(command: list[str]) -> None:
    result = CliRunner().invoke(program, [*command, "-o", "json"])
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert found
    assert list(odd_keys(found)) == []


async def test_a_migration_prints_camel_case_keys(capsys: pytest.CaptureFixture[str]) -> None:
    async with ApiServer(random=Random(1)) as server, Client(server.config(), name="admin", random=Random(2)) as client:
        await install_crds(client, [crd(ResourcePool), crd(ResourcePoolClaim)])
        await migration_world(client)
        migration = plan(await tenant_seen(client, "migration"), headroom=Fraction(0))
    print_migration(migration, "migration", "json")
    found = json.loads(capsys.readouterr().out)
    assert len(found["items"]) > 1
    assert list(odd_keys(found)) == []


def test_a_plan_prints_camel_case_keys() -> None:
    cause = Cause("backup", "Backup web/a", ("created",))
    fields = (Difference(".spec.a", None, 1, added=True), Difference(".spec.b", 1, None, removed=True))
    change = ObjectChange(
        action="create", api_version="v1", kind="A", namespace="", name="a", fields=fields, causes=(cause,)
    )
    event = RecordedEvent("Backup web/a", "Normal", "Scheduled", "")
    untried = NotTried(controller="backup", calls="the S3 server", keys=("web/b",))
    failure = PlanFailure(controller="backup", key="web/c", error="no")
    report = PlanReport(changes=(change,), events=(event,), not_tried=(untried,), failed=(failure,), reconciled=1)
    data = printed(report.to_dict())
    assert {"apiVersion", "before", "after", "notTried", "objects"} <= keys_in(data)
    assert list(odd_keys(data)) == []


def test_no_other_command_prints_json() -> None:
    def with_json(group: click.Group, path: str = "") -> Iterator[str]:
        context = click.Context(group)
        for name in group.list_commands(context):
            command = group.get_command(context, name)
            if isinstance(command, click.Group):
                yield from with_json(command, f"{path}{name} ")
            elif command is not None and any("json" in getattr(one.type, "choices", ()) for one in command.params):
                yield path + name

    assert isinstance(program, click.Group)
    assert set(with_json(program)) == {
        "config",
        "crds",
        "rbac",
        "webhooks",
        "explain",
        "plan",
        "quota migrate",
        "replay",
    }
