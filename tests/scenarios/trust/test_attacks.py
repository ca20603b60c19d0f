"""Each way by which a tenant could reach another tenant, the cluster or the daemon's rights, tried on the whole daemon."""

from __future__ import annotations

from functools import cache
from types import ModuleType

import pytest
from trust.attack import Attack, run_attacks
from trust.rows import pools

FAMILIES = (pools,)


@cache
def _findings(family: ModuleType) -> dict[str, list[str]]:
    return run_attacks(family.ATTACKS)


@pytest.mark.parametrize(
    ("family", "attack"),
    [pytest.param(family, attack, id=attack.slug) for family in FAMILIES for attack in family.ATTACKS],
)
def test_an_attack_reaches_nobody_else(family: ModuleType, attack: Attack) -> None:
    assert _findings(family)[attack.name] == []
