"""Mirrors of repositories, in two versions: v1 had one target, a text; v2 has several (docs/guide/versions.md)."""

from typing import Annotated

from pydantic import Field

import konverge as kv


class Target(kv.Model):
    url: Annotated[str, Field(min_length=1, max_length=200)]
    """Where the copy is kept."""
    region: str | None = None


class MirrorSpec(kv.Model):
    source: str
    targets: Annotated[tuple[Target, ...], Field(min_length=1, max_length=8)]


class MirrorStatus(kv.Status):
    copies: int | None = None


@kv.resource("mirrors.example.com/v2", conditions=("Ready",))
class Mirror(kv.CustomResource[MirrorSpec, MirrorStatus]):
    """Copies of a repository."""


class MirrorV1Spec(kv.Model):
    source: str
    target: Annotated[str, Field(min_length=1, max_length=200)]


@kv.resource(
    "mirrors.example.com/v1", kind="Mirror", storage=False, deprecated="mirrors.example.com/v1 ends in May; use v2"
)
class MirrorV1(kv.CustomResource[MirrorV1Spec, MirrorStatus]):
    """A copy of a repository."""


def to_v2(old: MirrorV1) -> Mirror:
    spec = MirrorSpec(source=old.spec.source, targets=(Target(url=old.spec.target),))
    return Mirror(spec=spec, status=old.status)


def to_v1(new: Mirror) -> MirrorV1:
    spec = MirrorV1Spec(source=new.spec.source, target=new.spec.targets[0].url)
    return MirrorV1(spec=spec, status=new.status)


MIRRORS = kv.Conversion.of(Mirror).version(MirrorV1, up=to_v2, down=to_v1).keeping_lost_fields()


class MirrorReconciler:
    async def reconcile(self, mirror: Mirror, ctx: kv.Context[Mirror]) -> kv.Outcome:
        ctx.status.draft.copies = len(mirror.spec.targets)
        ctx.status.set_condition("Ready", True, "Copied", f"copied from {mirror.spec.source}")
        return kv.Done()


def build(manager: kv.Manager) -> None:
    manager.add(kv.Controller.of(Mirror).reconciled_by(MirrorReconciler()))
    manager.add(MIRRORS)


if __name__ == "__main__":
    kv.run(build, name="mirror-operator")
