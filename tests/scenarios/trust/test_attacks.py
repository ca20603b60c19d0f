"""Each way by which a tenant could reach another tenant, the cluster or the daemon's rights, tried on the whole daemon.

The attacks of a group share a stage, which is at rest again after each of them.
"""

from __future__ import annotations

from types import ModuleType
from typing import Final

import pytest
from trust.attack import Attack, run_attacks
from trust.rows import apps, machines, operations, plane, pools, quota, workspaces

GROUPS: Final = ((pools,), (apps, operations, quota, workspaces), (machines, plane))
_FINDINGS: dict[tuple[ModuleType, ...], dict[str, list[str]]] = {}


def findings(group: tuple[ModuleType, ...]) -> dict[str, list[str]]:
    """Return the findings of all attacks of a group, which are tried once in a process."""
    if group not in _FINDINGS:
        _FINDINGS[group] = {}  # an error of the stage is the error of one test, and not of each
        _FINDINGS[group] = run_attacks([attack for family in group for attack in family.ATTACKS])
    return _FINDINGS[group]


@pytest.mark.parametrize(
    ("group", "attack"),
    [
        pytest.param(group, attack, id=f"{family.__name__.rpartition('.')[2]}-{attack.slug}")
        for group in GROUPS
        for family in group
        for attack in family.ATTACKS
    ],
)
def test_an_attack_reaches_no_other_tenant(group: tuple[ModuleType, ...], attack: Attack) -> None:
    assert findings(group)[attack.name] == []


def test_each_attack_has_a_name_of_its_own() -> None:
    names = [attack.name for group in GROUPS for family in group for attack in family.ATTACKS]
    assert len(names) == len(set(names))
