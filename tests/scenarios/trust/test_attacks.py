"""Each known attack of a tenant on another tenant, the cluster or the daemon's rights, tried on the whole daemon.

The attacks of a run share a stage, which is at rest again after each attack; `-k` chooses attacks by their names.
"""

import gc
from typing import Final

import pytest
from trust.attack import Attack, frozen, run_attacks
from trust.rows import apps, machines, operations, plane, pools, quota, workspaces

FAMILIES: Final = (pools, apps, operations, quota, workspaces, machines, plane)
CASES: Final = [
    pytest.param(attack, id=f"{family.__name__.rpartition('.')[2]}-{attack.slug}")
    for family in FAMILIES
    for attack in family.ATTACKS
]


@pytest.fixture(scope="module")
def findings(request: pytest.FixtureRequest) -> dict[str, list[str]]:
    """The findings of each attack of this run, by its name."""
    chosen = [item.callspec.params.get("attack") for item in request.session.items if hasattr(item, "callspec")]
    return run_attacks([attack for attack in chosen if isinstance(attack, Attack)])


@pytest.mark.parametrize("attack", CASES)
def test_an_attack_reaches_no_other_tenant(attack: Attack, findings: dict[str, list[str]]) -> None:
    assert findings[attack.name] == []


def test_each_attack_has_a_name_of_its_own() -> None:
    names = [attack.name for family in FAMILIES for attack in family.ATTACKS]
    assert len(names) == len(set(names))


def test_the_heap_that_a_run_has_frozen_stays_frozen_after_a_scene() -> None:
    """Without that each later exploration of the process would collect the heap of all tests."""
    gc.freeze()
    before = gc.get_freeze_count()
    with frozen():
        assert gc.get_freeze_count() >= before
    assert gc.get_freeze_count() > before / 2
