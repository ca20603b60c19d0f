"""The helper for round trips finds each kind of loss, and accepts conversions without loss."""

from typing import Any

import pytest
from tanks import (
    KEEPING,
    TANKS,
    BetaSpec,
    BetaTank,
    Pump,
    Tank,
    Volume,
    from_beta,
    to_beta,
)

import konverge as kv
from konverge_testing import check_round_trips

BEGUN = kv.Conversion.of(Tank)
LOST = (".spec.volume", ".spec.colour")
"""The fields that v1beta1 does not hold, beside the speeds of pumps."""


def test_kept_fields_survive_every_round_trip() -> None:
    check_round_trips(KEEPING)


def test_a_named_loss_is_accepted_and_another_is_not() -> None:
    names = (*LOST, ".spec.lid", ".spec.pumps")
    check_round_trips(TANKS, loses=names)
    with pytest.raises(AssertionError, match=r"v1 to tanks\.example\.com/v1\w+ and back: \.spec\.colour was '"):
        check_round_trips(TANKS, loses=[name for name in names if name != ".spec.colour"])


def without_status(old: BetaTank) -> Tank:
    return Tank(spec=from_beta(old).spec)


def without_lid(new: Tank) -> BetaTank:
    return BetaTank(spec=BetaSpec(litres=new.spec.volume.millilitres // 1000), status=new.status)


def first_pump(old: BetaTank) -> Tank:
    pumps = tuple(Pump(name=pump.name) for pump in old.spec.pumps[:1])
    return Tank(spec=from_beta(old).spec.model_copy(update={"pumps": pumps}), status=old.status)


def too_small(old: BetaTank) -> Tank:
    volume = Volume(millilitres=old.spec.litres - 1)
    return Tank(spec=from_beta(old).spec.model_copy(update={"volume": volume}), status=old.status)


@pytest.mark.parametrize(
    ("up", "down", "loses", "words"),
    [
        (without_status, to_beta, (*LOST, ".spec.pumps"), r"\.status"),
        (from_beta, without_lid, (*LOST, ".spec.pumps"), r"\.spec\.lid"),
        (first_pump, to_beta, LOST, r"\.spec\.pumps\[name=.*\]"),
    ],
)
def test_a_forgotten_field_is_found(up: Any, down: Any, loses: tuple[str, ...], words: str) -> None:
    with pytest.raises(AssertionError, match=words):
        check_round_trips(BEGUN.version(BetaTank, up=up, down=down), loses=loses)


def test_an_object_that_cannot_be_converted_is_found() -> None:
    with pytest.raises(kv.NotConvertible, match=r"\.millilitres: write 0 or more"):
        check_round_trips(BEGUN.version(BetaTank, up=too_small, down=to_beta), loses=LOST)


def test_objects_can_be_selected() -> None:
    def whole_litres(tank: Any) -> bool:
        if isinstance(tank, Tank):
            return tank.spec.volume.millilitres % 1000 == 0 and tank.spec.colour is None and not tank.spec.pumps
        return True

    check_round_trips(BEGUN.version(BetaTank, up=from_beta, down=to_beta), only=whole_litres, examples=20)
