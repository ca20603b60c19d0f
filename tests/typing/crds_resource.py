"""The types of resources as a type checker infers them; read by mypy, never run. An unused `type: ignore` is an error, so each comment is a
test.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated, Any, assert_type

from pydantic import Field

import konverge as kv
from konverge.conditions import Condition
from konverge.crds import Duration, ListMap, PartialModel, PartialResource, Scale, declaration_of
from konverge.kinds import Kind, Resource, kind_of
from konverge.runtime.reconcile.status import StatusEditor


class Part(kv.Model):
    name: str


class BackupSpec(kv.Model):
    schedule: str
    keep_copies: Annotated[int, Field(ge=1)] = 7
    timeout: Duration = timedelta(hours=1)
    parts: Annotated[tuple[Part, ...], ListMap("name")] = ()


class BackupStatus(kv.Status):
    cron_job: str | None = None


@kv.resource("example.com/v1", short_names=("bk",), conditions=("Ready",), scale=Scale(".spec.a", ".status.b"))
class Backup(kv.CustomResource[BackupSpec, BackupStatus]):
    """Nightly copies of a volume."""

    @property
    def extra(self) -> int:
        return self.spec.keep_copies


assert_type(Backup.new("nightly", "web", spec=BackupSpec(schedule="0 3 * * *")), Backup)
assert_type(Backup.new("nightly"), Backup)
assert_type(Backup.decode({}), Backup)
assert_type(Backup.kind_of_resource(), Kind[Backup])
assert_type(kind_of(Backup), Kind[Backup])
assert_type(kind_of(Backup).new("a"), Backup)
declaration_of(Backup)

backup = Backup.new("nightly")
assert_type(backup.spec, BackupSpec)
assert_type(backup.spec.schedule, str)
assert_type(backup.spec.timeout, timedelta)
assert_type(backup.spec.parts, tuple[Part, ...])
assert_type(backup.status, BackupStatus)
assert_type(backup.status.cron_job, str | None)
assert_type(backup.metadata, kv.Metadata)
assert_type(backup.conditions, tuple[Condition, ...])
assert_type(backup.condition("Ready").reason, str)
assert_type(backup.find_condition("Ready"), Condition | None)
assert_type(backup.labels, Mapping[str, str])
assert_type(backup.extra, int)
assert_type(backup.to_dict(), dict[str, Any])
anything: Resource = backup

backup.spec.keep_copies = 3
backup.spec.keep_copies = "3"  # type: ignore[assignment]  # a wrong type
backup.spec.keepCopies  # type: ignore[attr-defined]  # noqa: B018 - the API's spelling is not Python's
backup.conditons  # type: ignore[attr-defined]  # noqa: B018 - a typo
BackupSpec()  # type: ignore[call-arg]  # a missing field
Backup.new("a", spec=Part(name="a"))  # type: ignore[arg-type]  # the spec of another resource
kind_of(Part)  # type: ignore[type-var]  # a model that is no resource


def status_of(ctx: kv.Context[Backup]) -> None:
    """The status model is inferred from the resource."""
    assert_type(ctx.object, Backup)
    assert_type(ctx.status, StatusEditor[BackupStatus])
    assert_type(ctx.status.draft, BackupStatus)
    ctx.status.draft.cron_job = "nightly"
    ctx.status.draft.cronjob = "nightly"  # type: ignore[attr-defined]  # a typo


def any_status(ctx: kv.Context[kv.CustomResource[Any, BackupStatus]]) -> None:
    """A reconciler for every resource with such a status."""
    assert_type(ctx.status.draft, BackupStatus)


def passed_on(ctx: kv.Context[Backup]) -> None:
    """Context is covariant."""
    any_status(ctx)


@kv.resource("example.com/v1", conditons=("Ready",))  # type: ignore[call-arg]  # a typo in the declaration
class Misspelt(kv.CustomResource[BackupSpec, BackupStatus]):
    """Arguments of the decorator are checked; class keywords would not be."""


@kv.resource("example.com/v1", scope="Global")  # type: ignore[arg-type]  # no such scope
class Misplaced(kv.CustomResource[BackupSpec, BackupStatus]):
    """So are their values."""


class JobSpec(PartialModel):
    schedule: str


class JobView(PartialResource):
    spec: JobSpec


CRON_JOB = kv.kind("batch/v1", "CronJob", model=JobView)
assert_type(CRON_JOB, Kind[JobView])
assert_type(CRON_JOB.new("a").spec.schedule, str)
assert_type(kv.kind("batch/v1", "CronJob"), Kind[kv.Object])


def status_of_a_view(ctx: kv.Context[JobView]) -> None:
    """A view without a status has no status to write."""
    ctx.status  # type: ignore[misc]  # noqa: B018 - refused by the type of self
