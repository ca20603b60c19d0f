"""Guarded writes: a patch or delete with `expect` changes the version of the object that was read, or nothing."""

import asyncio
from typing import Any

import pytest
from widgets import CONFIG_MAP, By, Widget, widget

import konverge as kv
from konverge.client import Client
from konverge.errors import UsageError
from konverge_testing import Lab

MAP = "shared"


async def race(lab: Lab, what: str) -> None:
    """Write the shared ConfigMap, like another client between a read and a write."""
    if what == "changed":
        await lab.client.patch(CONFIG_MAP, MAP, lab.namespace, patch={"data": {"by": "other"}}, style="merge")
    if what in ("deleted", "recreated"):
        await lab.client.delete(CONFIG_MAP, MAP, lab.namespace)
    if what == "recreated":
        await lab.client.create(CONFIG_MAP.new(MAP, lab.namespace, data={"by": "other"}))


async def shared(lab: Lab) -> kv.Object:
    return await lab.create(CONFIG_MAP.new(MAP, data={"by": "nobody"}))


async def once(lab: Lab, reconcile: Any) -> Any:
    """Run one reconcile with only the rights to get, patch and delete ConfigMaps; returns its record."""

    async def without_status(w: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        ctx.status.skip_write()
        await reconcile(w, ctx)
        return kv.Done()

    rights = kv.Rule("", ("configmaps",), ("get", "patch", "delete"))
    controller = kv.Controller.of(Widget).needs(rights).reconciled_by(By(without_status))
    await lab.start(lambda manager: manager.add(controller))
    await lab.create(widget())
    await lab.settled()
    return lab.manager.runner("widget").history.recent()[0]


async def test_a_guarded_patch_changes_the_version_that_was_read(lab: Lab) -> None:
    async def patches(w: Widget, ctx: kv.Context[Widget]) -> None:
        found = await ctx.live(CONFIG_MAP).get(w.namespace, MAP)
        patch = {"metadata": {"labels": {"a": "b"}}, "data": {"by": "one"}}
        first = await ctx.patch(CONFIG_MAP, expect=found, patch=patch)
        await ctx.patch(CONFIG_MAP, expect=first.metadata, patch={"data": {"and": "two"}})

    await shared(lab)
    record = await once(lab, patches)
    assert (record.error, record.writes) == ("", (f"patch ConfigMap {lab.namespace}/{MAP}",) * 2)
    stored = await lab.get(CONFIG_MAP, MAP)
    assert (stored.get("data"), stored.metadata.labels) == ({"by": "one", "and": "two"}, {"a": "b"})


@pytest.mark.parametrize("what", ["changed", "deleted", "recreated"])
async def test_a_guarded_patch_of_another_version_changes_nothing(lab: Lab, what: str) -> None:
    lost: list[kv.ObjectChanged] = []

    async def patches(w: Widget, ctx: kv.Context[Widget]) -> None:
        found = await ctx.live(CONFIG_MAP).get(w.namespace, MAP)
        await race(lab, what)
        try:
            await ctx.patch(CONFIG_MAP, expect=found, patch={"data": {"by": "one"}})
        except kv.ObjectChanged as error:
            lost.append(error)

    await shared(lab)
    assert (await once(lab, patches)).error == ""
    assert [error.deleted for error in lost] == [what == "deleted"]
    stored = await lab.client.find(CONFIG_MAP, MAP, lab.namespace)
    assert (stored and stored.get("data")) == (None if what == "deleted" else {"by": "other"})


@pytest.mark.parametrize(("what", "gone"), [("", True), ("changed", None), ("deleted", False), ("recreated", None)])
async def test_a_guarded_delete_ends_only_the_version_that_was_read(lab: Lab, what: str, gone: bool | None) -> None:
    ended: list[bool | None] = []

    async def deletes(w: Widget, ctx: kv.Context[Widget]) -> None:
        found = await ctx.live(CONFIG_MAP).get(w.namespace, MAP)
        await race(lab, what)
        try:
            ended.append(await ctx.delete(CONFIG_MAP, expect=found))
        except kv.ObjectChanged:
            ended.append(None)

    await shared(lab)
    assert (await once(lab, deletes)).error == ""
    assert ended == [gone]
    assert (await lab.client.find(CONFIG_MAP, MAP, lab.namespace) is None) == (gone is not None)


async def test_of_two_writers_with_the_same_version_one_succeeds(lab: Lab) -> None:
    found = await shared(lab)

    async def write(client: Client, by: str) -> str:
        try:
            await client.patch(CONFIG_MAP, expect=found, patch={"data": {"by": by}}, style="merge")
        except kv.ObjectChanged:
            return ""
        return by

    done = await asyncio.gather(*(write(lab.client, by) for by in ("one", "two", "three")))
    assert sorted(done)[:2] == ["", ""]
    assert (await lab.get(CONFIG_MAP, MAP)).get("data", "by") == sorted(done)[2]


async def test_an_escaping_lost_race_is_retried_as_a_conflict(lab: Lab) -> None:
    async def patches(w: Widget, ctx: kv.Context[Widget]) -> None:
        found = await ctx.live(CONFIG_MAP).get(w.namespace, MAP)
        if found.get("data", "by") == "nobody":
            await race(lab, "changed")
        await ctx.patch(CONFIG_MAP, expect=found, patch={"data": {"seen": found.get("data", "by")}})

    await shared(lab)
    await once(lab, patches)
    assert (await lab.get(CONFIG_MAP, MAP)).get("data") == {"by": "other", "seen": "other"}


async def test_an_object_that_was_never_stored_gives_no_expectation(lab: Lab) -> None:
    new = CONFIG_MAP.new(MAP, lab.namespace)
    with pytest.raises(UsageError, match=rf"expect={lab.namespace}/{MAP} has no uid or no resourceVersion"):
        await lab.client.patch(CONFIG_MAP, expect=new, patch={}, style="merge")
    with pytest.raises(UsageError, match="no uid or no resourceVersion"):
        await lab.client.delete(CONFIG_MAP, expect=new.metadata)


async def test_a_json_patch_takes_no_expectation(lab: Lab) -> None:
    found = await shared(lab)
    with pytest.raises(UsageError, match="a JSON patch takes no expect="):
        await lab.client.patch(CONFIG_MAP, expect=found, patch=[], style="json")


async def test_get_or_create_returns_an_existing_object_unchanged(lab: Lab) -> None:
    wanted = CONFIG_MAP.new(MAP, lab.namespace, data={"by": "one"})
    assert await lab.client.find(CONFIG_MAP, MAP, lab.namespace) is None
    found = await asyncio.gather(*(lab.client.get_or_create(wanted) for _ in range(3)))
    other = await lab.client.get_or_create(CONFIG_MAP.new(MAP, lab.namespace, data={"by": "two"}))
    assert {one.metadata.uid for one in (*found, other)} == {found[0].metadata.uid}
    assert other.get("data", "by") == "one"
