"""The test of runs that share runners: more runs than runners, all at the same time."""

import pytest
from runner_operator import LABEL, RUNNER, Run, build

import konverge as kv
from konverge_testing import Lab


@pytest.mark.scenario
async def test_each_runner_serves_one_run(lab: Lab) -> None:
    names = {"a", "b"}
    for name in names:
        await lab.create(RUNNER.new(name, labels={LABEL: "true"}))
    await lab.start(build)
    for number in range(3):
        await lab.create(Run.new(f"run-{number}"))
    await lab.settled()
    runs = [await lab.get(Run, f"run-{number}") for number in range(3)]
    assert {run.status.runner for run in runs if run.condition("Ready").is_true} == names
    [waiting] = [run for run in runs if not run.condition("Ready").is_true]
    await lab.create(RUNNER.new("c", labels={LABEL: "true"}))
    await lab.until(Run, waiting.name, kv.is_true("Ready"))
