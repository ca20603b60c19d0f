"""Jobs through the whole agent: their effects, outcomes, refusals and repetitions; rows X10 and 8 of the requirements."""

import asyncio
import base64
import json
from datetime import UTC, datetime
from typing import Any, Literal

import pytest
from pull_kit import BACKUP, World, ensure, manifest

from konverge.errors import NotFound
from konverge.objects import Object
from konverge.reconcilers.clusters import job_worker, room
from konverge.reconcilers.clusters.agent_state import Step
from konverge.reconcilers.clusters.job_limits import Gates
from konverge.reconcilers.clusters.jobs import JobRefusal, read_job
from konverge.reconcilers.clusters.kinds import APPLICATION_INSTANCE
from konverge.reconcilers.clusters.protocol import Outcome
from konverge.reconcilers.clusters.words import Annotation
from konverge_testing.apiserver.faults.rules import Match, Refuse, Rule


def deletion(name: str = "shop", namespace: str = "web") -> dict[str, Any]:
    return {"intent": "delete-application-instance", "namespace": namespace, "name": name}


async def test_an_intent_becomes_an_object_that_names_its_source() -> None:
    async with World() as world:
        await world.start()
        job = world.plane.submit("intent", ensure())
        result = await world.plane.result(job)
        stored = await world.instance()
    assert (result.outcome, result.reason) == (Outcome.SUCCEEDED, "Applied")
    assert result.object is not None
    assert result.object.uid == stored.metadata.uid
    assert stored.metadata.labels == {
        "app.vworkspace.io/managed-by": "control-plane",
        "app.vworkspace.io/cluster-id": "east",
    }
    assert stored.get("spec", "chart", "version") == "1.0.0"
    managers = {entry["manager"] for entry in stored.get("metadata", "managedFields", default=())}
    assert managers == {"konverge.agent"}


async def test_signature_is_reserved_and_a_signed_job_is_executed_like_others() -> None:
    """The original documents signed jobs and reads no signature. Here the field is accepted, and proves nothing."""
    async with World() as world:
        await world.start()
        job = world.plane.submit("intent", ensure())
        world.plane.job(job).message["signature"] = "c2lnbmVk"
        result = await world.plane.result(job)
        assert (await world.instance()).name == "shop"
    assert (result.outcome, result.reason) == (Outcome.SUCCEEDED, "Applied")


async def test_a_state_that_is_there_already_is_a_noop() -> None:
    async with World() as world:
        await world.start()
        await world.plane.result(world.plane.submit("intent", ensure()))
        before = await world.instance()
        again = await world.plane.result(world.plane.submit("apply", manifest()))
        after = await world.instance()
    assert (again.outcome, again.reason) == (Outcome.NOOP, "Unchanged")
    assert before.metadata.resource_version == after.metadata.resource_version


async def test_x10_foreign_field_is_a_conflict_with_manager_and_path_without_overwrite() -> None:
    async with World() as world:
        await world.start()
        await world.plane.result(world.plane.submit("intent", ensure()))
        edited = {"spec": {"chart": {"version": "1.5.0"}}}
        await world.client.patch(APPLICATION_INSTANCE, "shop", "web", patch=edited, style="merge")
        chart = {**manifest()["spec"]["chart"], "version": "2.0.0"}
        result = await world.plane.result(world.plane.submit("intent", ensure(chart=chart)))
        stored = await world.instance()
    assert (result.outcome, result.reason) == (Outcome.CONFLICT, "FieldConflict")
    assert [(one.manager, one.path) for one in result.conflicts] == [("admin", ".spec.chart.version")]
    assert stored.get("spec", "chart", "version") == "1.5.0"


async def test_a_request_for_an_operation_makes_one_however_often_it_is_delivered() -> None:
    async with World() as world:
        await world.start()
        world.plane.state.redeliver = True
        payload = {"intent": "request-operation", "namespace": "web", "spec": BACKUP}
        first = world.plane.submit("intent", payload, key="backup-of-monday")
        assert (await world.plane.result(first)).outcome is Outcome.SUCCEEDED
        second = world.plane.submit("intent", payload, key="backup-of-monday")
        result = await world.plane.result(second)
        await world.plane.until(lambda: world.plane.job(first).deliveries > 3)
        made = await world.operations()
    assert (result.outcome, result.reason) == (Outcome.NOOP, "Duplicate")
    assert len(made) == 1
    assert made[0].get("spec", "engine") == "velero"


async def test_job_delivered_again_after_a_lost_result_reports_its_own_outcome() -> None:
    async with World() as world:
        await world.start()
        world.plane.faults.add(path="/ack", cut="after")
        world.plane.faults.add(path="/result", cut="after")
        job = world.plane.submit("intent", ensure())
        result = await world.plane.result(job)
        world.plane.job(job).result = None
        world.plane.job(job).acks = 0
        world.plane.submit("intent", ensure("other"))
        again = await world.plane.result(job)
    assert result.outcome is again.outcome is Outcome.SUCCEEDED


async def test_jobs_of_the_kinds_apply_and_delete_do_what_the_intents_do() -> None:
    async with World() as world:
        await world.start()
        made = await world.plane.result(world.plane.submit("apply", manifest()))
        stored = await world.instance()
        gone = await world.plane.result(world.plane.submit("delete", manifest()))
        with pytest.raises(NotFound):
            await world.instance()
    assert (made.outcome, made.reason) == (Outcome.SUCCEEDED, "Applied")
    assert stored.metadata.label("app.vworkspace.io/managed-by") == "control-plane"
    assert (gone.outcome, gone.reason) == (Outcome.SUCCEEDED, "Deleted")


async def test_a_deletion_removes_only_objects_of_the_control_plane() -> None:
    async with World() as world:
        await world.client.create(APPLICATION_INSTANCE.decode(manifest("foreign")))
        await world.start()
        await world.plane.result(world.plane.submit("intent", ensure()))
        gone = await world.plane.result(world.plane.submit("intent", deletion()))
        absent = await world.plane.result(world.plane.submit("intent", deletion()))
        foreign = await world.plane.result(world.plane.submit("intent", deletion("foreign")))
        written = await world.plane.result(world.plane.submit("intent", ensure("foreign")))
        with pytest.raises(NotFound):
            await world.instance()
        assert (await world.instance("foreign")).metadata.labels is None
    assert (gone.outcome, gone.reason) == (Outcome.SUCCEEDED, "Deleted")
    assert (absent.outcome, absent.reason) == (Outcome.NOOP, "Absent")
    assert {(one.outcome, one.reason) for one in (foreign, written)} == {(Outcome.FAILED, "ForeignObject")}


async def test_deletion_with_a_conflict_is_sent_again_until_the_object_disappears() -> None:
    async with World() as world:
        await world.start()
        await world.plane.result(world.plane.submit("intent", ensure()))
        deletes = Match(verbs=("delete",), resources=("applicationinstances.apps.vworkspace.io",))
        world.server.faults.add(Rule(deletes, Refuse(status=409), count=2))
        result = await world.plane.result(world.plane.submit("intent", deletion()))
        with pytest.raises(NotFound):
            await world.instance()
    assert (result.outcome, result.reason) == (Outcome.SUCCEEDED, "Deleted")


REFUSED: dict[str, tuple[str, dict[str, Any], str]] = {
    "another kind": ("apply", {**manifest(), "apiVersion": "v1", "kind": "Secret"}, "KindRefused"),
    "another version of the kind": ("apply", {**manifest(), "apiVersion": "apps.vworkspace.io/v9"}, "KindRefused"),
    "the namespace of the operator": ("intent", {**ensure(), "namespace": "konverge-system"}, "NamespaceRefused"),
    "a namespace of Kubernetes": ("intent", deletion(namespace="kube-system"), "NamespaceRefused"),
    "no namespace": ("intent", {**ensure(), "namespace": ""}, "Malformed"),
    "a path for a name": ("intent", ensure("../secrets"), "Malformed"),
    "a status": ("apply", {**manifest(), "status": {"phase": "x"}}, "Malformed"),
    "an owner": ("apply", manifest(ownerReferences=[]), "Malformed"),
    "a finalizer": ("apply", manifest(finalizers=["a/b"]), "Malformed"),
    "no spec": ("apply", {**manifest(), "spec": None}, "Malformed"),
    "labels that are no texts": ("apply", manifest(labels={"a": 1}), "Malformed"),
    "an unknown intent": ("intent", {"intent": "format-disk"}, "Malformed"),
    "no metadata": ("apply", {"apiVersion": "apps.vworkspace.io/v1alpha1", "kind": "ApplicationInstance"}, "Malformed"),
    "a label of another cluster": ("apply", manifest(labels={"app.vworkspace.io/cluster-id": "west"}), "WrongCluster"),
    "too many bytes": ("intent", ensure(values={"source": "inline", "inline": {"a": "x" * 3000}}), "TooLarge"),
    "a spec that the API server refuses": ("intent", ensure(mode="other"), "Invalid"),
    "a namespace that is missing": ("intent", {**ensure(), "namespace": "nowhere"}, "NamespaceMissing"),
}


async def test_forbidden_jobs_fail_with_their_reasons_and_next_job_is_done() -> None:
    async with World(most_job=2048) as world:
        await world.start()
        jobs = {name: world.plane.submit(kind, payload) for name, (kind, payload, _) in REFUSED.items()}
        good = world.plane.submit("intent", ensure("good"))
        results = {name: await world.plane.result(job) for name, job in jobs.items()}
        assert (await world.plane.result(good)).outcome is Outcome.SUCCEEDED
    assert {name: result.reason for name, result in results.items()} == {
        n: reason for n, (_, _, reason) in REFUSED.items()
    }
    assert {result.outcome for result in results.values()} == {Outcome.FAILED}


async def test_an_expired_job_is_a_noop_and_one_for_another_cluster_fails() -> None:
    async with World() as world:
        await world.start()
        late = world.plane.submit("intent", ensure(), lifetime=0)
        strange = world.plane.submit("intent", ensure())
        world.plane.job(strange).message["clusterId"] = "west"
        expired, elsewhere = await world.plane.result(late), await world.plane.result(strange)
        with pytest.raises(NotFound):
            await world.instance()
    assert (expired.outcome, expired.reason, expired.message) == (Outcome.NOOP, "Expired", "expired")
    assert (elsewhere.outcome, elsewhere.reason) == (Outcome.FAILED, "WrongCluster")


async def test_jobs_that_have_no_form_at_all_stop_nothing() -> None:
    async with World() as world:
        await world.start()
        bad = world.plane.submit("apply", {})
        del world.plane.job(bad).message["expiresAt"]
        nameless = world.plane.submit("apply", {})
        world.plane.job(nameless).message["id"] = "../../events"
        good = world.plane.submit("intent", ensure())
        assert (await world.plane.result(bad)).reason == "Malformed"
        assert (await world.plane.result(good)).outcome is Outcome.SUCCEEDED
    assert world.plane.job(nameless).acks == 0


def hostile(payload: str, number: int) -> bytes:
    """Return a job with a raw payload."""
    head = f'"id": "hostile-{number}", "kind": "intent", "idempotencyKey": "hostile-{number}"'
    times = '"createdAt": "2030-01-01T00:00:00Z", "expiresAt": "2040-01-01T00:00:00Z"'
    return f'{{{head}, {times}, "payload": {payload}}}'.encode("utf-8", "surrogateescape")


def nested(levels: int) -> str:
    return '{"a":' * levels + "1" + "}" * levels


DEEP = "the job is nested too deeply; make its values flatter"
HOSTILE: dict[str, tuple[str, str]] = {
    "deeper than an object of the protocol": (nested(100), DEEP),
    "deeper than it can be encoded": (nested(950), DEEP),
    "deeper than it can be decoded": (nested(100_000), DEEP),
    "lists": ("[" * 5_000 + "]" * 5_000, DEEP),
    "half of a surrogate pair": (r'{"a": "\ud800"}', "the job is not JSON"),
    "no number of JSON": ('{"a": NaN}', "the job is not JSON"),
    "a number beyond all": ('{"a": 1e400}', "the job is not JSON"),
    "no UTF-8": ('{"a": "\udcff"}', "the job is not JSON"),
}


async def test_unreadable_or_oversized_job_is_refused_and_its_neighbour_is_executed() -> None:
    async with World() as world:
        for number, (payload, _) in enumerate(HOSTILE.values()):
            world.plane.job(world.plane.submit("intent", {}, job_id=f"hostile-{number}")).text = hostile(
                payload, number
            )
        values = {"source": "inline", "inline": json.loads(nested(80))}
        good = world.plane.submit("intent", ensure("good", values=values))
        await world.start()
        results = [await world.plane.result(f"hostile-{number}") for number in range(len(HOSTILE))]
        assert (await world.plane.result(good)).outcome is Outcome.SUCCEEDED
        await world.plane.result(world.plane.submit("intent", ensure("another")))  # the journal was written once more
        journal = (await world.secret("vworkspace-agent-journal")).get("data")
    assert [(one.outcome, one.reason, one.message) for one in results] == [
        (Outcome.FAILED, "Malformed", message) for _, message in HOSTILE.values()
    ]
    assert [one.idempotency_key for one in results] == [f"hostile-{number}" for number in range(len(HOSTILE))]
    assert "disconnected" not in world.states
    stored = b"".join(base64.b64decode(value) for value in journal.values())
    assert b"good" in stored or b"job-1" in stored
    assert b"hostile" not in stored


@pytest.mark.parametrize("payload", [{"a": {}}, {"a": "\ud800"}], ids=["deep", "surrogate"])
def test_a_job_that_cannot_be_encoded_is_refused_with_its_id(payload: dict[str, Any]) -> None:
    inner = payload["a"]
    for _ in range(5_000 if inner == {} else 0):
        inner["a"] = inner = {}
    found = read_job({"id": "a", "payload": payload}, Gates(cluster_id="east"), datetime(2030, 1, 1, tzinfo=UTC))
    assert isinstance(found, JobRefusal)
    assert (found.job_id, found.reason) == ("a", "Malformed")


async def test_unreadable_response_is_requested_again_with_one_job_per_page() -> None:
    async with World() as world:
        jobs = [world.plane.submit("intent", ensure(f"shop-{number}")) for number in range(3)]
        broken = world.plane.submit("intent", {})
        world.plane.job(broken).text = b'{"id": "'
        agent = await world.start()
        outcomes = [(await world.plane.result(job)).outcome for job in jobs]
        await asyncio.sleep(3600)
        asked = len(world.plane.exchanges)
        await asyncio.sleep(3600)
        assert len(world.plane.exchanges) - asked < 250, "the pauses between the attempts grow"
        said = agent.state
        assert said.step is Step.DISCONNECTED
        assert "remove its oldest job" in said.message
        del world.plane.state.jobs[broken]
        last = world.plane.submit("intent", ensure("last"))
        assert (await world.plane.result(last)).outcome is Outcome.SUCCEEDED
        assert agent.state.step is Step.CONNECTED
    assert outcomes == [Outcome.SUCCEEDED] * 3


async def test_an_object_that_is_being_deleted_is_not_applied_to() -> None:
    async with World() as world:
        await world.start()
        held = APPLICATION_INSTANCE.decode(
            manifest(labels={"app.vworkspace.io/managed-by": "control-plane"}, finalizers=["a.io/b"])
        )
        await world.client.create(held)
        await world.client.delete(APPLICATION_INSTANCE, "shop", "web")
        result = await world.plane.result(world.plane.submit("intent", ensure()))
    assert (result.outcome, result.reason) == (Outcome.FAILED, "BeingDeleted")


async def test_failing_api_server_is_retried_and_reported_to_the_control_plane() -> None:
    async with World() as world:
        await world.start()
        await world.plane.until(lambda: bool(world.plane.exchanges))
        applies = Match(verbs=("apply",), resources=("applicationinstances.apps.vworkspace.io",))
        world.server.faults.add(Rule(applies, Refuse(status=503), count=12))
        job = world.plane.submit("intent", ensure())
        result = await world.plane.result(job)
    assert result.outcome is Outcome.SUCCEEDED
    assert "retrying" in {state.state for state in world.plane.job(job).states}


@pytest.mark.parametrize("status", [403, 422])
async def test_an_error_that_speaks_of_a_conflict_is_none(status: int) -> None:
    async with World() as world:
        await world.start()
        applies = Match(verbs=("apply",), resources=("applicationinstances.apps.vworkspace.io",))
        text = "admission webhook denied the request: Apply failed with 1 conflict: conflict with another policy"
        world.server.faults.add(Rule(applies, Refuse(status=status, message=text), count=1))
        result = await world.plane.result(world.plane.submit("intent", ensure()))
    assert (result.outcome, result.conflicts) == (Outcome.FAILED, ())
    assert result.reason == {403: "Forbidden", 422: "Invalid"}[status]


@pytest.mark.parametrize("moment", ["before", "after"])
async def test_job_with_an_unstored_journal_entry_does_not_count_as_known(moment: Literal["before", "after"]) -> None:
    """`after`: the journal is stored, but the agent gets an error."""
    async with World() as world:
        await world.start()
        await world.plane.result(world.plane.submit("intent", ensure("first")))
        writes = Match(
            verbs=("patch", "update", "apply", "create"), resources=("secrets",), name="vworkspace-agent-journal"
        )
        fault = Rule(writes, Refuse(status=500, moment=moment), count=3)
        world.server.faults.add(fault)
        job = world.plane.submit("intent", ensure("second"))
        result = await world.plane.result(job, timeout=600)
        assert len(fault.hits) > 0
        stored = await world.instance("second")
    assert (result.outcome, result.reason) == (Outcome.SUCCEEDED, "Applied")
    assert stored.metadata.uid == (result.object.uid if result.object else "")


def refuses(name: str, count: int) -> Rule:
    """Return the fault of a webhook that fails for one object."""
    applies = Match(verbs=("apply",), resources=("applicationinstances.apps.vworkspace.io",), name=name)
    return Rule(applies, Refuse(status=500), count=count)


def version(number: str) -> dict[str, Any]:
    return {"chart": {**manifest()["spec"]["chart"], "version": number}}


async def test_job_that_the_api_server_refuses_delays_no_other_objects_job() -> None:
    async with World() as world:
        await world.start()
        world.server.faults.add(refuses("bad", 10_000))
        bad = world.plane.submit("intent", ensure("bad"), lifetime=3600)
        began = asyncio.get_running_loop().time()
        beside = world.plane.submit("intent", ensure("beside"))
        assert (await world.plane.result(beside)).outcome is Outcome.SUCCEEDED
        await asyncio.sleep(600)
        assert world.plane.job(bad).result is None
        later = [world.plane.submit("intent", ensure(f"later-{number}")) for number in range(3)]
        submitted = asyncio.get_running_loop().time()
        assert [(await world.plane.result(job)).outcome for job in later] == [Outcome.SUCCEEDED] * 3
        assert asyncio.get_running_loop().time() - submitted < 60
        tries = len(world.plane.job(bad).states)
        late = await world.plane.result(bad, timeout=3600)
        assert 3600 <= asyncio.get_running_loop().time() - began < 3700
        assert world.agent.state.step is Step.CONNECTED
    assert (late.outcome, late.reason) == (Outcome.FAILED, "Expired")
    assert 10 < tries < 40, "the pauses grow to half a minute"
    assert {state.state for state in world.plane.job(bad).states} == {"retrying"}


async def test_many_bad_jobs_delay_a_good_job_like_a_single_bad_job() -> None:
    async with World(most_pending=5) as world:
        await world.start()
        world.server.faults.add(refuses("bad-*", 100_000))
        bad = [world.plane.submit("intent", ensure(f"bad-{number}")) for number in range(30)]
        await world.plane.until(lambda: all(world.plane.job(job).states for job in bad))
        for number in range(20):
            await asyncio.sleep(20)
            submitted = asyncio.get_running_loop().time()
            good = world.plane.submit("intent", ensure(f"good-{number}"))
            assert (await world.plane.result(good)).outcome is Outcome.SUCCEEDED
            assert asyncio.get_running_loop().time() - submitted < 15
        world.server.faults.clear()
        assert {(await world.plane.result(job)).outcome for job in bad} == {Outcome.SUCCEEDED}


@pytest.mark.parametrize("same", [False, True], ids=["of many objects", "of one object"])
async def test_journal_full_of_bad_jobs_delays_no_good_job_and_loses_none(
    monkeypatch: pytest.MonkeyPatch, same: bool
) -> None:
    """15 jobs have a place in the queue; 12 more than a poll requests stay with the control plane, before the good jobs."""
    monkeypatch.setattr(room, "MOST_WAITING", 10)
    async with World(most_pending=5) as world:
        await world.start()
        world.server.faults.add(refuses("bad*", 100_000))
        names = ["bad" if same else f"bad-{number}" for number in range(27)]
        bad = [world.plane.submit("intent", ensure(name), lifetime=86_400) for name in names]
        await world.plane.until(lambda: all(world.plane.job(job).acks for job in bad[:15]))
        for number in range(5):
            await asyncio.sleep(30)
            good = [world.plane.submit("intent", ensure(f"good-{number}-{n}")) for n in range(2)]
            submitted = asyncio.get_running_loop().time()
            assert [(await world.plane.result(job)).outcome for job in good] == [Outcome.SUCCEEDED] * 2
            assert asyncio.get_running_loop().time() - submitted < 60
        assert [world.plane.job(job).result for job in bad] == [None] * 27
        assert {world.plane.job(job).acks for job in bad[15:]} == {0}, "the control plane keeps what has no place"
        world.server.faults.clear()
        results = [await world.plane.result(job) for job in bad]
    repeated = Outcome.NOOP if same else Outcome.SUCCEEDED
    assert [one.outcome for one in results] == [Outcome.SUCCEEDED, *[repeated] * 26]


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """A journal with 10 places for waiting jobs, and 10 jobs in a response at most."""
    monkeypatch.setattr(room, "MOST_WAITING", 10)
    monkeypatch.setattr(job_worker, "_MOST_ASKED", 10)


@pytest.mark.usefixtures("narrow")
async def test_any_number_of_bad_jobs_keeps_no_good_one_waiting() -> None:
    """15 jobs have a place in the queue, and fifteen times as many as a response has stay with the control plane."""
    async with World(most_pending=5) as world:
        await world.start()
        world.server.faults.add(refuses("bad*", 100_000))
        bad = [world.plane.submit("intent", ensure(f"bad-{n}"), lifetime=86_400) for n in range(165)]
        await world.plane.until(lambda: all(world.plane.job(job).states for job in bad), timeout=900)
        waits = []
        for number in range(5):
            await asyncio.sleep(30)
            submitted = asyncio.get_running_loop().time()
            good = world.plane.submit("intent", ensure(f"good-{number}"))
            assert (await world.plane.result(good)).outcome is Outcome.SUCCEEDED
            waits.append(asyncio.get_running_loop().time() - submitted)
        assert max(waits) < 120, waits
        world.server.faults.clear()
        kept = [await world.plane.result(job, timeout=3600) for job in bad]
    assert {one.outcome for one in kept if one.reason != "GivenUp"} == {Outcome.SUCCEEDED}


@pytest.mark.usefixtures("narrow")
async def test_jobs_of_an_object_keep_their_order_across_poll_pages() -> None:
    async with World(most_pending=5) as world:
        await world.start()
        world.server.faults.add(refuses("bad*", 100_000))
        shut = refuses("shop", 100_000)
        world.server.faults.add(shut)
        full = [world.plane.submit("intent", ensure(f"bad-{n}"), lifetime=86_400) for n in range(20)]
        await world.plane.until(lambda: all(world.plane.job(job).states for job in full))
        older = world.plane.submit("intent", ensure("shop", **version("1.0.0")), lifetime=86_400)
        await world.plane.until(lambda: bool(world.plane.job(older).states))
        more = [world.plane.submit("intent", ensure(f"bad-too-{n}"), lifetime=86_400) for n in range(20)]
        younger = world.plane.submit("intent", ensure("shop", **version("2.0.0")), lifetime=86_400)
        await world.plane.until(lambda: all(world.plane.job(job).states for job in more))
        await world.plane.until(lambda: world.plane.job(younger).deliveries > 2)
        assert not world.plane.job(younger).states, "it is not even tried before the older one"
        world.server.faults.remove(shut)
        assert (await world.plane.result(older)).outcome is Outcome.SUCCEEDED
        assert (await world.plane.result(younger)).outcome is Outcome.SUCCEEDED
        assert (await world.instance()).get("spec", "chart", "version") == "2.0.0"


@pytest.mark.usefixtures("narrow")
@pytest.mark.parametrize("refusing", [False, True], ids=["ignores it", "refuses it"])
async def test_without_pages_good_jobs_wait_until_bad_jobs_are_given_up(refusing: bool) -> None:
    async with World(most_pending=5) as world:
        await world.start()
        world.plane.state.pages = False
        if refusing:
            world.plane.state.refuses_unknown = True
        world.server.faults.add(refuses("bad*", 100_000))
        bad = [world.plane.submit("intent", ensure(f"bad-{n}"), lifetime=86_400) for n in range(30)]
        await world.plane.until(lambda: all(world.plane.job(job).states for job in bad[:25]), timeout=900)
        good = world.plane.submit("intent", ensure("good"))
        assert (await world.plane.result(good, timeout=1500)).outcome is Outcome.SUCCEEDED
        given_up = [one.result for one in map(world.plane.job, bad) if one.result]
        assert {one.reason for one in given_up} == {"GivenUp"}
        assert len(given_up) >= 6
    assert "disconnected" not in world.states


async def test_bad_jobs_that_waited_long_yield_their_places_to_other_bad_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "MOST_WAITING", 10)
    async with World(most_pending=5) as world:
        await world.start()
        world.server.faults.add(refuses("bad*", 100_000))
        bad = [world.plane.submit("intent", ensure(f"bad-{number}"), lifetime=86_400) for number in range(20)]
        await asyncio.sleep(500)
        assert [world.plane.job(job).result for job in bad] == [None] * 20
        await world.plane.until(lambda: all(world.plane.job(job).acks for job in bad))
        given_up = [found for job in bad if (found := world.plane.job(job).result) is not None]
        assert {(one.outcome, one.reason) for one in given_up} == {(Outcome.FAILED, "GivenUp")}
        assert 5 <= len(given_up) <= 6, "no more than the others need"
        assert all(world.plane.job(job).result for job in bad[: len(given_up)]), "the oldest go first"
        world.server.faults.clear()
        kept = [await world.plane.result(job) for job in bad[len(given_up) :]]
    assert {one.outcome for one in kept} == {Outcome.SUCCEEDED}


def stored_version(found: dict[str, Any]) -> str:
    return str(found["spec"]["chart"]["version"]) if found["metadata"]["name"] == "bad" else ""


async def test_jobs_of_an_object_keep_order_while_the_first_lacks_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """One job has a place, and a response has the others."""
    monkeypatch.setattr(room, "MOST_WAITING", -2)
    async with World(most_pending=3) as world:
        await world.start()
        world.server.faults.add(refuses("bad*", 100_000))
        full = world.plane.submit("intent", ensure("bad-before"), lifetime=86_400)
        await world.plane.until(lambda: bool(world.plane.job(full).states))
        numbers = ("1.0.0", "2.0.0", "3.0.0")
        versions = [world.plane.submit("intent", ensure("bad", **version(number))) for number in numbers]
        await world.plane.until(lambda: bool(world.plane.job(versions[0]).states))
        await asyncio.sleep(60)
        assert [bool(world.plane.job(job).states) for job in versions] == [True, False, False]
        world.server.faults.clear()
        seen: list[str] = []
        world.server.store.subscribe(
            ("apps.vworkspace.io", "applicationinstances"),
            lambda event: seen.append(stored_version(event.entry.object())),
        )
        for job in (full, *versions):
            assert (await world.plane.result(job)).outcome is Outcome.SUCCEEDED
    assert list(dict.fromkeys(filter(None, seen))) == list(numbers)


async def test_started_deletion_without_room_in_the_queue_spares_a_successor(monkeypatch: pytest.MonkeyPatch) -> None:
    """The job stays in the journal with the uid that it deletes, although other jobs have to stay with the control plane."""
    monkeypatch.setattr(room, "MOST_WAITING", 0)
    async with World(most_pending=1) as world:
        await world.start()
        first = await world.plane.result(world.plane.submit("intent", ensure("shop")))
        world.server.faults.add(refuses("bad", 100_000))
        full = world.plane.submit("intent", ensure("bad"), lifetime=86_400)
        await world.plane.until(lambda: bool(world.plane.job(full).states))
        match = Match(verbs=("delete",), resources=("applicationinstances.apps.vworkspace.io",))
        refused = Rule(match, Refuse(status=500))
        world.server.faults.add(refused)
        gone = world.plane.submit("intent", deletion("shop"))
        await world.plane.until(lambda: world.plane.job(gone).acks > 0)
        found = await world.instance("shop")
        world.server.faults.remove(refused)
        await world.client.delete(APPLICATION_INSTANCE, "shop", "web")
        labels = {"app.vworkspace.io/managed-by": "control-plane", "app.vworkspace.io/cluster-id": "east"}
        successor = await world.client.create(Object(manifest("shop", labels=labels)))
        result = await world.plane.result(gone)
        assert (await world.instance("shop")).metadata.uid == successor.metadata.uid
    assert first.object is not None
    assert found.metadata.uid == first.object.uid
    assert result.outcome in (Outcome.SUCCEEDED, Outcome.NOOP)


async def test_job_that_was_given_up_is_not_executed_after_redelivery(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also a crash between the result and its delivery: the result is in the journal before a new job replaces the job."""
    monkeypatch.setattr(room, "MOST_WAITING", 0)
    async with World(most_pending=1) as world:
        await world.start()
        world.server.faults.add(refuses("bad*", 100_000))
        bad = world.plane.submit("intent", ensure("bad"), lifetime=86_400)
        await world.plane.until(lambda: bool(world.plane.job(bad).states))
        await asyncio.sleep(700)
        world.plane.faults.add(path=f"/jobs/{bad}/result", status=503, times=3)
        good = world.plane.submit("intent", ensure("bad-too"))
        await world.plane.until(lambda: world.plane.exchanges[-1].response.status == 503)
        await world.kill()
        world.server.faults.clear()
        await world.start(token="")
        assert (await world.plane.result(good)).outcome is Outcome.SUCCEEDED
        result = await world.plane.result(bad)
        world.plane.state.redeliver = True
        await asyncio.sleep(120)
        with pytest.raises(NotFound):
            await world.instance("bad")
    assert (result.outcome, result.reason) == (Outcome.FAILED, "GivenUp")


async def test_jobs_of_an_object_keep_their_order_during_retries_of_the_first() -> None:
    async with World() as world:
        await world.start()
        fault = refuses("bad", 30)
        world.server.faults.add(fault)
        first = world.plane.submit("intent", ensure("bad", **version("1.0.0")))
        await world.plane.until(lambda: bool(world.plane.job(first).states))
        second = world.plane.submit("intent", ensure("bad", **version("2.0.0")))
        third = world.plane.submit("intent", {**deletion("bad")}, lifetime=60)
        await world.plane.until(lambda: world.plane.job(second).acks > 0)
        assert world.plane.job(second).result is None
        results = [await world.plane.result(job) for job in (first, second, third)]
        stored = await world.instance("bad")
    assert [(one.outcome, one.reason) for one in results] == [
        (Outcome.SUCCEEDED, "Applied"),
        (Outcome.SUCCEEDED, "Applied"),
        (Outcome.NOOP, "Expired"),  # it expired in the queue, and never began
    ]
    assert stored.get("spec", "chart", "version") == "2.0.0"


async def test_job_waiting_for_a_retry_survives_a_crash_until_dropped_upstream() -> None:
    async with World() as world:
        await world.start()
        world.server.faults.add(refuses("bad", 10_000))
        bad = world.plane.submit("intent", ensure("bad"))
        began = asyncio.get_running_loop().time()
        await world.plane.until(lambda: len(world.plane.job(bad).states) > 3)
        assert asyncio.get_running_loop().time() - began < 25, "no poll of half a minute delays an attempt"
        await world.kill()
        await world.start(token="")
        await world.plane.until(lambda: len(world.plane.job(bad).states) > 6)
        world.server.faults.clear()
        assert (await world.plane.result(bad)).outcome is Outcome.SUCCEEDED
        world.server.faults.add(refuses("gone", 10_000))
        gone = world.plane.submit("intent", ensure("gone"))
        await world.plane.until(lambda: len(world.plane.job(gone).states) > 1)
        world.plane.state.redeliver = True
        world.plane.faults.add(path=f"/jobs/{gone}/ack", status=404)
        await world.plane.until(lambda: world.plane.exchanges[-1].response.status == 404)
        world.plane.state.redeliver = False
        del world.plane.state.jobs[gone]
        asked = len(world.plane.exchanges)
        await asyncio.sleep(3600)
        assert len(world.plane.exchanges) - asked < 130, "polls are long again"


async def test_more_jobs_than_the_journal_holds_are_done_in_batches() -> None:
    async with World(most_pending=2) as world:
        await world.start()
        jobs = [world.plane.submit("intent", ensure(f"shop-{number}")) for number in range(7)]
        outcomes = [(await world.plane.result(job)).outcome for job in jobs]
    assert outcomes == [Outcome.SUCCEEDED] * 7


@pytest.mark.parametrize("second", ["apply", "delete"])
@pytest.mark.parametrize("restarted", [False, True], ids=["same agent", "restarted"])
async def test_a_job_of_an_older_generation_than_the_object_is_refused(second: str, restarted: bool) -> None:
    async with World() as world:
        await world.start()
        key = "ApplicationInstance/web/shop@{}".format
        assert (await world.plane.result(world.plane.submit("intent", ensure(), key=key(7)))).reason == "Applied"
        before = await world.instance()
        if restarted:
            await world.kill()
            await world.start(token="", token_digest="")
        payload = ensure(
            chart={"sourceType": "helm", "url": "https://c.example.com", "name": "shop", "version": "9.9.9"}
        )
        late = world.plane.submit("intent", payload if second == "apply" else deletion(), key=key(6))
        result = await world.plane.result(late)
        assert (result.outcome, result.reason) == (Outcome.FAILED, "OlderGeneration")
        assert "generation 7" in result.message
        assert (await world.instance()).metadata.resource_version == before.metadata.resource_version
        younger = world.plane.submit("intent", deletion(), key=key(8))
        assert (await world.plane.result(younger)).reason == "Deleted"


@pytest.mark.parametrize("forged", ["x", "", "-1", "٣", "9" * 400, "9" * 5_000], ids=lambda text: text[:5] or "empty")
async def test_a_forged_generation_on_the_object_keeps_no_job_from_it(forged: str) -> None:
    async with World() as world:
        await world.start()
        key = "ApplicationInstance/web/shop@{}".format
        await world.plane.result(world.plane.submit("intent", ensure(), key=key(7)))
        patch = {"metadata": {"annotations": {Annotation.JOB_GENERATION: forged}}}
        await world.client.patch(APPLICATION_INSTANCE, "shop", "web", patch=patch, style="merge")
        assert (await world.plane.result(world.plane.submit("intent", deletion(), key=key(8)))).reason == "Deleted"


@pytest.mark.parametrize("key", ["intent-1", "ApplicationInstance/other/shop@1", "ApplicationInstance/web/shop@x"])
async def test_a_key_without_a_generation_of_the_object_orders_nothing(key: str) -> None:
    async with World() as world:
        await world.start()
        await world.plane.result(world.plane.submit("intent", ensure(), key="ApplicationInstance/web/shop@7"))
        assert (await world.plane.result(world.plane.submit("intent", deletion(), key=key))).reason == "Deleted"
