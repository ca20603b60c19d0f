"""Defects of the original operator, and known traps of Flux: regression tests for each.

The numbers are from docs/reference/apps.md#defects-of-the-original and docs/reference/flux.md#traps. Tests that need an API server are in
tests/scenarios/apps and, on a real one, in tests/e2e/test_apps*.py: Flux's own schemas, field conflicts, watches, the order of an
uninstall, missing CRDs.
"""

from typing import Any

import pytest

from konverge.kinds import kind
from konverge.objects import Object
from konverge.outcome import Done, RequeueAfter
from konverge.reconcilers.apps import ApplicationInstanceReconciler, Settings, controller
from konverge.reconcilers.apps.observe import controls
from konverge.reconcilers.apps.render import children_of
from konverge.reconcilers.shared.helm_release.translate import translate
from konverge.runtime.controller.pipeline import FinalizerStep, next_step

OCI = {"chart": {"sourceType": "oci", "url": "oci://registry.example.com/charts"}}


def said(make: Any, *conditions: Any, **changes: Any) -> tuple[bool | None, str] | None:
    facts = {
        name: changes.pop(name)
        for name in ("oci", "version", "repository", "intent", "held", "values")
        if name in changes
    }
    ready = translate(make.facts(make.release(*conditions, **changes), **facts)).ready
    return None if ready is None else (ready.status, ready.reason)


# --- the original, 1 to 6 --------------------------------------------------------------------------------------------------------


def test_defect_1_oci_chart_uses_chart_ref_and_keeps_its_scheme(make: Any) -> None:
    children = children_of(make.instance(spec=OCI), Settings())
    assert "chart" not in children.release.spec
    assert children.release.spec["chartRef"]["kind"] == "OCIRepository"
    assert children.source.spec["url"].startswith("oci://")


def test_defect_2_changes_of_every_downstream_object_enqueue_the_instance() -> None:
    described = controller()
    watched = {watch.kind.kind for watch in (*described.owned, *described.watched)}
    assert watched == {
        "HelmRelease",
        "HelmRepository",
        "OCIRepository",
        "HelmChart",
        "Secret",
        "ConfigMap",
        "ApplicationInstance",
    }
    assert [watch.kind.kind for watch in (*described.owned, *described.watched) if watch.predicate] == [
        "ApplicationInstance"
    ]


async def test_defect_3_the_finalizer_is_held_until_the_uninstall_has_ended(make: Any, context: Any) -> None:
    ctx, reconciler = context(make.release(), make.source("HelmRepository")), ApplicationInstanceReconciler(Settings())
    assert isinstance(await reconciler.finalize(make.instance(), ctx), RequeueAfter)
    ctx.objects.pop(("HelmRelease", "shop"))
    assert isinstance(await reconciler.finalize(make.instance(), ctx), RequeueAfter)
    assert ctx.says()["Deleting"] == "True/WaitingForChildResources"
    ctx.objects.clear()
    assert await reconciler.finalize(make.instance(), ctx) == Done()


async def test_defect_4_a_reconcile_without_a_change_does_not_write_the_status(make: Any, context: Any) -> None:
    ctx, reconciler = context(), ApplicationInstanceReconciler(Settings())
    await reconciler.reconcile(make.instance(), ctx)
    conditions = [
        {
            "type": mark.type,
            "status": mark.truth,
            "reason": mark.reason,
            "message": mark.message,
            "observedGeneration": 1,
        }
        for mark in ctx.plan.set_conditions
    ]
    status = {**ctx.plan.draft.wire(), "observedGeneration": 1, "conditions": conditions}
    await reconciler.reconcile(make.instance(status=status), ctx)
    assert "last_reconcile_time" not in ctx.plan.draft.model_fields_set


def test_defect_5_no_finalizer_is_added_to_an_object_under_deletion(make: Any) -> None:
    deleted = kind("apps.vworkspace.io/v1alpha1", "ApplicationInstance").new("shop", "team")
    deleted.data["metadata"]["deletionTimestamp"] = "2030-01-01T00:00:00Z"
    assert next_step(deleted.metadata, "apps.vworkspace.io/finalizer") is FinalizerStep.IGNORE


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ("Suspended", {"spec": {"suspend": True}}),
        ("Drifted", {}),
    ],
)
def test_defect_6_documented_reasons_are_set(make: Any, row: str, says: dict[str, Any]) -> None:
    translation = translate(
        make.facts(
            make.release(
                make.condition("Ready", "True", "InstallSucceeded"),
                make.condition("Drifted", "True", "DriftDetected"),
                **says,
            )
        )
    )
    redacted = translation.suspended if row == "Suspended" else translation.degraded
    assert redacted is not None
    assert redacted.status is True


async def test_integrations_have_no_effect_and_endpoints_are_not_written(make: Any, context: Any) -> None:
    """Parts of the original that this family leaves out (docs/guide/apps.md#departures): the schema admits them without any effect."""
    every = {
        "externalSecrets": {"enabled": True},
        "certManager": {"enabled": True},
        "ingress": {"enabled": True, "host": "x.example"},
    }
    plain, integrated = (children_of(make.instance(spec=spec), Settings()) for spec in ({}, {"integrations": every}))
    assert integrated.release.to_dict() == plain.release.to_dict()
    ctx = context()
    await ApplicationInstanceReconciler(Settings()).reconcile(make.instance(spec={"integrations": every}), ctx)
    assert "endpoints" not in ctx.plan.draft.model_fields_set


# --- traps of Flux ---------------------------------------------------------------------------------------------------------------


def test_trap_1_ready_of_an_older_generation_is_not_ready(make: Any) -> None:
    stale = make.condition("Ready", "True", "InstallSucceeded", generation=1)
    assert said(make, stale, generation=2, attempted=1, observed=1) == (False, "Upgrading")


def test_trap_1_ready_of_an_older_oci_tag_is_not_ready(make: Any) -> None:
    ready = make.condition("Ready", "True", "InstallSucceeded")
    found = said(make, ready, version="1.0.0+ca03b1e9e415", oci=True, repository=make.source("OCIRepository"))
    assert found == (True, "HelmReleaseReady")
    newer = make.facts(
        make.release(ready, version="1.0.0+ca03b1e9e415"),
        oci=True,
        repository=make.source("OCIRepository"),
        version="1.1.0",
    )
    assert translate(newer).ready is not None
    assert translate(newer).rolled_out is False


def test_trap_2_a_suspended_release_that_looks_current_is_not_rolled_out(make: Any) -> None:
    ready = make.condition("Ready", "True", "InstallSucceeded", generation=2)
    assert said(make, ready, generation=2, observed=2, attempted=1, spec={"suspend": True}) == (None, "Reconciling")


async def test_trap_2_a_suspended_release_is_resumed_before_its_deletion(make: Any, context: Any) -> None:
    ctx = context(make.release(spec={"suspend": True}))
    await ApplicationInstanceReconciler(Settings()).finalize(make.instance(), ctx)
    writes = [call for call in ctx.calls if not call.startswith("get")]
    assert writes[:2] == ["patch HelmRelease/shop", "delete HelmRelease/shop at 8"]


async def test_trap_3_sources_stay_while_the_release_is_uninstalled(make: Any, context: Any) -> None:
    ctx = context(make.release(deleted=5), make.source("HelmRepository"), make.source("OCIRepository"))
    await ApplicationInstanceReconciler(Settings()).finalize(make.instance(), ctx)
    assert not [call for call in ctx.calls if call.startswith("delete")]


async def test_trap_4_endless_uninstall_is_stalled_and_keeps_its_finalizer(make: Any, context: Any) -> None:
    ctx = context(make.release(deleted=86400))
    assert isinstance(await ApplicationInstanceReconciler(Settings()).finalize(make.instance(), ctx), RequeueAfter)
    assert ctx.says()["Stalled"] == "True/UninstallTimeout"
    assert "by hand" in ctx.message("Stalled")


def test_trap_5_a_release_whose_ready_stays_unknown_becomes_stalled(make: Any) -> None:
    translation = translate(make.facts(make.release(make.condition("Ready", "Unknown", "Progressing", ago=2000))))
    assert translation.stalled is not None
    assert translation.stalled.reason == "ProgressDeadlineExceeded"


def test_trap_6_a_child_is_controlled_by_uid_and_not_by_name(make: Any) -> None:
    owner = make.instance().metadata
    assert controls(owner, make.release())
    assert not controls(owner, make.source("HelmRepository", owner_uid="an earlier instance of that name"))


# --- the original, 7 to 10 -------------------------------------------------------------------------------------------------------


def test_defect_7_the_target_namespace_is_rendered(make: Any) -> None:
    assert children_of(make.instance(), Settings()).release.spec["targetNamespace"] == "team"


def test_defect_8_secret_values_are_never_copied(make: Any) -> None:
    values = {"values": {"source": "secretRef", "secretRef": {"name": "vals", "key": "values.yaml"}}}
    spec = children_of(make.instance(spec=values), Settings()).release.spec
    assert "values" not in spec
    assert spec["valuesFrom"] == [{"kind": "Secret", "name": "vals", "valuesKey": "values.yaml"}]


def test_defect_9_sources_are_declared_as_owned() -> None:
    assert {owned.kind.kind for owned in controller().owned} == {"HelmRelease", "HelmRepository", "OCIRepository"}


def test_defect_10_conditions_of_an_older_generation_are_ignored(make: Any) -> None:
    stalled = make.condition("Stalled", "True", "RetriesExceeded", generation=1)
    release = make.release(stalled, generation=2, attempted=1, observed=1)
    assert isinstance(release, Object)
    assert translate(make.facts(release)).row == "rolling_out"
