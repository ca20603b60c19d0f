"""S2, S3 of the hash function: rendezvous hashing spreads keys evenly, and moves no more keys than necessary."""

from random import Random
from uuid import UUID

import pytest

from konverge.runtime.sharding.hashing import Rendezvous, owner_of

_RANDOM = Random(5)
KEYS = tuple(str(UUID(int=_RANDOM.getrandbits(128))) for _ in range(10_000))


def members(count: int) -> tuple[str, ...]:
    return tuple(f"operator-6d4f-{number:02}-9ac31f" for number in range(count))


@pytest.mark.parametrize("count", [3, 5])
def test_each_member_has_its_share_within_five_percent(count: int) -> None:
    shares = dict.fromkeys(members(count), 0)
    for key in KEYS:
        shares[owner_of(key, members(count))] += 1
    mean = len(KEYS) / count
    assert all(abs(share - mean) <= 0.05 * mean for share in shares.values()), shares


@pytest.mark.parametrize(("before", "after"), [(3, 4), (4, 3), (10, 11)])
def test_only_keys_of_the_joined_or_departed_member_move(before: int, after: int) -> None:
    changed = members(max(before, after))[-1]
    moved = 0
    for key in KEYS:
        old, new = owner_of(key, members(before)), owner_of(key, members(after))
        if old != new:
            moved += 1
            assert changed == (new if after > before else old)
    assert moved / len(KEYS) <= 1 / max(before, after) + 0.03


def test_without_a_member_a_key_has_no_owner() -> None:
    assert owner_of("k", ()) == ""


@pytest.mark.parametrize("remembered", [0, 1, 7, 1000])
def test_cached_owner_equals_the_hash_owner_for_any_cache_size(remembered: int) -> None:
    found = Rendezvous(members(5), remembered=remembered)
    asked = [_RANDOM.choice(KEYS[:50]) for _ in range(500)]
    assert [found.owner_of(key) for key in asked] == [owner_of(key, members(5)) for key in asked]
    assert len(found._owners) <= max(1, remembered)


def test_the_owners_of_known_keys_never_change() -> None:
    """Replicas of two versions share a ring during a rolling update, and must find the same owners."""
    found = [owner_of(key, members(5)) for key in ("web", "0b9ee9a4", "7f3a")]
    assert found == [members(5)[0], members(5)[2], members(5)[3]]
