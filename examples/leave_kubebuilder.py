"""A script: give the fields of a kubebuilder operator to konverge's field manager (docs/guide/moving-from-kubebuilder.md)."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from page_operator import CONFIG_MAP

import konverge as kv

PAGE = kv.kind("example.com/v1", "Page")
OLD, NEW = "manager", "pages"
"""The field managers: the file name of the program in Go, and the name in kv.run."""


def handed_over(entries: Sequence[Mapping[str, Any]], subresource: str) -> Sequence[Mapping[str, Any]]:
    """Return managedFields with each update of the old manager as an apply of the new manager."""
    part = [entry for entry in entries if entry.get("subresource", "") == subresource]
    if any((entry.get("manager"), entry.get("operation")) == (NEW, "Apply") for entry in part):
        return entries  # the new program has written this object already
    updates = [entry for entry in part if (entry.get("manager"), entry.get("operation")) == (OLD, "Update")]
    return [{**entry, "manager": NEW, "operation": "Apply"} if entry in updates else entry for entry in entries]


def is_ours(child: kv.Object) -> bool:
    owner = child.metadata.controller
    return owner is not None and (owner.group, owner.kind) == ("example.com", "Page")


async def leave_kubebuilder(client: kv.Client, namespace: str | None = None) -> int:
    """Return how many objects were changed; run it after the old operator has ended, and before the new program starts."""
    changed = 0
    for kind, subresource in ((PAGE, "status"), (CONFIG_MAP, "")):
        async for objects in client.pages(kind, namespace):
            for stored in objects:
                entries = stored.get("metadata", "managedFields", default=())
                fields = handed_over(entries, subresource)
                if fields != entries and (kind is PAGE or is_ours(stored)):
                    patch = {"metadata": {"managedFields": fields}}
                    await client.patch(kind, patch=patch, style="merge", expect=stored)
                    changed += 1
    return changed


async def main() -> None:
    async with kv.Client(await kv.ClientConfig.load(), name="leave-kubebuilder") as client:
        print(await leave_kubebuilder(client), "objects were changed")


if __name__ == "__main__":
    asyncio.run(main())
