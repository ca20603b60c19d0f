# Written by this command. With --check it compares the file with the API.
# konverge models batch/v1 Job --fields spec.template.spec.containers.image \
#     --fields spec.template.spec.restartPolicy --fields status.succeeded \
#     --output report_models.py
"""Typed models of batch/v1 Job."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

import konverge as kv
from konverge.crds import PartialModel, PartialResource


class Container(PartialModel):
    image: str | None = None
    name: str


class PodSpec(PartialModel):
    containers: list[Container]
    restart_policy: Literal["Always", "Never", "OnFailure"] | str | None = None


class PodTemplateSpec(PartialModel):
    spec: PodSpec


class JobSpec(PartialModel):
    template: PodTemplateSpec


class JobStatus(PartialModel):
    succeeded: int | None = None


class Job(PartialResource):
    """Runs pods until enough of them have succeeded."""

    spec: JobSpec
    status: JobStatus = Field(default_factory=JobStatus)


JOB = kv.kind("batch/v1", "Job", model=Job, namespaced=True, plural="jobs")
