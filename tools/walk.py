"""The walk of one object: the files and functions of the library between the bytes of a watch event and the last request that they cause.

    python tools/walk.py            the files in the order of their first call
    python tools/walk.py --calls    each function, too (`make walk`)

A user changes one object over HTTP, so that its condition changes. The walk records each call of the manager until the server has the
status and the Event of the transition: the socket, the requeue, the reports and the metrics are included. A wrapper is a function on the
walk whose whole body hands its arguments to another function of the library. The test kit and the user's own client are left out.
"""

from __future__ import annotations

import argparse
import ast
import asyncio
import inspect
import sys
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from random import Random
from types import CodeType, FrameType
from typing import Any, Final

import structlog
from guard.program import LINKED, NAME, NAMESPACE, PACKAGE, Gauge, gauge

import konverge as kv
import konverge_testing
from konverge.client import Client, ClientConfig
from konverge.crds import crd
from konverge_testing import ApiServer
from konverge_testing.lab import install_crds
from konverge_testing.loop import VirtualTimeLoop

_KIT: Final = Path(konverge_testing.__file__).resolve().parent
_LOOP: Final = _KIT / "loop.py"
"""The loop of virtual time is below every call and hides none."""
_HIGH: Final = 5


class GaugeReconciler:
    """Reports a high target by its condition, so that a change of the target is a transition."""

    async def reconcile(self, gauge: Gauge, ctx: kv.Context[Gauge]) -> kv.Outcome:
        ctx.status.draft.seen = gauge.spec.target
        low = gauge.spec.target < _HIGH
        ctx.status.set_condition("Ready", low, "Low" if low else "High", "the target was read")
        return kv.Done()


@dataclass
class Walk:
    """The functions that were called, in the order of the first call of each."""

    functions: dict[CodeType, str] = field(default_factory=dict)
    """The file of each function."""

    @property
    def files(self) -> dict[str, list[CodeType]]:
        """The functions by file."""
        files: dict[str, list[CodeType]] = {}
        for code, file in self.functions.items():
            files.setdefault(file, []).append(code)
        return files

    @property
    def wrappers(self) -> list[CodeType]:
        """The functions that only call another function."""
        names = {code.co_name for code in self.functions}
        return [code for code in self.functions if is_wrapper(_source_of(code), names)]

    def note(self, frame: FrameType) -> None:
        """Record a call."""
        code = frame.f_code
        if code in self.functions or code.co_name.startswith("<"):
            return
        file = file_of(code.co_filename)
        if not file or any(map(_is_of_the_kit, _files_above(frame))):
            return
        self.functions[code] = file


@cache
def _is_of_the_kit(name: str) -> bool:
    path = Path(name).resolve()
    return _KIT in path.parents and path != _LOOP


@cache
def file_of(name: str) -> str:
    """Return a file of the library by its path within the package; "" for another file."""
    path = Path(name).resolve()
    for folder, room in LINKED.items():
        if folder in path.parents:
            return f"{room}/{path.relative_to(folder)}"
    return str(path.relative_to(PACKAGE)) if PACKAGE in path.parents else ""


def _files_above(frame: FrameType | None) -> Iterator[str]:
    while frame is not None:
        yield frame.f_code.co_filename
        frame = frame.f_back


def _source_of(code: CodeType) -> str:
    return textwrap.dedent(inspect.getsource(code))


def is_wrapper(source: str, names: Iterable[str]) -> bool:
    """Return whether a function does nothing but call one of the functions of these names.

    >>> is_wrapper("def get(self, key): return self._store.get(key)", {"get"})
    True
    >>> is_wrapper("def get(self, key): return self._store.get(key) or MISSING", {"get"})
    False
    """
    [function] = ast.parse(source).body
    assert isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
    body = [item for item in function.body if not (isinstance(item, ast.Expr) and isinstance(item.value, ast.Constant))]
    if len(body) != 1 or not isinstance(body[0], ast.Expr | ast.Return):
        return False
    value = body[0].value
    called = value.value if isinstance(value, ast.Await) else value
    if not isinstance(called, ast.Call):
        return False
    name = called.func.attr if isinstance(called.func, ast.Attribute) else getattr(called.func, "id", "")
    return name in set(names)


async def walk() -> Walk:
    """Change one object, and return the calls of its manager until the status and the Event are written."""
    result, missing, written = Walk(), {"status", "events"}, asyncio.Event()

    def profile(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and asyncio.current_task() is not user:
            result.note(frame)

    def on_call(call: Any, about: Any, _: object) -> None:
        missing.discard(about.subresource or about.resource)
        if not missing:
            sys.setprofile(None)
            written.set()

    user = asyncio.current_task()
    async with (
        ApiServer(random=Random(1), rbac=False) as server,  # uids, no secrets
        server.http() as shell,
        Client(server.config(), name="user", random=Random(2)) as client,  # no secrets
    ):
        await install_crds(client, [crd(Gauge)])
        await client.create(gauge(1))
        manager = kv.Manager(NAME, ClientConfig.direct(shell.url), random=Random(3))  # jitter
        manager.add(kv.Controller.of(Gauge).reconciled_by(GaugeReconciler()))
        async with manager:
            await asyncio.sleep(60)
            server.on_call.append(on_call)
            sys.setprofile(profile)
            await client.patch(Gauge, "gauge-1", NAMESPACE, patch={"spec": {"target": 7}}, style="merge")
            await written.wait()
    return result


def main() -> None:
    """Print the walk."""
    parser = argparse.ArgumentParser(description="Show the walk of one object through the library.")
    parser.add_argument("--calls", action="store_true", help="name each function")
    options = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(30))
    result = VirtualTimeLoop().run_until_complete(walk())
    wrappers = set(result.wrappers)
    for file, functions in result.files.items():
        print(f"{file:44} {len(functions):3} functions")
        for code in functions if options.calls else ():
            print(f"    {code.co_qualname}{'   (hands on)' if code in wrappers else ''}")
    print(f"{len(result.files)} files, {len(result.functions)} functions, {len(wrappers)} of them wrappers")


if __name__ == "__main__":
    main()
