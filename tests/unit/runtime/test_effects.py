import pytest

from konverge.errors import ForgottenAwait
from konverge.keys import Key
from konverge.kinds import kind
from konverge.runtime.reconcile.trace import ReconcileTrace

KEY = Key("", kind("v1", "ConfigMap"), "web", "a")


async def test_an_effect_starts_when_it_is_awaited_and_not_before() -> None:
    done: list[str] = []

    async def work() -> int:
        done.append("worked")
        return 7

    trace = ReconcileTrace(KEY, "writer")
    effect = trace.effect("ctx.own(CronJob web/nightly)", work)
    assert done == []
    assert await effect == 7
    assert done == ["worked"]
    trace.check_awaited("backup")


async def test_a_forgotten_await_is_an_error_that_names_the_effect() -> None:
    async def work() -> None:
        raise AssertionError("never started")

    trace = ReconcileTrace(KEY, "writer")
    trace.effect("ctx.own(CronJob web/nightly)", work)
    with pytest.raises(ForgottenAwait, match=r"ctx\.own\(CronJob web/nightly\)"):
        trace.check_awaited("backup")
