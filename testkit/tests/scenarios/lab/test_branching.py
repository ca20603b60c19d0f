"""Plans that share the beginning of their runs end like separate runs: plans of the backup operator, and random joins.

`make test` tries two plans of each kind of fault, `make lab` all plans.
"""

from random import Random

import msgspec
import pytest
from backup_operator import SECRET, Backup, BackupSpec, build

import konverge as kv
from konverge_testing.lab import Lab, Plan
from konverge_testing.lab.branching import Batch, batches
from konverge_testing.lab.forking import run_shared
from konverge_testing.lab.planning import kind_of_fault, plans_of, random_plan
from konverge_testing.lab.runs import run
from konverge_testing.lab.workers import Link, possible, spread

pytestmark = [
    pytest.mark.skipif(not possible(), reason="processes cannot be forked here"),
    pytest.mark.timeout(600),
]

JOINS = 20


async def waits_for_its_secret(lab: Lab) -> None:
    await lab.start(build)
    await lab.create(Backup.new("nightly", spec=BackupSpec(schedule="0 3 * * *")))
    await lab.until(Backup, "nightly", kv.is_false("Ready"))
    await lab.create(SECRET.new("target", data={"url": "czM6Ly9i"}))
    await lab.until(Backup, "nightly", kv.is_true("Ready"))


def two_of_each_kind(plans: list[Plan]) -> list[Plan]:
    """Return the first and the last plan of each kind of fault: they strike at the first and at the last write or event."""
    kinds = [kind_of_fault(plan) for plan in plans]
    ends = {kind: {kinds.index(kind), len(kinds) - 1 - kinds[::-1].index(kind)} for kind in kinds}
    return [plan for place, plan in enumerate(plans) if place in ends[kinds[place]]]


def test_branched_plan_of_every_fault_ends_as_its_run_from_nothing(request: pytest.FixtureRequest) -> None:
    reference = run(waits_for_its_secret, Plan(name="reference"), long=True)
    plans = [plan for plan in plans_of(reference, process="lab").plans if not plan.leases]  # these never branch
    random = Random(11)
    joins = [random_plan(plans, random, number) for number in range(JOINS)]
    if request.config.getoption("--lab") != "full":
        plans = two_of_each_kind(plans)
    plans += [msgspec.structs.replace(join, seed=0) for join in joins]

    def work(batch: Batch, link: Link) -> None:
        assert batch.shared
        run_shared(
            waits_for_its_secret, {place: plans[place] for place in batch.places}, link, lambda: True, lambda done: done
        )

    def work_alone(batch: Batch, link: Link) -> None:
        for place in batch.places:
            link.done(place, run(waits_for_its_secret, plans[place]))

    branched, alone = (dict(spread(way, batches(plans, 2), 2, lambda: True)) for way in (work, work_alone))
    assert len(branched) == len(plans) > 60
    for place, plan in enumerate(plans):
        assert branched[place].timeline.text() == alone[place].timeline.text(), plan.name
        assert branched[place] == alone[place], plan.name
