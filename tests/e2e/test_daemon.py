"""The daemon as a process against a real API server: start, readiness, probes, rights, logs, signals, and how it ends."""

import asyncio
import json
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml
from event_loops import LOOPS

from konverge.client import Client
from konverge.errors import NotFound
from konverge.kinds import Kind, kind
from konverge.objects import Object
from konverge_testing.control_plane import ControlPlane

pytestmark = pytest.mark.control_plane

EXAMPLES = Path(__file__).parents[2] / "examples"
BACKUP = kind("example.com/v1", "Backup")
APPLICATION_INSTANCE = kind("apps.vworkspace.io/v1alpha1", "ApplicationInstance")
CRD = kind("apiextensions.k8s.io/v1", "CustomResourceDefinition", namespaced=False)
CONFIG_MAP = kind("v1", "ConfigMap")

PATIENCE = 60.0

SLOW = """
import asyncio
import konverge as kv

CONFIG_MAP = kv.kind("v1", "ConfigMap")

class Slow:
    async def reconcile(self, thing, ctx):
        if thing.name != "slow":
            return kv.Done()
        ctx.log.warning("the pass has begun")
        await asyncio.sleep(float(thing.get("data", "seconds")))
        await ctx.patch(CONFIG_MAP, thing.name, thing.namespace, patch={"metadata": {"annotations": {"passed": "true"}}})
        return kv.Done()

def build(manager):
    manager.add(kv.Controller.of(CONFIG_MAP).named("slow").needs(kv.Rule("", ("configmaps",), ("patch",))).reconciled_by(Slow()))
"""

LATE = '''
import konverge as kv

class LateSpec(kv.Model):
    size: int = 1

@kv.resource("GROUP/v1", conditions=("Ready",))
class Late(kv.CustomResource[LateSpec, kv.Status]):
    """A kind whose definition comes late."""

class Reconciler:
    async def reconcile(self, late, ctx):
        ctx.status.set_condition("Ready", True, "Seen")
        return kv.Done()

def build(manager):
    manager.add(kv.Controller.of(Late).reconciled_by(Reconciler()))
'''


class Process:
    """A running command: its log lines, its exit code."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._news = asyncio.Condition()
        self.lines: list[dict[str, Any]] = []
        self.text = ""
        self._reader = asyncio.create_task(self._read())

    async def _read(self) -> None:
        assert self._process.stderr is not None
        async for raw in self._process.stderr:
            async with self._news:
                self.text += raw.decode()
                try:
                    self.lines.append(json.loads(raw))
                except ValueError:
                    self.lines.append({"event": raw.decode().rstrip()})
                self._news.notify_all()

    async def said(self, event: str) -> dict[str, Any]:
        """Wait for a log line with this beginning."""

        def found() -> dict[str, Any] | None:
            return next((line for line in self.lines if str(line.get("event", "")).startswith(event)), None)

        try:
            async with asyncio.timeout(PATIENCE), self._news:
                await self._news.wait_for(lambda: found() is not None)
        except TimeoutError:
            raise AssertionError(f"never said {event!r}; it said:\n{self.text}") from None
        line = found()
        assert line is not None
        return line

    async def url(self, part: str) -> str:
        return str((await self.said("serving"))[part])

    def send(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    async def ended(self, within: float = PATIENCE) -> int:
        """Wait for the exit code."""
        async with asyncio.timeout(within):
            code = await self._process.wait()
            await self._reader
        return code

    async def kill(self) -> None:
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()
        await self._reader


def environment(kubeconfig: Path) -> dict[str, str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("KONVERGE_")}
    return {**clean, "KUBECONFIG": str(kubeconfig)}


@asynccontextmanager
async def running(*words: str, kubeconfig: Path, cwd: Path = EXAMPLES, **variables: str) -> AsyncIterator[Process]:
    """Run `konverge run` with free ports and JSON logs, until the block ends."""
    ports = ("--metrics", "127.0.0.1:0", "--health", "127.0.0.1:0", "--debug", "127.0.0.1:0", "--log-format", "json")
    process = Process(
        await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "konverge.daemon.main", "run", *words, *ports),
            cwd=cwd,
            env={**environment(kubeconfig), **variables},
            stderr=asyncio.subprocess.PIPE,
        )
    )
    try:
        yield process
    finally:
        await process.kill()


async def konverge(*words: str, kubeconfig: Path, cwd: Path = EXAMPLES) -> tuple[int, str]:
    """Run a command until it exits; returns its exit code and its output."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "konverge.daemon.main", *words),
        cwd=cwd,
        env=environment(kubeconfig),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    out, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out.decode()


async def get(url: str) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session, session.get(url) as response:
        return response.status, await response.text()


async def until(look: Callable[[], Awaitable[Any]], wanted: Callable[[Any], bool], what: str) -> Any:
    """Poll until a test holds; a failure shows the last result."""
    seen: Any = None
    try:
        async with asyncio.timeout(PATIENCE):
            while not wanted(seen := await look()):
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise AssertionError(f"{what}; last seen: {seen}") from None
    return seen


async def ready(process: Process) -> str:
    """Wait until it is ready; returns the address of its health server."""
    url = await process.url("health")
    await until(lambda: get(f"{url}/readyz"), lambda answer: answer[0] == 200, "not ready")
    return url


async def found(client: Client, what: Kind[Object], namespace: str, name: str) -> Object | None:
    try:
        return await client.get(what, name, namespace)
    except NotFound:
        return None


@pytest.fixture
async def _backups(admin_kubeconfig: Path) -> None:
    code, said = await konverge("crds", "backup_operator:build", "--apply", kubeconfig=admin_kubeconfig)
    assert (code, said.startswith("customresourcedefinition/backups.example.com ")) == (0, True), said


# --- a working day ------------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("_backups")
@pytest.mark.parametrize("loop", LOOPS)
async def test_an_operator_runs_tells_and_ends_in_good_order(
    admin: Client, admin_kubeconfig: Path, namespace: str, loop: str
) -> None:
    async with running(
        "backup_operator:build",
        "-n",
        namespace,
        "--log-level",
        "debug",
        kubeconfig=admin_kubeconfig,
        KONVERGE_EVENT_LOOP=loop,
    ) as process:
        url = await ready(process)
        assert (await process.said("serving"))["event_loop"] == loop
        await admin.create(BACKUP.new("nightly", namespace, spec={"schedule": "0 3 * * *"}))

        async def condition() -> Any:
            return (await admin.get(BACKUP, "nightly", namespace)).find_condition("Ready")

        seen = await until(condition, lambda here: here is not None, "no condition")
        assert seen.reason == "SecretMissing"

        assert (await get(f"{url}/healthz"))[0] == 200
        status, verbose = await get(f"{url}/readyz?verbose")
        assert status == 200
        assert "[+]controller/backup ok\n" in verbose
        assert "[+]informer/Secret in " in verbose

        status, metrics = await get(await process.url("metrics") + "/metrics")
        assert status == 200
        assert 'controller_runtime_reconcile_total{controller="backup",result="success"} ' in metrics
        assert "workqueue_depth{" in metrics
        assert "process_resident_memory_bytes" in metrics
        assert "_created" not in metrics

        code, told = await konverge("explain", "bk/nightly", "-n", namespace, "--url", url, kubeconfig=admin_kubeconfig)
        assert code == 0
        assert f"Backup {namespace}/nightly, controller backup" in told
        assert "because of: " in told
        assert "It runs next when something changes." in told

        process.send(signal.SIGTERM)
        assert await process.ended() == 0
        line = next(  # the line for each reconcile has level debug, because a busy controller writes many
            line for line in process.lines if line["event"] == "reconciled" and line["key"] == f"{namespace}/nightly"
        )
        assert {"controller", "reconcile_id", "reasons", "timestamp", "level"} <= set(line)
        assert [line["event"] for line in process.lines if line.get("logger") == "konverge.daemon"][-1] == "stopped"
        assert all("timestamp" in line for line in process.lines), process.text


async def test_applying_definitions_twice_changes_nothing(
    admin: Client, admin_kubeconfig: Path, tmp_path: Path
) -> None:
    group = "twice.example.com"
    (tmp_path / "late_operator.py").write_text(LATE.replace("GROUP", group))
    name = f"lates.{group}"
    try:
        results = [
            await konverge("crds", "late_operator:build", *flags, kubeconfig=admin_kubeconfig, cwd=tmp_path)
            for flags in (("--apply", "--dry-run"), ("--apply",), ("--apply",), ("--apply", "-o", "json"))
        ]
    finally:
        await admin.delete(CRD, name)
    assert results[:3] == [
        (0, f"customresourcedefinition/{name} created (dry run)\n"),
        (0, f"customresourcedefinition/{name} created\n"),
        (0, f"customresourcedefinition/{name} unchanged\n"),
    ]
    assert json.loads(results[3][1]) == [{"name": name, "result": "unchanged"}]


async def test_a_missing_definition_is_named_and_its_coming_is_enough(
    admin: Client, admin_kubeconfig: Path, namespace: str, tmp_path: Path
) -> None:
    group = "late.example.com"
    (tmp_path / "late_operator.py").write_text(LATE.replace("GROUP", group))
    async with running("late_operator:build", kubeconfig=admin_kubeconfig, cwd=tmp_path) as process:
        url = await process.url("health")
        status, said = await until(
            lambda: get(f"{url}/readyz"), lambda answer: "konverge crds --apply" in answer[1], "does not say what to do"
        )
        assert status == 500
        assert "[-]controller/late failed: " in said
        assert (await get(f"{url}/healthz"))[0] == 200
        try:
            await konverge("crds", "late_operator:build", "--apply", kubeconfig=admin_kubeconfig, cwd=tmp_path)
            await ready(process)
        finally:
            await admin.delete(CRD, f"lates.{group}")


@pytest.mark.usefixtures("_backups")
async def test_the_printed_rights_are_enough_and_without_them_they_are_named(
    control_plane: ControlPlane, admin: Client, admin_kubeconfig: Path, namespace: str
) -> None:
    kubeconfig = await control_plane.service_account_kubeconfig(namespace, "operator")
    async with running("backup_operator:build", "-n", namespace, kubeconfig=kubeconfig) as process:
        url = await process.url("health")
        _, said = await until(
            lambda: get(f"{url}/readyz?verbose"), lambda answer: "apiGroups:" in answer[1], "does not name the rule"
        )
        assert "[-]controller/backup failed: " in said
        code, manifests = await konverge(
            *("rbac", "backup_operator:build", "-n", namespace, "--service-account", f"{namespace}/operator"),
            kubeconfig=admin_kubeconfig,
        )
        assert code == 0
        assert [document["kind"] for document in yaml.safe_load_all(manifests)] == ["Role", "RoleBinding"]
        await control_plane.kubectl("apply", "-f", "-", stdin=manifests)
        await ready(process)
        await admin.create(kind("v1", "Secret").new("target", namespace, data={"url": "czM6Ly9i"}))
        await admin.create(BACKUP.new("nightly", namespace, spec={"schedule": "0 3 * * *"}))
        await until(
            lambda: found(admin, kind("batch/v1", "CronJob"), namespace, "nightly"),
            lambda job: job is not None,
            "no CronJob",
        )

        async def dropped() -> str:
            return (await get(await process.url("metrics") + "/metrics"))[1]

        assert "konverge_events_dropped_total{" not in await dropped()
        assert "czM6Ly9i" not in process.text


@pytest.mark.usefixtures("_backups")
async def test_a_program_with_kv_run_is_the_same_daemon(admin_kubeconfig: Path, namespace: str) -> None:
    variables = {
        "KONVERGE_NAMESPACE": namespace,
        "KONVERGE_METRICS": "0",
        "KONVERGE_HEALTH": "127.0.0.1:0",
        "KONVERGE_DEBUG": "127.0.0.1:0",
        "KONVERGE_LOG_FORMAT": "json",
    }
    process = Process(
        await asyncio.create_subprocess_exec(
            *(sys.executable, str(EXAMPLES / "backup_operator.py")),
            env={**environment(admin_kubeconfig), **variables},
            stderr=asyncio.subprocess.PIPE,
        )
    )
    try:
        await ready(process)
        process.send(signal.SIGINT)
        assert await process.ended() == 0
    finally:
        await process.kill()


async def test_our_own_families_run_with_exactly_the_printed_rights(
    control_plane: ControlPlane, admin: Client, admin_kubeconfig: Path, namespace: str
) -> None:
    code, said = await konverge("crds", "--apply", kubeconfig=admin_kubeconfig)
    assert code == 0, said
    account = f"{namespace}/konverge"
    _, manifests = await konverge("rbac", "-n", namespace, "--service-account", account, kubeconfig=admin_kubeconfig)
    kubeconfig = await control_plane.service_account_kubeconfig(namespace, "konverge")
    await control_plane.kubectl("apply", "-f", "-", stdin=manifests)
    placeholder = {"mode": "placeholder", "appRef": {"catalogId": "mail"}}
    async with running("-n", namespace, kubeconfig=kubeconfig) as process:
        url = await ready(process)
        await admin.create(APPLICATION_INSTANCE.new("mail", namespace, spec=placeholder))

        async def condition() -> Any:
            return (await admin.get(APPLICATION_INSTANCE, "mail", namespace)).find_condition("Ready")

        await until(condition, lambda here: here is not None, "no condition")
        _, told = await konverge("explain", "appinst/mail", "-n", namespace, "--url", url, kubeconfig=admin_kubeconfig)
        assert "controller applicationinstance" in told
        process.send(signal.SIGTERM)
        assert await process.ended() == 0
        assert [
            line for line in process.lines if line.get("level") == "error"
        ] == []  # Flux is absent: warnings, no more


# --- ends ---------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def slow_operator(tmp_path: Path) -> Path:
    (tmp_path / "slow_operator.py").write_text(SLOW)
    return tmp_path


@pytest.mark.parametrize("loop", LOOPS)
async def test_a_running_reconcile_ends_before_the_process_does(
    admin: Client, admin_kubeconfig: Path, namespace: str, loop: str, slow_operator: Path
) -> None:
    words = ("slow_operator:build", "-n", namespace)
    async with running(*words, kubeconfig=admin_kubeconfig, KONVERGE_EVENT_LOOP=loop, cwd=slow_operator) as process:
        await admin.create(CONFIG_MAP.new("slow", namespace, data={"seconds": "1.5"}))
        await process.said("the pass has begun")
        url = await process.url("health")
        process.send(signal.SIGTERM)
        await process.said("stopping")
        status, said = await get(f"{url}/readyz")
        assert (status, "[-]manager failed: stopping" in said) == (500, True)
        assert (await get(f"{url}/healthz"))[0] == 200
        assert await process.ended() == 0
    assert (await admin.get(CONFIG_MAP, "slow", namespace)).metadata.annotation("passed") == "true", process.text


@pytest.mark.parametrize("loop", LOOPS)
async def test_a_reconcile_that_does_not_end_is_cut_off_after_the_drain(
    admin: Client, admin_kubeconfig: Path, namespace: str, loop: str, slow_operator: Path
) -> None:
    words = ("slow_operator:build", "-n", namespace, "--drain", "0.5")
    async with running(*words, kubeconfig=admin_kubeconfig, KONVERGE_EVENT_LOOP=loop, cwd=slow_operator) as process:
        await admin.create(CONFIG_MAP.new("slow", namespace, data={"seconds": "600"}))
        await process.said("the pass has begun")
        process.send(signal.SIGTERM)
        assert await process.ended(within=22) == 0  # less than the drain of 25 s if none is given
    assert (await admin.get(CONFIG_MAP, "slow", namespace)).metadata.annotation("passed") == ""


@pytest.mark.parametrize("loop", LOOPS)
async def test_a_second_signal_ends_the_process_at_once(
    admin: Client, admin_kubeconfig: Path, namespace: str, loop: str, slow_operator: Path
) -> None:
    words = ("slow_operator:build", "-n", namespace)
    async with running(*words, kubeconfig=admin_kubeconfig, KONVERGE_EVENT_LOOP=loop, cwd=slow_operator) as process:
        await admin.create(CONFIG_MAP.new("slow", namespace, data={"seconds": "600"}))
        await process.said("the pass has begun")
        process.send(signal.SIGTERM)
        await process.said("stopping")
        process.send(signal.SIGTERM)
        assert await process.ended(within=22) == 128 + signal.SIGTERM  # less than the drain of 25 s


async def test_a_port_that_is_taken_ends_the_process_with_one_line(admin_kubeconfig: Path, slow_operator: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        code, said = await konverge(
            *("run", "slow_operator:build", "--health", address, "--debug", address, "--metrics", "0"),
            kubeconfig=admin_kubeconfig,
            cwd=slow_operator,
        )
    assert code == 1
    assert said.startswith(f"Error: cannot listen on {address} for debug and health: ")
    assert "Traceback" not in said


async def test_a_mistake_in_a_build_ends_the_process_with_one_line(admin_kubeconfig: Path, tmp_path: Path) -> None:
    (tmp_path / "twice_operator.py").write_text(
        SLOW + "\n_build = build\ndef build(m):\n    _build(m)\n    _build(m)\n"
    )
    code, said = await konverge("run", "twice_operator:build", kubeconfig=admin_kubeconfig, cwd=tmp_path)
    assert code == 1
    assert said.startswith("Error: two controllers are named 'slow'")
