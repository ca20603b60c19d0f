"""The end state of a run, for comparison: everything that is stored, with masks for values that differ from run to run.

Guarantees: pure. Masked are uids (an owner reference shows whom it names, and whether that owner exists), versions, times, generation
numbers (an observedGeneration shows whether it is current), values that the server drew, and what the caller names. Field ownership is not
compared: a process that died between two writes may own the same fields in another way. Everything else counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final

from konverge_testing.lab.allowances import Mask
from konverge_testing.lab.drawn import DrawnValues

__all__ = ["IGNORED", "State", "key_of", "masked", "state_of"]

State = dict[str, Any]
"""Objects by `plural.group namespace/name`, masked."""

IGNORED: Final = frozenset(
    {
        ("events.k8s.io", "events"),
        ("", "events"),
        ("coordination.k8s.io", "leases"),
        ("rbac.authorization.k8s.io", "clusterroles"),
        ("rbac.authorization.k8s.io", "clusterrolebindings"),
        ("rbac.authorization.k8s.io", "roles"),
        ("rbac.authorization.k8s.io", "rolebindings"),
        ("apiextensions.k8s.io", "customresourcedefinitions"),
    }
)
"""Resources whose end state is not compared."""

_TIME: Final = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$")
_DROPPED: Final = frozenset({"uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "selfLink"})


def state_of(
    objects: Mapping[tuple[tuple[str, str], str, str], dict[str, Any]],
    masks: Iterable[Mask] = (),
    drawn: Mapping[str | int, str] = MappingProxyType({}),
) -> State:
    """Return the masked state of all objects; the keys are resource, namespace and name.

    `drawn` has the values that the server drew, each with its field. Objects whose names were drawn alike are numbered.
    """
    uids = {data["metadata"].get("uid", ""): f"{data['kind']} {data['metadata']['name']}" for data in objects.values()}
    masks, values = list(masks), DrawnValues(drawn)
    state: State = {}
    alike: dict[str, list[dict[str, Any]]] = {}
    for ((group, plural), namespace, name), data in sorted(objects.items(), key=lambda item: item[0]):
        if (group, plural) in IGNORED:
            continue
        meant = [mask for mask in masks if mask.means(data)]
        if any(not mask.parts for mask in meant):
            continue
        parts = [part for mask in meant for part in mask.parts]
        paths = [tuple(path.strip(".").split(".")) for path in parts if isinstance(path, str)]
        shown = values.object(masked(data, uids, paths))
        for edit in parts:
            if callable(edit):
                edit(shown)
        place = key_of((group, plural), namespace, name)
        if values.text(place) == place:
            state[place] = shown
        else:
            alike.setdefault(values.text(place), []).append(shown)
    for place, several in alike.items():
        for number, shown in enumerate(sorted(several, key=repr)):
            state[f"{place} ({number + 1})" if number else place] = shown
    return state


def key_of(resource: tuple[str, str], namespace: str, name: str) -> str:
    """Return the key of an object in a state.

    >>> key_of(("apps", "deployments"), "lab", "web"), key_of(("", "namespaces"), "", "lab")
    ('deployments.apps lab/web', 'namespaces lab')
    """
    group, plural = resource
    where = f"{namespace}/{name}" if namespace else name
    return f"{plural}.{group} {where}" if group else f"{plural} {where}"


def masked(data: dict[str, Any], uids: Mapping[str, str], paths: Iterable[tuple[str, ...]] = ()) -> dict[str, Any]:
    """Return one object under the masks."""
    generation = data["metadata"].get("generation")
    found: dict[str, Any] = _values(data, generation, uids)
    metadata = {key: value for key, value in found["metadata"].items() if key not in _DROPPED}
    for reference in metadata.get("ownerReferences") or ():
        reference["uid"] = uids.get(reference["uid"], "nobody")
    if "ownerReferences" in metadata:
        metadata["ownerReferences"] = sorted(metadata["ownerReferences"], key=lambda one: (one["kind"], one["name"]))
    found["metadata"] = metadata
    for path in paths:
        _drop(found, path)
    return found


def _values(value: Any, generation: Any, uids: Mapping[str, str]) -> Any:
    if isinstance(value, dict):
        return {key: _value(key, below, generation, uids) for key, below in value.items()}
    if isinstance(value, list):
        return [_values(one, generation, uids) for one in value]
    if isinstance(value, str) and _TIME.match(value):
        return "a time"
    return value


def _value(key: str, value: Any, generation: Any, uids: Mapping[str, str]) -> Any:
    if key == "observedGeneration" and isinstance(value, int):
        return "current" if value == generation else "behind"
    if (
        key == "conditions"
        and isinstance(value, list)
        and all(isinstance(one, dict) and "type" in one for one in value)
    ):
        value = sorted(value, key=lambda one: str(one["type"]))  # a map by type, in the order of the first writes
    if isinstance(value, str) and value in uids and key != "uid":
        return f"uid of {uids[value]}"
    return _values(value, generation, uids)


def _drop(here: Any, path: tuple[str, ...]) -> None:
    head, rest = path[0], path[1:]
    if isinstance(here, list):
        for one in here:
            _drop(one, path)
    elif isinstance(here, dict) and head in here:
        if rest:
            _drop(here[head], rest)
        else:
            del here[head]
