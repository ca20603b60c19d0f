"""The load of the open loops: it is independent of response times, and ends if the server cannot take it at all."""

import asyncio

import pytest
from peers.pacing import UNANSWERED_SECONDS, at_rate


async def test_calls_begin_at_their_rate_however_long_their_answers_take() -> None:
    loop, begun = asyncio.get_running_loop(), []

    async def act(_: int) -> None:
        begun.append(loop.time())
        await asyncio.sleep(2)

    paced = await at_rate(act, 50, 10)
    assert [round(each - begun[0], 6) for each in begun] == [number / 10 for number in range(50)]
    assert (paced.begun, paced.cut) == (50, False)
    assert paced.lasted == pytest.approx(4.9 + 2)
    assert paced.late == pytest.approx(0)


async def test_load_without_server_responses_ends_early_and_leaves_no_call() -> None:
    ended = []

    async def act(number: int) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(number)

    paced = await at_rate(act, 10_000, 20)
    assert paced.cut
    assert paced.begun == 20 * UNANSWERED_SECONDS
    assert paced.lasted == pytest.approx(UNANSWERED_SECONDS)
    assert sorted(ended) == list(range(paced.begun))


@pytest.mark.parametrize("answers", [True, False], ids=["whole", "cut short"])
async def test_an_error_of_a_call_is_raised(answers: bool) -> None:
    async def act(number: int) -> None:
        if number == 3:
            raise ValueError("the fourth")
        if not answers:
            await asyncio.Event().wait()

    with pytest.raises(ValueError, match="the fourth"):
        await at_rate(act, 1_000, 10)
