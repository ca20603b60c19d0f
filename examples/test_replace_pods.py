"""The test of the script that replaces finished pods."""

import asyncio

from replace_pods import POD, replace_pods

from konverge_testing import Lab


async def test_finished_pods_are_replaced(lab: Lab) -> None:
    assert lab.server is not None
    spec = {"containers": [{"name": "app", "image": "shop"}]}
    for name in ("old", "new"):
        await lab.create(POD.new(name, labels={"app": "shop"}, spec=spec))
    await lab.patch(POD, "old", {"status": {"phase": "Failed"}}, subresource="status")
    replacing = asyncio.create_task(replace_pods(lab.client, lab.namespace, "shop"))
    await lab.until_gone(POD, "old")
    lab.server.logs.write(lab.namespace, "new", "listening on 8080\n")
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    await lab.patch(POD, "new", {"status": ready}, subresource="status")
    assert await replacing == ["listening on 8080"]
