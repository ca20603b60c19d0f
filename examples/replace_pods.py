"""A script: delete the finished pods of an application, wait until its new pod is ready, and print its log (docs/guide/scripts.md)."""

import asyncio
import sys

import konverge as kv

POD = kv.kind("v1", "Pod")


async def replace_pods(client: kv.Client, namespace: str, app: str) -> list[str]:
    """Return the log of the first pod that is ready after the finished pods were deleted."""
    await client.delete_collection(POD, namespace, labels=f"app={app}", fields="status.phase=Failed")
    async for event in client.follow(POD, namespace, labels=f"app={app}"):
        if event.type != "DELETED" and kv.is_true("Ready")(event.object):
            return [line async for line in client.logs(event.object.name, namespace, tail_lines=10)]
    return []


async def main(namespace: str, app: str) -> None:
    async with kv.Client(await kv.ClientConfig.load(), name="replace-pods") as client:
        print("\n".join(await replace_pods(client, namespace, app)))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:3]))
