"""The ownership stamp: an annotation `<member>/<epoch>` on the object. Pure.

    absent          no member has owned the object, or the stamp was removed by hand
    <member>/<n>    owned since epoch n
    /<n>            given back by the owner of epoch n

Guarantees: the epochs of an object strictly increase, also if its stamp was removed or forged: each is the resourceVersion of the object
that its owner claimed. An epoch is thus less than the resourceVersion of the stamped object; any other stamp was forged. So was a stamp
whose owner does not have the form of a member's name; both count as absent.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from konverge.words import Annotation

__all__ = ["Stamp", "annotation_of", "host_in_name", "member_name", "next_epoch", "read_stamp"]

_FORM: Final = re.compile(r"([a-z0-9.-]{0,253})/([1-9][0-9]{0,18})")
_HOST: Final = 100
"""Characters of a host in the name of a member."""
_MEMBER: Final = re.compile(rf"[a-z0-9-]{{1,{_HOST}}}-[0-9a-f]{{10}}")
"""The part of a member's name behind the name of the ring."""
_NOT_A_NAME: Final = re.compile(r"[^a-z0-9-]+")
_FIRST: Final = 1
"""The first epoch if the resourceVersion is not a number."""


@dataclass(frozen=True, slots=True)
class Stamp:
    """The owner of an object, and the epoch of its claim; without an owner, the epoch that ended.

    >>> str(Stamp("operator-0-4d2f", 7)), str(Stamp("", 7))
    ('operator-0-4d2f/7', '/7')
    """

    owner: str
    epoch: int

    def __str__(self) -> str:
        return f"{self.owner}/{self.epoch}"


def annotation_of(ring: str) -> str:
    """Return the annotation of a ring's stamps: two operators may shard one kind, each with its own stamps.

    >>> annotation_of("shop")
    'shard-owner.konverge.dev/shop'
    """
    return f"{Annotation.SHARD_OWNER}/{ring}"


def host_in_name(host: str) -> str:
    """Return a host name in the form that is valid in a member's name.

    >>> host_in_name("Operator_0")
    'operator-0'
    """
    return _NOT_A_NAME.sub("-", host.lower()).strip("-")[:_HOST] or "host"


def member_name(ring: str, host: str, bits: int) -> str:
    """Return the name of a member of a ring, and of its Lease; 40 random bits give each term a new name.

    >>> member_name("shop", "Operator_0", 0xC0FFEE)
    'shop-operator-0-0000c0ffee'
    """
    return f"{ring}-{host_in_name(host)}-{bits:010x}"


def read_stamp(annotations: Mapping[str, str] | None, annotation: str, version: str) -> Stamp | None:
    """Return the stamp of an object at this version; None if it has none, or a stamp that no member wrote.

    >>> read_stamp({"shard-owner.konverge.dev/shop": "shop-a-0000c0ffee/7"}, "shard-owner.konverge.dev/shop", "12")
    Stamp(owner='shop-a-0000c0ffee', epoch=7)
    >>> read_stamp({"shard-owner.konverge.dev/shop": "anyone/7"}, "shard-owner.konverge.dev/shop", "12")
    """
    match = _FORM.fullmatch((annotations or {}).get(annotation, ""))
    if match is None:
        return None
    owner, epoch = match[1], int(match[2])
    ring = annotation.rpartition("/")[2]
    if owner and not (owner.startswith(f"{ring}-") and _MEMBER.fullmatch(owner, len(ring) + 1)):
        return None
    if version.isascii() and version.isdigit() and epoch >= int(version):
        return None
    return Stamp(owner, epoch)


def next_epoch(stamp: Stamp | None, version: str) -> int:
    """Return the epoch of the next owner of an object with this stamp and resourceVersion.

    Not the stamp's epoch plus one, because anyone may have written the stamp: the resourceVersion is greater than all epochs before.

    >>> next_epoch(Stamp("a", 7), "12"), next_epoch(None, "12"), next_epoch(Stamp("a", 7), "opaque")
    (12, 12, 8)
    """
    after = _FIRST if stamp is None else stamp.epoch + 1
    return max(int(version), after) if version.isascii() and version.isdigit() else after
