"""The sessions on the stand-in of the server, and the exponents of the scale rows."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import bench_scale
import pytest
import scale_plots
from peers import building, campaign, plan


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("", ["base", "owners", "base-standin", "owners-standin"]),
        ("--server real", ["base", "owners"]),
        ("--server standin", ["base-standin", "owners-standin"]),
    ],
)
def test_the_server_option_chooses_among_the_sessions(words: str, expected: list[str]) -> None:
    sessions = "--sessions base,base-standin,owners,owners-standin "
    chosen = campaign.options({"PEERS": sessions + words})
    assert [each.name for each in chosen.sessions] == expected


def test_a_session_on_the_stand_in_differs_by_its_server_only() -> None:
    real = {each.name: each for each in plan.SESSIONS if not each.stand_in}
    twins = {each.base: each for each in plan.SESSIONS if each.stand_in}
    assert real.keys() == twins.keys()
    for name, each in twins.items():
        assert each.title == f"{real[name].title}, on the stand-in"
        both = [list(plan.runs([session])) for session in (real[name], each)]
        assert [run.contestant for run in both[0]] == [run.contestant for run in both[1]]


def test_sessions_on_the_stand_in_are_skipped_in_words_without_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("KONVERGE_CACHE", str(tmp_path))
    monkeypatch.setattr(campaign, "_about", dict)
    chosen = campaign.options({"PEERS": f"--sessions base-standin --contestants konverge --into {tmp_path}"})
    assert campaign.campaign(chosen) == []
    assert "skipped: the stand-in of the server (no go in PATH" in capsys.readouterr().out


def test_open_loops_can_be_left_out() -> None:
    chosen = campaign.options({"PEERS": "--no-load"})
    assert {each.rates for each in chosen.sessions} == {()}


def test_each_program_is_built_from_a_folder_of_the_tree() -> None:
    assert all((building.BENCH / recipe.folder).is_dir() for recipe in building.RECIPES.values())


@pytest.mark.parametrize(
    ("values", "power"), [([5.0, 5.0, 5.0], 0.0), ([3.0, 30.0, 300.0], 1.0), ([2.0, 200.0, 20_000.0], 2.0)]
)
def test_the_exponent_names_the_growth(values: list[float], power: float) -> None:
    assert bench_scale.exponent([1_000, 10_000, 100_000], values) == pytest.approx(power)


def test_a_plot_of_growth_names_the_exponent_of_each_contestant() -> None:
    def figure(name: str, value: float) -> dict[str, object]:
        return {"name": name, "value": value, "unit": "s"}

    points = [
        figure(f"{name}, {size:,} objects: cpu", size / 100)
        for name in ("konverge", "kube-rs")
        for size in (1_000, 10_000)
    ]
    exponents = [figure(f"{name}, objects: exponent of cpu", 1.0) for name in ("konverge", "kube-rs")]
    drawn = scale_plots.plots(
        [*points, *exponents, figure("stand-in: status applies", 1.0), figure("konverge, 3 kinds: cpu", 1.0)]
    )
    assert drawn.keys() == {"scale-objects-cpu.svg"}
    texts = [
        each.text
        for each in ElementTree.fromstring(drawn["scale-objects-cpu.svg"]).iter("{http://www.w3.org/2000/svg}text")
    ]
    assert {"konverge: n^1.00", "kube-rs: n^1.00", "CPU of a start by the number of objects, s"} <= set(texts)
