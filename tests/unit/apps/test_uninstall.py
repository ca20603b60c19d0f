"""The ordered uninstall, step by step."""

from datetime import timedelta
from typing import Any

import pytest

from konverge.reconcilers.apps.observe import RemainingChildren
from konverge.reconcilers.apps.uninstall import UninstallStep, next_step

PATIENCE = timedelta(minutes=10)


def step(make: Any, release: Any = None, *sources: Any) -> UninstallStep:
    return next_step(
        RemainingChildren(owner=make.instance().metadata, release=release, sources=sources), make.now, PATIENCE
    )


def said(found: UninstallStep, type_: str) -> Any:
    assert found.report is not None
    value = found.report.conditions.get(type_)
    return None if value is None else (value.status, value.reason)


def test_an_uninstall_without_remaining_children_is_done(make: Any) -> None:
    assert step(make) == UninstallStep(done=True)


def test_a_running_release_is_deleted_and_waited_for(make: Any) -> None:
    release = make.release()
    found = step(make, release, make.source("HelmRepository"))
    assert (found.resume, found.delete) == (None, (release,))
    assert said(found, "Deleting") == (True, "Uninstalling")
    assert said(found, "Reconciling") == (True, "Uninstalling")
    assert said(found, "Ready") == (False, "Deleting")
    assert found.wait == PATIENCE


def test_a_suspended_release_is_resumed_before_it_is_deleted(make: Any) -> None:
    release = make.release(spec={"suspend": True})
    found = step(make, release)
    assert (found.resume, found.delete) == (release, (release,))


def test_an_uninstall_requeues_for_the_end_of_the_patience(make: Any) -> None:
    found = step(make, make.release(deleted=60))
    assert found.delete == ()
    assert found.wait == PATIENCE - timedelta(seconds=60)
    assert said(found, "Stalled") is None


def test_a_failing_uninstall_is_reported_with_fluxs_text(make: Any) -> None:
    failed = make.condition("Released", "False", "UninstallFailed", "post-delete hooks failed")
    found = step(make, make.release(failed, deleted=60))
    assert said(found, "Degraded") == (True, "HelmReleaseDegraded")
    assert found.report is not None
    assert "post-delete hooks failed" in found.report.conditions["Ready"].message


def test_endless_uninstall_is_stalled_with_the_remedy_and_keeps_waiting(make: Any) -> None:
    found = step(make, make.release(deleted=601))
    assert said(found, "Stalled") == (True, "UninstallTimeout")
    assert said(found, "Reconciling") == (False, "Uninstalling")
    assert found.report is not None
    assert (
        "remove the finalizer finalizers.fluxcd.io from the HelmRelease by hand"
        in found.report.conditions["Stalled"].message
    )
    assert not found.done
    assert found.wait == PATIENCE


def test_the_message_of_an_overdue_uninstall_does_not_change_with_time(make: Any) -> None:
    early, late = step(make, make.release(deleted=601)), step(make, make.release(deleted=6010))
    assert early.report == late.report


@pytest.mark.parametrize(("deleted", "deletes"), [(None, 1), (5, 0)])
def test_sources_are_deleted_after_the_release_and_waited_for(make: Any, deleted: float | None, deletes: int) -> None:
    found = step(make, None, make.source("HelmRepository", deleted=deleted))
    assert len(found.delete) == deletes
    assert said(found, "Deleting") == (True, "WaitingForChildResources")
    assert not found.done


def test_sources_that_are_never_deleted_are_stalled_with_the_remedy(make: Any) -> None:
    found = step(make, None, make.source("OCIRepository", deleted=601))
    assert said(found, "Stalled") == (True, "UninstallTimeout")
    assert found.report is not None
    assert "source-controller" in found.report.conditions["Stalled"].message


def test_children_that_the_instance_does_not_control_are_not_deleted(make: Any) -> None:
    other = {
        "apiVersion": "v1",
        "kind": "ApplicationInstance",
        "name": "shop",
        "uid": "an earlier shop",
        "controller": True,
    }
    assert step(make, make.release(owner=other), make.source("HelmRepository", owner_uid="an earlier shop")).done
    assert step(make, make.release(owner=None)).done
