"""Objects that together hold every code point, in keys and in values, and the comparison of the stored and the sent objects.

Code points are packed: a value holds thousands of them, a key at most 200, so that a few dozen applies send all 1,112,064.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, TypeVar

import konverge as kv
from konverge.client import Client
from konverge.crds import Atomic

_SURROGATES = range(0xD800, 0xE000)
_BY_ITSELF = (*range(0xA0), 0xAD, *range(0x2028, 0x202F), 0xFEFF, 0xFFFD, 0xFFFE, 0xFFFF)
"""Characters that each have a key of their own: between others, a difference could hide."""
_S = TypeVar("_S", str, list[str])
_KEY, _KEYS, _VALUE = 200, 400, 80_000


class PageSpec(kv.Model):
    """Texts by key: as separate fields, like most maps, and as a single value (`atomic`)."""

    texts: dict[str, str] | None = None
    whole: Annotated[dict[str, str], Atomic()] | None = None


@kv.resource("characters.example.com/v1")
class Page(kv.CustomResource[PageSpec, kv.Status]):
    """A page of characters."""


def pages(namespace: str) -> Iterator[Page]:
    """Yield the objects: first the objects for characters and keys that YAML treats specially, then an object with every character."""
    alone = {f"{chr(code)}": f"a{chr(code)}b {chr(code)} " for code in _BY_ITSELF}
    yield Page.new("alone", namespace, spec=PageSpec(texts=alone, whole={f"k{key}k": key for key in alone}))
    long = ("k" * 5000, '"\\: ' * 400, "\x7f" * 300, "<<", "?", "true", "~", "---")
    yield Page.new("long", namespace, spec=PageSpec(texts={key: key for key in long}))
    every = "".join(chr(code) for code in range(0x110000) if code not in _SURROGATES)
    keys = list(_split(every, _KEY))
    for number, some in enumerate(_split(keys, _KEYS)):
        yield Page.new(f"keys-{number}", namespace, spec=PageSpec(whole=dict.fromkeys(some, "")))
    for number, text in enumerate(_split(every, _VALUE)):
        yield Page.new(f"values-{number}", namespace, spec=PageSpec(texts={"text": text}))


def _split(whole: _S, length: int) -> Iterator[_S]:
    for start in range(0, len(whole), length):
        yield whole[start : start + length]


async def differences(client: Client, namespace: str) -> list[str]:
    """Apply the objects and read them again; return the names of objects that are not stored as they were sent."""
    found = []
    for page in pages(namespace):
        await client.apply(Page, page.to_dict())
        stored = await client.get(Page, page.name, namespace)
        for field in ("texts", "whole"):
            sent, kept = ((getattr(of, field) or {}) for of in (page.spec, stored.spec))
            found += [
                f"{page.name}: {key[:3]!r} became {kept.get(key, '')[:9]!r}"
                for key in sent
                if sent[key] != kept.get(key)
            ]
            found += [f"{page.name}: {key[:3]!r} appeared" for key in kept if key not in sent]
    return found
