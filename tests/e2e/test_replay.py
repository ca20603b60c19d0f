"""A recording of an operator on a real control plane: it survives SIGKILL, and becomes a test."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

import konverge as kv
from konverge.client import Client, ClientConfig
from konverge.recording import RecordedReconcile, read_recording
from konverge_testing import ControlPlane

pytestmark = pytest.mark.control_plane

PROGRAM = Path(__file__).parents[2] / "examples" / "queue_operator.py"
QUEUE = kv.kind("example.com/v1", "Queue")


class Folder:
    """A folder with the operator and its recording; programs run in it."""

    def __init__(self, path: Path, kubeconfig: Path) -> None:
        self.path = path
        self.tape = path / "tape"
        self._kubeconfig = kubeconfig

    def write(self, *, weeks: bool) -> None:
        text = PROGRAM.read_text()
        (self.path / PROGRAM.name).write_text(text if weeks else text.replace(', "w": 168', ""))

    async def start(self, *words: str) -> asyncio.subprocess.Process:
        clean = {name: value for name, value in os.environ.items() if not name.startswith("KONVERGE_")}
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", *words),
            cwd=self.path,
            env={**clean, "KUBECONFIG": str(self._kubeconfig), "KONVERGE_RECORD": str(self.tape)},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )

    async def output(self, *words: str) -> tuple[int, str]:
        process = await self.start(*words)
        out, _ = await process.communicate()
        return process.returncode or 0, out.decode()

    async def recorded(self, test: Callable[[RecordedReconcile], bool]) -> RecordedReconcile:
        """Return the first recorded reconcile that passes a test."""
        async with asyncio.timeout(60):
            while True:
                entries = read_recording(self.tape).reconciles if self.tape.exists() else []
                if (entry := next(filter(test, entries), None)) is not None:
                    return entry
                await asyncio.sleep(0.2)


@asynccontextmanager
async def killed(process: asyncio.subprocess.Process) -> AsyncIterator[None]:
    try:
        yield
    finally:
        process.send_signal(signal.SIGKILL)
        await process.communicate()


async def test_a_killed_operator_leaves_a_recording_that_becomes_a_test(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    folder, namespace = Folder(tmp_path, control_plane.kubeconfig), "recorded"
    folder.write(weeks=False)
    await control_plane.create_namespace(namespace)
    assert (await folder.output("konverge.daemon.main", "crds", "queue_operator:build", "--apply"))[0] == 0
    off = ("--metrics", "0", "--health", "0", "--debug", "0")
    leads = ("--set", "election.enabled=true", "--set", f"election.namespace={namespace}")
    run = ("konverge.daemon.main", "run", "queue_operator:build", "-n", namespace, *off, *leads)
    async with (
        Client(await ClientConfig.from_kubeconfig(control_plane.kubeconfig), name="test-admin") as client,
        killed(await folder.start(*run)),
    ):
        await client.create(QUEUE.new("orders", namespace, spec={"retention": "7d"}))
        await folder.recorded(lambda entry: entry.outcome == "Done" and bool(entry.writes))
        await client.patch(QUEUE, "orders", namespace, patch={"spec": {"retention": "2w"}}, style="merge")
        failed = await folder.recorded(lambda entry: entry.failed)
    assert (failed.outcome, failed.key.name) == ("KeyError", "orders")

    replay = ("konverge.daemon.main", "replay", "tape", "queue_operator:build", "--reconcile", str(failed.number))
    code, again = await folder.output(*replay, "--as-test", "test_orders.py")
    assert code == 0, again
    test = ("pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "test_orders.py")
    code, tested = await folder.output(*test)
    assert (code, "it ends as recorded" in tested) == (1, True), tested
    folder.write(weeks=True)
    code, shown = await folder.output(*replay, "--detailed-exitcode", "-o", "json")
    assert code == 2, shown
    assert json.loads(shown)["divergences"][0]["write"] == f"PATCH configmaps {namespace}/orders"
    code, tested = await folder.output(*test)
    assert code == 0, tested
