"""The messages about a release: the problem, and how to solve it.

Guarantees: no message copies the text of Flux's ValuesError, because YAML errors quote the values (an undefined alias `*hunter2` appears
in them). Of Flux's other texts a message has the cause, as `redaction` extracts it, and a reference to the rest.
"""

from __future__ import annotations

from datetime import timedelta

from konverge.conditions import Condition
from konverge.crds.durations import format_duration
from konverge.reconcilers.shared.helm_release.redaction import redacted
from konverge.reconcilers.shared.helm_release.values import ValuesFrom

__all__ = [
    "failed",
    "held_back",
    "missing_values",
    "no_progress",
    "release_deleting",
    "remediated",
    "rolling_out",
    "source_behind",
    "span",
    "suspended",
    "unusable_values",
]


def span(duration: timedelta) -> str:
    """A duration in whole seconds."""
    return format_duration(timedelta(seconds=int(duration.total_seconds())))


def rolling_out(version: str, upstream: str = "") -> str:
    """Flux rolls out this version."""
    return f"version {version} is being rolled out" + (f": {upstream}" if upstream else "")


def failed(upstream: Condition | None) -> str:
    """A release failed: Flux's reason, and the cause from its text."""
    if upstream is None:
        return "Flux reports a failed release without a cause; look at the HelmRelease's events"
    return f"{upstream.reason}: {redacted(upstream)}" if upstream.message else upstream.reason


def remediated(failure: Condition | None, remedy: Condition) -> str:
    """A release failed and Flux remediated it, or tried to: both texts."""
    return f"{failed(failure)}; then {failed(remedy)}" if failure is not None else failed(remedy)


def suspended(*, waiting: bool) -> str:
    """The HelmRelease is suspended."""
    what = "what the spec asks for is not rolled out" if waiting else "changes are not rolled out"
    return f"the HelmRelease is suspended: {what} until it is resumed (flux resume helmrelease)"


def missing_values(values: ValuesFrom) -> str:
    """The Secret or ConfigMap, or its key, does not exist."""
    what = f"{values.kind} {values.namespace}/{values.name}"
    if not values.exists:
        return f"{what} does not exist; create it with the key {values.key}, which holds the values as YAML"
    return f"{what} has no key {values.key}; add it with the values as YAML, or name another key in spec.values"


def unusable_values(values: ValuesFrom | None) -> str:
    """Flux cannot use the values. Names their object, without Flux's text, which may quote them."""
    if values is None:
        return "Flux cannot compose the values of the release; correct spec.values.inline"
    return (
        f"Flux cannot use the values in {values.kind} {values.namespace}/{values.name}, key {values.key}: "
        "the key must exist and hold one YAML mapping; correct it there"
    )


def held_back(version: str) -> str:
    """The apply of this version was held, since other managers own fields of it."""
    return f"version {version} is held, and nothing of it is sent, because others own fields of it; see the condition Degraded"


def source_behind() -> str:
    """The release matches the spec, but its chart is from another source."""
    return "Flux has not fetched from the source as the spec names it now"


def no_progress(no_progress: timedelta, controller: str) -> str:
    """A controller of Flux has made no progress for a long time."""
    what = "HelmRelease" if controller == "helm-controller" else "source"
    return f"no progress for {span(no_progress)}: see whether {controller} runs and what it logs about this {what}"


def release_deleting() -> str:
    """The HelmRelease is under deletion while the instance is not."""
    return "the HelmRelease is being deleted; it is made again as soon as it is gone"
