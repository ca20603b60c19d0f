"""Every verb applies None of a nullable field as null, and sends no other None."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import pytest
from pydantic import Field

import konverge as kv
from konverge.crds import Nullable, PartialModel, PartialResource, crd
from konverge.kinds import Resource, kind_of
from konverge_testing import Lab, install_crds

Verb = Callable[[kv.Context[Any], Resource], Any]


class Part(kv.Model):
    name: str
    mode: Annotated[str | None, Nullable()] = "full"


class ChildSpec(kv.Model):
    mode: Annotated[str | None, Nullable()] = "full"
    size: int | None = None
    part: Part | None = None
    parts: tuple[Part, ...] = ()
    limits: dict[str, str] | None = None


class ChildStatus(kv.Status):
    phase: Annotated[str | None, Nullable()] = "unknown"
    note: str | None = None


class ParentSpec(kv.Model):
    n: int = 0


class ParentStatus(kv.Status):
    progress: Annotated[str | None, Nullable()] = "unknown"
    note: str | None = None
    totals: dict[str, int] = Field(default_factory=dict)


@kv.resource("nulls.example.com/v1", conditions=("Ready",))
class Child(kv.CustomResource[ChildSpec, ChildStatus]):
    """A child."""


@kv.resource("nulls.example.com/v1", conditions=("Ready",))
class Parent(kv.CustomResource[ParentSpec, ParentStatus]):
    """A parent."""


class ChildView(PartialResource):
    spec: PartialModel


MODEL = Child.new(
    "made", spec=ChildSpec(mode=None, size=None, part=Part(name="a", mode=None), parts=(Part(name="b", mode=None),))
)
PLAIN = {
    "mode": None,
    "size": None,
    "part": {"name": "a", "mode": None},
    "parts": [{"name": "b", "mode": None}],
    "limits": {"cpu": None},
}
STORED = {"mode": None, "part": {"name": "a", "mode": None}, "parts": [{"name": "b", "mode": None}]}
THIN = kv.kind("nulls.example.com/v1", "Child")
VIEW = kv.kind("nulls.example.com/v1", "Child", model=ChildView)


def in_namespace(what: str, namespace: str) -> Resource:
    if what == "model":
        return Child.decode({**MODEL.to_dict(), "metadata": {"name": "made", "namespace": namespace}})
    return (THIN if what == "dict" else VIEW).new("made", namespace, spec=PLAIN)


async def own(ctx: kv.Context[Any], child: Resource) -> None:
    await ctx.own(child)


async def apply(ctx: kv.Context[Any], child: Resource) -> None:
    await ctx.apply(child)


async def execute(ctx: kv.Context[Any], child: Resource) -> None:
    await ctx.execute(kv.Plan(children=(child,)))


async def apply_children(ctx: kv.Context[Any], child: Resource) -> None:
    await ctx.apply_children((child,))


async def client_apply(ctx: kv.Context[Any], child: Resource) -> None:
    await ctx.client.apply(kind_of(child), child.to_dict())


class Makes:
    def __init__(self, verb: Verb, what: str) -> None:
        self.verb, self.what = verb, what
        self.reconciles = 0

    async def reconcile(self, parent: Parent, ctx: kv.Context[Parent]) -> kv.Outcome:
        self.reconciles += 1
        await self.verb(ctx, in_namespace(self.what, parent.namespace))
        ctx.status.draft.progress = None
        ctx.status.draft.note = None
        ctx.status.set_condition("Ready", True, "Made", f"{parent.spec.n}")
        return kv.Done()


def build(makes: Makes) -> Callable[[kv.Manager], None]:
    def add(manager: kv.Manager) -> None:
        manager.add(kv.Controller.of(Parent).owns(Child).reconciled_by(makes))

    return add


@pytest.mark.parametrize("what", ["model", "dict", "view"])
@pytest.mark.parametrize("verb", [own, apply, execute, apply_children, client_apply])
async def test_a_null_that_is_a_value_is_applied_and_stays(lab: Lab, verb: Verb, what: str) -> None:
    makes = Makes(verb, what)
    await lab.start(build(makes))
    await lab.create(Parent.new("p", spec=ParentSpec()))
    await lab.until(Parent, "p", kv.is_true("Ready"))
    child = await lab.get(Child, "made")
    limits: dict[str, Any] = {} if what == "model" else {"limits": {}}
    assert child.to_dict()["spec"] == {**STORED, **limits}
    before = makes.reconciles
    await lab.patch(Parent, "p", {"spec": {"n": 1}})
    await lab.until(Parent, "p", lambda parent: parent.condition("Ready").message == "1")
    assert makes.reconciles > before
    if verb is not client_apply:  # it compares nothing
        assert (await lab.get(Child, "made")).metadata.resource_version == child.metadata.resource_version


async def test_a_status_holds_the_nulls_that_are_values(lab: Lab) -> None:
    await lab.start(build(Makes(own, "model")))
    await lab.create(Parent.new("p", spec=ParentSpec()))
    await lab.until(Parent, "p", kv.is_true("Ready"))
    status = (await lab.get(kv.kind("nulls.example.com/v1", "Parent"), "p")).status
    assert status["progress"] is None
    assert "note" not in status


async def test_a_field_that_was_not_set_gets_the_default_of_the_server(lab: Lab) -> None:
    await install_crds(lab.client, [crd(Child)])
    stored = await lab.client.apply(Child, Child.new("unset", lab.namespace, spec=ChildSpec()).to_dict())
    assert stored.spec == {"mode": "full"}


async def test_a_none_set_in_a_field_of_the_status_removes_the_field(lab: Lab) -> None:
    class Notes:
        async def reconcile(self, parent: Parent, ctx: kv.Context[Parent]) -> kv.Outcome:
            ctx.status.draft.note = "first" if parent.spec.n == 0 else None
            ctx.status.draft.progress = "half" if parent.spec.n == 0 else None
            ctx.status.set_condition("Ready", True, "Noted", f"{parent.spec.n}")
            return kv.Done()

    await lab.start(lambda manager: manager.add(kv.Controller.of(Parent).reconciled_by(Notes())))
    await lab.create(Parent.new("p", spec=ParentSpec()))
    await lab.until(Parent, "p", lambda parent: parent.status.note == "first")
    await lab.patch(Parent, "p", {"spec": {"n": 1}})
    await lab.until(Parent, "p", lambda parent: parent.condition("Ready").message == "1")
    status = (await lab.get(kv.kind("nulls.example.com/v1", "Parent"), "p")).status
    assert status["progress"] is None
    assert "note" not in status


@pytest.mark.parametrize("verb", [own, apply, execute])
async def test_a_map_that_an_intent_empties_is_removed(lab: Lab, verb: Verb) -> None:
    class Empties:
        async def reconcile(self, parent: Parent, ctx: kv.Context[Parent]) -> kv.Outcome:
            limits = {"cpu": "1"} if parent.spec.n == 0 else {}
            await verb(ctx, Child.new("made", parent.namespace, spec=ChildSpec(limits=limits)))
            ctx.status.draft.totals = dict.fromkeys(limits, 1)
            ctx.status.set_condition("Ready", True, "Made", f"{parent.spec.n}")
            return kv.Done()

    await lab.start(lambda manager: manager.add(kv.Controller.of(Parent).owns(Child).reconciled_by(Empties())))
    await lab.create(Parent.new("p", spec=ParentSpec()))
    await lab.until(Parent, "p", lambda parent: parent.status.totals == {"cpu": 1})
    await lab.patch(Parent, "p", {"spec": {"n": 1}})
    parent = await lab.until(Parent, "p", lambda parent: parent.condition("Ready").message == "1")
    assert parent.status.totals == {}
    await lab.settled()
    assert not (await lab.get(Child, "made")).spec.limits
