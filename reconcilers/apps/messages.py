"""The messages of the conditions: the problem, and how to solve it. Messages about the release are in reconcilers/shared/helm_release."""

from __future__ import annotations

from datetime import timedelta

from konverge.crds.apps_v1alpha1 import ADOPT
from konverge.errors import FieldConflict
from konverge.reconcilers.shared.helm_release.messages import span
from konverge.reconcilers.shared.helm_release.redaction import without_queries

__all__ = [
    "blocked_by_crds",
    "held_fields",
    "deleted_without_uninstall",
    "foreign",
    "not_adoptable",
    "not_adopted",
    "not_deployed_again",
    "not_fetched_again",
    "uninstall_overdue",
    "release_taken",
    "sources_overdue",
    "waiting_for_children",
]


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


def not_fetched_again(former: str, chart: str) -> str:
    """The URL changed, and Flux kept the chart that it had fetched from the former URL."""
    origin = f", and what runs is from {without_queries(former)}" if former else ""
    return (
        f"Flux has not fetched the chart again since the change of spec.chart.url{origin}: Flux pulls a version only once. "
        f"If the content differs, publish it under another version, or delete the HelmChart {chart} and run flux reconcile helmrelease"
    )


def not_deployed_again(name: str) -> str:
    """Flux fetched other content of the same version, and did not upgrade."""
    return (
        "Flux has fetched other content under this version and has not deployed it: Flux upgrades if Chart.yaml differs. "
        f"To deploy it, run flux reconcile helmrelease {name} --force, or publish it under another version"
    )


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


def uninstall_overdue(name: str, waited: timedelta, upstream: str) -> str:
    """An uninstall takes too long. The finalizer stays: dropping it would orphan the workloads silently."""
    return (
        f"the uninstall of HelmRelease {name} has not ended after {span(waited)}"
        + (f" ({upstream})" if upstream else "")
        + ": see whether helm-controller runs and what hinders the uninstall. To give up, remove the finalizer "
        "finalizers.fluxcd.io from the HelmRelease by hand; what the chart made then stays behind"
    )


def sources_overdue(names: tuple[str, ...], waited: timedelta) -> str:
    """Sources of an uninstalled release are not deleted in time."""
    return (
        f"{', '.join(names)} have not gone after {span(waited)}: see whether source-controller runs. To give up, remove the "
        "finalizer finalizers.fluxcd.io from them by hand; nothing of the release depends on them any more"
    )


def waiting_for_children(names: tuple[str, ...]) -> str:
    """The release is deleted, and its sources are still being deleted."""
    return f"the release is uninstalled; waiting until {', '.join(names)} are gone"
