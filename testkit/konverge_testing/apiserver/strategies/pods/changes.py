"""Validation of an update of a pod's spec, where hardly a field may change.

Guarantees: pure. The text of a refused change ends with a difference in v1 form; upstream it is in Go's internal structs. Source:
`pkg/apis/core/validation/validation.go` (ValidatePodUpdate).
"""

from __future__ import annotations

import copy
import difflib
import json
from typing import Any, Final

from konverge_testing.apiserver.golang import Struct
from konverge_testing.apiserver.strategies.base import restore
from konverge_testing.apiserver.strategies.errors import Data, Errors, forbidden, invalid
from konverge_testing.apiserver.strategies.pods.containers import image_errors
from konverge_testing.apiserver.strategies.pods.scheduling import REQUIRED, tolerations
from konverge_testing.apiserver.strategies.rules import between, each, need

__all__ = ["change_errors", "difference"]

_CHANGEABLE: Final = (
    "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing "
    "tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)
_PARTS: Final = ("matchExpressions", "matchFields")


def change_errors(new: Data, old: Data) -> Errors:
    """Check the changes of an update in a pod's spec."""
    errors: Errors = []
    for field in ("containers", "initContainers"):
        now, before = new.get(field) or [], old.get(field) or []
        if len(now) != len(before):
            return [*errors, forbidden(f"spec.{field}", "pod updates may not add or remove containers")]
        errors += each(need("image"), image_errors)(now, f"spec.{field}")
    wrong, stop = _deadline_errors(new.get("activeDeadlineSeconds"), old.get("activeDeadlineSeconds"))
    errors += wrong
    if stop:
        return errors
    errors += _added_tolerations(new.get("tolerations") or [], old.get("tolerations") or [])
    left = [each.get("name", "") for each in old.get("schedulingGates") or ()]
    for index, gate in enumerate(new.get("schedulingGates") or ()):
        if (name := gate.get("name", "")) not in left:
            text = f"only deletion is allowed, but found new scheduling gate '{name}'"
            errors.append(forbidden(f"spec.schedulingGates[{index}].name", text))
    if left:
        errors += _narrowed(new, old)
    munged = _munged(new, old)
    if munged != old:
        text = f"pod updates may not change fields other than {_CHANGEABLE}\n{difference(old, munged)}"
        errors.append(forbidden("spec", text))
    return errors


def _deadline_errors(new: int | None, old: int | None) -> tuple[Errors, bool]:
    path = "spec.activeDeadlineSeconds"
    if new is None:
        text = "must not update from a positive integer to nil value"
        return ([invalid(path, None, text)], False) if old is not None else ([], False)
    if wrong := between(0, 2**31 - 1)(new, path):
        return wrong, True
    if old is not None and old < new:
        return [invalid(path, new, "must be less than or equal to previous value")], True
    return [], False


def _added_tolerations(new: list[Data], old: list[Data]) -> Errors:
    for toleration in old:
        if not any({**toleration, "tolerationSeconds": 0} == {**other, "tolerationSeconds": 0} for other in new):
            return [
                forbidden("spec.tolerations", "existing toleration can not be modified except its tolerationSeconds")
            ]
    return tolerations(new, "spec.tolerations")


def _munged(new: Data, old: Data) -> Data:
    """Return the new spec with the old values of all mutable fields."""
    munged = copy.deepcopy(new)
    for field in ("containers", "initContainers"):
        for now, before in zip(munged.get(field) or (), old.get(field) or (), strict=True):
            restore(now, before, "image")
    restore(munged, old, "activeDeadlineSeconds", "schedulingGates", "tolerations")
    if old.get("terminationGracePeriodSeconds", 0) < 0 and munged.get("terminationGracePeriodSeconds") == 1:
        restore(munged, old, "terminationGracePeriodSeconds")
    if old.get("schedulingGates"):
        restore(munged, old, "nodeSelector")
        before = (old.get("affinity") or {}).get("nodeAffinity")
        affinity = {**(munged.get("affinity") or {}), "nodeAffinity": before}
        if before is None:
            del affinity["nodeAffinity"]
        munged["affinity"] = affinity
        if not affinity and "affinity" not in old:
            del munged["affinity"]
    return munged


def _narrowed(new: Data, old: Data) -> Errors:
    """Check that an update of a gated pod only narrows its choice of nodes."""
    errors: Errors = []
    chosen, before = new.get("nodeSelector"), old.get("nodeSelector") or {}
    if any((chosen or {}).get(key) != value for key, value in before.items()):
        text = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
        errors.append(invalid("spec.nodeSelector", chosen, text))
    terms, known = _terms(new), _terms(old)
    path = f"spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms"
    if known and len(terms) != len(known):
        text = "no additions/deletions to non-empty NodeSelectorTerms list are allowed"
        return [*errors, invalid(path, [_shown_term(term) for term in terms] or None, text)]
    for index, (term, other) in enumerate(zip(terms, known, strict=False)):
        if not _only_adds(term, other):
            text = "only additions are allowed (no mutations or deletions)"
            errors.append(invalid(f"{path}[{index}]", _shown_term(term), text))
    return errors


def _terms(spec: Data) -> list[Data]:
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    return (affinity.get(REQUIRED) or {}).get("nodeSelectorTerms") or []


def _only_adds(new: Data, old: Data) -> bool:
    parts = [(new.get(name) or [], old.get(name) or []) for name in _PARTS]
    if not any(before for _, before in parts):
        return not any(now for now, _ in parts)
    return all(now[: len(before)] == before for now, before in parts)


def _shown_term(term: Data) -> Struct:
    """Return a term as Go prints its struct."""
    return Struct(
        {
            f"{name[0].upper()}{name[1:]}": [
                Struct({part.title(): each.get(part) for part in ("key", "operator", "values")})
                for each in term.get(name) or ()
            ]
            or None
            for name in _PARTS
        }
    )


def difference(old: Any, new: Any) -> str:
    """Return a unified difference of two values as JSON."""
    one, other = (json.dumps(each, indent=1, sort_keys=True).splitlines() for each in (old, new))
    return "\n".join([*difflib.unified_diff(one, other, lineterm="", n=3)][2:]) + "\n"
