"""The test of films that a farm renders."""

import pytest
from render_operator import JOB, Film, build

import konverge as kv
from konverge_testing import Lab

PAUSED = "example.com/paused"


@pytest.mark.scenario
async def test_a_paused_film_is_not_rendered_until_it_is_resumed(lab: Lab) -> None:
    await lab.start(build)
    await lab.create(Film.new("dune", annotations={PAUSED: "true"}))
    await lab.until(Film, "dune", kv.is_true("Paused"))
    assert await lab.find(JOB, "dune") is None
    await lab.patch(Film, "dune", {"metadata": {"annotations": {PAUSED: None}}})
    film = await lab.until(Film, "dune", kv.is_true("Ready"))
    assert film.condition("Paused").is_false
    await lab.until(JOB, "dune", lambda job: bool(job.spec))
