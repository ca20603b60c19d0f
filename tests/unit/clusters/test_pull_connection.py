"""The error rules of the protocol, registration and rotation, offline and online again, and what is never read or written."""

import asyncio
from functools import partial
from typing import Any

import msgspec
import pytest
from pull_kit import OPERATOR, TOKEN, World, ensure

from konverge.clock import wall_clock
from konverge.errors import NotFound
from konverge.reconcilers.apps.operations.kinds import INSTANCE
from konverge.reconcilers.clusters.agent import Agent
from konverge.reconcilers.clusters.agent_state import Step
from konverge.reconcilers.clusters.events import deletion
from konverge.reconcilers.clusters.journal import Journal
from konverge.reconcilers.clusters.kinds import SECRET
from konverge.reconcilers.clusters.protocol import MEDIA_TYPE, Outcome
from konverge.reconcilers.clusters.secrets import _decoded, credentials_of


def _connected(agent: Agent) -> bool:
    return agent.state.step is Step.CONNECTED


RETRIED: dict[str, dict[str, Any]] = {
    "500": {"status": 500},
    "503 with Retry-After": {"status": 503, "retry_after": 7.0},
    "a redirect": {"status": 307},
    "cut before": {"cut": "before"},
    "cut after": {"cut": "after"},
    "slower than the limit": {"delay": 100.0},
    "no JSON": {"body": b"<html>"},
    "another form": {"body": b'{"jobs": 5}'},
    "JSON of another service": {"body": b'{"status": "ok"}'},
}


@pytest.mark.parametrize("fault", RETRIED)
async def test_failing_control_plane_is_retried_after_a_second_or_more(fault: str) -> None:
    async with World() as world:
        agent = await world.start()
        await world.plane.until(lambda: agent.state.step is Step.CONNECTED)
        world.plane.faults.add(path="/jobs", times=2, **RETRIED[fault])
        began = asyncio.get_running_loop().time()
        await world.plane.until(
            lambda: len([one for one in world.plane.exchanges if one.request.path.endswith("/jobs")]) > 4
        )
        job = world.plane.submit("intent", ensure())
        assert (await world.plane.result(job)).outcome is Outcome.SUCCEEDED
        assert asyncio.get_running_loop().time() - began >= RETRIED[fault].get("retry_after", 1.0)
        assert agent.state.step is Step.CONNECTED
    assert "disconnected" in world.states


async def test_a_429_is_waited_out_and_the_cluster_stays_connected() -> None:
    async with World() as world:
        agent = await world.start()
        await world.plane.until(lambda: agent.state.step is Step.CONNECTED)
        world.plane.faults.add(path="/result", status=429, retry_after=120.0)
        began = asyncio.get_running_loop().time()
        assert (await world.plane.result(world.plane.submit("intent", ensure()))).outcome is Outcome.SUCCEEDED
        assert asyncio.get_running_loop().time() - began >= 120
    assert "disconnected" not in world.states


@pytest.mark.parametrize(("asked", "waits"), [(120.0, 120.0), (10.0**6, 3600.0)])
async def test_a_wait_that_the_control_plane_asks_for_is_capped_and_shown(asked: float, waits: float) -> None:
    async with World() as world:
        agent = await world.start()
        await world.plane.until(lambda: agent.state.step is Step.CONNECTED)
        world.plane.faults.add(path="/result", status=429, retry_after=asked)
        job = world.plane.submit("intent", ensure())
        while (until := agent.state.waits_until) is None:
            await asyncio.sleep(0.1)
        assert abs((until - wall_clock()).total_seconds() - waits) < 2
        await world.plane.result(job, timeout=waits + 60)
        await asyncio.sleep(1)
        assert agent.state.waits_until is None


@pytest.mark.parametrize("path", ["/ack", "/result", "/events"])
async def test_a_page_of_a_proxy_counts_as_no_response(path: str) -> None:
    async with World() as world:
        world.plane.faults.add(path=path, status=200, body=b"<html>log in</html>")
        await world.start()
        job = world.plane.submit("intent", ensure())
        assert (await world.plane.result(job)).outcome is Outcome.SUCCEEDED
    assert "disconnected" in world.states


@pytest.mark.parametrize(("status", "reason"), [(401, "CredentialRejected"), (403, "ControlPlaneAuthenticationFailed")])
async def test_a_refused_credential_stops_the_agent_until_something_changes(status: int, reason: str) -> None:
    async with World() as world:
        agent = await world.start()
        await world.plane.until(lambda: agent.state.step is Step.CONNECTED)
        world.plane.faults.add(status=status, times=1_000)
        world.plane.submit("intent", ensure())
        await world.plane.until(lambda: world.plane.exchanges[-1].response.status == status)
        await asyncio.sleep(1)
        asked = len(world.plane.exchanges)
        await asyncio.sleep(86_400)
        assert len(world.plane.exchanges) == asked
        assert (agent.state.step, agent.state.reason) == (Step.STOPPED, reason)
        assert world.metrics.registry.get_sample_value("connectivity_state", {"mode": "pull"}) == -1


async def test_a_process_whose_agent_has_ended_shows_no_state_of_the_connection() -> None:
    async with World() as world:
        agent = await world.start()
        await world.plane.until(lambda: agent.state.step is Step.CONNECTED)
        shown = world.metrics.registry.get_sample_value
        assert shown("connectivity_state", {"mode": "pull"}) == 1
        agent.record(deletion(INSTANCE.new("shop", "web")))
        assert shown("event_buffer_occupancy") == 0.001
    assert shown("connectivity_state", {"mode": "pull"}) is None
    assert shown("event_buffer_occupancy") == 0


async def test_an_expired_credential_has_a_reason_of_its_own() -> None:
    async with World() as world:
        agent = await world.start()
        await world.plane.until(lambda: agent.state.step is Step.CONNECTED)
        world.plane.state.expire()
        await world.plane.until(lambda: world.plane.exchanges[-1].response.status == 401)
        await asyncio.sleep(1)
    assert agent.state.reason == "CredentialExpired"


async def test_after_a_401_the_credential_is_read_again_once() -> None:
    async with World() as world:
        agent = await world.start()
        await world.plane.until(lambda: agent.state.step is Step.CONNECTED)
        world.plane.state.revoke()
        world.plane.state.valid = "put-there-by-hand"
        data = {"data": {"credential": "cHV0LXRoZXJlLWJ5LWhhbmQ="}}
        await world.client.patch(SECRET, "vworkspace-agent-credentials", OPERATOR, patch=data, style="merge")
        assert (await world.plane.result(world.plane.submit("intent", ensure()))).outcome is Outcome.SUCCEEDED
    assert agent.state.step is Step.CONNECTED


def unknown(world: World) -> int:
    return len([one for one in world.plane.exchanges if one.response.status == 404])


async def test_job_unknown_to_the_control_plane_is_dropped() -> None:
    """If the acknowledgement gets a 404, the job is not executed. If the result gets a 404, the job is done, and not reported again."""
    async with World() as world:
        agent = await world.start()
        world.plane.faults.add(path="/ack", status=404)
        dropped = world.plane.submit("intent", ensure("dropped"))
        await world.plane.until(lambda: unknown(world) == 1)
        world.plane.state.jobs.pop(dropped)
        late = world.plane.submit("intent", ensure("late"))
        world.plane.faults.add(path=f"/jobs/{late}/result", status=404)
        await world.plane.until(lambda: unknown(world) == 2)
        world.plane.state.jobs.pop(late)
        assert (await world.plane.result(world.plane.submit("intent", ensure()))).outcome is Outcome.SUCCEEDED
        await asyncio.sleep(60)
        with pytest.raises(NotFound):
            await world.instance("dropped")
        assert (await world.instance("late")).name == "late"
        journal = Journal.decode(_decoded(await world.secret("vworkspace-agent-journal")))
        assert journal.entries == ()
        assert agent.state.step is Step.CONNECTED
        asked = [one.request.path.rpartition("/api/agent")[2] for one in world.plane.exchanges]
    assert asked.count(f"/jobs/{late}/result") == 1
    assert "disconnected" not in world.states


async def test_response_above_the_limit_is_not_read_and_smaller_responses_are() -> None:
    async with World(most_response=64 * 1024) as world:
        await world.start()
        big = ensure("big", values={"source": "inline", "inline": {"a": "x" * 40_000}})
        jobs = [world.plane.submit("intent", {**big, "name": f"big-{n}"}) for n in range(3)]
        for number, job in enumerate(jobs):
            world.plane.job(job).message["payload"]["spec"] = {
                **big["spec"],
                "release": {"name": f"big-{number}", "namespace": "web"},
            }
        outcomes = [(await world.plane.result(job)).outcome for job in jobs]
    assert outcomes == [Outcome.SUCCEEDED] * 3


async def test_credential_is_stored_before_use_and_a_lost_registration_is_repeated() -> None:
    async with World() as world:
        world.plane.faults.add(path="/register", cut="after")
        agent = await world.start()
        await world.plane.until(lambda: agent.state.step is Step.CONNECTED)
        stored = credentials_of(await world.secret("vworkspace-agent-credentials"))
    assert world.plane.state.registrations == 2
    assert stored is not None
    assert stored.credential == world.plane.state.valid


async def test_a_token_that_is_used_up_or_unknown_fails_the_registration() -> None:
    for token in ("unknown", TOKEN):
        async with World() as world:
            world.plane.state._tokens[TOKEN] = False
            agent = await world.start(token=token, token_digest="d")
            await world.plane.until(partial(bool, world.plane.exchanges))
            await asyncio.sleep(1)
            assert (agent.state.step, agent.state.reason) == (Step.STOPPED, "RegistrationFailed")
            assert token not in agent.state.message


async def test_rotation_replaces_the_credential_once_and_the_old_credential_is_refused() -> None:
    async with World() as world:
        agent = await world.start()
        await world.plane.until(lambda: agent.state.step is Step.CONNECTED)
        before = world.plane.state.valid
        await world.kill()
        for _ in range(2):  # the second start finds that the request is done
            agent = await world.start(rotate="annotation")
            await world.plane.until(partial(_connected, agent))
            await world.kill()
        after = world.plane.state.valid
    rotations = [one for one in world.plane.exchanges if one.request.path.endswith("/rotate")]
    assert before != after
    assert len(rotations) == 1


REFUSED: dict[str, dict[str, Any]] = {
    "400": {"status": 400},
    "404": {"status": 404},
    "409": {"status": 409},
    "422": {"status": 422},
    "500": {"status": 500},
    "another form": {"body": b"{}"},
    "another cluster": {"body": b'{"clusterId": "west", "credential": "of-west"}'},
    "a line break in the credential": {"body": b'{"clusterId": "east", "credential": "a\\r\\nX-Evil: 1"}'},
    "a credential beyond ASCII": {"body": '{"clusterId": "east", "credential": "gr\u00fcn"}'.encode()},
    "a space in the credential": {"body": b'{"clusterId": "east", "credential": "a b"}'},
}


@pytest.mark.parametrize("fault", REFUSED)
async def test_refused_rotation_keeps_credential_and_jobs_and_is_retried(fault: str) -> None:
    async with World() as world:
        agent = await world.start()
        await world.plane.until(partial(_connected, agent))
        before = world.plane.state.valid
        await world.kill()
        world.plane.faults.add(path="/credentials/rotate", times=3, **REFUSED[fault])
        agent = await world.start(rotate="annotation")
        assert (await world.plane.result(world.plane.submit("intent", ensure()))).outcome is Outcome.SUCCEEDED
        stored = credentials_of(await world.secret("vworkspace-agent-credentials"))
        assert stored is not None
        assert stored.credential == before == world.plane.state.valid
        assert "rotation" in agent.state.rotation
        assert "it is tried again" in agent.state.rotation
        assert agent.state.step is Step.CONNECTED
        await asyncio.sleep(1200)
        assert world.plane.state.valid != before
        assert agent.state.rotation == ""
        rotations = [one for one in world.plane.exchanges if one.request.path.endswith("/rotate")]
        assert len(rotations) == 4
    assert not {"stopped", "disconnected"} & set(world.states)


@pytest.mark.parametrize("status", [401, 403])
async def test_a_rotation_that_meets_a_refused_session_stops_the_agent(status: int) -> None:
    async with World() as world:
        agent = await world.start()
        await world.plane.until(partial(_connected, agent))
        await world.kill()
        world.plane.faults.add(path="/credentials/rotate", times=3, status=status)
        agent = await world.start(rotate="annotation")
        await asyncio.sleep(600)
        assert (agent.state.step, agent.state.reason) == (Step.STOPPED, "RotationFailed")


async def test_refused_rotation_requested_by_a_job_is_retried_until_job_expiry() -> None:
    async with World() as world:
        agent = await world.start()
        await world.plane.until(partial(_connected, agent))
        before = world.plane.state.valid
        intent = {"intent": "rotate-operator-credentials"}
        world.plane.faults.add(path="/credentials/rotate", times=2, status=409)
        retried = await world.plane.result(world.plane.submit("intent", intent))
        assert (retried.outcome, retried.reason) == (Outcome.SUCCEEDED, "Rotated")
        assert world.plane.state.valid != before
        world.plane.faults.add(path="/credentials/rotate", times=1_000, status=409)
        late = world.plane.submit("intent", intent, lifetime=300)
        assert (await world.plane.result(world.plane.submit("intent", ensure()))).outcome is Outcome.SUCCEEDED
        expired = await world.plane.result(late)
        assert (expired.outcome, expired.reason) == (Outcome.FAILED, "Expired")
        assert "status 409" in expired.message
        assert agent.state.step is Step.CONNECTED


async def test_every_agent_request_has_a_time_limit_and_a_size_limit() -> None:
    async with World() as world:
        await world.start()
        await world.plane.result(world.plane.submit("intent", ensure()))
        requests = [one.request for one in world.plane.exchanges]
    assert MEDIA_TYPE == "application/vnd.vworkspace.agent.v1+json"
    assert all(request.timeout <= 60 and request.most == 1024 * 1024 for request in requests)
    assert {"jobs", "register", "events"} <= {request.path.rpartition("/")[2] for request in requests}
    assert msgspec.json.decode(requests[0].body or b"")["clusterId"] == "east"


async def test_unreadable_journal_is_reported_and_nothing_is_executed() -> None:
    async with World() as world:
        agent = await world.start()
        await world.plane.result(world.plane.submit("intent", ensure()))
        await world.kill()
        data = {"data": {"jobs": "eA=="}}
        await world.client.patch(SECRET, "vworkspace-agent-journal", OPERATOR, patch=data, style="merge")
        agent = await world.start(token="")
        job = world.plane.submit("intent", ensure("other"))
        await asyncio.sleep(300)
        assert agent.state.message == "the journal of jobs cannot be read; delete its Secret to begin with an empty one"
        assert world.plane.job(job).deliveries == 0
