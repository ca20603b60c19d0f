"""Pools under random changes, one write at a time, with a crash between any two.

After each of our writes the invariant of docs/reference/capsule.md#shrink-first-credit-later holds: the sum of the held amounts is at most the
pool's hard, or no more than before the write. Without foreign writers also: pods never use more than the pool has. At rest: another
reconcile writes nothing, no claim waits for amounts that are free, and allocated claims stay allocated.
"""

from hypothesis import settings
from quota.machine import Pools, PoolsAndOthers, PoolsWhoseClaimsAreResized

TestPoolsWhoseClaimsAreResized = PoolsWhoseClaimsAreResized.TestCase
TestPoolsWhoseClaimsAreResized.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestPools = Pools.TestCase
TestPools.settings = settings(max_examples=80, stateful_step_count=30, deadline=None)
TestPoolsAndOthers = PoolsAndOthers.TestCase
TestPoolsAndOthers.settings = settings(max_examples=80, stateful_step_count=30, deadline=None)
