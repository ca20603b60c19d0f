"""When the stored status of a claim already shows a decision, so no write is needed."""

from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec.structs import replace

from konverge.reconcilers.quota.claims.decision import BOUND, IN_USE, exhausted
from konverge.reconcilers.quota.claims.status import claim_status, status_is_current
from konverge.reconcilers.quota.kinds import CLAIM
from konverge.reconcilers.quota.parse import claim_view
from konverge.reconcilers.quota.views import NOWHERE, ClaimPlace, ClaimView
from konverge.reconcilers.quota.words import Semantics

NOW = datetime(2030, 1, 1, tzinfo=UTC)
PLACE = ClaimPlace(("p", "p-1"))
NEW = ClaimView(name="c", namespace="a", uid="u", generation=3)


def stored(semantics: str, generation: int) -> ClaimView:
    """Return the claim at this generation with the status written for generation 3."""
    return claim_view(
        CLAIM.decode(
            {
                "metadata": {"name": "c", "namespace": "a", "uid": "u", "generation": generation},
                "spec": {"pool": "p", "claim": {"requests.cpu": 1}},
                "status": claim_status(NEW, BOUND, PLACE, NOW, semantics),
            }
        )
    )


@pytest.mark.parametrize("semantics", [Semantics.V012, Semantics.V014])
def test_a_status_is_written_again_if_only_the_generation_moved(semantics: str) -> None:
    assert status_is_current(stored(semantics, 3), BOUND, PLACE, semantics)
    assert not status_is_current(stored(semantics, 4), BOUND, PLACE, semantics)


@pytest.mark.parametrize(
    ("decision", "place"),
    [
        (replace(BOUND, message="another message"), PLACE),
        (replace(BOUND, reason="AnotherReason"), PLACE),
        (replace(BOUND, status=False), PLACE),
        (exhausted(["x"]), PLACE),
        (IN_USE, PLACE),
        (BOUND, NOWHERE),
        (BOUND, ClaimPlace(("p", "p-2"))),
        (BOUND, ClaimPlace(("p", "p-1"), ("q", "q-1"))),
    ],
    ids=["message", "reason", "status", "reason and message", "in use", "no pool", "a pool of that name", "queue"],
)
def test_a_status_is_written_again_if_any_part_of_the_decision_differs(decision: Any, place: ClaimPlace) -> None:
    assert not status_is_current(stored(Semantics.V012, 3), decision, place)
