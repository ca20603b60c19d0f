"""Controllers that cache only metadata of their primary kind or of their children."""

from collections.abc import Callable
from typing import Any

import pytest
from widgets import CONFIG_MAP, SECRET, By, Widget, widget

import konverge as kv
from konverge.errors import Contested, MetadataOnly, NotOurs, UsageError
from konverge.runtime.builder.rules import rules_of
from konverge_testing import Lab

OWNER = {"apiVersion": "tests.konverge.dev/v1", "kind": "Widget"}


def secret(namespace: str = "lab", **data: str) -> kv.Object:
    return SECRET.new("child", namespace, labels={"app": "w"}, data=data or {"a": "YQ=="})


class Owner:
    """Owns one Secret, and keeps what `ctx.own` returned."""

    def __init__(self, *, on_conflict: Any = kv.TAKE) -> None:
        self.returned: list[kv.Object] = []
        self.data = {"a": "YQ=="}
        self.on_conflict = on_conflict

    async def reconcile(self, owner: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        self.returned.append(await ctx.own(secret(owner.namespace, **self.data), on_conflict=self.on_conflict))
        ctx.status.skip_write()
        return kv.Done()


def owning(owner: Owner, **how: Any) -> kv.Controller[Widget]:
    return kv.Controller.of(Widget).owns(SECRET, metadata_only=True, **how).reconciled_by(owner)


def applies(lab: Lab) -> int:
    """Return the number of writes of the last manager's reconciles."""
    return sum(len(record.writes) for record in lab.manager.runner("widget").history.recent())


async def started(lab: Lab, owner: Owner, **how: Any) -> None:
    await lab.start(lambda manager: manager.add(owning(owner, **how)))
    await lab.create(widget())
    await lab.settled()


async def test_an_unchanged_child_without_a_cached_body_is_applied_once(lab: Lab) -> None:
    owner = Owner()
    await started(lab, owner)
    for _ in range(3):
        lab.manager.runner("widget").resync_now()
        await lab.settled()
    assert len(owner.returned) > 3
    assert applies(lab) == 1
    [informer] = [
        each for each in lab.manager.runner("widget").caches.informers.values() if each.selection.kind == SECRET
    ]
    assert [cached.body for cached in informer.store.list()] == [b""]


DRIFT: dict[str, dict[str, Any]] = {
    "changed value": {"data": {"a": "ZHJpZnQ="}},
    "removed field": {"data": {"a": None}},
    "changed label": {"metadata": {"labels": {"app": "other"}}},
    "added field": {"data": {"b": "Yg=="}},
    "annotation": {"metadata": {"annotations": {"a": "b"}}},
}


@pytest.mark.parametrize("patch", DRIFT.values(), ids=DRIFT)
async def test_drift_of_an_applied_field_is_repaired_and_other_changes_are_left(
    lab: Lab, patch: dict[str, Any]
) -> None:
    await started(lab, Owner())
    await lab.patch(SECRET, "child", patch)
    await lab.settled()
    stored = await lab.get(SECRET, "child")
    assert (stored.get("data", "a"), stored.metadata.label("app")) == ("YQ==", "w")
    drifted = patch not in (DRIFT["added field"], DRIFT["annotation"])
    assert applies(lab) == (2 if drifted else 1)
    lab.manager.runner("widget").resync_now()
    await lab.settled()
    assert applies(lab) == (2 if drifted else 1)


async def test_a_new_intent_is_applied_and_a_deleted_child_is_created_again(lab: Lab) -> None:
    owner = Owner()
    await started(lab, owner)
    owner.data = {"c": "Yw=="}
    lab.manager.runner("widget").resync_now()
    await lab.settled()
    assert (await lab.get(SECRET, "child")).get("data") == {"c": "Yw=="}
    await lab.delete(SECRET, "child")
    await lab.settled()
    assert (await lab.get(SECRET, "child")).get("data") == {"c": "Yw=="}
    assert applies(lab) == 3


async def test_after_a_restart_each_child_is_applied_once_and_not_changed(lab: Lab) -> None:
    await started(lab, Owner())
    before = (await lab.get(SECRET, "child")).metadata.resource_version
    await lab.stop()
    await lab.start(lambda manager: manager.add(owning(Owner())))
    await lab.settled()
    lab.manager.runner("widget").resync_now()
    await lab.settled()
    assert applies(lab) == 1
    assert (await lab.get(SECRET, "child")).metadata.resource_version == before


async def test_only_metadata_and_no_read_of_a_child_reaches_the_process(lab: Lab) -> None:
    calls: list[tuple[str, bool]] = []

    def note(call: Any, about: Any, _: Any) -> None:
        if about.resource == "secrets" and about.user_agent.startswith("lab"):
            calls.append((about.verb, "as=PartialObjectMetadata" in call.headers.get("accept", "")))

    lab.server.on_call.append(note)
    await started(lab, Owner())
    await lab.patch(SECRET, "child", DRIFT["changed value"])
    await lab.settled()
    assert set(calls) == {("watch", True), ("patch", False)}


@pytest.mark.parametrize("drift", [False, True], ids=["unchanged", "sent"])
async def test_own_returns_metadata_whether_or_not_it_sent_an_apply(lab: Lab, drift: bool) -> None:
    owner = Owner()
    await started(lab, owner)
    if drift:
        await lab.patch(SECRET, "child", DRIFT["changed value"])
    lab.manager.runner("widget").resync_now()
    await lab.settled()
    assert applies(lab) == (2 if drift else 1)
    for child in owner.returned:
        assert (child.name, child.metadata.label("app")) == ("child", "w")
        for read in (lambda child=child: child.get("data", "a"), lambda child=child: child.status, child.to_dict):
            with pytest.raises(MetadataOnly, match=r"Secret lab/child was read, .*read it live: await ctx\.live"):
                read()


async def test_a_foreign_object_is_refused_by_its_metadata(lab: Lab) -> None:
    lab.expects(NotOurs)
    await lab.create(secret(b="Yg=="))
    await started(lab, Owner())
    assert (await lab.get(SECRET, "child")).get("data") == {"b": "Yg=="}
    await lab.delete(SECRET, "child")
    await lab.settled()
    assert (await lab.get(SECRET, "child")).get("data") == {"a": "YQ=="}


async def test_owned_children_outside_of_the_set_are_deleted_by_their_metadata(lab: Lab) -> None:
    async def reconcile(_: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        applied = await ctx.apply_children([secret()])
        with pytest.raises(MetadataOnly):
            applied.find(SECRET, "child").get("data")  # type: ignore[union-attr]  # it was applied
        ctx.status.skip_write()
        return kv.Done()

    controller = kv.Controller.of(Widget).owns(SECRET, metadata_only=True).reconciled_by(By(reconcile))
    await lab.start(lambda manager: manager.add(controller))
    owner = await lab.create(widget())
    reference = {**OWNER, "name": "one", "uid": owner.uid, "controller": True}
    await lab.create(SECRET.decode({"metadata": {"name": "stray", "ownerReferences": [reference]}}))
    await lab.settled()
    assert await lab.find(SECRET, "stray") is None
    assert await lab.find(SECRET, "child") is not None


async def test_a_writer_that_takes_a_field_again_and_again_is_named(lab: Lab) -> None:
    lab.expects(Contested, r"undone within 600 s by the field managers of \.data\.a")
    await started(lab, Owner())
    for number in range(4):
        await lab.patch(SECRET, "child", {"data": {"a": "ZHJpZnQ=", f"b{number}": ""}})
        await lab.settled()
    assert (await lab.get(SECRET, "child")).get("data", "a") == "YQ=="


async def test_a_held_child_is_applied_when_the_other_manager_releases_the_field(lab: Lab) -> None:
    lab.expects(kv.FieldsHeld)
    owner = Owner(on_conflict=kv.HOLD)
    await started(lab, owner)
    taken = SECRET.new("child", "lab", data={"a": "dGFrZW4="})
    await lab.client.apply(SECRET, taken.to_dict(), manager="other", force=True)
    await lab.settled()
    assert ((await lab.get(SECRET, "child")).get("data", "a"), applies(lab)) == ("dGFrZW4=", 1)
    await lab.client.apply(SECRET, SECRET.new("child", "lab").to_dict(), manager="other", force=True)
    await lab.until(SECRET, "child", lambda secret: secret.get("data", "a") == "YQ==", timeout=60)


class Tagger:
    """Holds Pods by a finalizer and gives each a ConfigMap, by their metadata."""

    def __init__(self) -> None:
        self.seen: list[kv.MetadataObject] = []
        self.finalized: list[str] = []

    async def reconcile(self, pod: kv.MetadataObject, ctx: kv.Context[kv.MetadataObject]) -> kv.Outcome:
        self.seen.append(pod)
        await ctx.own(CONFIG_MAP.new(pod.name, pod.namespace, data={"team": pod.metadata.label("team") or "none"}))
        return kv.Done()

    async def finalize(self, pod: kv.MetadataObject, ctx: kv.Context[kv.MetadataObject]) -> kv.Outcome:
        self.finalized.append(pod.name)
        return kv.Done()


POD = kv.kind("v1", "Pod")


async def test_a_controller_of_metadata_finalizes_and_owns_but_writes_no_status(lab: Lab) -> None:
    tagger = Tagger()
    controller = (
        kv.Controller.of_metadata(POD)
        .owns(CONFIG_MAP)
        .finalizer("example.com/tag")
        .when(kv.labels_changed)
        .reconciled_by(tagger)
    )
    await lab.start(lambda manager: manager.add(controller))
    await lab.create(POD.new("a", labels={"team": "x"}, spec={"containers": [{"name": "a", "image": "a"}]}))
    await lab.settled()
    assert (await lab.get(CONFIG_MAP, "a")).get("data", "team") == "x"
    count = len(tagger.seen)
    await lab.patch(POD, "a", {"status": {"phase": "Running"}}, subresource="status")
    await lab.settled()
    assert len(tagger.seen) == count, "the predicate filters by metadata"
    await lab.patch(POD, "a", {"metadata": {"labels": {"team": "y"}}})
    await lab.settled()
    assert (await lab.get(CONFIG_MAP, "a")).get("data", "team") == "y"
    for read in (lambda: tagger.seen[-1].spec, lambda: tagger.seen[-1].condition("Ready")):
        with pytest.raises(MetadataOnly, match=r"read it live: await ctx\.live"):
            read()
    await lab.delete(POD, "a")
    await lab.until_gone(POD, "a")
    assert tagger.finalized == ["a"]
    rights = {(resource, verb) for rule in rules_of(controller) for resource in rule.resources for verb in rule.verbs}
    assert ("pods/status", "patch") not in rights


USES: dict[str, Callable[[kv.Context[Any]], object]] = {
    "draft": lambda ctx: ctx.status.draft,
    "condition": lambda ctx: ctx.status.set_condition("Ready", True, "Done"),
    "removal": lambda ctx: ctx.status.remove_condition("Ready"),
    "read": lambda ctx: ctx.status.find("Ready"),
    "conditions": lambda ctx: ctx.status.conditions,
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
async def test_the_status_of_an_object_without_a_body_is_an_error(
    lab: Lab, use: Callable[[kv.Context[Any]], object]
) -> None:
    async def reconcile(_: kv.MetadataObject, ctx: kv.Context[kv.MetadataObject]) -> kv.Outcome:
        use(ctx)
        return kv.Done()

    lab.expects(MetadataOnly, r"ctx.status of Widget lab/one was used, but its controller caches only metadata")
    controller = kv.Controller.of_metadata(Widget).reconciled_by(By(reconcile))
    await lab.start(lambda manager: manager.add(controller))
    await lab.create(widget())
    await lab.settled()
    assert (await lab.get(Widget, "one")).conditions == ()
    await lab.delete(Widget, "one")
    await lab.settled()


DECLARE: dict[str, tuple[Callable[[], object], str]] = {
    "own writes": (
        lambda: kv.Controller.of(Widget).owns(SECRET, metadata_only=True, own_writes=False),
        "whether an event shows only an own apply depends on the body",
    ),
    "watched whole": (
        lambda: kv.Controller.of(Widget).owns(SECRET, metadata_only=True).watches(SECRET, to=lambda _, __: []),
        "declare metadata_only and drop alike in .owns and .watches",
    ),
    "condition": (
        lambda: kv.Controller.of_metadata(Widget).counts_conditions("Ready"),
        "which Controller.of_metadata keeps out of the cache",
    ),
    "failure": (
        lambda: kv.Controller.of_metadata(Widget).reports_failure(by=lambda *_: None),
        ".reports_failure is about the status of Widget",
    ),
}


@pytest.mark.parametrize(("declare", "problem"), DECLARE.values(), ids=DECLARE)
def test_a_declaration_that_needs_bodies_is_refused(declare: Callable[[], object], problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        declare()
