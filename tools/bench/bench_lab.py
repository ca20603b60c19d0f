"""The lab: the time of a small test in memory, and plans of faults per second for the ApplicationInstance scenario.

The small test is the documentation's example (`examples/backup_operator.py`): a server, a manager, a CRD, a child and a Secret. The plans
are the first plans of the full lab in the order of a seed; each is a whole run from nothing to its verdict, with 1,100 virtual seconds of
rest at its end. Plans of an exploration share the beginning of their runs. Rates of plans use wall time, because people wait for it, so a
busy machine lowers them. The CPU time of a plan is a row of its own, from nothing and within an exploration; copies of processes count in
full.
"""

import gc
import os
import resource
import sys
from pathlib import Path
from typing import Final

from rows import QUICK, Figures, Row, row

import konverge as kv
from konverge.clock import cpu_time, monotonic
from konverge.crds.apps_v1alpha1 import ApplicationInstance
from konverge.reconcilers import apps
from konverge_testing.flux import HelmController, flux_crds
from konverge_testing.lab import Lab, Plan, explore, install_crds
from konverge_testing.lab.planning import plans_of
from konverge_testing.lab.runs import run as run_plan

EXAMPLES: Final = Path(__file__).resolve().parents[2] / "examples"
ROUNDS: Final = 2 if QUICK else 20
PLANS: Final = 4 if QUICK else 60
WORKERS: Final = 2
WANTED: Final = 1000
SPEC: Final = {
    "appRef": {"catalogId": "shop"},
    "chart": {"sourceType": "helm", "url": "https://charts.example.com", "name": "shop", "version": "1.0.0"},
    "release": {"name": "shop", "namespace": "lab"},
    "values": {"source": "inline", "inline": {"replicas": 1}},
}


def run() -> list[Row]:
    """Measure everything and return one row per figure."""
    return [*small(), *plans()]


def bound(target: str) -> str | None:
    """Return a target, or None in the quick form: all targets are times."""
    return None if QUICK else target


# One small test


def small() -> list[Row]:
    """Run the test of the backup operator."""
    sys.path.insert(0, str(EXAMPLES))
    from backup_operator import SECRET, Backup, BackupSpec, build

    async def waits_for_its_secret(lab: Lab) -> None:
        await lab.start(build)
        await lab.create(Backup.new("nightly", spec=BackupSpec(schedule="0 3 * * *")))
        await lab.until(Backup, "nightly", kv.is_false("Ready"))
        await lab.create(SECRET.new("target", data={"url": "czM6Ly9i"}))
        await lab.until(Backup, "nightly", kv.is_true("Ready"))

    plan, walls, works = Plan(name="reference"), [], []
    problems = run_plan(waits_for_its_secret, plan).problems
    assert not problems, problems
    for _ in range(ROUNDS):
        began, work = monotonic(), cpu_time()
        run_plan(waits_for_its_secret, plan)
        walls.append(monotonic() - began)
        works.append(cpu_time() - work)
    how = f"server, manager, CRD, CronJob, Secret, 19 virtual minutes of rest; best of {ROUNDS} after a first one"
    return [
        row("backup operator, one test", min(walls) * 1000, "ms", f"wall; {how}", bound("<= 50")),
        row("backup operator, one test: CPU", min(works) * 1000, "ms", how),
    ]


# Plans


async def upgraded(lab: Lab) -> None:
    """Install an application and upgrade it, with a stand-in for Flux."""
    await install_crds(lab.client, flux_crds())
    await lab.enter(HelmController(lab.config, namespace=lab.namespace, random=lab.rng()))
    await lab.start(apps.install)
    await lab.create(ApplicationInstance.decode({"metadata": {"name": "shop"}, "spec": SPEC}))
    await lab.until(ApplicationInstance, "shop", ready)
    await lab.patch(ApplicationInstance, "shop", {"spec": {"chart": {"version": "1.1.0"}}})
    await lab.until(ApplicationInstance, "shop", ready)


def ready(instance: ApplicationInstance) -> bool:
    """Return whether the newest generation is ready."""
    condition = instance.find_condition("Ready")
    return condition is not None and condition.is_true and condition.observed_generation == instance.metadata.generation


def children() -> float:
    """Return the seconds of CPU of ended child processes."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def plans() -> list[Row]:
    """Run plans in this process, and in two."""
    reference = run_plan(upgraded, Plan(name="reference"))
    everything = plans_of(reference, process="lab").plans
    chosen = everything[:: max(len(everything) // PLANS, 1)][:PLANS]
    load = os.getloadavg()[0]
    rows = Figures()
    rows.add(
        "plans of the scenario",
        len(everything),
        "plans",
        remark="ApplicationInstance: install, upgrade; without random ones",
    )
    gc.collect()
    fixed = explore(upgraded, only=chosen[:1]).seconds
    began = cpu_time()
    for plan in chosen:
        run_plan(upgraded, plan)
    each = 1000 * (cpu_time() - began) / len(chosen)
    rows.add("one plan: CPU", each, "ms", remark=f"from nothing; mean of {len(chosen)} plans of all kinds")
    for workers in (1, WORKERS):
        began = children()
        report = explore(upgraded, only=chosen, workers=workers, budget=3600.0)
        rate = (report.ran - 1) / max(report.seconds - fixed, 0.001)
        how = f"{report.ran} plans of all kinds, every {max(len(everything) // PLANS, 1)}th; wall, without the reference runs; load before: {load:.1f}"
        name = f"plans, {workers} process{'es' * (workers > 1)}"
        each = 1000 * (children() - began) / report.ran
        rows.add(name, rate, "plans/s", remark=how)
        how = "all processes of the exploration, without the reference runs"
        rows.add(f"{name}: CPU of one", each, "ms", remark=how)
    how = f"from the rate of {WORKERS} processes, reference runs included"
    rows.add(f"{WANTED:,} plans, {WORKERS} processes", fixed + WANTED / rate, "s", bound("<= 120"), remark=how)
    return rows
