"""Adoption of a HelmRelease or source that exists without a controller, if the instance is annotated with `adopt`.

The adopting apply takes the rendered fields by force, once: the annotation requests it, and a held field that differs would leave the
object partly adopted. Afterwards fields that other managers change are held, as for any child. Fields that the instance does not render
(values of other keys, strategies) stay as they are.

A change that makes Flux uninstall the release is refused, since its workload has data: another release name, namespace or chart. A release
with rights that the instance lacks is refused as well: a service account, another cluster.

Guarantees: pure.
"""

from __future__ import annotations

from collections.abc import Iterator

from konverge.objects import Metadata, Object
from konverge.reconcilers.apps import messages
from konverge.reconcilers.apps.observe import controls
from konverge.runtime import HOLD, TAKE, OnConflict

__all__ = ["obstacles", "on_conflict"]


def on_conflict(owner: Metadata, existing: Object | None, *, adopt: bool) -> OnConflict:
    """Return the conflict policy of a child: take fields of other managers during the adoption, hold them otherwise."""
    return TAKE if adopt and existing is not None and not controls(owner, existing) else HOLD


def _release_name(release: Object) -> str:
    """Return the Helm release name of a HelmRelease; Flux's default is `[targetNamespace-]name`."""
    name, target = release.get("spec", "releaseName"), release.get("spec", "targetNamespace")
    return str(name or (f"{target}-{release.name}" if target else release.name))


def obstacles(existing: Object, rendered: Object) -> Iterator[str]:
    """Yield why a HelmRelease cannot be adopted, with the remedy."""
    theirs, rendered_value = _release_name(existing), _release_name(rendered)
    if theirs != rendered_value:
        yield messages.not_adoptable("its release name", theirs, f"give the instance spec.release.name {theirs}")
    home = existing.namespace
    target = str(existing.get("spec", "targetNamespace") or home)
    if target != home:
        yield messages.not_adoptable("its namespace", target, f"create the instance in the namespace {target}")
    if existing.get("spec", "kubeConfig") is not None:
        yield "its spec.kubeConfig installs into another cluster: have its owner remove the field first"
    account = existing.get("spec", "serviceAccountName")
    if account and not rendered.get("spec", "serviceAccountName"):
        yield (
            f"its spec.serviceAccountName {account} would give the chart the rights of that account: give the instance this "
            "spec.serviceAccountName, if the settings allow it"
        )
    chart, rendered_value = (
        existing.get("spec", "chart", "spec", "chart"),
        rendered.get("spec", "chart", "spec", "chart"),
    )
    if isinstance(chart, str) and rendered_value is not None and chart != rendered_value:
        yield messages.not_adoptable("its chart", chart, f"give the instance spec.chart.name {chart}")
    for field, other in (("chart", "chartRef"), ("chartRef", "chart")):
        if existing.get("spec", field) is not None and rendered.get("spec", other) is not None:
            yield f"its spec.{field} and the spec.{other} of the instance exclude each other: remove spec.{field} from it first"
