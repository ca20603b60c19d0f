"""The nonce that proves who created an instance. Pure.

A status records the digest of a random nonce before the creation, and the new instance carries the nonce. The nonce is secret until
the instance exists, and then the name of the instance is taken. So a process that starts after a crash can distinguish the former process's
instances from another writer's instances.
"""

from __future__ import annotations

import hashlib
from random import Random

from konverge.objects import Metadata
from konverge.reconcilers.pools.words import PoolsAnnotation

__all__ = ["digest_of", "has_nonce", "new_nonce"]


def new_nonce(random: Random) -> str:
    """Return a nonce of 128 bits.

    >>> len(new_nonce(Random(1)))
    32
    """
    return f"{random.getrandbits(128):032x}"


def digest_of(nonce: str) -> str:
    """Return the SHA-256 of a nonce."""
    return hashlib.sha256(nonce.encode()).hexdigest()


def has_nonce(instance: Metadata, digest: str | None) -> bool:
    """Whether an instance carries the nonce of a recorded digest."""
    nonce = instance.annotation(PoolsAnnotation.CREATION_NONCE)
    return bool(nonce) and bool(digest) and digest_of(nonce) == digest
