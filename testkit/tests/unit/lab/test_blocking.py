"""Calls that block the loop are findings, wherever they are in the code; work in threads may block."""

import asyncio
import contextlib
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Coroutine
from operator import attrgetter
from time import sleep as imported_sleep  # noqa: TID251  # the name in a module is the subject
from typing import Any

import pytest
from widgets import By, Widget, widget

import konverge as kv
from konverge_testing import Lab
from konverge_testing.blocking import BlockingCall, refused
from konverge_testing.lab import Plan
from konverge_testing.lab.runs import run
from konverge_testing.loop import VirtualTimeLoop


def current_sleep() -> Callable[[float], None]:
    """Return the current function of the module `time`."""
    found: Callable[[float], None] = attrgetter("sleep")(time)
    return found


def findings_of(main: Coroutine[Any, Any, None]) -> list[str]:
    """Run a coroutine on a virtual loop; return the reported findings."""
    findings = list[str]()
    loop = VirtualTimeLoop()
    try:
        with refused(findings.append):
            loop.run_until_complete(main)
    finally:
        loop.close()
    return findings


def on_a_virtual_loop(call: Callable[[], Any]) -> list[str]:
    """Run a function in a task; return the reported findings."""

    async def main() -> None:
        with contextlib.suppress(BlockingCall, OSError):
            call()

    return findings_of(main())


def connect() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()):
        pass


CALLS: dict[str, Callable[[], Any]] = {
    "time.sleep(0.001)": lambda: current_sleep()(0.001),
    "time.sleep(0.002)": lambda: imported_sleep(0.002),
    "socket.getaddrinfo('127.0.0.1')": connect,
    "socket.gethostbyname('localhost')": lambda: socket.gethostbyname("localhost"),
    "subprocess.Popen": lambda: subprocess.run([sys.executable, "-V"], check=True, capture_output=True),
    "socket.getaddrinfo('127.0.0.2')": lambda: urllib.request.urlopen("http://127.0.0.2:1/", timeout=0.1),
}


@pytest.mark.parametrize("words", CALLS)
def test_call_that_blocks_the_loop_is_refused_and_reported_with_location(words: str) -> None:
    [found] = on_a_virtual_loop(CALLS[words])
    assert found.startswith(words)
    assert f" at {__file__}:" in found
    assert "blocks the event loop: await the asyncio form of it" in found


def test_a_socket_that_blocks_is_refused_when_it_connects() -> None:
    def call() -> None:
        with socket.socket() as one:
            one.connect(("127.0.0.1", 1))

    [found] = on_a_virtual_loop(call)
    assert found.startswith("socket.connect(('127.0.0.1', 1))")


def test_asyncio_itself_causes_no_finding() -> None:
    async def main() -> None:
        await asyncio.sleep(60)
        await asyncio.to_thread(current_sleep(), 0.001)
        async with await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0) as server:
            _, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            writer.close()
        program = await asyncio.create_subprocess_exec(sys.executable, "-V", stdout=asyncio.subprocess.PIPE)
        await program.communicate()

    assert findings_of(main()) == []


def test_nothing_is_refused_outside_of_the_lab() -> None:
    before = current_sleep()
    with refused(pytest.fail):
        assert current_sleep() is not before
        current_sleep()(0.001)  # no virtual loop runs here
    assert current_sleep() is before
    connect()


async def sleepy(_: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
    with contextlib.suppress(Exception):  # as an operator that logs errors and continues
        current_sleep()(3600)
    ctx.status.set_condition("Ready", True, "Rested")
    return kv.Done()


def test_sleeping_reconciler_is_a_finding_even_if_it_swallows_the_error() -> None:
    async def scenario(lab: Lab) -> None:
        await lab.start(lambda manager: manager.add(kv.Controller.of(Widget).reconciled_by(By(sleepy))))
        await lab.create(widget())
        await lab.until(Widget, "one", kv.is_true("Ready"))

    result = run(scenario, Plan(name="reference"))
    assert [problem.partition(" at ")[0] for problem in result.problems] == ["time.sleep(3600)"]
