"""Slots, deadlines, retries and unknown outcomes, on virtual time."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from prometheus_client import generate_latest

from konverge.client import Client, Response, WriteState
from konverge.errors import (
    AlreadyExists,
    Conflict,
    Forbidden,
    NotFound,
    ServerFailure,
    TooManyRequests,
    Unauthorized,
    Unreachable,
)
from konverge.kinds import kind
from konverge.metrics import Metrics

CONFIG_MAP = kind("v1", "ConfigMap")
STORED = {"kind": "ConfigMap", "metadata": {"name": "a", "namespace": "web", "resourceVersion": "7", "uid": "u-1"}}
WRITER = "someone"

Say = Callable[..., Response]


def now() -> float:
    return asyncio.get_running_loop().time()


async def write(client: Client) -> None:
    await client.create(CONFIG_MAP.new("a", "web"), writer=WRITER)


async def apply(client: Client) -> None:
    await client.apply(CONFIG_MAP, {"metadata": {"name": "a", "namespace": "web"}}, writer=WRITER)


def states(client: Client) -> list[WriteState]:
    return [found.state for found in client.ledger.pending(WRITER)]


async def test_a_read_is_repeated_until_it_succeeds(client: Client, server: Any, say: Say) -> None:
    server.script = [Unreachable("refused"), Unreachable("cut", maybe_done=True), say({}, status=500), say(STORED)]
    assert (await client.get(CONFIG_MAP, "a", "web")).metadata.uid == "u-1"
    gaps = [later - sooner for sooner, later in zip(server.times, server.times[1:], strict=False)]
    assert [0.1 <= gaps[0] <= 0.2, 0.2 <= gaps[1] <= 0.4, 0.4 <= gaps[2] <= 0.8] == [True, True, True]


async def test_attempts_are_counted_and_the_last_error_is_raised(
    connect: Callable[..., Client], server: Any, refuse: Say
) -> None:
    server.script = [refuse(500, "InternalError", str(n)) for n in range(9)]
    with pytest.raises(ServerFailure, match="2"):
        await connect(attempts=3).get(CONFIG_MAP, "a", "web")
    assert len(server.seen) == 3


async def test_the_servers_delay_is_waited_for(client: Client, server: Any, say: Say) -> None:
    server.script = [say({}, status=429, retry_after=9.0), say(STORED)]
    await client.get(CONFIG_MAP, "a", "web")
    assert 9.0 <= server.times[1] - server.times[0] <= 9.9


async def test_a_delay_beyond_the_deadline_is_raised_at_once(client: Client, server: Any, say: Say) -> None:
    server.script = [say({}, status=429, retry_after=100.0)]
    with pytest.raises(TooManyRequests) as caught:
        await client.get(CONFIG_MAP, "a", "web")
    assert caught.value.retry_after == 100.0
    assert now() < 1


async def test_a_fresh_crd_that_initialises_its_storage_is_waited_for(
    client: Client, server: Any, say: Say, refuse: Say
) -> None:
    server.script = [refuse(429, "TooManyRequests", "storage is (re)initializing", retryAfterSeconds=1), say(STORED)]
    await write(client)
    assert states(client) == [WriteState.DONE]


async def test_a_create_is_sent_again_only_if_it_surely_was_not_done(client: Client, server: Any, say: Say) -> None:
    server.script = [Unreachable("refused"), say(STORED, status=201)]
    await write(client)
    assert [request.method for request in server.seen] == ["POST", "POST"]
    server.script = [Unreachable("cut", maybe_done=True)]
    with pytest.raises(Unreachable) as caught:
        await write(client)
    assert caught.value.maybe_done
    assert states(client) == [WriteState.UNKNOWN]


async def test_an_apply_whose_answer_was_lost_is_sent_again(client: Client, server: Any, say: Say) -> None:
    server.script = [Unreachable("cut", maybe_done=True), say(STORED)]
    await apply(client)
    (found,) = client.ledger.pending(WRITER)
    assert (found.state, found.version, found.uid) == (WriteState.DONE, "7", "u-1")


async def test_doubt_survives_a_later_attempt_that_surely_failed(
    client: Client, server: Any, say: Say, refuse: Say
) -> None:
    server.script = [Unreachable("cut", maybe_done=True), refuse(403, "Forbidden")]
    with pytest.raises(Forbidden):
        await apply(client)
    assert states(client) == [WriteState.UNKNOWN]
    server.script = [Unreachable("cut", maybe_done=True), *(Unreachable("refused") for _ in range(4))]
    with pytest.raises(Unreachable) as caught:
        await apply(client)
    assert caught.value.maybe_done


@pytest.mark.parametrize(
    ("code", "reason", "error", "left"),
    [
        (403, "Forbidden", Forbidden, []),
        (409, "Conflict", Conflict, []),
        (409, "AlreadyExists", AlreadyExists, []),
        (500, "InternalError", ServerFailure, [WriteState.UNKNOWN]),
        (504, "Timeout", ServerFailure, [WriteState.UNKNOWN]),
    ],
)
async def test_write_error_leaves_the_write_unknown_or_failed_in_the_ledger(
    client: Client, server: Any, refuse: Say, code: int, reason: str, error: type[Exception], left: list[WriteState]
) -> None:
    server.script = [refuse(code, reason)]
    with pytest.raises(error):
        await write(client)
    assert states(client) == left


async def test_a_write_is_in_the_ledger_before_it_is_sent(client: Client, server: Any, say: Say) -> None:
    server.script = [1.0, say(STORED)]
    task = asyncio.create_task(write(client))
    await asyncio.sleep(0.5)
    assert states(client) == [WriteState.IN_FLIGHT]
    await task
    assert states(client) == [WriteState.DONE]


async def test_a_cancelled_write_is_unknown_and_ends_at_once(client: Client, server: Any) -> None:
    server.script = [1000.0]
    task = asyncio.create_task(write(client))
    await asyncio.sleep(0.5)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert now() == pytest.approx(0.5)
    assert states(client) == [WriteState.UNKNOWN]


async def test_a_write_that_is_cancelled_before_it_is_sent_was_not_done(
    connect: Callable[..., Client], server: Any, say: Say
) -> None:
    client = connect(max_in_flight=1)
    server.script = [10.0, say(STORED)]
    first = asyncio.create_task(client.get(CONFIG_MAP, "a", "web"))
    await asyncio.sleep(1)
    waiting = asyncio.create_task(write(client))
    await asyncio.sleep(1)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert states(client) == []
    await first


async def test_write_cancelled_between_attempts_is_judged_by_its_sent_attempts(
    client: Client, server: Any, say: Say
) -> None:
    async def cancelled_after(step: Any) -> list[WriteState]:
        server.script = [step]
        task = asyncio.create_task(apply(client))
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return states(client)

    assert await cancelled_after(say({}, status=429, retry_after=5.0)) == []
    assert await cancelled_after(Unreachable("cut", maybe_done=True)) == [WriteState.UNKNOWN]


async def test_an_attempt_that_is_never_answered_ends_at_its_deadline(
    connect: Callable[..., Client], server: Any
) -> None:
    client = connect(request_timeout=3.0)
    server.script = [1000.0]
    with pytest.raises(Unreachable, match="no response within 3 s") as caught:
        await write(client)
    assert caught.value.maybe_done
    assert now() == pytest.approx(3.0)
    assert states(client) == [WriteState.UNKNOWN]


async def test_a_call_ends_at_its_own_deadline_whatever_the_attempts(
    connect: Callable[..., Client], server: Any
) -> None:
    client = connect(request_timeout=4.0, call_timeout=10.0, attempts=100)
    server.script = [1000.0 for _ in range(100)]
    with pytest.raises(Unreachable):
        await client.get(CONFIG_MAP, "a", "web")
    assert now() <= 10.0
    assert len(server.seen) >= 2


async def test_no_more_calls_are_in_flight_than_the_cap(connect: Callable[..., Client], server: Any, say: Say) -> None:
    client = connect(max_in_flight=3)
    await client.resource(CONFIG_MAP)
    server.delay = 1.0
    server.script = [say(STORED) for _ in range(12)]
    await asyncio.gather(*(client.get(CONFIG_MAP, "a", "web") for _ in range(12)))
    assert server.most_in_flight == 3
    assert now() == pytest.approx(4.0)


async def test_a_call_that_gets_no_slot_before_its_deadline_was_not_sent(
    connect: Callable[..., Client], server: Any, say: Say
) -> None:
    client = connect(max_in_flight=1, call_timeout=20.0)
    await client.resource(CONFIG_MAP)
    server.script = [19.0, say(STORED), 1000.0]
    others = [asyncio.create_task(client.get(CONFIG_MAP, "a", "web")) for _ in range(2)]
    await asyncio.sleep(0)
    with pytest.raises(Unreachable, match="not sent, because 1 other calls") as caught:
        await write(client)
    assert not caught.value.maybe_done
    assert states(client) == []
    first, second = await asyncio.gather(*others, return_exceptions=True)
    assert not isinstance(first, BaseException)
    assert isinstance(second, Unreachable)
    assert len(server.seen) == 2


async def test_a_wait_between_attempts_holds_no_slot(connect: Callable[..., Client], server: Any, say: Say) -> None:
    client = connect(max_in_flight=1)
    await client.resource(CONFIG_MAP)
    server.script = [say({}, status=429, retry_after=30.0), say(STORED), say(STORED)]
    waiting = asyncio.create_task(client.get(CONFIG_MAP, "a", "web"))
    await asyncio.sleep(1)
    await client.get(CONFIG_MAP, "b", "web")
    assert now() < 2
    await waiting


async def test_refused_credentials_are_tried_once_more(client: Client, server: Any, say: Say, refuse: Say) -> None:
    server.script = [refuse(401, "Unauthorized"), say(STORED, status=201)]
    await write(client)
    server.script = [refuse(401, "Unauthorized"), refuse(401, "Unauthorized"), say(STORED)]
    with pytest.raises(Unauthorized):
        await client.get(CONFIG_MAP, "a", "web")
    assert len(server.script) == 1
    assert server.prepared >= 4


async def test_deletions_are_told_apart(client: Client, server: Any, say: Say, refuse: Say) -> None:
    async def delete(*script: Any, uid: str = "u-1") -> tuple[bool, list[tuple[WriteState, str, str]]]:
        server.script = list(script)
        client.ledger.forget(WRITER)
        gone = await client.delete(CONFIG_MAP, "a", "web", uid=uid, writer=WRITER)
        return gone, [(found.state, found.uid, found.version) for found in client.ledger.pending(WRITER)]

    success = {"kind": "Status", "status": "Success", "details": {"uid": "u-9"}}
    assert await delete(say(success), uid="") == (True, [(WriteState.DELETED, "u-9", "")])
    assert await delete(say({"kind": "Status", "status": "Success"})) == (True, [(WriteState.DELETED, "u-1", "")])
    assert await delete(say(STORED)) == (True, [(WriteState.DELETED, "u-1", "")])
    waiting = {**STORED, "metadata": {**STORED["metadata"], "deletionTimestamp": "2030-01-01T00:00:00Z"}}  # type: ignore[dict-item]  # a test's own dict
    assert await delete(say(waiting)) == (True, [(WriteState.DONE, "u-1", "7")])
    assert await delete(refuse(404, "NotFound")) == (False, [])
    lost = Unreachable("cut", maybe_done=True)
    assert await delete(lost, refuse(404, "NotFound")) == (True, [(WriteState.UNKNOWN, "", "")])


async def test_a_deletion_without_uid_is_not_repeated(client: Client, server: Any) -> None:
    server.script = [Unreachable("cut", maybe_done=True)]
    with pytest.raises(Unreachable):
        await client.delete(CONFIG_MAP, "a", "web")
    assert len(server.seen) == 1


async def test_successful_response_without_an_object_is_an_error_with_unknown_outcome(
    client: Client, server: Any
) -> None:
    server.script = [Response(200, b"<html>welcome to the hotel network</html>", "text/html")]
    with pytest.raises(ServerFailure, match="no object"):
        await write(client)
    assert states(client) == [WriteState.UNKNOWN]


async def test_requests_and_retries_are_counted_with_client_gos_labels(
    client: Client, server: Any, say: Say, metrics: Metrics
) -> None:
    server.script = [Unreachable("refused"), say({}, status=429, retry_after=1.0), say(STORED)]
    await client.get(CONFIG_MAP, "a", "web")
    found = generate_latest(metrics.registry).decode()
    assert 'rest_client_requests_total{code="<error>",host="fake:1",method="GET"} 1.0' in found
    assert 'rest_client_requests_total{code="429",host="fake:1",method="GET"} 1.0' in found
    assert 'rest_client_requests_total{code="200",host="fake:1",method="GET"} 2.0' in found  # discovery too
    assert 'rest_client_request_retries_total{code="<error>",host="fake:1",verb="GET"} 1.0' in found
    assert 'rest_client_request_retries_total{code="429",host="fake:1",verb="GET"} 1.0' in found
    assert 'rest_client_request_duration_seconds_count{host="fake:1",verb="GET"} 4.0' in found


async def test_an_absent_object_is_not_found_and_nothing_else(client: Client, server: Any, refuse: Say) -> None:
    server.script = [refuse(404, "NotFound", 'configmaps "a" not found')]
    with pytest.raises(NotFound) as caught:
        await client.get(CONFIG_MAP, "a", "web")
    assert caught.value.__cause__ is None
    await client.resource(CONFIG_MAP)
    assert server.discoveries == ["/api/v1"]
