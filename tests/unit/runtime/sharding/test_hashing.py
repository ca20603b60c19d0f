"""S2, S3 of the hash alone: rendezvous hashing spreads keys evenly, and moves no more of them than it must."""

from __future__ import annotations

from random import Random
from uuid import UUID

import pytest

from konverge.runtime.sharding.hashing import owner_of

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
def test_no_more_keys_move_than_must_and_only_to_the_one_that_joined_or_from_the_one_that_left(
    before: int, after: int
) -> None:
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
