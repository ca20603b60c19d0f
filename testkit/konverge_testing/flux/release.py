"""The stand-in for helm-controller: one reconcile of a HelmRelease, as recorded. No Helm runs.

The order of writes is the recorded one, because readers depend on it: `lastAttemptedGeneration` before the action (and, if no action is
needed, only at the end), `history` after Ready, `observedGeneration` in a write of its own at the very end, and with it
`lastHandledReconcileAt` and the shortened history.
"""

from __future__ import annotations

from konverge_testing.flux.actions import correct_drift, install_or_upgrade, uninstall, uninstall_renamed
from konverge_testing.flux.state import FINALIZER, ClusterView, Effects, Finalizer, Object_, Put, Retry, World, digest
from konverge_testing.flux.values import ValuesError, compose
from konverge_testing.flux.work import Work

__all__ = ["reconcile_release"]

REQUEUE = 1.0
"""Seconds until a waiting release is reconciled again; helm-controller's default is 30 s."""


def reconcile_release(release: Object_, world: World, view: ClusterView) -> Effects:
    """Reconcile one HelmRelease."""
    work, metadata = Work.on(release, world, view), release["metadata"]
    if metadata.get("deletionTimestamp"):
        if FINALIZER in metadata.get("finalizers", ()):
            yield from uninstall(work)
        return
    if FINALIZER not in metadata.get("finalizers", ()):
        yield Finalizer(True)
    if work.spec.get("suspend"):
        yield from work.finish()
        return
    before = work.copied()
    work.conditions.set("Reconciling", "True", "Progressing", "Fulfilling prerequisites")
    yield from work.write_if(before)
    yield from _chart(work)
    missing = _dependency(work) or _source(work) or _values(work)
    if missing is None:
        yield from _act(work)
        return
    before = work.copied()
    work.conditions.set("Ready", "False", *missing)
    yield from work.write_if(before)
    yield from work.handled()
    yield Retry(REQUEUE)


def _chart(work: Work) -> Effects:
    """Create the HelmChart that fetches for this release; a release with chartRef has none."""
    if "chart" not in work.spec:
        return
    chart = work.spec["chart"]["spec"]
    name, namespace = f"{work.namespace}-{work.name}", chart["sourceRef"].get("namespace") or work.namespace
    metadata = {
        "name": name,
        "namespace": namespace,
        "labels": {"helm.toolkit.fluxcd.io/name": work.name, "helm.toolkit.fluxcd.io/namespace": work.namespace},
    }
    spec = {
        "chart": chart["chart"],
        "version": chart.get("version", "*"),
        "sourceRef": {"kind": chart["sourceRef"]["kind"], "name": chart["sourceRef"]["name"]},
        "interval": chart.get("interval") or work.spec["interval"],
        "reconcileStrategy": chart.get("reconcileStrategy", "ChartVersion"),
    }
    existing = work.view.find("HelmChart", namespace, name)
    if existing is None or any(existing["spec"].get(key) != value for key, value in spec.items()):
        yield Put(
            {"apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "HelmChart", "metadata": metadata, "spec": spec}
        )
    before = work.copied()
    work.status["helmChart"] = f"{namespace}/{name}"
    yield from work.write_if(before)


def _dependency(work: Work) -> tuple[str, str] | None:
    """Return the first dependency of this release that is not ready."""
    for entry in work.spec.get("dependsOn") or ():
        namespace, name = entry.get("namespace") or work.namespace, entry["name"]
        result = work.view.find("HelmRelease", namespace, name)
        if result is None:
            text = f"unable to get '{namespace}/{name}' dependency: helmreleases.helm.toolkit.fluxcd.io \"{name}\" not found"
            return "DependencyNotReady", text
        status = result.get("status") or {}
        ready = any(c["type"] == "Ready" and c["status"] == "True" for c in status.get("conditions", ()))
        if not ready or status.get("observedGeneration") != result["metadata"]["generation"]:
            return "DependencyNotReady", f"dependency '{namespace}/{name}' is not ready"
    return None


def _source(work: Work) -> tuple[str, str] | None:
    """Return why the chart is missing; if it exists, record its revision."""
    reference = work.spec.get("chartRef")
    kind = "HelmChart" if reference is None else reference["kind"]
    place = (
        work.status["helmChart"]
        if reference is None
        else f"{reference.get('namespace') or work.namespace}/{reference['name']}"
    )
    namespace, _, name = place.partition("/")
    source = work.view.find(kind, namespace, name)
    if source is None:
        return "SourceNotReady", f"could not get Source object: {kind} '{place}' not found"
    status = source.get("status") or {}
    failed = [c for c in status.get("conditions", ()) if c["type"] == "FetchFailed" and c["status"] == "True"]
    if status.get("observedGeneration") != source["metadata"]["generation"] or failed or "artifact" not in status:
        why = failed[0]["message"] if failed else "latest generation of object has not been reconciled"
        return "SourceNotReady", f"{kind} '{place}' is not ready: {why}"
    work.revision = _revision(kind, status["artifact"]["revision"])
    work.digest = status["artifact"]["revision"].rpartition("@")[2] if kind == "OCIRepository" else ""
    return None


def _revision(kind: str, revision: str) -> str:
    """The version of a chart from an OCIRepository has the first 12 digits of its digest as build metadata."""
    if kind != "OCIRepository":
        return revision
    tag, _, hexadecimal = revision.partition("@sha256:")
    return f"{tag.partition('_')[0]}+{hexadecimal[:12]}"


def _values(work: Work) -> tuple[str, str] | None:
    """Return why the values cannot be composed; if they can, record their digest."""
    try:
        work.config = digest(compose(work.spec, work.namespace, work.view))
    except ValuesError as error:
        return "ValuesError", str(error)
    return None


def _act(work: Work) -> Effects:
    """Carry out the action that the difference between the desired release and the history requires."""
    latest = work.latest
    if latest is not None and (latest["name"], latest["namespace"]) != work.place:
        yield from uninstall_renamed(work)
        return
    fresh = latest is None or latest["status"] == "uninstalled"
    same = latest is not None and (latest["chartVersion"], latest["configDigest"]) == (work.revision, work.config)
    forced = work.take_force_request()
    if same and not forced and latest is not None and latest["status"] == "deployed":
        yield from _in_sync(work)
        return
    if work.exhausted("install") or work.exhausted("upgrade"):
        work.conditions.set("Stalled", "True", "RetriesExceeded", f"Failed after {work.status['failures']} attempt(s)")
        yield from work.write()
        yield from work.finish()
        return
    if (yield from install_or_upgrade(work, "install" if fresh else "upgrade")):
        yield from work.finish()


def _in_sync(work: Work) -> Effects:
    """Nothing to release: correct drift if that is configured, and report Ready."""
    if work.drift_mode == "enabled" and work.key in work.world.drifted:
        yield from correct_drift(work)
        return
    latest, released = work.latest, work.conditions.find("Released")
    assert latest is not None
    if released is None or released["status"] != "True":
        action = "install" if latest["version"] == 1 else "upgrade"
        message = f"Helm {action} succeeded for {work.describe(latest)}"
        work.conditions.set("Released", "True", f"{action.capitalize()}Succeeded", message)
    shown = work.conditions.find("TestSuccess") or work.conditions.find("Released")
    assert shown is not None
    if shown["status"] == "False":
        work.conditions.set(
            "Stalled", "True", "RetriesExceeded", f"Failed after {work.status.get('failures', 1)} attempt(s)"
        )
    else:
        work.conditions.drop("Reconciling", "Stalled", "Remediated")
    work.conditions.set("Ready", shown["status"], shown["reason"], shown["message"])
    work.judge_drift()
    yield from work.write()
    yield from work.finish()
