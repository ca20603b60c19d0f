"""Which instance belongs to an NstanceMachine: the decision as a table, and that no instance has two owners."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from konverge.reconcilers.machines.instances.ownership import (
    InstanceClaim,
    InstancePlace,
    NotPlaced,
    instance_id,
    owned_place,
)

BORN = datetime(2026, 11, 24, tzinfo=UTC)
OLDER, YOUNGER = BORN - timedelta(days=1), BORN + timedelta(days=1)
OWN = InstancePlace("a", instance_id("u1", BORN))
OTHERS = InstancePlace("a", instance_id("u2", OLDER))
FOREIGN = InstancePlace("a", "i-of-a-pool")


def mine(recorded: InstancePlace | None = None, annotated: InstancePlace | None = None) -> InstanceClaim:
    return InstanceClaim("u1", BORN, recorded, annotated)


def other(recorded: InstancePlace | None = None, annotated: InstancePlace | None = None) -> InstanceClaim:
    return InstanceClaim("u2", OLDER, recorded, annotated)


@pytest.mark.parametrize(
    ("own", "others", "place"),
    [
        (mine(), [], None),
        (mine(annotated=OWN), [], OWN),
        (mine(recorded=OWN), [], OWN),
        (mine(OWN, FOREIGN), [], OWN),
        (mine(FOREIGN, OWN), [], OWN),
        (mine(annotated=OWN), [other(annotated=OWN)], OWN),
        (mine(annotated=OWN), [other(recorded=OWN)], OWN),
        (mine(annotated=OTHERS), [other()], None),
        (mine(annotated=OTHERS), [other(annotated=OTHERS)], None),
        (mine(recorded=OTHERS), [other()], None),
        (mine(recorded=FOREIGN), [], FOREIGN),
        (mine(recorded=FOREIGN), [other(annotated=FOREIGN)], FOREIGN),
        (mine(recorded=FOREIGN), [other(recorded=FOREIGN)], None),
        (mine(annotated=FOREIGN), [other(recorded=FOREIGN)], None),
        (mine(annotated=FOREIGN), [other(annotated=FOREIGN)], None),
    ],
)
def test_an_instance_belongs_by_uid_then_by_status_and_never_by_annotation(
    own: InstanceClaim, others: list[InstanceClaim], place: InstancePlace | None
) -> None:
    assert owned_place(own, others, adopts=False) == place


@pytest.mark.parametrize("place", [FOREIGN, OTHERS])
def test_a_foreign_instance_is_taken_over_only_by_permission(place: InstancePlace) -> None:
    held = owned_place(mine(annotated=place), [], adopts=False)
    assert isinstance(held, NotPlaced)
    assert (held.reason, place.instance_id in held.message) == ("ForeignInstance", True)
    assert owned_place(mine(annotated=place), [], adopts=True) == place
    assert owned_place(mine(annotated=place), [InstanceClaim("u3", YOUNGER, place)], adopts=True) is None


PLACES = st.one_of(st.none(), st.integers(0, 3))


@given(st.lists(st.tuples(st.integers(0, 5), PLACES, PLACES), min_size=2, max_size=5), st.booleans())
def test_no_two_objects_have_one_instance(drawn: list[tuple[int, int | None, int | None]], adopts: bool) -> None:
    identities = [(f"u{number}", BORN + timedelta(seconds=age)) for number, (age, _, _) in enumerate(drawn)]
    places = [*(InstancePlace("a", instance_id(*one)) for one in identities[:2]), FOREIGN, InstancePlace("a", "i-2")]
    claims = [
        InstanceClaim(
            *identity,
            recorded=None if recorded is None else places[recorded],
            annotated=None if annotated is None else places[annotated],
        )
        for identity, (_, recorded, annotated) in zip(identities, drawn, strict=True)
    ]
    owned = [owned_place(one, [rival for rival in claims if rival is not one], adopts=adopts) for one in claims]
    kept = [one.instance_id for one in owned if isinstance(one, InstancePlace)]
    assert len(kept) == len(set(kept))
    for claim, place in zip(claims, owned, strict=True):
        owners = {rival.own_id for rival in claims if rival is not claim}
        assert not (isinstance(place, InstancePlace) and place.instance_id in owners), "the uid decides"
