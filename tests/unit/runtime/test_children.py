"""The creation of a child: a single request if the child does not exist, and never over an object of another owner."""

from typing import Any

from controller_harness import ControllerHarness
from widgets import CONFIG_MAP, By, Widget, widget

import konverge as kv

CHILD = "child"


def placed() -> Widget:
    return Widget.decode({**widget("one").to_dict(), "metadata": {"name": "one", "namespace": "web"}})


class Owning:
    """Owns one ConfigMap."""

    def __init__(self, *, adopt: bool = False) -> None:
        self.adopt = adopt
        self.errors: list[Exception] = []

    async def __call__(self, w: Any, ctx: kv.Context[Any]) -> kv.Outcome:
        try:
            await ctx.own(CONFIG_MAP.new(CHILD, "web", data={"a": "1"}), adopt=self.adopt)
        except Exception as error:
            self.errors.append(error)
            raise kv.Terminal(str(error)) from error
        return kv.Done()


def controller(owning: Owning) -> kv.Controller[Widget]:
    return kv.Controller.of(Widget).owns(CONFIG_MAP).reconciled_by(By(owning))


def about_the_child(harness: ControllerHarness) -> list[str]:
    return [call for call in harness.server.calls if call.split()[1] == "ConfigMap"]


async def test_child_missing_from_the_cache_is_created_in_one_request() -> None:
    async with ControllerHarness(controller(Owning())) as harness:
        harness.put(placed(), generation=1)
        await harness.settle()
        assert about_the_child(harness) == [f"apply ConfigMap {CHILD}"]
        stored = harness.server.stored(CONFIG_MAP, "web", CHILD)
        assert (stored["data"], stored["metadata"]["ownerReferences"][0]["name"]) == ({"a": "1"}, "one")


async def test_foreign_object_missing_from_the_cache_is_left_unchanged() -> None:
    owning = Owning()
    async with ControllerHarness(controller(owning)) as harness:
        theirs = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": CHILD, "namespace": "web"},
            "data": {"a": "7"},
        }
        before = dict(harness.server.store(CONFIG_MAP, theirs))
        harness.put(placed(), generation=1)
        await harness.settle()
        assert about_the_child(harness) == [f"apply ConfigMap {CHILD}", f"get ConfigMap {CHILD}"]
        assert [type(error).__name__ for error in owning.errors] == ["NotOurs"]
        assert harness.server.stored(CONFIG_MAP, "web", CHILD) == before


async def test_adoptable_object_is_adopted_and_keeps_its_uid_and_fields() -> None:
    async with ControllerHarness(controller(Owning(adopt=True))) as harness:
        theirs = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": CHILD, "namespace": "web"},
            "data": {"b": "7"},
        }
        uid = harness.server.store(CONFIG_MAP, theirs)["metadata"]["uid"]
        harness.put(placed(), generation=1)
        await harness.settle()
        stored = harness.server.stored(CONFIG_MAP, "web", CHILD)
        assert (stored["data"], stored["metadata"]["uid"]) == ({"a": "1", "b": "7"}, uid)
