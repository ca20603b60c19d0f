"""Events, in both forms (v1 and events.k8s.io/v1), and Leases.

A real server stores one kind of event and shows it in two forms; `as_core` and `as_new` change the form of an object. Source:
`pkg/apis/core/validation/events.go`, `pkg/apis/events/v1/conversion.go`, `pkg/apis/coordination/validation/validation.go`.
"""

from __future__ import annotations

from typing import Any, Final

from konverge_testing.apiserver import names
from konverge_testing.apiserver.strategies.base import BuiltInStrategy
from konverge_testing.apiserver.strategies.errors import Data, Errors, immutable, invalid, required
from konverge_testing.apiserver.strategies.rules import at, given, must, not_negative, struct, text

__all__ = ["CoreEvent", "Event", "Lease", "as_core", "as_new"]

_FORMS: Final = {
    "regarding": "involvedObject",
    "note": "message",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}
"""Fields of events.k8s.io/v1 and their names in v1."""

_CHANGELESS: Final = (
    "involvedObject reason message source firstTimestamp lastTimestamp count reason type eventTime action related "
    "reportingComponent reportingInstance"
)
"""Fields that no update of an event of events.k8s.io/v1 changes, in the order of kube-apiserver, which checks the reason twice."""


def as_core(event: Data) -> Data:
    """Convert an event of events.k8s.io/v1 to v1."""
    renamed = {_FORMS.get(name, name): value for name, value in event.items()}
    return {"reportingComponent": "", "reportingInstance": "", **renamed, "apiVersion": "v1"}


def as_new(event: Data) -> Data:
    """Convert an event of v1 to events.k8s.io/v1."""
    back = {old: new for new, old in _FORMS.items()}
    renamed = {back.get(name, name): value for name, value in event.items()}
    for name in ("reportingController", "reportingInstance"):
        if renamed.get(name) == "":
            del renamed[name]  # the other API writes them even if they are empty
    return {**renamed, "apiVersion": "events.k8s.io/v1"}


class CoreEvent(BuiltInStrategy):
    """An event of v1."""

    allow_create_on_update = True
    name_rule = "path"
    controller = "reportingComponent"

    def form(self, event: Data) -> Data:
        """Return an event in v1's form."""
        return event

    def _errors(self, new: Data, _old: Data | None) -> Errors:
        return _common_errors(self.form(new), self.controller)

    def _labels(self, object_: Data) -> dict[str, str]:
        event = self.form(object_)
        about, source = event.get("involvedObject") or {}, (event.get("source") or {}).get("component", "")
        reporter = event.get("reportingComponent", "")
        named = ["kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath"]
        return {
            **{f"involvedObject.{name}": about.get(name, "") for name in named},
            "reason": event.get("reason", ""),
            "reportingComponent": reporter,
            "source": source or reporter,
            "type": event.get("type", ""),
        }


class Event(CoreEvent):
    """An event of events.k8s.io/v1: stricter, and its content never changes."""

    name_rule = "subdomain"
    controller = "reportingController"

    def form(self, event: Data) -> Data:
        """Return an event in v1's form."""
        return as_core(event)

    def _errors(self, new: Data, old: Data | None) -> Errors:
        errors = super()._errors(new, old)
        event = self.form(new)
        if old is not None:
            return errors + _changed(event, self.form(old))
        errors += _series_errors(event)
        if not event.get("eventTime"):
            errors.append(required("eventTime"))
        if event.get("type") not in ("Normal", "Warning"):
            errors.append(invalid("type", "", f"has invalid value: {event.get('type', '')}"))
        for name in ("firstTimestamp", "lastTimestamp", "count", "source"):
            if event.get(name):
                errors.append(invalid(name, "", "needs to be unset"))
        return errors

    def _labels(self, object_: Data) -> dict[str, str]:
        labels = super()._labels(object_)
        renamed = {name.replace("involvedObject", "regarding"): value for name, value in labels.items()}
        renamed["reportingController"] = renamed.pop("reportingComponent")
        return {name: value for name, value in renamed.items() if name != "source"}


def _changed(new: Data, old: Data) -> Errors:
    errors = [] if new.get("series") == old.get("series") else _series_errors(new)
    for name in _CHANGELESS.split():
        path = "reportingController" if name == "reportingComponent" else name
        errors += immutable(path, new.get(name), old.get(name))
    return errors


def _series_errors(event: Data) -> Errors:
    series = event.get("series")
    if series is None:
        return []
    errors: Errors = []
    if series.get("count", 0) < 2:
        errors.append(invalid("series.count", "", "should be at least 2"))
    if not series.get("lastObservedTime"):
        errors.append(required("series.lastObservedTime"))
    return errors


def _common_errors(event: Data, controller: str) -> Errors:
    namespace = event["metadata"].get("namespace", "")
    about = (event.get("involvedObject") or {}).get("namespace", "")
    errors: Errors = []
    if event.get("eventTime"):
        if not about and namespace not in ("default", "kube-system"):
            errors.append(_misplaced(about))
        errors += _new_errors(event, controller)
    elif about != namespace if about else namespace not in ("", "default"):
        errors.append(_misplaced(about))
    return errors + text(names.dns1123_subdomain)(namespace, "namespace")


def _misplaced(namespace: str) -> Any:
    return invalid("involvedObject.namespace", namespace, "does not match event.namespace")


def _new_errors(event: Data, controller: str) -> Errors:
    reporter = event.get("reportingComponent", "")
    errors = [] if reporter else [required(controller)]
    errors += text(names.label_key)(reporter, controller)
    for name, limit in {"reportingInstance": 128, "action": 128, "reason": 128, "message": 1024}.items():
        value = event.get(name, "")
        if not value and name != "message":
            errors.append(required(name))
        if len(value.encode()) > limit:
            errors.append(invalid(name, "", f"can have at most {limit} characters"))
    return errors


class Lease(BuiltInStrategy):
    """Lease: the holder of a lock, and its duration."""

    allow_create_on_update = True
    unconditional_update = False
    rules = struct(
        at(
            "spec",
            given("leaseDurationSeconds", must(lambda seconds: seconds > 0, "must be greater than 0")),
            not_negative("leaseTransitions"),
        )
    )

    def _create(self, new: Data) -> None:
        spec = new.get("spec") or {}
        spec.pop("strategy", None)
        spec.pop("preferredHolder", None)

    def _update(self, new: Data, old: Data) -> None:
        for name in ("strategy", "preferredHolder"):
            if name not in (old.get("spec") or {}):
                (new.get("spec") or {}).pop(name, None)
