"""Strategic merge patches: the schema determines which lists are maps and sets.

Guarantees: pure; neither document nor patch is changed. Follows k8s.io/apimachinery `pkg/util/strategicpatch/patch.go`, directives
included: `$patch: delete | replace`, `$deleteFromPrimitiveList/x`, `$setElementOrder/x`, `$retainKeys`. Of fields that the schema does
not know, maps are merged and lists replaced (a real server would have dropped them before).
"""

from __future__ import annotations

import copy
from typing import Any, Final, TypeAlias

from konverge_testing.apiserver.golang import plain
from konverge_testing.apiserver.nodes import Node
from konverge_testing.apiserver.patch.ordering import arranged, identity, key_of, partitioned, without_repeats
from konverge_testing.apiserver.patch.wording import go_type, refused, unprocessable
from konverge_testing.apiserver.statuses import StatusError, bad_request

__all__ = ["strategic_merge"]

Data: TypeAlias = dict[str, Any]

_PATCH: Final = "$patch"
_RETAIN: Final = "$retainKeys"
_DELETE: Final = "$deleteFromPrimitiveList/"
_ORDER: Final = "$setElementOrder/"


def strategic_merge(document: Data, patch: Data, node: Node) -> Data:
    """Merge a patch into an object of this schema; raise StatusError if the patch is invalid.

    >>> node = Node({"properties": {"l": {"type": "array", "x-kubernetes-patch-strategy": "merge", "x-kubernetes-patch-merge-key": "n"}}})
    >>> strategic_merge({"l": [{"n": 1, "v": 1}, {"n": 2}]}, {"l": [{"n": 1, "v": 2}, {"n": 2, "$patch": "delete"}]}, node)
    {'l': [{'n': 1, 'v': 2}]}
    """
    if not isinstance(patch, dict):
        raise bad_request(f"json: cannot unmarshal {go_type(patch)} into Go value of type map[string]interface {{}}")
    return _merge_map(copy.deepcopy(document), copy.deepcopy(patch), node)


def _merge_map(original: Data, patch: Data, node: Node | None) -> Data:
    if _PATCH in patch:
        return _directed(patch)
    _retain(original, patch)
    for name in [name for name in patch if name.startswith(_ORDER)]:
        _ordered(original, patch, name, node)
    for name, value in patch.items():
        if name.startswith(_DELETE):
            _delete_scalars(original, name.removeprefix(_DELETE), value, node)
        elif value is None:
            original.pop(name, None)
        else:
            _merge_field(original, name, value, node)
    return original


def _directed(patch: Data) -> Data:
    directive = patch[_PATCH]
    if directive == "replace":
        del patch[_PATCH]
        return patch
    if directive == "delete":
        return {}
    raise _unknown(directive, patch)


def _unknown(directive: Any, patch: Data) -> StatusError:
    return refused(f"unknown patch type: {plain(directive)} in map: {plain(patch)}")


def _merge_field(original: Data, name: str, value: Any, node: Node | None) -> None:
    if name not in original or type(original[name]) is not type(value):
        _discard_nulls(value)
        _set(original, name, value)
    elif isinstance(value, dict):
        child = _child(node, name)
        replaces = child is not None and _strategy(child) == "replace"
        original[name] = value if replaces else _merge_map(original[name], value, child)
    elif isinstance(value, list):
        child = _child(node, name)
        merges = child is not None and _strategy(child) == "merge"
        original[name] = _merge_list(original[name], value, child) if merges else value
    else:
        original[name] = value


def _set(original: Data, name: str, value: Any) -> None:
    kept, keep = _without_directives(value)
    if keep:
        original[name] = kept
    else:
        original.pop(name, None)


def _child(node: Node | None, name: str) -> Node | None:
    """Return the schema of a field; a field without a schema is merged without one."""
    if node is None:
        return None
    found = node.child(name)
    if found is None and node.properties and not node.preserves_unknown:
        struct = node.reference.rpartition(".")[2] or "Object"
        raise refused(f'unable to find api field in struct {struct} for the json field "{name}"')
    return found


def _strategy(node: Node) -> str:
    return next((one for one in node.merge_strategy if one != "retainKeys"), "")


def _retain(original: Data, patch: Data) -> None:
    """Delete the fields that `$retainKeys` does not list; it must list all fields that the patch sets."""
    if _RETAIN not in patch:
        return
    kept = patch.pop(_RETAIN)
    bad = bad_request("invalid patch format of retainKeys")
    if not isinstance(kept, list):
        raise bad
    names = {name for name in kept if isinstance(name, str)}
    for name, value in patch.items():
        if value is not None and not name.startswith((_DELETE, _ORDER)) and name not in names:
            raise bad
    for name in [name for name in original if name not in names]:
        del original[name]


def _delete_scalars(original: Data, name: str, value: Any, node: Node | None) -> None:
    if value is None:
        original.pop(name, None)
        return
    found = original.get(name)
    if not isinstance(found, list) or not isinstance(value, list):
        return
    _child(node, name)
    kinds = {type(item) for item in (*found, *value)}
    if not found and not value:
        return
    if len(kinds) > 1:
        raise _mixed(found, value)
    gone = {identity(item) for item in value}
    rest = [item for item in found if identity(item) not in gone]
    original[name] = rest


def _mixed(*lists: list[Any]) -> StatusError:
    shown = " ".join(plain(one) for one in lists)
    return refused(f"list element types are not identical: [{shown}]")


def _item_kind(*lists: list[Any]) -> type:
    kinds = [type(item) for items in lists for item in items]
    if not kinds:
        raise refused("no elements in any of the given slices")
    if kinds[0] is list:
        raise unprocessable()
    if any(kind is not kinds[0] for kind in kinds):
        raise _mixed(*lists)
    return kinds[0]


def _merge_list(original: list[Any], patch: list[Any], node: Node | None) -> list[Any]:
    if not original and not patch:
        return original
    kind = _item_kind(original, patch)
    merge_key = node.merge_key if node is not None else ""
    if kind is not dict:
        merged = without_repeats(original + patch)
        named, others = partitioned(merged, patch, "")
        return arranged(named, others, patch, original, "", maps=False)
    if not merge_key:
        raise refused(f"cannot merge lists without merge key for {_item_name(node)}")
    live, patch = _special(list(original), patch, merge_key)
    merged = _merge_items(live, patch, merge_key, node)
    named, others = partitioned(merged, patch, merge_key)
    return arranged(named, others, patch, live, merge_key, maps=True)


def _item_name(node: Node | None) -> str:
    reference = node.items.reference if node is not None and node.items is not None else ""
    return reference.rpartition(".")[2]


def _special(original: list[Any], patch: list[Any], merge_key: str) -> tuple[list[Any], list[Any]]:
    """Apply the directives among the items of a list."""
    plain: list[Any] = []
    replace = False
    for item in patch:
        directive = item.get(_PATCH)
        if _PATCH not in item:
            plain.append(item)
        elif directive == "delete":
            gone = key_of(item, merge_key)
            original = [one for one in original if not _matches(one, merge_key, gone)]
        elif directive == "replace":
            replace = True
        elif directive == "merge":
            raise refused("merging lists cannot yet be specified in the patch")
        else:
            raise _unknown(directive, item)
    return (plain, []) if replace else (original, plain)


def _matches(item: Any, merge_key: str, value: Any) -> bool:
    return merge_key in item and identity(item[merge_key]) == identity(value)


def _merge_items(original: list[Any], patch: list[Any], merge_key: str, node: Node | None) -> list[Any]:
    places: dict[object, int] = {}
    merged = list(original)
    for at, item in enumerate(merged):
        if merge_key in item:
            places.setdefault(identity(item[merge_key]), at)
    below = node.items if node is not None else None
    for item in patch:
        name = identity(key_of(item, merge_key))
        if name in places:
            merged[places[name]] = _merge_map(merged[places[name]], item, below)
        else:
            places[name] = len(merged)
            merged.append(item)
    return merged


def _ordered(original: Data, patch: Data, directive: str, node: Node | None) -> None:
    """Merge the list of a `$setElementOrder`, and sort it in that order."""
    order = patch.pop(directive)
    name = directive.removeprefix(_ORDER)
    live, given = original.get(name), patch.get(name)
    for value in (order, *([live] if name in original else []), *([given] if name in patch else [])):
        if not isinstance(value, list):
            raise refused(f"expected a []interface {{}}, but received a {go_type(value)}")
    child = _child(node, name)
    merge_key = child.merge_key if child is not None else ""
    _follows(given or [], order, merge_key)
    if name in original and name in patch:
        merges = child is not None and _strategy(child) == "merge"
        merged = _merge_list(list(live or []), given or [], child) if merges else given or []
    elif name in original:
        merged = list(live or [])
    elif name in patch:
        merged, _ = _without_directives(given)
    else:
        return
    named, others = partitioned(merged, order, merge_key)
    kind = _item_kind(live or [], given or [])
    original[name] = arranged(named, others, order, live or [], merge_key, maps=kind is dict)
    patch.pop(name, None)


def _follows(given: list[Any], order: list[Any], merge_key: str) -> None:
    """Check that the items of a patch are in the order of its own `$setElementOrder`."""
    if not given or not order:
        return
    kept = [item for item in given if not (merge_key and isinstance(item, dict) and _PATCH in item)]
    at = 0
    for wanted in order:
        if at == len(kept):
            return
        one, two = (key_of(item, merge_key) if merge_key else item for item in (kept[at], wanted))
        at += identity(one) == identity(two)
    if at < len(kept):
        text = f"The order in patch list:\n{plain(given)}\n doesn't match $setElementOrder list:\n{plain(order)}\n"
        raise refused(text)


def _discard_nulls(value: Any) -> None:
    if isinstance(value, dict):
        for name in [name for name, one in value.items() if one is None]:
            del value[name]
        for one in value.values():
            _discard_nulls(one)
    elif isinstance(value, list):
        for one in value:
            _discard_nulls(one)


def _without_directives(value: Any) -> tuple[Any, bool]:
    """Remove directives from new values, and the fields that the directives apply to."""
    if isinstance(value, dict):
        if _PATCH in value:
            return None, False
        kept = {name: found[0] for name, one in value.items() if (found := _without_directives(one))[1]}
        return kept, True
    if isinstance(value, list):
        return [found[0] for one in value if (found := _without_directives(one))[1]], True
    return value, True
