"""When a credential is due, and unreadable Secrets."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from konverge.crds.workspaces_v1alpha1 import WorkspaceClaim
from konverge.objects import Object
from konverge.reconcilers.workspaces.decide import credential_due
from konverge.reconcilers.workspaces.observe import ObservedWorkspace, WorkspaceProblem
from konverge.reconcilers.workspaces.provider import WorkspaceCredential, WorkspacePhase, WorkspaceState
from konverge.reconcilers.workspaces.secrets import KubeconfigSecret, kubeconfig_secret

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)
READY = WorkspaceState(WorkspacePhase.READY, "https://a", identity="1")
CLAIM = WorkspaceClaim.decode({"metadata": {"name": "acme", "uid": "u"}, "spec": {}})


def secret(issued: float, lifetime: float, **parts: Any) -> KubeconfigSecret:
    """A Secret that was issued so many hours ago, for so many hours."""
    begin = NOW - timedelta(hours=issued)
    given = {"url": "https://a", "identity": "1", "times": (begin, begin + timedelta(hours=lifetime))}
    return KubeconfigSecret("s", ours=True, **{**given, **parts})


@pytest.mark.parametrize(
    ("found", "due"),
    [
        (None, True),
        (secret(1, 24), False),
        (secret(15.9, 24), False),
        (secret(16, 24), True),
        (secret(30, 24), True),
        (secret(1, 24, times=None), True),
        (secret(1, 24, url="https://b"), True),
        (secret(1, 24, identity="2"), True),
        (secret(0, -5), False),
        (secret(0.02, -5), True),
        (secret(0.5, 1), False),
        (secret(0.7, 1), True),
    ],
)
def test_credential_is_due_by_its_lifetime_and_at_most_once_a_minute(found: KubeconfigSecret | None, due: bool) -> None:
    assert credential_due(ObservedWorkspace(CLAIM, "ops", READY, found), NOW) is due


@pytest.mark.parametrize("phase", [one for one in WorkspacePhase if one is not WorkspacePhase.READY])
def test_none_is_due_for_a_workspace_that_is_not_ready(phase: WorkspacePhase) -> None:
    assert not credential_due(ObservedWorkspace(CLAIM, "ops", WorkspaceState(phase)), NOW)
    assert not credential_due(ObservedWorkspace(CLAIM, "ops", READY, problem=WorkspaceProblem("A", "b")), NOW)


@pytest.mark.parametrize("text", ["", "soon", "9999-99-99T00:00:00Z"])
def test_a_secret_whose_times_cannot_be_read_holds_no_credential(text: str) -> None:
    annotations = {
        "cloudapi.team-orca.dev/issued-at": "2030-01-01T00:00:00Z",
        "cloudapi.team-orca.dev/expires-at": text,
    }
    found = Object({"metadata": {"name": "s", "uid": "s", "annotations": annotations}, "data": {"kubeconfig": "eA=="}})
    read = kubeconfig_secret(CLAIM, found)
    assert read is not None
    assert read.times is None
    assert not read.ours


def test_a_kubeconfig_is_in_no_repr() -> None:
    assert "top-secret" not in repr(WorkspaceCredential("top-secret", NOW))
