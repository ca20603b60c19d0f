"""Random requests, apply by several managers above all, get the same responses from both servers.

A state machine draws requests on three names of three kinds and sends each to both; after each request the responses are compared, masked
like the cases' responses. It is derandomized: the same examples in every run. CONFORMANCE_EXAMPLES=500 draws more examples,
CONFORMANCE_STEPS sets their length.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextlib import AsyncExitStack
from itertools import count
from typing import Any, ClassVar

import pytest
from conformance.cases import Step
from conformance.masking import mask
from conformance.matrix import differences
from conformance.running import Runner
from conformance.setup import prepare
from conformance.targets import Target, memory_target, real_target
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from konverge_testing.control_plane import ControlPlane

pytestmark = [pytest.mark.control_plane, pytest.mark.timeout(3600)]

_EXAMPLES = int(os.environ.get("CONFORMANCE_EXAMPLES", "25"))
_STEPS = int(os.environ.get("CONFORMANCE_STEPS", "15"))

Data = dict[str, Any]

names = st.sampled_from(["a", "b"])
managers = st.sampled_from(["one", "two", "three"])
letters = st.sampled_from(["1", "2"])


def _some(options: dict[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[Data]:
    return st.fixed_dictionaries({}, optional=options)


metadata = _some(
    {
        "labels": _some({"x": letters, "y": letters}),
        "annotations": _some({"x": letters}),
        "finalizers": st.just(["example.com/hold"]),
    }
)


def _named(key: str, names: list[str], **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Data]:
    """An item of a list by its key, with all of the other fields."""
    required: dict[str, st.SearchStrategy[Any]] = {key: st.sampled_from(names), **fields}
    return st.fixed_dictionaries(required)


def _optional(key: str, names: list[str], **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Data]:
    """An item of a list by its key, with some of the other fields."""
    required: dict[str, st.SearchStrategy[Any]] = {key: st.sampled_from(names)}
    return st.fixed_dictionaries(required, optional=fields)


def _place(port: Any) -> tuple[Any, Any]:
    return port["port"], port.get("protocol", "TCP")


def _port() -> st.SearchStrategy[Data]:
    required: dict[str, st.SearchStrategy[Any]] = {"port": st.sampled_from([80, 443])}
    return st.fixed_dictionaries(required, optional={"protocol": st.sampled_from(["TCP", "UDP"]), "name": letters})


ports: st.SearchStrategy[list[Data]] = st.lists(_port(), max_size=2, unique_by=_place)
widget_spec = _some(
    {
        "color": st.sampled_from(["red", "blue", "green"]),
        "size": st.sampled_from([1, 60, -1]),
        "tags": st.lists(st.sampled_from(["p", "q", "r"]), max_size=2, unique=True),
        "ports": ports,
        "limits": _some({"cpu": letters, "mem": letters}),
        "owner": _some({"team": letters, "level": st.integers(1, 2)}),
        "pair": _some({"one": letters, "two": letters}),
        "steps": st.lists(st.fixed_dictionaries({"do": letters}), max_size=2),
        "free": _some({"known": st.integers(1, 2), "other": letters}),
    }
)
widget_status = _some(
    {
        "replicas": st.integers(0, 2),
        "conditions": st.lists(
            _named("type", ["Ready", "Good"], status=st.sampled_from(["True", "False"])),
            max_size=2,
            unique_by=lambda condition: str(condition["type"]),
        ),
    }
)
containers = st.lists(
    _optional(
        "name",
        ["m", "n"],
        image=st.sampled_from(["example.com/a:1", "example.com/a:2"]),
        env=st.lists(_optional("name", ["A", "B"], value=letters), max_size=2, unique_by=lambda one: str(one["name"])),
    ),
    min_size=1,
    max_size=2,
    unique_by=lambda container: str(container["name"]),
)
deployment_spec = st.fixed_dictionaries(
    {
        "selector": st.just({"matchLabels": {"app": "a"}}),
        "template": st.fixed_dictionaries(
            {"metadata": st.just({"labels": {"app": "a"}}), "spec": st.fixed_dictionaries({"containers": containers})}
        ),
    },
    optional={"replicas": st.integers(1, 2), "paused": st.booleans()},
)
bodies: dict[str, st.SearchStrategy[Data]] = {
    "cm": st.fixed_dictionaries(
        {"metadata": metadata}, optional={"data": _some({"a": letters, "b": letters, "c": letters})}
    ),
    "w": st.fixed_dictionaries({"metadata": metadata}, optional={"spec": widget_spec, "status": widget_status}),
    "deploy": st.fixed_dictionaries({"metadata": metadata, "spec": deployment_spec}),
}
objects = st.sampled_from(["w", "w", "cm", "deploy"]).flatmap(
    lambda kind: st.tuples(st.just(kind), names, bodies[kind])
)
targets = st.tuples(st.sampled_from(["w", "cm", "deploy"]), names)


class Servers:
    """Both servers, and the loop that runs the requests."""

    def __init__(self, plane: ControlPlane) -> None:
        self.loop = asyncio.new_event_loop()
        self.stack = AsyncExitStack()
        self.numbers = count(1)
        self.both: tuple[Target, Target] = self.loop.run_until_complete(self._enter(plane))

    async def _enter(self, plane: ControlPlane) -> tuple[Target, Target]:
        real = await self.stack.enter_async_context(real_target(plane))
        memory = await self.stack.enter_async_context(memory_target())
        await asyncio.gather(prepare(real), prepare(memory))
        return real, memory

    def close(self) -> None:
        self.loop.run_until_complete(self.stack.aclose())
        self.loop.close()


@pytest.fixture
def servers(control_plane: ControlPlane) -> Iterator[Servers]:
    both = Servers(control_plane)
    yield both
    both.close()


class Requests(RuleBasedStateMachine):
    """Sends the drawn requests to both servers and compares."""

    servers: ClassVar[Servers]

    @initialize()
    def begin(self) -> None:
        self.steps: list[Step] = []
        self.start()

    def start(self) -> None:
        self.namespace = f"r-{next(self.servers.numbers):05}"
        self.runners = [Runner(target, self.namespace) for target in self.servers.both]
        self.records: list[list[Data]] = [[], []]
        assert not self.compared(Step("POST ns", {"metadata": {"name": self.namespace}}))

    def send(self, step: Step) -> None:
        """Send a step to both. A difference counts only if the whole sequence repeats it: times of whole seconds cause some that do not
        repeat.
        """
        self.steps.append(step)
        found = self.compared(step)
        for _ in range(2):
            if found:
                self.start()
                found = next((one for one in map(self.compared, self.steps) if one), [])
        assert not found, "\n".join([f"{step.line} {step.body}: kube-apiserver | in memory", *found])

    def compared(self, step: Step) -> list[str]:
        """Send a step to both, and return how the responses so far differ."""

        async def both() -> list[Data]:
            return await asyncio.gather(*(runner.run(step) for runner in self.runners))

        answers = self.servers.loop.run_until_complete(both())
        for records, answer in zip(self.records, answers, strict=True):
            answer.pop("unexpected", None)
            records.append({**answer, "request": step.body})
        return differences(*(mask(records, self.namespace) for records in self.records))

    @rule(object_=objects, manager=managers, force=st.booleans(), dry=st.sampled_from([False, False, False, True]))
    def apply(self, object_: tuple[str, str, Data], manager: str, force: bool, dry: bool) -> None:
        kind, name, body = object_
        options = f"{'&force=true' if force else ''}{'&dryRun=All' if dry else ''}"
        self.send(Step(f"APPLY {kind}/{name}?fieldManager={manager}{options}", body, any=True))

    @rule(object_=objects, manager=managers)
    def apply_again_what_may_conflict(self, object_: tuple[str, str, Data], manager: str) -> None:
        kind, name, body = object_
        self.send(Step(f"APPLY {kind}/{name}?fieldManager={manager}", body, any=True))

    @rule(name=names, manager=managers, status=widget_status, force=st.booleans())
    def apply_status(self, name: str, manager: str, status: Data, force: bool) -> None:
        query = f"fieldManager={manager}{'&force=true' if force else ''}"
        self.send(Step(f"APPLY w/{name}/status?{query}", {"status": status}, any=True))

    @rule(object_=objects, manager=managers)
    def create(self, object_: tuple[str, str, Data], manager: str) -> None:
        kind, name, body = object_
        self.send(
            Step(
                f"POST {kind}?fieldManager={manager}",
                {**body, "metadata": {**body["metadata"], "name": name}},
                any=True,
            )
        )

    @rule(object_=objects, manager=managers, fresh=st.booleans())
    def update(self, object_: tuple[str, str, Data], manager: str, fresh: bool) -> None:
        kind, name, body = object_
        current = f"$({kind}-{name}.rv)" if fresh else "1"
        self.send(Step(f"GET {kind}/{name}", any=True, save=f"{kind}-{name}"))
        given = {**body["metadata"], "resourceVersion": current}
        self.send(Step(f"PUT {kind}/{name}?fieldManager={manager}", {**body, "metadata": given}, any=True))

    @rule(object_=objects, manager=managers)
    def merge_patch(self, object_: tuple[str, str, Data], manager: str) -> None:
        kind, name, body = object_
        self.send(Step(f"MERGE {kind}/{name}?fieldManager={manager}", body, any=True))

    @rule(name=names, manager=managers, status=widget_status)
    def merge_status(self, name: str, manager: str, status: Data) -> None:
        self.send(Step(f"MERGE w/{name}/status?fieldManager={manager}", {"status": status}, any=True))

    @rule(place=targets, field=st.sampled_from(["labels", "annotations", "finalizers"]))
    def remove_a_field_of_metadata(self, place: tuple[str, str], field: str) -> None:
        self.send(Step(f"MERGE {place[0]}/{place[1]}", {"metadata": {field: None}}, any=True))

    @rule(place=targets)
    def delete(self, place: tuple[str, str]) -> None:
        self.send(Step(f"DELETE {place[0]}/{place[1]}?propagationPolicy=Background", any=True))

    @rule(name=names, replicas=st.integers(0, 3), manager=managers)
    def scale(self, name: str, replicas: int, manager: str) -> None:
        self.send(Step(f"MERGE deploy/{name}/scale?fieldManager={manager}", {"spec": {"replicas": replicas}}, any=True))


def test_random_requests_get_the_same_responses_from_both_servers(servers: Servers) -> None:
    Requests.servers = servers
    run_state_machine_as_test(
        Requests,
        settings=settings(
            max_examples=_EXAMPLES,
            stateful_step_count=_STEPS,
            derandomize=True,
            database=None,
            deadline=None,
            phases=[Phase.generate, Phase.shrink],
            suppress_health_check=list(HealthCheck),
        ),
    )
