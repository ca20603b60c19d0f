"""The types of conversions as a type checker infers them; read by mypy, never run. An unused `type: ignore` is an error, so each comment is
a test.
"""

from __future__ import annotations

from typing import Any, assert_type

import konverge as kv
from konverge_testing import check_round_trips


class OldSpec(kv.Model):
    target: str


class NewSpec(kv.Model):
    targets: tuple[str, ...]


@kv.resource("example.com/v1beta1", kind="Copy", storage=False)
class OldCopy(kv.CustomResource[OldSpec, kv.Status]):
    """A copy to one target."""


@kv.resource("example.com/v1")
class Copy(kv.CustomResource[NewSpec, kv.Status]):
    """A copy to several targets."""


def up(old: OldCopy) -> Copy:
    return Copy(spec=NewSpec(targets=(old.spec.target,)), status=old.status)


def down(new: Copy) -> OldCopy:
    return OldCopy(spec=OldSpec(target=new.spec.targets[0]), status=new.status)


async def later(old: OldCopy) -> Copy:
    return up(old)


begun = kv.Conversion.of(Copy)
assert_type(begun, kv.Conversion[Copy])
assert_type(begun.version(OldCopy, up=up, down=down), kv.Conversion[Copy])
assert_type(begun.keeping_lost_fields(), kv.Conversion[Copy])
assert_type(begun.converted({}, "example.com/v1"), dict[str, Any])
begun.version(OldCopy, up=lambda old: Copy(spec=NewSpec(targets=(old.spec.target,))), down=down)
begun.version(OldCopy, up=down, down=up)  # type: ignore[arg-type]  # the functions are swapped
begun.version(OldCopy, up=later, down=down)  # type: ignore[arg-type]  # a function that has to be awaited
begun.version(OldCopy, up=lambda old: old, down=down)  # type: ignore[arg-type, return-value]  # the old version is no result
begun.version(OldCopy, up=lambda old: Copy(spec=old.spec.targets), down=down)  # type: ignore[attr-defined]  # it has one target
begun.version(OldCopy, up=up)  # type: ignore[call-arg]  # both directions are needed


def build(manager: kv.Manager) -> None:
    manager.add(begun.version(OldCopy, up=up, down=down))
    assert_type(manager.conversions, tuple[kv.Conversion[Any], ...])


check_round_trips(begun, loses=[".spec.targets"], only=lambda copy: bool(copy.spec), examples=10)
