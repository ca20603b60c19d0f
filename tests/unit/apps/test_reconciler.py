"""One reconcile and one finalize: the calls on the context, their order, and the conditions."""

from typing import Any

import pytest

from konverge.crds.apps_v1alpha1 import ApplicationInstance
from konverge.errors import Conflict, FieldConflict, Forbidden, Invalid, InvalidObject, NotOurs, NotServed
from konverge.keys import Key
from konverge.kinds import kind
from konverge.objects import Object
from konverge.outcome import Done, RequeueAfter
from konverge.reconcilers.apps import ApplicationInstanceReconciler, Settings
from konverge.reconcilers.apps.kinds import HELM_RELEASE
from konverge.runtime import Held

SECRET_VALUES = {"values": {"source": "secretRef", "secretRef": {"name": "vals", "key": "values.yaml"}}}
ASK = "reconcile.fluxcd.io/requestedAt"
NOTE = "apps.vworkspace.io/values-token"
INTENT = "vworkspace.io/applied-intent-hash"


async def reconcile(instance: Any, ctx: Any, settings: Settings | None = None) -> Any:
    return await ApplicationInstanceReconciler(settings or Settings()).reconcile(instance, ctx)


async def finalize(instance: Any, ctx: Any) -> Any:
    return await ApplicationInstanceReconciler(Settings()).finalize(instance, ctx)


def secret(version: str = "1", *, data: dict[str, str] | None = None) -> Object:
    content = {"values.yaml": "cGFzc3dvcmQ6IGh1bnRlcjI="} if data is None else data
    return kind("v1", "Secret").decode(
        {
            "metadata": {"name": "vals", "namespace": "team", "uid": "secret-uid", "resourceVersion": version},
            "data": content,
        }
    )


def settle(ctx: Any, version: str = "1.0.0") -> None:
    """Flux rolls out every spec of the release."""
    data = ctx.objects["HelmRelease", "shop"].to_dict()
    generation = data["metadata"]["generation"]
    data["status"] = {
        "observedGeneration": generation,
        "lastAttemptedGeneration": generation,
        "lastAttemptedRevision": version,
        "lastHandledReconcileAt": data["metadata"].get("annotations", {}).get(ASK, ""),
        "history": [{"chartVersion": version, "status": "deployed", "version": 1}],
        "conditions": [
            {
                "type": "Ready",
                "status": "True",
                "reason": "InstallSucceeded",
                "message": "",
                "observedGeneration": generation,
            }
        ],
    }
    ctx.objects["HelmRelease", "shop"] = Object(data)
    ctx.fetch()


# --- reconcile -------------------------------------------------------------------------------------------------------------------


async def test_a_new_instance_gets_its_source_and_then_its_release(make: Any, context: Any) -> None:
    ctx = context()
    assert await reconcile(make.instance(), ctx) == Done()
    assert ctx.calls == ["apply HelmRepository/shop, HelmRelease/shop", "carry out"]
    assert ctx.says()["Ready"] == "False/Installing"
    assert ctx.says()["Reconciling"] == "True/HelmReleaseInstalling"
    assert ctx.plan.draft.helm_release_ref.name == "shop"
    assert ctx.plan.draft.last_applied_chart is None


async def test_a_finished_rollout_is_ready_and_recorded_once(make: Any, context: Any) -> None:
    ctx = context()
    await reconcile(make.instance(), ctx)
    settle(ctx)
    await reconcile(make.instance(), ctx)
    assert ctx.says()["Ready"] == "True/HelmReleaseReady"
    assert ctx.plan.draft.last_applied_chart.version == "1.0.0"
    assert [sorted(patch["metadata"]["annotations"]) for patch in ctx.patches] == [
        [INTENT, "vworkspace.io/applied-source", "vworkspace.io/last-applied-generation"]
    ]
    await reconcile(make.instance(), ctx)
    assert len(ctx.patches) == 1


async def test_the_status_follows_the_release_that_the_apply_returned(make: Any, context: Any) -> None:
    ctx = context()
    await reconcile(make.instance(), ctx)
    settle(ctx)
    upgraded = make.instance(
        spec={"chart": {"version": "1.1.0"}},
        generation=2,
        status={"lastAppliedChart": {"sourceType": "helm", "url": "u", "name": "shop", "version": "1.0.0"}},
    )
    await reconcile(upgraded, ctx)
    assert ctx.says()["Ready"] == "False/Upgrading"


async def test_last_reconcile_time_moves_only_with_another_change_of_the_status(make: Any, context: Any) -> None:
    ctx = context()
    await reconcile(make.instance(), ctx)
    settle(ctx)
    await reconcile(make.instance(), ctx)
    status = {
        **ctx.plan.draft.wire(),
        "observedGeneration": 1,
        "conditions": [
            {
                "type": mark.type,
                "status": mark.truth,
                "reason": mark.reason,
                "message": mark.message,
                "observedGeneration": 1,
            }
            for mark in ctx.plan.set_conditions
        ],
    }
    assert status["lastReconcileTime"] == "2030-01-01T12:00:00Z"
    await reconcile(make.instance(status=status), ctx)
    assert "last_reconcile_time" not in ctx.plan.draft.model_fields_set
    await reconcile(make.instance(status={**status, "observedGeneration": 0}), ctx)
    assert "last_reconcile_time" in ctx.plan.draft.model_fields_set


async def test_without_fluxs_crds_the_instance_is_blocked_and_nothing_is_applied(make: Any, context: Any) -> None:
    ctx = context(unserved=("HelmRelease", "HelmChart"))
    assert await reconcile(make.instance(), ctx) == Done()
    assert ctx.calls == ["carry out"]
    assert ctx.says()["Blocked"] == ctx.says()["Ready"].replace("False", "True") == "True/MissingDependencies"
    assert "HelmRelease.helm.toolkit.fluxcd.io" in ctx.message("Blocked")
    assert "install Flux" in ctx.message("Blocked")
    assert ctx.plan.children is None


async def test_an_oci_instance_does_not_need_the_kinds_of_helm_repositories(make: Any, context: Any) -> None:
    ctx = context(unserved=("HelmRepository", "HelmChart"))
    await reconcile(
        make.instance(spec={"chart": {"sourceType": "oci", "url": "oci://registry.example.com/charts"}}), ctx
    )
    assert ctx.calls[0] == "apply OCIRepository/shop, HelmRelease/shop"


async def test_an_invalid_instance_is_blocked_and_its_children_stay_untouched(make: Any, context: Any) -> None:
    ctx = context(make.release())
    await reconcile(make.instance(spec={"release": {"namespace": "other"}}), ctx)
    assert ctx.calls == ["carry out"]
    assert ctx.says()["Blocked"] == "True/ValidationFailed"
    assert ctx.says()["Ready"] == "False/ValidationFailed"
    assert (ctx.plan.children, ctx.plan.deletes) == (None, ())


async def test_a_placeholder_is_ready_without_helm(make: Any, context: Any) -> None:
    ctx = context(unserved=("HelmRelease", "HelmRepository", "OCIRepository", "HelmChart"))
    placeholder = {"mode": "placeholder", "chart": None, "release": None, "values": None}
    assert await reconcile(make.instance(spec=placeholder), ctx) == Done()
    assert ctx.calls == ["carry out"]
    assert ctx.says()["Ready"] == "True/Placeholder"


async def test_a_placeholder_clears_the_sources_that_an_earlier_mode_left(make: Any, context: Any) -> None:
    ctx = context(make.source("OCIRepository"), make.source("HelmRepository", owner_uid="other"))
    await reconcile(make.instance(spec={"mode": "placeholder", "chart": None, "release": None, "values": None}), ctx)
    assert [(delete.kind.kind, delete.uid) for delete in ctx.plan.deletes] == [("OCIRepository", "OCIRepository-uid")]


@pytest.mark.parametrize(
    ("owner", "annotations", "says"),
    [
        (None, {}, "has no controller"),
        (
            {"apiVersion": "v1", "kind": "Other", "name": "x", "uid": "y", "controller": True},
            {},
            "is controlled by Other x",
        ),
        (
            {"apiVersion": "v1", "kind": "Other", "name": "x", "uid": "y", "controller": True},
            {"apps.vworkspace.io/adopt": "true"},
            "is controlled by Other x",
        ),
    ],
)
async def test_a_release_of_another_controller_blocks_the_instance_and_is_named(
    make: Any, context: Any, owner: Any, annotations: Any, says: str
) -> None:
    ctx = context(make.release(owner=owner))
    outcome = await reconcile(make.instance(annotations=annotations), ctx)
    assert ctx.says()["Blocked"] == "True/PolicyDenied"
    assert f"HelmRelease shop exists and {says}" in ctx.message("Blocked")
    assert ctx.calls == ["carry out"]
    assert isinstance(outcome, RequeueAfter)


async def test_a_release_without_a_controller_is_adopted_if_the_instance_is_annotated(make: Any, context: Any) -> None:
    ctx = context(make.release(owner=None))
    await reconcile(make.instance(annotations={"apps.vworkspace.io/adopt": "true"}), ctx)
    assert ctx.calls[0] == "apply HelmRepository/shop, HelmRelease/shop"


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (Invalid("spec.chart: exactly one", status=422), "ValidationFailed"),
        (NotOurs("HelmRelease team/shop exists"), "PolicyDenied"),
    ],
)
async def test_child_refused_by_the_server_blocks_the_instance_until_a_retry(
    make: Any, context: Any, error: Exception, reason: str
) -> None:
    ctx = context()
    ctx.refusal = error
    assert await reconcile(make.instance(), ctx) == RequeueAfter(300)
    assert ctx.says()["Blocked"] == f"True/{reason}"
    assert str(error) in ctx.message("Blocked")


async def test_a_held_conflict_names_manager_and_field_and_ready_follows_the_release(make: Any, context: Any) -> None:
    ctx = context()
    await reconcile(make.instance(), ctx)
    settle(ctx)
    await reconcile(make.instance(), ctx)
    ctx.held = (Held(Key("", HELM_RELEASE, "team", "shop"), (FieldConflict("kubectl-edit", ".spec.interval"),)),)
    assert await reconcile(make.instance(), ctx) == Done()
    assert ctx.says()["Degraded"] == "True/Drifted"
    assert "HelmRelease shop" in ctx.message("Degraded")
    assert ".spec.interval (owned by kubectl-edit)" in ctx.message("Degraded")
    assert ctx.says()["Reconciling"] == "False/Stable"
    assert ctx.says()["Ready"] == "True/HelmReleaseReady"


async def test_a_new_version_whose_apply_is_held_is_not_ready(make: Any, context: Any) -> None:
    ctx = context()
    await reconcile(make.instance(), ctx)
    settle(ctx)
    await reconcile(make.instance(), ctx)
    ctx.held = (Held(Key("", HELM_RELEASE, "team", "shop"), (FieldConflict("kubectl-edit", ".spec.interval"),)),)
    changed = make.instance(spec={"values": {"source": "inline", "inline": {"replicas": 5}}}, generation=2)
    await reconcile(changed, ctx)
    assert ctx.says()["Ready"].startswith("False/")
    assert ctx.says()["Degraded"] == "True/Drifted"


# --- values elsewhere ------------------------------------------------------------------------------------------------------------


async def test_an_instance_waits_for_a_missing_secret_after_its_release_was_applied(make: Any, context: Any) -> None:
    ctx = context()
    await reconcile(make.instance(spec=SECRET_VALUES), ctx)
    assert ctx.calls == ["apply HelmRepository/shop, HelmRelease/shop", "carry out"]
    assert ctx.says()["Ready"] == "False/WaitingForSecret"
    assert (
        ctx.message("Ready")
        == "Secret team/vals does not exist; create it with the key values.yaml, which holds the values as YAML"
    )


async def test_a_secret_without_the_key_is_reported_without_its_content(make: Any, context: Any) -> None:
    ctx = context(secret(data={"other.yaml": "aHVudGVyMg=="}))
    await reconcile(make.instance(spec=SECRET_VALUES), ctx)
    assert ctx.says()["Ready"] == "False/WaitingForSecret"
    assert "has no key values.yaml" in ctx.message("Ready")
    redacted = repr(ctx.plan) + repr(ctx.patches)
    assert "hunter2" not in redacted
    assert "aHVudGVyMg" not in redacted


async def test_no_write_and_no_condition_contains_the_content_of_the_secret(make: Any, context: Any) -> None:
    ctx = context(secret())
    await reconcile(make.instance(spec=SECRET_VALUES), ctx)
    settle(ctx)
    await reconcile(make.instance(spec=SECRET_VALUES), ctx)
    written = repr([made.data for key, made in ctx.objects.items() if key[0] != "Secret"])
    assert "cGFzc3dvcmQ6IGh1bnRlcjI=" not in repr(ctx.plan) + repr(ctx.patches) + written


async def test_without_the_right_to_read_secrets_the_status_follows_flux(make: Any, context: Any) -> None:
    ctx = context(secret())
    ctx.live_errors["Secret"] = [Forbidden("secrets is forbidden", status=403)]
    await reconcile(make.instance(spec=SECRET_VALUES), ctx)
    assert ctx.says()["Ready"] == "False/Installing"


async def test_with_watch_secrets_off_flux_reports_a_missing_secret_instead(make: Any, context: Any) -> None:
    chosen = Settings(watch_secrets=False)
    instance = make.instance(spec=SECRET_VALUES)
    ctx = context()  # it has no such Secret: nothing is read
    ctx.live_errors["Secret"] = [AssertionError("a Secret was read")]
    await reconcile(instance, ctx, chosen)
    assert ctx.says()["Ready"] == "False/Installing"
    assert ctx.objects["HelmRelease", "shop"].get("spec", "valuesFrom", 0, "name") == "vals"
    settle(ctx)
    await reconcile(instance, ctx, chosen)
    assert ctx.says()["Ready"] == "True/HelmReleaseReady"


async def test_secret_values_outside_the_named_namespaces_are_blocked_with_the_setting(make: Any, context: Any) -> None:
    instance = make.instance(spec=SECRET_VALUES)
    ctx = context(secret())
    ctx.live_errors["Secret"] = [AssertionError("a Secret was read")]
    await reconcile(instance, ctx, Settings(secret_namespaces=("elsewhere",)))
    assert ctx.says()["Blocked"] == "True/PolicyDenied"
    redacted = ctx.message("Blocked")
    assert f"add {instance.namespace} to the setting apps.secret_namespaces" in redacted
    assert ("HelmRelease", "shop") not in ctx.objects
    ctx.live_errors.clear()
    await reconcile(instance, ctx, Settings(secret_namespaces=("elsewhere", instance.namespace)))
    assert ctx.says()["Blocked"] == "False/Unblocked"
    settle(ctx)
    await reconcile(instance, ctx, Settings(secret_namespaces=("elsewhere", instance.namespace)))
    assert ctx.says()["Ready"] == "True/HelmReleaseReady"


async def test_an_edited_secret_makes_flux_roll_out_and_readiness_waits_for_it(make: Any, context: Any) -> None:
    instance = make.instance(spec=SECRET_VALUES)
    ctx = context(secret("1"))
    await reconcile(instance, ctx)
    assert [set(patch["metadata"]["annotations"]) for patch in ctx.patches] == [{NOTE}]
    settle(ctx)
    await reconcile(instance, ctx)
    assert ctx.says()["Ready"] == "True/HelmReleaseReady"

    ctx.objects["Secret", "vals"] = secret("2")
    ctx.patches.clear()
    await reconcile(instance, ctx)
    assert [set(patch["metadata"]["annotations"]) for patch in ctx.patches] == [{ASK, NOTE}]
    assert ctx.says()["Ready"] == "False/Installing"

    ctx.patches.clear()
    await reconcile(instance, ctx)
    assert ctx.patches == []
    assert ctx.says()["Ready"] == "False/Installing"

    settle(ctx)
    await reconcile(instance, ctx)
    assert ctx.says()["Ready"] == "True/HelmReleaseReady"


async def test_a_users_reconcile_request_is_neither_overwritten_nor_waited_for(make: Any, context: Any) -> None:
    instance = make.instance(spec=SECRET_VALUES)
    ctx = context(secret("1"))
    for _ in range(3):
        await reconcile(instance, ctx)
        settle(ctx)
    data = ctx.objects["HelmRelease", "shop"].to_dict()
    data["metadata"]["annotations"][ASK] = "2030-01-01T12:00:00.000000001Z"
    ctx.objects["HelmRelease", "shop"] = Object(data)
    ctx.patches.clear()
    for _ in range(3):
        await reconcile(instance, ctx)
    assert ctx.patches == []
    assert ctx.says()["Ready"] == "True/HelmReleaseReady"


async def test_at_rest_a_reconcile_reads_no_secret_and_writes_nothing(make: Any, context: Any) -> None:
    instance = make.instance(spec=SECRET_VALUES)
    ctx = context(secret("1"))
    for _ in range(2):
        await reconcile(instance, ctx)
        settle(ctx)
    await reconcile(instance, ctx)
    ctx.calls.clear()
    await reconcile(instance, ctx)
    assert ctx.calls == ["apply HelmRepository/shop, HelmRelease/shop", "carry out"]


async def test_a_release_without_progress_gets_one_reconcile_request(make: Any, context: Any) -> None:
    stuck = make.release(
        make.condition("Ready", "Unknown", "Progressing", ago=1000),
        spec={
            "interval": "5m",
            "timeout": "5m",
            "releaseName": "shop",
            "targetNamespace": "team",
            "driftDetection": {"mode": "enabled"},
            "chart": {
                "spec": {"chart": "shop", "version": "1.0.0", "sourceRef": {"kind": "HelmRepository", "name": "shop"}}
            },
            "values": {"replicas": 1},
        },
    )
    ctx = context(stuck)
    for _ in range(3):
        await reconcile(make.instance(), ctx)
    assert len(ctx.patches) == 1
    assert set(ctx.patches[0]["metadata"]["annotations"]) == {ASK}


async def test_release_deleted_before_its_annotation_is_left_to_the_next_reconcile(make: Any, context: Any) -> None:
    ctx = context()
    await reconcile(make.instance(), ctx)
    settle(ctx)
    ctx.before_write = lambda _: ctx.objects.pop(("HelmRelease", "shop"), None) and None
    await reconcile(make.instance(), ctx)
    assert ctx.calls[-1] == "carry out"


async def test_a_release_under_deletion_is_not_touched_until_it_is_gone(make: Any, context: Any) -> None:
    ctx = context(make.release(make.condition("Ready", "True", "InstallSucceeded"), deleted=5), secret("9"))
    await reconcile(make.instance(spec=SECRET_VALUES), ctx)
    assert ctx.patches == []
    assert ctx.says()["Ready"] == "False/Deleting"
    ctx.objects.pop(("HelmRelease", "shop"))
    await reconcile(make.instance(spec=SECRET_VALUES), ctx)
    assert ("HelmRelease", "shop") in ctx.objects


async def test_the_instance_is_requeued_for_the_end_of_the_grace_time(make: Any, context: Any) -> None:
    chart = make.source("HelmChart", make.condition("FetchFailed", "True", "X", "refused", ago=10))
    ctx = context(chart)
    await reconcile(make.instance(), ctx)
    data = ctx.objects["HelmRelease", "shop"].to_dict()
    data["status"]["conditions"] = [make.condition("Ready", "False", "SourceNotReady")]
    ctx.objects["HelmRelease", "shop"] = Object(data)
    assert await reconcile(make.instance(), ctx) == RequeueAfter(20)


# --- finalize --------------------------------------------------------------------------------------------------------------------


async def test_an_instance_without_children_is_done_at_once(make: Any, context: Any) -> None:
    ctx = context()
    assert await finalize(make.instance(), ctx) == Done()
    assert not [call for call in ctx.calls if not call.startswith("get")]


async def test_the_release_is_deleted_first_and_its_sources_after_it_is_gone(make: Any, context: Any) -> None:
    ctx = context(make.release(), make.source("HelmRepository"))
    assert isinstance(await finalize(make.instance(), ctx), RequeueAfter)
    assert [call for call in ctx.calls if call.startswith("delete")] == ["delete HelmRelease/shop at 7"]
    assert ctx.says()["Deleting"] == "True/Uninstalling"
    assert ctx.says()["Ready"] == "False/Deleting"
    ctx.calls.clear()
    assert isinstance(await finalize(make.instance(), ctx), RequeueAfter)
    assert not [call for call in ctx.calls if call.startswith("delete")]
    ctx.objects.pop(("HelmRelease", "shop"))
    assert isinstance(await finalize(make.instance(), ctx), RequeueAfter)
    assert [call for call in ctx.calls if call.startswith("delete")] == ["delete HelmRepository/shop"]
    assert ctx.says()["Deleting"] == "True/WaitingForChildResources"
    ctx.objects.clear()
    assert await finalize(make.instance(), ctx) == Done()


async def test_suspended_release_is_resumed_and_deleted_at_the_response_version(make: Any, context: Any) -> None:
    ctx = context(make.release(spec={"suspend": True}))
    await finalize(make.instance(), ctx)
    assert ctx.patches == [{"metadata": {"uid": "release-uid", "resourceVersion": "7"}, "spec": {"suspend": False}}]
    assert [call for call in ctx.calls if not call.startswith("get")] == [
        "patch HelmRelease/shop",
        "delete HelmRelease/shop at 8",
        "carry out",
    ]


@pytest.mark.parametrize("write", ["patch", "delete"])
async def test_a_release_that_is_suspended_again_in_between_is_resumed_again(
    make: Any, context: Any, write: str
) -> None:
    ctx = context(make.release(spec={"suspend": True}))
    raced: list[str] = []

    def race(what: str) -> None:
        if what == write and not raced:
            raced.append(what)
            ctx.touch("HelmRelease", "shop", suspend=True)

    ctx.before_write = race
    await finalize(make.instance(), ctx)
    release = ctx.objects["HelmRelease", "shop"]
    assert release.metadata.deleting
    assert release.spec["suspend"] is False


async def test_repeated_conflicts_during_an_uninstall_are_raised_for_the_queue_to_retry(
    make: Any, context: Any
) -> None:
    ctx = context(make.release(spec={"suspend": True}))
    ctx.before_write = lambda what: ctx.touch("HelmRelease", "shop", suspend=True) if what == "delete" else None
    with pytest.raises(Conflict):
        await finalize(make.instance(), ctx)
    assert not ctx.objects["HelmRelease", "shop"].metadata.deleting


async def test_a_suspended_release_under_deletion_is_resumed(make: Any, context: Any) -> None:
    ctx = context(make.release(spec={"suspend": True}, deleted=5))
    await finalize(make.instance(), ctx)
    assert ctx.objects["HelmRelease", "shop"].spec["suspend"] is False
    assert not [call for call in ctx.calls if call.startswith("delete")]


async def test_a_release_of_another_owner_is_not_uninstalled(make: Any, context: Any) -> None:
    other = {"apiVersion": "v1", "kind": "Other", "name": "x", "uid": "y", "controller": True}
    ctx = context(make.release(owner=other), make.source("HelmRepository", owner_uid="other"))
    assert await finalize(make.instance(), ctx) == Done()
    assert len(ctx.objects) == 2


async def test_without_fluxs_crds_there_is_nothing_to_uninstall(make: Any, context: Any) -> None:
    ctx = context()
    for name in ("HelmRelease", "HelmRepository", "OCIRepository"):
        ctx.live_errors[name] = [NotServed("x/v1", name)]
    assert await finalize(make.instance(), ctx) == Done()


async def test_an_instance_that_does_not_decode_is_uninstalled(make: Any, context: Any) -> None:
    good = make.instance()
    broken = ApplicationInstance.undecoded(
        good.to_dict(), InvalidObject("ApplicationInstance team/shop", ".spec.mode", "broken")
    )
    ctx = context(make.release())
    assert isinstance(await finalize(broken, ctx), RequeueAfter)
    assert ctx.objects["HelmRelease", "shop"].metadata.deleting


async def test_a_failed_read_during_an_uninstall_keeps_the_finalizer(make: Any, context: Any) -> None:
    ctx = context(make.release())
    ctx.live_errors["HelmRelease"] = [Forbidden("no", status=403)]
    with pytest.raises(Forbidden):
        await finalize(make.instance(), ctx)


async def test_a_release_that_disappears_during_the_uninstall_counts_as_uninstalled(make: Any, context: Any) -> None:
    ctx = context(make.release(spec={"suspend": True}))
    ctx.before_write = lambda _: ctx.objects.clear()
    assert await finalize(make.instance(), ctx) == Done()
