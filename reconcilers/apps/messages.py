"""The messages of the conditions: the problem, and how to solve it.

Guarantees: no message copies the text of Flux's ValuesError, because YAML errors quote the values (an undefined alias `*hunter2` appears
in them). Of Flux's other texts a message has the cause, as `redaction` extracts it, and a reference to the rest.
"""

from __future__ import annotations

from datetime import timedelta

from konverge.conditions import Condition
from konverge.crds.apps_v1alpha1 import ADOPT
from konverge.crds.durations import format_duration
from konverge.errors import FieldConflict
from konverge.reconcilers.apps.redaction import redacted
from konverge.reconcilers.apps.values import ValuesFrom

__all__ = [
    "blocked_by_crds",
    "held_fields",
    "release_deleting",
    "failed",
    "no_progress",
    "deleted_without_uninstall",
    "foreign",
    "held_back",
    "missing_values",
    "not_adoptable",
    "not_adopted",
    "uninstall_overdue",
    "remediated",
    "release_taken",
    "rolling_out",
    "source_behind",
    "sources_overdue",
    "suspended",
    "unusable_values",
    "waiting_for_children",
]


def _span(duration: timedelta) -> str:
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


def blocked_by_crds(kinds: tuple[str, ...]) -> str:
    """The cluster lacks kinds of Flux."""
    return f"the cluster does not serve {', '.join(kinds)}; install Flux (source-controller and helm-controller) and its CRDs"


def held_fields(what: str, conflicts: tuple[FieldConflict, ...]) -> str:
    """Other managers own fields of a child; nothing is overwritten."""
    fields = ", ".join(f"{entry.field} (owned by {entry.manager})" for entry in conflicts)
    return (
        f"{what} was changed by others and is left as it is: {fields}; undo the change there, or put it into the spec"
    )


def foreign(what: str, controller: str) -> str:
    """A child's name is taken by an object of another controller, or of none."""
    owner = f"is controlled by {controller}" if controller else "has no controller"
    return f"{what} exists and {owner}, so it is not touched; delete or rename one of them" + (
        "" if controller else f", or annotate the instance with {ADOPT}=true to take it over"
    )


def not_adoptable(what: str, theirs: str, advice: str) -> str:
    """Flux would uninstall the running release if this were changed."""
    return f"{what} is {theirs}, and Flux would uninstall what runs if that changed: {advice}"


def not_adopted(name: str, why: str) -> str:
    """A HelmRelease that the instance should adopt stays as it is."""
    return f"HelmRelease {name} cannot be taken over: {why}"


def release_taken(release: str, keeper: str) -> str:
    """The Helm release of this name belongs to another instance."""
    return (
        f"the Helm release {release} of this namespace belongs to ApplicationInstance {keeper}, so nothing is applied for this one; "
        f"create it anew with another spec.release.name, or delete {keeper}"
    )


def deleted_without_uninstall(name: str, keeper: str) -> str:
    """A HelmRelease is deleted without an uninstall, since the workload belongs to another instance."""
    return (
        f"HelmRelease {name} is deleted without an uninstall: its Helm release belongs to ApplicationInstance {keeper}"
    )


def release_deleting() -> str:
    """The HelmRelease is under deletion while the instance is not."""
    return "the HelmRelease is being deleted; it is made again as soon as it is gone"


def held_back(version: str) -> str:
    """The apply of this version was held, since other managers own fields of it."""
    return f"version {version} is held, and nothing of it is sent, because others own fields of it; see the condition Degraded"


def source_behind() -> str:
    """The release is as the spec says, but its chart came from another source."""
    return "Flux has not fetched from the source as the spec names it now"


def no_progress(no_progress: timedelta, controller: str) -> str:
    """A controller of Flux has made no progress for a long time."""
    what = "HelmRelease" if controller == "helm-controller" else "source"
    return f"no progress for {_span(no_progress)}: see whether {controller} runs and what it logs about this {what}"


def uninstall_overdue(name: str, waited: timedelta, upstream: str) -> str:
    """An uninstall takes too long. The finalizer stays: dropping it would orphan the workloads silently."""
    return (
        f"the uninstall of HelmRelease {name} has not ended after {_span(waited)}"
        + (f" ({upstream})" if upstream else "")
        + ": see whether helm-controller runs and what hinders the uninstall. To give up, remove the finalizer "
        "finalizers.fluxcd.io from the HelmRelease by hand; what the chart made then stays behind"
    )


def sources_overdue(names: tuple[str, ...], waited: timedelta) -> str:
    """Sources of an uninstalled release are not deleted in time."""
    return (
        f"{', '.join(names)} have not gone after {_span(waited)}: see whether source-controller runs. To give up, remove the "
        "finalizer finalizers.fluxcd.io from them by hand; nothing of the release depends on them any more"
    )


def waiting_for_children(names: tuple[str, ...]) -> str:
    """The release is gone, and its sources are still being deleted."""
    return f"the release is uninstalled; waiting until {', '.join(names)} are gone"
