"""The order of a list after a strategic merge.

Guarantees: pure. Items that the patch names keep the patch's order, items that only the server has keep the server's, and the two are
interleaved by the order of the live list as far as it has both. Source: k8s.io/apimachinery `pkg/util/strategicpatch/patch.go`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from konverge_testing.apiserver.golang import plain
from konverge_testing.apiserver.patch.wording import go_type, refused

__all__ = ["arranged", "identity", "key_of", "partitioned", "without_repeats"]


def identity(value: Any) -> object:
    """Return a form of the value that distinguishes true from 1, and 1 from 1.0."""
    return (type(value), value) if not isinstance(value, (dict, list)) else (type(value), id(value))


def key_of(item: Any, merge_key: str) -> Any:
    """Return the merge key of an item, which is required."""
    if not isinstance(item, dict):
        raise refused(f"expected a map[string]interface {{}}, but received a {go_type(item)}")
    if merge_key not in item:
        raise refused(f"map: {plain(item)} does not contain declared merge key: {merge_key}")
    return item[merge_key]


def partitioned(items: Sequence[Any], by: Sequence[Any], merge_key: str) -> tuple[list[Any], list[Any]]:
    """Split items into items that the other list has too, and the rest."""
    if merge_key:
        names = {identity(one.get(merge_key)) for one in by if isinstance(one, dict) and merge_key in one}
        name: Callable[[Any], object] = lambda item: identity(key_of(item, merge_key))  # noqa: E731  # one of two
    else:
        names = {identity(one) for one in by}
        name = identity
    named = [name(item) in names for item in items]
    return [item for item, known in zip(items, named, strict=True) if known], [
        item for item, known in zip(items, named, strict=True) if not known
    ]


def arranged(
    named: list[Any], others: list[Any], by: Sequence[Any], live: Sequence[Any], merge_key: str, *, maps: bool
) -> list[Any]:
    """Merge items of the patch and items of the server only into one order."""
    if maps:
        for item in (*named, *by, *others, *live):
            key_of(item, merge_key)
    rank = _ranks(live, merge_key if maps else "")
    left, right = _sorted(others, rank), _sorted(named, _ranks(by, merge_key if maps else ""))
    result: list[Any] = []
    while left and right:
        one, two = rank(left[0]), rank(right[0])
        result.append((left if one is not None and two is not None and one < two else right).pop(0))
    return result + left + right


def _ranks(order: Sequence[Any], merge_key: str) -> Callable[[Any], int | None]:
    def name(item: Any) -> object:
        return identity(item.get(merge_key)) if merge_key and isinstance(item, dict) else identity(item)

    found: dict[object, int] = {}
    for at, item in enumerate(order):
        found.setdefault(name(item), at)
    return lambda item: found.get(name(item))


def _sorted(items: list[Any], rank: Callable[[Any], int | None]) -> list[Any]:
    """Sort by rank like Go's insertion sort with a comparison that treats unknown items as smaller."""
    ranks = [rank(item) for item in items]
    if None not in ranks:
        return [item for _, item in sorted(zip(ranks, items, strict=True), key=lambda pair: pair[0] or 0)]
    result: list[Any] = []
    for item in items:
        at = len(result)
        while at > 0 and _before(rank(item), rank(result[at - 1])):
            at -= 1
        result.insert(at, item)
    return result


def _before(one: int | None, two: int | None) -> bool:
    return one < two if one is not None and two is not None else True


def without_repeats(items: list[Any]) -> list[Any]:
    """Drop repeated scalars as the server does: the last item takes the place of a repeat."""
    items = list(items)
    last = len(items) - 1
    first = 0
    while first < last:
        other = first + 1
        while other <= last:
            if identity(items[first]) == identity(items[other]):
                items[other] = items[last]
                items.pop()
                last -= 1
            else:
                other += 1
        first += 1
    return items
