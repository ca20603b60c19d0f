"""Defaults of a status model, which are also defaults of the CRD: the server fills them in."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
from pydantic import Field
from widgets import By

import konverge as kv
from konverge.crds import ListMap
from konverge.crds.defaults import defaults_in, filled
from konverge_testing import Lab


class Part(kv.Model):
    name: str
    weight: int = 1


class TeamSpec(kv.Model):
    name: str = ""


class Usage(kv.Model):
    used: int = 0
    unit: str = "core"


class TeamStatus(kv.Status):
    members: int = 0
    phase: str = "Pending"
    lead: str | None = None
    usage: Usage = Usage()
    parts: Annotated[list[Part], ListMap("name")] = Field(default_factory=list)
    by_name: dict[str, Part] = Field(default_factory=dict)


@kv.resource("tests.konverge.dev/v1", conditions=("Ready",))
class Team(kv.CustomResource[TeamSpec, TeamStatus]):
    """A team."""


async def says_nothing(team: Team, ctx: kv.Context[Team]) -> kv.Outcome:
    return kv.Done()


async def marks_a_condition(team: Team, ctx: kv.Context[Team]) -> kv.Outcome:
    ctx.status.set_condition("Ready", True, "Counted")
    return kv.Done()


async def sets_what_is_the_default(team: Team, ctx: kv.Context[Team]) -> kv.Outcome:
    ctx.status.draft.members = 0
    ctx.status.draft.usage.used = 0
    return kv.Done()


async def sets_parts(team: Team, ctx: kv.Context[Team]) -> kv.Outcome:
    ctx.status.draft.members = 2
    ctx.status.draft.parts = [Part(name="a"), Part(name="b", weight=3)]
    ctx.status.draft.by_name = {"a": Part(name="a")}
    return kv.Done()


@pytest.mark.parametrize(
    "reconcile", [says_nothing, marks_a_condition, sets_what_is_the_default, sets_parts], ids=lambda one: one.__name__
)
async def test_a_status_default_costs_no_second_reconcile_and_no_second_write(lab: Lab, reconcile: Any) -> None:
    await lab.start(lambda manager: manager.add(kv.Controller.of(Team).reconciled_by(By(reconcile))))
    await lab.create(Team.new("one"))
    team = await lab.until(Team, "one", lambda found: found.status.observed_generation == 1)
    await lab.settled()
    history = lab.manager.runner("team").history.recent()
    assert [(one.reasons, one.writes) for one in history] == [(("created",), ("status",))]
    assert (team.status.phase, team.status.usage.unit) == ("Pending", "core")

    lab.manager.runner("team").resync_now()
    await lab.settled()
    assert [one.writes for one in lab.manager.runner("team").history.recent()] == [("status",), ()]


def test_defaults_are_filled_in_as_the_server_does_it() -> None:
    found = defaults_in(
        {
            "properties": {
                "a": {"type": "integer", "default": 0},
                "b": {"properties": {"c": {"default": "x"}}, "type": "object"},
                "list": {"items": {"properties": {"w": {"default": 1}, "n": {}}}},
                "map": {"additionalProperties": {"properties": {"w": {"default": 1}}}},
                "plain": {"type": "string"},
            }
        }
    )
    assert found is not None
    assert filled({}, found) == {"a": 0}
    given = {"a": 3, "b": {}, "list": [{"n": 1}, {"w": 2}, "odd"], "map": {"k": {}}, "plain": "p", "new": 1}
    before = repr(given)
    assert filled(given, found) == {
        "a": 3,
        "b": {"c": "x"},
        "list": [{"n": 1, "w": 1}, {"w": 2}, "odd"],
        "map": {"k": {"w": 1}},
        "plain": "p",
        "new": 1,
    }
    assert repr(given) == before
    assert defaults_in({"properties": {"plain": {"type": "string"}}}) is None
