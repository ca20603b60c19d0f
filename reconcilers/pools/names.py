"""Names of instances: `nc-happy-sun-a1b2c3`, easy to say and hard to meet twice.

Guarantees: pure; the names of one seed are always the same. 50 adjectives, 50 nouns and six of 36 characters make 5.4e12 names. With words
of at most MAX_WORD characters a name has at most 34 characters, so that names derived from it keep within their limits.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from random import Random
from typing import Final

__all__ = ["ADJECTIVES", "MAX_WORD", "NOUNS", "instance_name", "name_for"]

MAX_WORD: Final = 11
"""The longest word."""

_ADJECTIVES_TEXT: Final = """
amber bold brave bright brisk calm cheerful clear clever cool cosy crisp curious eager early fair fancy fast fresh
gentle glad golden grand green happy honest jolly keen kind light lively lucky mellow merry mild neat noble proud quick
quiet royal shiny silver smart snowy sunny swift warm wise witty
"""
ADJECTIVES: Final = tuple(_ADJECTIVES_TEXT.split())
_NOUNS_TEXT: Final = """
bay beach birch breeze brook canyon cedar cliff cloud coast comet coral cove creek dawn delta dune eagle falcon fern
field fjord forest garden glade grove harbor haven hill island lagoon lake leaf maple meadow moon oak ocean orchard pine
plain pond reef ridge river sky spring star sun valley
"""
NOUNS: Final = tuple(_NOUNS_TEXT.split())

_CHARACTERS: Final = "abcdefghijklmnopqrstuvwxyz0123456789"


def instance_name(random: Random, adjectives: Sequence[str] = ADJECTIVES, nouns: Sequence[str] = NOUNS) -> str:
    """Return a name.

    >>> instance_name(Random(1))
    'nc-lively-pond-ieqh52'
    """
    end = "".join(random.choice(_CHARACTERS) for _ in range(6))
    return f"nc-{random.choice(adjectives)}-{random.choice(nouns)}-{end}"


def name_for(uid: str, attempt: int = 0, adjectives: Sequence[str] = ADJECTIVES, nouns: Sequence[str] = NOUNS) -> str:
    """Return the name of the instance that is created for a claim: the same name after a crash.

    >>> name_for("a") == name_for("a"), name_for("a") == name_for("a", 1)
    (True, False)
    """
    seed = int.from_bytes(hashlib.sha256(f"{uid}/{attempt}".encode()).digest(), "big")
    return instance_name(Random(seed), adjectives, nouns)  # noqa: S311  # a name, not a secret
