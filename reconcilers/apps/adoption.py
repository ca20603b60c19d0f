"""Taking over a HelmRelease or source that exists without a controller, because the instance says `adopt`.

What the instance renders is taken by force then, once: the annotation asks for that very thing, and to hold a field that differs would
leave the object half ours. Afterwards fields that others change are held, as for any child. Fields that the instance does not render
(values of other keys, strategies) stay as they are.

What Flux would answer with an uninstall is refused, since the workload behind it has data: another release name, namespace or chart.
Pure.
"""

from __future__ import annotations

from collections.abc import Iterator

from konverge.objects import Metadata, Object
from konverge.reconcilers.apps import messages
from konverge.reconcilers.apps.observe import ours
from konverge.runtime import HOLD, TAKE, OnConflict

__all__ = ["hindrances", "on_conflict"]


def on_conflict(owner: Metadata, existing: Object | None, *, adopt: bool) -> OnConflict:
    """Return what becomes of fields that others own: theirs are taken while the object is taken over, and held ever after."""
    return TAKE if adopt and existing is not None and not ours(owner, existing) else HOLD


def _release_name(release: Object) -> str:
    """The name under which Helm knows the release: Flux's default is `[targetNamespace-]name`."""
    name, target = release.get("spec", "releaseName"), release.get("spec", "targetNamespace")
    return str(name or (f"{target}-{release.name}" if target else release.name))


def hindrances(existing: Object, rendered: Object) -> Iterator[str]:
    """Yield why a HelmRelease cannot be taken over, and what to do about it."""
    theirs, ours_ = _release_name(existing), _release_name(rendered)
    if theirs != ours_:
        yield messages.not_adoptable("its release name", theirs, f"give the instance spec.release.name {theirs}")
    home = existing.namespace
    target = str(existing.get("spec", "targetNamespace") or home)
    if target != home:
        yield messages.not_adoptable("its namespace", target, f"create the instance in the namespace {target}")
    chart, ours_ = existing.get("spec", "chart", "spec", "chart"), rendered.get("spec", "chart", "spec", "chart")
    if isinstance(chart, str) and ours_ is not None and chart != ours_:
        yield messages.not_adoptable("its chart", chart, f"give the instance spec.chart.name {chart}")
    for field, other in (("chart", "chartRef"), ("chartRef", "chart")):
        if existing.get("spec", field) is not None and rendered.get("spec", other) is not None:
            yield f"its spec.{field} and the spec.{other} of the instance exclude each other: remove spec.{field} from it first"
