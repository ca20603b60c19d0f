"""The Cluster and its agent in a manager: registration, rotation, heartbeat, conditions, deletion."""

import asyncio
from typing import Any

import pytest
from pull_kit import BACKUP, TOKEN, definitions, ensure
from pull_lab import Plane, gone, is_, phase, until

from konverge.crds.ops_v1alpha1 import Cluster
from konverge.kinds import kind
from konverge.reconcilers import clusters
from konverge.reconcilers.apps.operations import install as operations
from konverge.reconcilers.clusters.kinds import APPLICATION_INSTANCE, SECRET
from konverge.reconcilers.clusters.protocol import Outcome
from konverge.runtime import ManagerSettings, Rule
from konverge_testing import Lab, install_crds
from konverge_testing.apiserver.faults.rules import About, Match, Refuse
from konverge_testing.apiserver.faults.rules import Rule as FaultRule

EVENT = kind("events.k8s.io/v1", "Event", namespaced=True, plural="events")


async def test_cluster_registers_by_a_token_in_its_spec_that_is_removed(lab: Lab) -> None:
    here = Plane(lab)
    await here.start()
    cluster = await here.until(is_("Connected", "True", "RoundTripOK"))
    cluster = await here.until(lambda found: found.spec.registration_token is None)
    cluster = await here.until(phase("Connected"))
    assert here.plane.state.registrations == 1
    assert cluster.condition("Authenticated").reason == "CredentialAccepted"
    assert cluster.condition("Disconnected").status == "False"
    assert cluster.status.credential_status is not None
    assert cluster.status.credential_status.registration_token_consumed
    assert cluster.status.credential_status.secret_name == "vworkspace-agent-credentials"
    assert cluster.status.observed_token
    assert cluster.status.last_heartbeat


async def test_cluster_registers_once_the_secret_with_its_token_exists(lab: Lab) -> None:
    here = Plane(lab)
    await here.run()
    await here.create(registrationTokenSecretRef={"name": "registration"})
    cluster = await here.until(is_("Authenticated", "False", "TokenSecretMissing"))
    assert cluster.status.phase == "Pending"
    await lab.create(SECRET.new("registration", stringData={"registrationToken": TOKEN}))
    await here.until(phase("Connected"))


async def test_a_token_is_taken_only_from_a_secret_that_the_setting_names(lab: Lab) -> None:
    here = Plane(lab, token_secrets=["mine"])
    await here.run()
    for name in ("other", "mine"):
        await lab.create(SECRET.new(name, stringData={"registrationToken": TOKEN}))
    await here.create(registrationTokenSecretRef={"name": "other"})
    cluster = await here.until(is_("Authenticated", "False", "TokenSecretMissing"))
    assert "add other to the setting clusters.token_secrets" in cluster.condition("Authenticated").message
    assert here.plane.state.registrations == 0
    await here.patch({"spec": {"registrationTokenSecretRef": {"name": "mine"}}})
    await here.until(phase("Connected"))


async def test_jobs_are_carried_out_and_status_comes_back(lab: Lab) -> None:
    here = Plane(lab, namespace="default")
    await here.start()
    body = {**ensure(), "namespace": lab.namespace}
    body["spec"]["release"]["namespace"] = lab.namespace
    job = here.plane.submit("intent", body)
    assert (await here.plane.result(job)).outcome is Outcome.SUCCEEDED
    ready = {
        "type": "Ready",
        "status": "False",
        "reason": "Installing",
        "message": "",
        "lastTransitionTime": "2030-01-01T00:00:00Z",
    }
    for status in ("False", "True", "False"):
        patch = {"status": {"conditions": [{**ready, "status": status}]}}
        await lab.client.patch(
            APPLICATION_INSTANCE, "shop", lab.namespace, patch=patch, style="merge", subresource="status"
        )
    await here.plane.until(lambda: len(here.plane.events) == 3)
    assert [event.status for event in here.plane.events] == ["False", "True", "False"]
    gone = here.plane.submit(
        "intent", {"intent": "delete-application-instance", "namespace": lab.namespace, "name": "shop"}
    )
    assert (await here.plane.result(gone)).outcome is Outcome.SUCCEEDED
    await here.plane.until(lambda: here.plane.events[-1].type == "deleted")


async def test_the_heartbeat_is_written_once_a_minute_and_nothing_else(lab: Lab) -> None:
    here = Plane(lab)
    await here.start()
    await here.until(lambda found: found.spec.registration_token is None and phase("Connected")(found))
    await asyncio.sleep(90)
    beats, versions = set(), set()
    for _ in range(60):
        await asyncio.sleep(10)
        found = await lab.client.get(Cluster, "east")
        beats.add(found.status.last_heartbeat)
        versions.add(found.metadata.resource_version)
    assert 9 <= len(beats) <= 11
    assert len(versions) == len(beats)


async def test_a_control_plane_that_does_not_respond_is_reported_and_reported_back(lab: Lab) -> None:
    here = Plane(lab)
    await here.start()
    await here.until(phase("Connected"))
    here.plane.faults.add(status=503, times=100_000)
    cluster = await here.until(is_("Connected", "False", "ControlPlaneUnreachable"))
    assert cluster.status.phase == "Disconnected"
    assert cluster.condition("Disconnected").status == "False"
    await here.until(is_("Disconnected", "True", "NoRecentRoundTrip"))
    here.plane.faults.clear()
    cluster = await here.until(is_("Connected", "True"))
    assert cluster.condition("Disconnected").reason == "Connected"


async def test_a_rejected_credential_is_an_error_until_a_new_token_comes(lab: Lab) -> None:
    here = Plane(lab)
    await here.start()
    await here.until(lambda found: found.spec.registration_token is None and phase("Connected")(found))
    here.plane.state.revoke()
    cluster = await here.until(is_("Authenticated", "False", "CredentialRejected"))
    assert cluster.status.phase == "Error"
    here.plane.state.allow("another-token")
    await here.patch({"spec": {"registrationToken": "another-token"}})
    await here.until(is_("Authenticated", "True", "CredentialAccepted"))
    await here.until(lambda found: found.spec.registration_token is None)
    assert here.plane.state.registrations == 2


@pytest.mark.parametrize("by", ["spec", "annotation"])
async def test_a_request_to_replace_the_credential_is_done_once_and_removed(lab: Lab, by: str) -> None:
    here = Plane(lab)
    await here.start()
    await here.until(lambda found: found.spec.registration_token is None and phase("Connected")(found))
    for round_ in (1, 2):
        before = here.plane.state.valid
        asked = (
            {"spec": {"rotateCredentials": True}}
            if by == "spec"
            else {"metadata": {"annotations": {"ops.vworkspace.io/rotate-credentials": "now"}}}
        )
        await here.patch(asked)
        await here.until(
            lambda found: (
                not found.spec.rotate_credentials and "ops.vworkspace.io/rotate-credentials" not in found.annotations
            )
        )
        await here.until(phase("Connected"))
        await asyncio.sleep(120)
        assert here.plane.state.valid != before
        rotations = [one for one in here.plane.exchanges if one.request.path.endswith("/rotate")]
        assert len(rotations) == round_
    assert any(event.get("reason") == "CredentialRotated" for event in await lab.client.list(EVENT, None))


async def test_refused_rotation_is_in_the_condition_until_done_or_withdrawn(lab: Lab) -> None:
    here = Plane(lab)
    await here.start()
    await here.until(phase("Connected"))
    for withdrawn in (False, True):
        before = here.plane.state.valid
        here.plane.faults.add(path="/credentials/rotate", status=409, times=1_000)
        await here.patch({"spec": {"rotateCredentials": True}})
        cluster = await here.until(is_("Authenticated", "True", "RotationFailed"))
        assert "status 409" in cluster.condition("Authenticated").message
        assert phase("Connected")(cluster)
        if withdrawn:
            await here.patch({"spec": {"rotateCredentials": False}})
        else:
            here.plane.faults.clear()
        await asyncio.sleep(600)
        await here.until(is_("Authenticated", "True", "CredentialAccepted"))
        assert (here.plane.state.valid == before) is withdrawn
        asked = len(rotations_of(here))
        await asyncio.sleep(7_200)
        assert len(rotations_of(here)) == asked


def rotations_of(here: Plane) -> list[object]:
    return [one for one in here.plane.exchanges if one.request.path.endswith("/rotate")]


async def test_cluster_without_a_token_waits_and_uses_the_deprecated_url(lab: Lab) -> None:
    here = Plane(lab)
    await here.run()
    await here.create(controlPlaneEndpoint=None, controlPlaneBaseUrl="https://plane.example.com")
    cluster = await here.until(is_("Authenticated", "False", "CredentialMissing"))
    assert cluster.status.phase == "Pending"
    assert here.plane.exchanges == []
    await here.patch({"spec": {"registrationToken": TOKEN}})
    await here.until(phase("Connected"))


async def test_a_cluster_that_is_deleted_is_terminating_until_its_agent_has_ended(lab: Lab) -> None:
    phases: list[str] = []

    def note() -> None:
        for entry in lab.server.store.list(("ops.vworkspace.io", "clusters")):
            found = entry.object()
            if "deletionTimestamp" in found["metadata"]:
                phases.append(found["status"]["phase"])

    here = Plane(lab)
    await here.start()
    await here.until(phase("Connected"))
    lab.always.append(note)
    await lab.client.delete(Cluster, "east")
    await gone(lab, "east")
    assert phases[-1] == "Terminating"


async def test_a_controller_of_the_operator_that_does_not_work_is_named(lab: Lab) -> None:
    """The other families of this operator execute the jobs."""
    here = Plane(lab)

    def build(manager: Any) -> None:
        clusters.install(manager, here.settings, connect=here.plane.connect)
        manager.add(operations.controller())

    await install_crds(lab.client, definitions())
    text = (
        'jobs.batch is forbidden: User "konverge" cannot list resource "jobs" in API group "batch" at the cluster scope'
    )
    denied = FaultRule(Match(verbs=("list", "watch"), resources=("jobs.batch",)), Refuse(status=403, message=text))
    lab.server.faults.add(denied)
    await lab.start(build, settings=ManagerSettings(strict=True), wait=False)
    await here.create(registrationToken=TOKEN)
    cluster = await here.until(is_("ControllersHealthy", "False", "ControllerDegraded"))
    assert cluster.condition("ControllersHealthy").message == "not ready: operation"
    lab.server.faults.remove(denied)
    await here.until(is_("ControllersHealthy", "True", "AllControllersReady"))


async def test_a_deleted_cluster_stops_its_agent_and_takes_its_secrets_along(lab: Lab) -> None:
    here = Plane(lab)
    await here.start()
    await here.until(phase("Connected"))
    await here.plane.result(here.plane.submit("intent", {"intent": "rotate-operator-credentials"}))
    await lab.client.delete(Cluster, "east")
    await gone(lab, "east")
    asked = len(here.plane.exchanges)
    await asyncio.sleep(600)
    assert len(here.plane.exchanges) == asked
    names = {secret.name for secret in await lab.client.list(SECRET, lab.namespace)}
    assert not names & {"vworkspace-agent-credentials", "vworkspace-agent-journal"}


async def test_a_second_cluster_is_refused_while_the_first_one_holds_the_credential(lab: Lab) -> None:
    here = Plane(lab)
    await here.start()
    await here.until(phase("Connected"))
    spec = {"clusterId": "west", "controlPlaneEndpoint": "https://plane.example.com", "registrationToken": "t"}
    await lab.client.create(Cluster.decode({"metadata": {"name": "west"}, "spec": spec}))
    second = await until(lab, "west", is_("Authenticated", "False", "ValidationFailed"))
    assert second.status.phase == "Error"


@pytest.mark.parametrize("endpoint", ["http://plane.example.com", "https://[::1"])
async def test_plain_http_beyond_the_loopback_and_malformed_urls_are_refused(lab: Lab, endpoint: str) -> None:
    here = Plane(lab)
    await here.start(controlPlaneEndpoint=endpoint)
    cluster = await here.until(is_("Authenticated", "False", "ValidationFailed"))
    assert "https://" in cluster.condition("Authenticated").message
    assert not here.plane.exchanges


async def test_controllers_that_the_cluster_expects_and_lacks_are_named(lab: Lab) -> None:
    here = Plane(lab)
    await here.start(capabilities={"flux": True, "velero": True})
    cluster = await here.until(is_("ControllersHealthy", "False", "ControllerMissing"))
    assert cluster.condition("ControllersHealthy").message == "not installed: Flux, Velero"


async def test_an_overflow_of_the_buffer_is_a_condition_until_it_is_drained(lab: Lab) -> None:
    here = Plane(lab, namespace="default", event_buffer=2)
    await here.start()
    body = {**ensure(), "namespace": lab.namespace}
    body["spec"]["release"]["namespace"] = lab.namespace
    await here.plane.result(here.plane.submit("intent", body))
    here.plane.faults.add(status=503, times=100_000)
    await here.until(is_("Connected", "False"))
    for status in ("False", "True", "False", "True"):
        ready = {
            "type": "Ready",
            "status": status,
            "reason": "R",
            "message": "",
            "lastTransitionTime": "2030-01-01T00:00:00Z",
        }
        patch = {"status": {"conditions": [ready]}}
        await lab.client.patch(
            APPLICATION_INSTANCE, "shop", lab.namespace, patch=patch, style="merge", subresource="status"
        )
    await here.until(is_("BufferOverflow", "True", "EventBufferFull"))
    here.plane.faults.clear()
    await here.until(is_("BufferOverflow", "False", "BufferDrained"))
    assert here.plane.state.dropped == 2


async def test_a_reconcile_that_the_api_server_refuses_is_reported_and_mended(lab: Lab) -> None:
    here = Plane(lab)
    await here.run()
    patches = Match(verbs=("patch",), resources=("clusters.ops.vworkspace.io",), subresource="")
    lab.server.faults.add(FaultRule(patches, Refuse(status=422), nth=2, count=2))
    await here.create(registrationToken=TOKEN)
    await here.until(lambda found: found.spec.registration_token is None)
    cluster = await here.until(is_("ControllersHealthy", "True"))
    assert {condition.type for condition in cluster.conditions} == set(Cluster.__konverge_declaration__.conditions)


@pytest.mark.parametrize("token_in", ["spec", "secret"])
async def test_cluster_lifecycle_needs_only_listed_rules_and_operator_namespace_secrets(
    lab: Lab, token_in: str
) -> None:
    here = Plane(lab, namespace="default")
    used: set[About] = set()

    def note(_call: object, about: About, _response: object) -> None:
        if about.verb and about.user_agent.startswith("lab ") and about.group != "apiextensions.k8s.io":
            used.add(about)

    await here.run()
    lab.server.on_call.append(note)
    if token_in == "secret":
        await lab.client.create(SECRET.new("registration", "default", stringData={"registrationToken": TOKEN}))
        await here.create(registrationTokenSecretRef={"name": "registration"})
    else:
        await here.create(registrationToken=TOKEN)
    await here.until(phase("Connected"))
    body = {**ensure(), "namespace": lab.namespace}
    body["spec"]["release"]["namespace"] = lab.namespace
    operation = {"intent": "request-operation", "namespace": lab.namespace, "spec": BACKUP}
    delete = {"intent": "delete-application-instance", "namespace": lab.namespace, "name": "shop"}
    for payload in (body, operation, delete, {"intent": "rotate-operator-credentials"}):
        assert (await here.plane.result(here.plane.submit("intent", payload))).outcome is Outcome.SUCCEEDED
    await here.patch({"spec": {"rotateCredentials": True}})
    await here.until(lambda found: not found.spec.rotate_credentials)
    await asyncio.sleep(120)
    await lab.client.delete(Cluster, "east")
    await gone(lab, "east")
    rules = lab.manager.rules()
    denied = {str(about) for about in used if not any(allows(rule, about) for rule in rules)}
    assert denied == set()
    assert {about.namespace for about in used if about.resource == "secrets"} == {"default"}
    assert any(about.verb == "delete" and about.resource == "secrets" for about in used)


def allows(rule: Rule, about: About) -> bool:
    resource = f"{about.resource}/{about.subresource}" if about.subresource else about.resource
    return (
        rule.group == about.group
        and resource in rule.resources
        and about.verb in rule.verbs
        and (not rule.names or about.name in rule.names)
        and rule.namespace in ("", about.namespace)
    )
