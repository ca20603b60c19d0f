"""One controller owns and watches the same kind, or watches it several times."""

from collections.abc import Callable, Iterable
from typing import Any

import pytest
from widgets import By, Widget, widget

import konverge as kv
from konverge.errors import UsageError
from konverge.keys import Key
from konverge.objects import Metadata
from konverge.runtime import Caches, Controller, rules_of
from konverge_testing import Lab

SECRET = kv.kind("v1", "Secret", namespaced=True)


def named_by(label: str) -> Callable[[Any, Caches], Iterable[Key]]:
    def to(changed: Any, _: Caches) -> Iterable[Key]:
        metadata = changed if isinstance(changed, Metadata) else changed.metadata
        name = metadata.label(label)
        return [Key("", Controller.of(Widget).kind, metadata.namespace, name)] if name else []

    return to


FIRST, SECOND = named_by("first"), named_by("second")


class Reads:
    """Owns a generated Secret, and records the cached Secrets."""

    def __init__(self, *, generates: bool) -> None:
        self.generates = generates
        self.seen: list[tuple[str, ...]] = []
        self.reasons: list[tuple[str, ...]] = []

    async def reconcile(self, w: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        if self.generates:
            await ctx.own(SECRET.new(f"{w.name}-made", w.namespace, data={"a": "YQ=="}))
        secrets = ctx.cache(SECRET)
        names = sorted(secret.name for secret in secrets.list())
        assert sorted(key.name for key in secrets.keys()) == names  # noqa: SIM118  # a method of the reader
        assert len(secrets) == len(names)
        self.seen.append(tuple(names))
        self.reasons.append(tuple(ctx.reasons))
        return kv.Done()


def last_reasons(reads: Reads, since: int) -> str:
    return " ".join(reason for reasons in reads.reasons[since:] for reason in reasons)


async def woken_by(lab: Lab, reads: Reads, change: Any) -> str:
    before = len(reads.seen)
    await change
    await lab.settled()
    return last_reasons(reads, before)


@pytest.mark.parametrize("metadata_only", [False, True], ids=["whole", "metadata only"])
async def test_generated_and_referenced_secrets_both_wake_the_owner(lab: Lab, metadata_only: bool) -> None:
    reads = Reads(generates=True)
    told: list[type] = []

    def to(changed: Any, caches: Caches) -> Iterable[Key]:
        told.append(type(changed))
        return FIRST(changed, caches)

    how: Any = {"metadata_only": True} if metadata_only else {}
    controller = Controller.of(Widget).owns(SECRET).watches(SECRET, to=to, labels="first", **how)
    await lab.start(lambda manager: manager.add(controller.reconciled_by(reads)))
    await lab.create(widget("w"))
    await lab.settled()
    referenced = SECRET.new("referenced", lab.namespace, labels={"first": "w"}, data={"b": "Yg=="})
    assert "watched Secret lab/referenced created" in await woken_by(lab, reads, lab.create(referenced))
    assert reads.seen[-1] == ("referenced", "w-made")
    other = SECRET.new("other", lab.namespace, data={"c": "Yw=="})
    assert await woken_by(lab, reads, lab.create(other)) == ""
    unlabelled = lab.patch(SECRET, "referenced", {"metadata": {"labels": {"first": None}}})
    assert "watched Secret lab/referenced deleted" in await woken_by(lab, reads, unlabelled)
    drifted = lab.patch(SECRET, "w-made", {"data": {"a": "eA=="}})
    assert "owned Secret lab/w-made changed" in await woken_by(lab, reads, drifted)
    assert (await lab.get(SECRET, "w-made")).get("data", "a") == "YQ=="
    gone = lab.delete(SECRET, "w-made")
    assert "owned Secret lab/w-made deleted" in await woken_by(lab, reads, gone)
    assert set(told) == {Metadata} if metadata_only else Metadata not in told


async def test_two_watches_of_one_kind_map_by_their_own_selectors(lab: Lab) -> None:
    reads = Reads(generates=False)
    controller = (
        Controller.of(Widget)
        .watches(SECRET, to=FIRST, labels="first", metadata_only=True)
        .watches(SECRET, to=SECOND, labels="second", metadata_only=True)
        .indexes(SECRET, "tier", by=lambda secret: [secret.label("tier")])
        .reconciled_by(reads)
    )
    await lab.start(lambda manager: manager.add(controller))
    for name in ("a", "b"):
        await lab.create(widget(name))
    await lab.settled()

    def labelled(name: str, **labels: str) -> Any:
        return lab.create(SECRET.new(name, lab.namespace, labels=labels))

    assert "watched Secret lab/one created" in await woken_by(lab, reads, labelled("one", first="a"))
    assert "watched Secret lab/two created" in await woken_by(lab, reads, labelled("two", second="b"))
    before = len(reads.seen)
    await labelled("both", first="a", second="b")
    await lab.settled()
    assert len(reads.seen) == before + 2
    assert reads.seen[-1] == ("both", "one", "two")
    assert await woken_by(lab, reads, labelled("none", third="a")) == ""


async def test_two_map_functions_of_one_selection_share_a_cache(lab: Lab) -> None:
    reads = Reads(generates=False)
    controller = Controller.of(Widget).watches(SECRET, to=FIRST).watches(SECRET, to=SECOND).reconciled_by(reads)
    manager = await lab.start(lambda manager: manager.add(controller))
    await lab.create(widget("a"))
    await lab.settled()
    secret = SECRET.new("s", lab.namespace, labels={"second": "a"})
    assert "watched Secret lab/s created" in await woken_by(lab, reads, lab.create(secret))
    assert reads.seen[-1] == ("s",)
    assert manager is not None


async def leave(_: Widget, __: kv.Context[Widget]) -> kv.Outcome:
    return kv.Done()


def test_the_rights_of_several_declarations_are_the_rights_of_each() -> None:
    def places(controller: Controller[Any]) -> set[str]:
        rules = rules_of(controller.reads_live().reconciled_by(By(leave)))
        return {rule.namespace for rule in rules if "secrets" in rule.resources and "watch" in rule.verbs}

    two = Controller.of(Widget).watches(SECRET, to=FIRST, namespaces=["a"])
    assert places(two.watches(SECRET, to=SECOND, namespaces=["b"])) == {"a", "b"}
    assert places(two.watches(SECRET, to=SECOND)) == {""}


@pytest.mark.parametrize(
    ("declare", "text"),
    [
        (lambda of: of.owns(SECRET).owns(SECRET), "one .owns is enough"),
        (lambda of: of.watches(SECRET, to=FIRST).watches(SECRET, to=FIRST), "declared twice alike"),
        (lambda of: of.watches(SECRET, to=FIRST).watches(SECRET, to=FIRST, optional=True), "declared twice alike"),
        (lambda of: of.watches(SECRET, to=FIRST).watches(SECRET, to=SECOND, metadata_only=True), "declare both alike"),
    ],
    ids=["owned twice", "watched twice alike", "but for optional", "with and without bodies"],
)
def test_declarations_of_one_kind_that_contradict_are_an_error(declare: Any, text: str) -> None:
    with pytest.raises(UsageError, match=text):
        declare(Controller.of(Widget))


def test_other_declarations_of_one_kind_are_none() -> None:
    sentence = Controller.of(Widget).watches(SECRET, to=FIRST, labels="a").owns(SECRET)
    sentence = sentence.watches(SECRET, to=FIRST, labels="b").watches(SECRET, to=SECOND, namespaces=["web"])
    assert len(sentence.watched) == 3
