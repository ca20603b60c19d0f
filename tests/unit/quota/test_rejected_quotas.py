"""Rejected ResourceQuotas are remembered until their cause may have ended."""

import pytest

from konverge.reconcilers.quota.pools.rejected_quotas import RejectedQuota, RejectedQuotas
from konverge.reconcilers.quota.views import ClaimView

REJECTED = RejectedQuota(message="no", claims={"u": (1, "no")}, basis=("p", 1), since=10.0)


def claim(uid: str = "u", generation: int = 1) -> ClaimView:
    return ClaimView(namespace="a", name="c", uid=uid, generation=generation)


@pytest.mark.parametrize(
    ("claims", "basis", "now", "held", "lapsed"),
    [
        pytest.param([claim()], ("p", 1), 20.0, ["a"], [], id="nothing changed"),
        pytest.param([claim()], ("p", 1), 311.0, [], ["a"], id="time for another try"),
        pytest.param([claim()], ("p", 2), 20.0, [], ["a"], id="another spec or owner"),
        pytest.param([claim(generation=2)], ("p", 1), 20.0, [], [], id="an edited claim"),
        pytest.param([claim("v")], ("p", 1), 20.0, [], [], id="a deleted claim"),
    ],
)
def test_a_rejection_is_remembered_until_its_cause_may_have_changed(
    claims: list[ClaimView], basis: tuple[object, ...], now: float, held: list[str], lapsed: list[str]
) -> None:
    known = RejectedQuotas(retry=300)
    known.replace("p", {"a": REJECTED})
    found, again = known.recall("p", claims, lambda namespace: basis, now)
    assert ([*found], [*again]) == (held, lapsed)


def test_the_rejections_of_a_deleted_pool_are_dropped() -> None:
    known = RejectedQuotas(retry=300)
    known.replace("p", {"a": REJECTED})
    known.forget("p")
    assert known.recall("p", [claim()], lambda namespace: ("p", 1), 20.0) == ({}, {})
