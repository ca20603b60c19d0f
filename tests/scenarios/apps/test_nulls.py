"""A null in inline values reaches the HelmRelease, since a null deletes a default of the chart in Helm."""

from contextlib import AsyncExitStack
from typing import Any

from apps.lab import READY, Apps

from konverge_testing import Lab

VALUES: dict[str, Any] = {"resources": {"limits": {"cpu": None}}, "probe": None, "list": [{"a": None}, None], "n": 1}


async def test_a_null_in_inline_values_reaches_the_release_and_stays(lab: Lab) -> None:
    async with AsyncExitStack() as stack:
        apps = Apps(lab, stack)
        await apps.start()
        await apps.create(values={"source": "inline", "inline": VALUES})
        await apps.until(READY)
        assert (await apps.release()).spec["values"] == VALUES
        await apps.change(chart={"version": "1.1.0"})
        await apps.until(READY)
        release = await apps.release()
        assert release.spec["values"] == VALUES
