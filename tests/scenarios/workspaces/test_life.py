"""A claim from its creation to its end: the workspace, the Secret and its renewal, and an unreachable provider."""

import asyncio
from datetime import timedelta

import pytest
from workspaces_lab import EVENT, Workspaces, phase, shows

from konverge.clock import from_rfc3339, wall_clock
from konverge.crds import crd
from konverge.crds.workspaces_v1alpha1 import WorkspaceClaim
from konverge.errors import Invalid
from konverge.kinds import kind
from konverge.reconcilers import workspaces
from konverge.reconcilers.workspaces import ClaimOfWorkspace, MemoryWorkspaces, WorkspaceRefused, WorkspaceState
from konverge.reconcilers.workspaces.secrets import SECRET
from konverge.runtime import ManagerSettings
from konverge_testing import Lab, install_crds

READY = (phase("Ready"), shows("Available", "True", "Reconciled"), shows("Degraded", "False", "Reconciled"))
NAMESPACE = kind("v1", "Namespace", namespaced=False, plural="namespaces")


async def test_a_claim_gets_a_workspace_and_a_secret_with_its_kubeconfig(made: Workspaces) -> None:
    await made.start()
    await made.claim()
    await made.until("acme", phase("Initializing"), shows("Progressing", "True", "WorkspacePreparing"))
    found = await made.until("acme", *READY)
    assert found.status.cluster_url == made.memory.url("acme")
    assert found.status.kube_config_secret is not None
    assert found.status.kube_config_secret.wire() == {"name": "ws-acme-kubeconfig", "namespace": made.lab.namespace}
    assert made.memory.url("acme") in await made.kubeconfig()
    assert (await made.secret()).metadata.controller is not None


async def test_the_id_of_a_claim_names_its_workspace_and_never_changes(made: Workspaces) -> None:
    await made.start()
    await made.claim("first", id="acme")
    found = await made.until("first", *READY)
    assert (made.memory.names(), found.status.cluster_url) == (("acme",), made.memory.url("acme"))
    for changed in ("other", None):
        with pytest.raises(Invalid, match="cannot be"):
            await made.lab.patch(WorkspaceClaim, "first", {"spec": {"id": changed}})
    await made.claim("second")
    with pytest.raises(Invalid, match="cannot be added"):
        await made.lab.patch(WorkspaceClaim, "second", {"spec": {"id": "second"}})


async def test_second_claim_with_an_id_reports_it_and_touches_nothing(made: Workspaces) -> None:
    await made.start()
    await made.claim("first", id="acme")
    await made.until("first", *READY)
    before = await made.kubeconfig()
    await made.claim("second", id="acme")
    await made.until(
        "second", shows("Degraded", "True", "WorkspaceTaken"), shows("Available", "False", "WorkspaceTaken")
    )
    await made.lab.delete(WorkspaceClaim, "second")
    await made.lab.until_gone(WorkspaceClaim, "second")
    await made.lab.settled()
    assert await made.kubeconfig() == before
    assert made.memory.names() == ("acme",)


async def test_a_workspace_that_was_made_by_hand_is_left_alone(made: Workspaces) -> None:
    await made.start()
    made.memory.make_by_hand("acme")
    await made.claim()
    await made.until("acme", shows("Degraded", "True", "WorkspaceTaken"))
    await made.lab.delete(WorkspaceClaim, "acme")
    await made.lab.until_gone(WorkspaceClaim, "acme")
    assert made.memory.names() == ("acme",)
    assert made.memory.issued == []


async def test_a_secret_of_another_owner_is_neither_written_nor_deleted(made: Workspaces) -> None:
    await made.start()
    await made.lab.create(SECRET.new("ws-acme-kubeconfig", stringData={"kubeconfig": "mine"}))
    await made.claim()
    await made.until("acme", shows("Degraded", "True", "SecretTaken"))
    await made.lab.delete(WorkspaceClaim, "acme")
    await made.lab.until_gone(WorkspaceClaim, "acme")
    assert await made.kubeconfig() == "mine"
    assert made.memory.names() == ()


async def test_invalid_workspace_name_is_reported_with_remedy_and_its_claim_is_deletable(made: Workspaces) -> None:
    await made.start()
    await made.claim("acme.example")
    found = await made.until("acme.example", shows("Degraded", "True", "InvalidId"))
    assert "spec.id" in found.condition("Degraded").message
    await made.lab.delete(WorkspaceClaim, "acme.example")
    await made.lab.until_gone(WorkspaceClaim, "acme.example")


async def test_missing_namespace_is_named_and_the_secret_follows_its_creation(made: Workspaces) -> None:
    await made.start(namespace="kubeconfigs")
    await made.claim()
    found = await made.until("acme", shows("Degraded", "True", "NamespaceMissing"))
    assert "kubeconfigs" in found.condition("Degraded").message
    assert made.memory.issued == [], "none is issued that has no place"
    await made.lab.client.create(NAMESPACE.new("kubeconfigs"))
    await made.until("acme", *READY, timeout=400)
    assert made.memory.issued == ["acme"]


async def test_a_secret_that_is_deleted_is_written_again_at_once(made: Workspaces) -> None:
    await made.start()
    await made.claim()
    await made.until("acme", *READY)
    await made.lab.delete(SECRET, "ws-acme-kubeconfig")
    await asyncio.sleep(1)
    assert "top-secret-2" in await made.kubeconfig()


@pytest.mark.parametrize("seconds", [600.0, 86400.0])
async def test_a_credential_is_renewed_when_a_third_of_its_time_is_left(made: Workspaces, seconds: float) -> None:
    await made.start(credential_seconds=seconds)
    await made.claim()
    await made.until("acme", *READY)
    expires = from_rfc3339((await made.secret()).metadata.annotation("cloudapi.team-orca.dev/expires-at"))
    assert abs((expires - wall_clock()).total_seconds() - seconds) < 5
    await asyncio.sleep(seconds * 0.6)
    assert made.memory.issued == ["acme"]
    await asyncio.sleep(seconds * 0.1)
    assert made.memory.issued == ["acme", "acme"]
    again = from_rfc3339((await made.secret()).metadata.annotation("cloudapi.team-orca.dev/expires-at"))
    assert again - expires > timedelta(seconds=seconds * 0.6)
    assert "top-secret-2" in await made.kubeconfig()


async def test_unreachable_provider_is_reported_and_ready_workspaces_keep_phase_ready(made: Workspaces) -> None:
    await made.start()
    made.memory.away = "connection refused"
    await made.claim()
    found = await made.until(
        "acme", shows("Degraded", "True", "ProviderUnavailable"), shows("Available", "False", "ProviderUnavailable")
    )
    assert found.status.phase is None
    made.memory.away = ""
    await made.until("acme", *READY)
    made.memory.away = "connection refused"
    found = await made.until("acme", shows("Available", "Unknown", "ProviderUnavailable"), timeout=400)
    assert (found.status.phase, found.status.cluster_url) == ("Ready", made.memory.url("acme"))
    made.memory.away = ""
    await made.until("acme", *READY)
    assert made.memory.created == ["acme"]


async def test_without_a_kubeconfig_of_kcp_the_setting_is_named(lab: Lab) -> None:
    await install_crds(lab.client, [crd(WorkspaceClaim)])
    await lab.start(workspaces.install, settings=ManagerSettings(strict=True))
    await lab.create(WorkspaceClaim.new("acme"))
    found = await lab.until(WorkspaceClaim, "acme", shows("Degraded", "True", "ProviderUnavailable"))
    assert "set workspaces.kubeconfig" in found.condition("Degraded").message


class _Refusing(MemoryWorkspaces):
    """A provider with an untrusted description of its workspaces."""

    async def ensure(self, claim: ClaimOfWorkspace) -> WorkspaceState:
        raise WorkspaceRefused("kcp gives the workspace a URL that is not used: name the host in workspaces.hosts")


async def test_refused_workspace_is_reported_and_its_claim_can_be_deleted(made: Workspaces) -> None:
    made.memory = _Refusing()
    await made.start()
    await made.claim()
    found = await made.until(
        "acme", shows("Degraded", "True", "WorkspaceRefused"), shows("Available", "False", "WorkspaceRefused")
    )
    assert "workspaces.hosts" in found.condition("Degraded").message
    assert (found.status.cluster_url, found.status.kube_config_secret, made.memory.issued) == (None, None, [])
    await made.lab.delete(WorkspaceClaim, "acme")
    await made.lab.until_gone(WorkspaceClaim, "acme")


async def test_readiness_is_not_kept_when_the_workspace_loses_it(made: Workspaces) -> None:
    await made.start()
    await made.claim()
    await made.until("acme", *READY)
    made.memory.break_down("acme", "no shard is left")
    found = await made.until(
        "acme", phase("Initializing"), shows("Degraded", "True", "WorkspaceUnavailable"), timeout=400
    )
    assert found.condition("Degraded").message == "no shard is left"
    made.memory.break_down("acme", "")
    await made.until("acme", *READY)
    assert made.memory.issued == ["acme"]


async def test_a_workspace_that_was_deleted_is_made_again_with_another_credential(made: Workspaces) -> None:
    await made.start()
    claim = await made.claim()
    await made.until("acme", *READY)
    made.memory.deleting = 400.0
    await made.memory.delete(workspace_of(claim))
    await made.until("acme", shows("Progressing", "True", "Deleting"), timeout=400)
    await made.until("acme", *READY, timeout=500)
    assert made.memory.created == made.memory.issued == ["acme", "acme"]


async def test_deletion_removes_the_secret_first_and_waits_for_an_unreachable_provider(made: Workspaces) -> None:
    await made.start()
    await made.claim()
    await made.until("acme", *READY)
    made.memory.away = "connection refused"
    await made.lab.delete(WorkspaceClaim, "acme")
    found = await made.until("acme", phase("Deleting"), shows("Progressing", "True", "Deleting"))
    assert "connection refused" in found.condition("Progressing").message
    assert await made.lab.find(SECRET, "ws-acme-kubeconfig") is None
    await asyncio.sleep(600)
    made.memory.away = ""
    await made.until("acme", shows("Progressing", "True", "Deleting"))
    await made.lab.until_gone(WorkspaceClaim, "acme")
    assert made.memory.names() == ()


async def test_a_kubeconfig_is_in_no_log_event_or_status(made: Workspaces, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    await made.start()
    await made.claim()
    found = await made.until("acme", *READY)
    await asyncio.sleep(70000)
    assert len(made.memory.issued) == 2
    events = await made.lab.client.list(EVENT)
    assert any("kubeconfig" in str(one.data) for one in events)
    for text in (caplog.text, str([one.data for one in events]), str(found.to_dict()), str(made.lab.manager.debug())):
        assert "top-secret" not in text


def workspace_of(claim: WorkspaceClaim) -> ClaimOfWorkspace:
    return ClaimOfWorkspace(claim.workspace, claim.metadata.uid, epoch=0)
