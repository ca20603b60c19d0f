"""LimitRanger: default requests and limits of new pods, and the bounds on pods and claims.

Guarantees: pure. `fill_limits` changes `call.object` in place; `check_limits` raises the 403 of the first violated LimitRange, with
all its violations. The rules are from Kubernetes' `plugin/pkg/admission/limitranger/admission.go`: pods when they are created or
resized, claims at every write, no object under deletion. The sums of a pod follow its spec, with init containers, sidecars and
the pod's own cpu and memory, and without overhead.

Several LimitRanges are applied in the order of their names, and so are the resources within one; a real server takes both in random order.
The first default counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

from konverge.quantities import PRECISE, THOUSANDTH, WHOLE, ZERO, Amounts, Quantity, read
from konverge_testing.apiserver.admission.call import AdmissionCall, Data, denied
from konverge_testing.apiserver.admission.pods import spec_amounts

__all__ = ["LIMITS", "check_limits", "fill_limits", "limited"]

LIMITS: Final = ("", "limitranges")
ANNOTATION: Final = "kubernetes.io/limit-ranger"
_PODS: Final = ("", "pods")
_CLAIMS: Final = ("", "persistentvolumeclaims")
_POD_LEVEL: Final = ("cpu", "memory")

Asked: TypeAlias = tuple[Amounts, Amounts | None]
"""Requests and limits; None if the kind has no limits (claims)."""


def limited(call: AdmissionCall) -> bool:
    """Tell whether LimitRanges apply to a write."""
    if call.id not in (_PODS, _CLAIMS) or call.object is None:
        return False
    if ((call.old or {}).get("metadata") or {}).get("deletionTimestamp"):
        return False
    if call.id == _PODS:
        return (call.operation, call.subresource) in (("CREATE", ""), ("UPDATE", "resize"))
    return call.operation in ("CREATE", "UPDATE") and not call.subresource


# -- defaults ---------------------------------------------------------------------------------------------------------


def fill_limits(call: AdmissionCall, ranges: Sequence[Data]) -> None:
    """Give the containers of a pod the missing requests and limits, in place, and record them in an annotation."""
    if call.id != _PODS or call.object is None or not limited(call):
        return
    for found in ranges:
        # A LimitRange records only its own defaults.
        if notes := _filled(call.object, found):
            metadata = call.object.setdefault("metadata", {})
            metadata["annotations"] = {
                **(metadata.get("annotations") or {}),
                ANNOTATION: f"LimitRanger plugin set: {'; '.join(notes)}",
            }


def _filled(pod: Data, found: Data) -> list[str]:
    defaults: dict[str, dict[str, str]] = {"requests": {}, "limits": {}}
    for item in _items(found, "Container"):
        defaults["requests"] |= item.get("defaultRequest") or {}
        defaults["limits"] |= item.get("default") or {}
    notes = []
    for title, container in _containers(pod):
        for what, given in defaults.items():
            resources = container.get("resources") or {}
            stated = resources.get(what) or {}
            if lacking := sorted(given.keys() - stated.keys()):
                whole = {**stated, **{name: given[name] for name in lacking}}
                container["resources"] = {**resources, what: {name: whole[name] for name in sorted(whole)}}
                notes.append(f"{', '.join(lacking)} {what[:-1]} for {title} {container['name']}")
    return notes


def _items(found: Data, *kinds: str) -> Iterator[Data]:
    for item in (found.get("spec") or {}).get("limits") or ():
        if item.get("type") in kinds:
            yield item


def _containers(pod: Data) -> Iterator[tuple[str, Data]]:
    spec = pod.get("spec") or {}
    for field, title in (("containers", "container"), ("initContainers", "init container")):
        for container in spec.get(field) or ():
            yield title, container


# -- bounds -----------------------------------------------------------------------------------------------------------


def check_limits(call: AdmissionCall, ranges: Sequence[Data]) -> None:
    """Raise the 403 of the first LimitRange that a pod or a claim violates."""
    if call.object is None or not limited(call):
        return
    kinds = ("Container", "Pod") if call.id == _PODS else ("PersistentVolumeClaim",)
    for found in ranges:
        wrong: dict[str, None] = {}
        for item in _items(found, *kinds):
            for asked in _measured(call.object, item["type"]):
                wrong.update(dict.fromkeys(_violations(item, *asked)))
        if wrong:
            text = ", ".join(wrong)
            raise denied(call, text if len(wrong) == 1 else f"[{text}]")


def _measured(found: Data, kind: str) -> Iterator[Asked]:
    """Yield the pairs of requests and limits that LimitRange items of a kind bound."""
    if kind == "Container":
        for _, container in _containers(found):
            resources = container.get("resources") or {}
            yield read(resources.get("requests")), read(resources.get("limits"))
    elif kind == "Pod":
        yield _of_pod(found, "requests"), _of_pod(found, "limits")
    else:
        yield read(((found.get("spec") or {}).get("resources") or {}).get("requests")), None


def _of_pod(pod: Data, what: str) -> Amounts:
    own = read(((pod.get("spec") or {}).get("resources") or {}).get(what))
    return spec_amounts(pod, what) | {name: own[name] for name in _POD_LEVEL if name in own}


def _violations(item: Data, requests: Amounts, limits: Amounts | None) -> Iterator[str]:
    kind = item["type"]
    for name, least in _by_name(item.get("min")):
        text = f"minimum {name} usage per {kind} is {least}"
        if name not in requests:
            yield f"{text}.  No request is specified"
        else:
            yield from _too_small(text, least, requests[name], (limits or {}).get(name))
    for name, most in _by_name(item.get("max")):
        text = f"maximum {name} usage per {kind} is {most}"
        if limits is None:
            yield from _too_large(text, most, "request", requests.get(name), None)
        else:
            yield from _too_large(text, most, "limit", limits.get(name), requests.get(name))
    for name, ratio in _by_name(item.get("maxLimitRequestRatio")) if limits is not None else ():
        text = f"{name} max limit to request ratio per {kind} is {ratio}"
        yield from _too_far_apart(text, ratio, requests.get(name), (limits or {}).get(name))


def _by_name(amounts: Mapping[str, Any] | None) -> list[tuple[str, Quantity]]:
    return sorted(read(amounts).items(), key=lambda entry: entry[0])


def _too_small(text: str, least: Quantity, request: Quantity, limit: Quantity | None) -> Iterator[str]:
    asked, allowed, bound = _comparable(request, limit or ZERO, least)
    if asked < bound:
        yield f"{text}, but request is {request}"
    elif limit is not None and allowed < bound:
        yield f"{text}, but limit is {limit}"


def _too_large(text: str, most: Quantity, what: str, given: Quantity | None, request: Quantity | None) -> Iterator[str]:
    """Check the given amount against a maximum, and besides a limit also the request."""
    stated, asked, bound = _comparable(given or ZERO, request or ZERO, most)
    if given is None:
        yield f"{text}.  No {what} is specified"
    elif stated > bound:
        yield f"{text}, but {what} is {given}"
    elif request is not None and asked > bound:
        yield f"{text}, but request is {request}"


def _too_far_apart(text: str, ratio: Quantity, request: Quantity | None, limit: Quantity | None) -> Iterator[str]:
    asked, allowed, _ = _comparable(request or ZERO, limit or ZERO, ratio)
    if not asked:
        yield f"{text}, but no request is specified or request is 0"
    elif not allowed:
        yield f"{text}, but no limit is specified or limit is 0"
    else:
        actual, whole = float(allowed) / float(asked), ratio.count(WHOLE)
        if actual * 1000 > float(ratio.count(THOUSANDTH)) if whole <= PRECISE else actual > float(whole):
            yield f"{text}, but provided ratio is {actual:f}"


def _comparable(request: Quantity, limit: Quantity, bound: Quantity) -> tuple[int, int, int]:
    """Return three amounts in thousandths, or in whole units if one of them is too large for that."""
    amounts = request, limit, bound
    unit = THOUSANDTH if all(amount.count(WHOLE) <= PRECISE for amount in amounts) else WHOLE
    return request.count(unit), limit.count(unit), bound.count(unit)
