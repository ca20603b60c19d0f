"""The test of films that a farm renders."""

import pytest
from render_operator import JOB, Film, build, previews_first, spare_the_farm

import konverge as kv
from konverge_testing import Lab

PAUSED = "example.com/paused"


def test_previews_are_first_and_a_farm_that_is_down_is_spared() -> None:
    preview = Film.new("trailer", labels={"example.com/quality": "preview"})
    assert previews_first(preview.metadata, "created") > previews_first(Film.new("dune").metadata, "created")
    limiter = spare_the_farm()
    keys = [kv.Key("", kv.kind("example.com/v1", "Film"), "studio", f"film-{number}") for number in range(14)]
    assert [limiter.when(key, now=0.0) for key in keys] == [1.0] * 12 + [1.5, 2.0]
    assert limiter.when(keys[0], now=60.0) == 2.0


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
