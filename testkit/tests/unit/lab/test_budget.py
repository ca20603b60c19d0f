"""A budget of CPU time that processes share."""

import os
import time
from importlib import import_module

import pytest

from konverge_testing.lab.budget import CpuBudget


@pytest.fixture
def cpu(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The CPU seconds that this process has used, as the last item."""
    used = [5.0]
    monkeypatch.setattr(import_module("konverge_testing.lab.budget"), "cpu_time", lambda: used[-1])
    return used


def test_the_budget_ends_when_the_process_has_used_it(cpu: list[float]) -> None:
    budget = CpuBudget(10.0, used=2.0)
    cpu.append(12.5)
    assert budget.left()
    cpu.append(13.5)
    assert not budget.left()
    assert budget.used() == pytest.approx(10.5)


def test_workers_have_the_budget_each(cpu: list[float]) -> None:
    budget = CpuBudget(10.0, workers=3, slots=2)
    cpu.append(30.0)
    assert budget.left()


def test_the_time_of_a_copy_counts_from_its_own_start(cpu: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    budget = CpuBudget(10.0, slots=2)
    budget.work_on(1)
    monkeypatch.setattr(os, "getpid", lambda: -1)
    cpu.append(3.0)
    assert budget.used() == pytest.approx(3.0)


def test_parent_process_sees_the_cpu_time_of_a_forked_process() -> None:
    budget = CpuBudget(10.0, slots=1)
    before = budget.used()
    child = os.fork()
    if child == 0:
        budget.work_on(0)
        until = time.process_time() + 0.05
        while time.process_time() < until:
            pass
        budget.used()
        os._exit(0)
    os.waitpid(child, 0)
    assert budget.used() - before >= 0.05
