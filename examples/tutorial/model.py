"""The kind CronJob: the spec, which its users write, and the status, which the operator writes (docs/tutorial/model.md)."""

from typing import Annotated, Any, Literal

from pydantic import Field

import konverge as kv
from konverge.crds import Cel, PreserveUnknown


class JobTemplate(kv.Model):
    spec: Annotated[dict[str, Any], PreserveUnknown()]
    """The spec of each Job."""


class CronJobSpec(kv.Model):
    every_minutes: Annotated[int, Field(ge=1, le=1440)]
    """The minutes between two Jobs; 60 starts a Job at each full hour."""
    job_template: JobTemplate
    starting_deadline_seconds: Annotated[int, Field(ge=0)] | None = None
    """A Job that is later than this is not started."""
    concurrency_policy: Literal["Allow", "Forbid", "Replace"] = "Allow"
    """The treatment of a Job that is due while another Job runs."""
    suspend: bool = False
    """No Job is started; running Jobs continue."""
    successful_jobs_history_limit: Annotated[int, Field(ge=0)] = 3
    failed_jobs_history_limit: Annotated[int, Field(ge=0)] = 1


class CronJobStatus(kv.Status):
    active: list[str] | None = None
    """The names of the Jobs that run."""
    last_schedule_time: str | None = None
    """The time at which the last Job was due."""


@kv.resource(
    "tutorial.example.com/v1",
    short_names=("tcj",),
    conditions=("Ready",),
    columns=(kv.Column("Minutes", ".spec.everyMinutes", type="integer"), kv.Column.condition("Ready")),
    rules=(Cel("self.metadata.name.size() <= 52", "the name of a Job is longer by 11 characters and has at most 63"),),
)
class CronJob(kv.CustomResource[CronJobSpec, CronJobStatus]):
    """Jobs at fixed times."""
