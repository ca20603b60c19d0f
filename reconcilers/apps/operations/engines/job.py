"""The engine `job`: one Job that runs a command.

Its pods run as the service account of the settings, with the restricted Pod Security Standard, and are never restarted in place.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

from konverge.kinds import Kind
from konverge.objects import Object
from konverge.reconcilers.apps.operations.engines.engine import (
    EngineRequest,
    ObjectRef,
    Refused,
    Rendered,
    child_name,
)
from konverge.reconcilers.apps.operations.engines.job_status import JOB, RunsOneJob
from konverge.reconcilers.apps.operations.engines.parameters import BadParameter, Parameters

__all__ = ["KEPT_AT_LEAST", "JobEngine", "job_limits"]

KEPT_AT_LEAST: Final = 600
"""Seconds that a finished Job is kept at least, so that its end is read also after a restart of the daemon."""

LIMITS: Final = ("backoffLimit", "activeDeadlineSeconds", "timeoutSeconds", "ttlSecondsAfterFinished", "exclusive")
_KNOWN: Final = ("image", "command", "args", "env", *LIMITS)


def job_limits(parameters: Parameters, request: EngineRequest) -> dict[str, Any]:
    """Return the fields of a Job's spec that limit it; raises BadParameter."""
    ttl = parameters.whole("ttlSecondsAfterFinished")
    parameters.switch("exclusive")
    limits: dict[str, Any] = {
        "ttlSecondsAfterFinished": max(
            KEPT_AT_LEAST, int(request.settings.job_ttl.total_seconds()) if ttl is None else ttl
        )
    }
    backoff = parameters.whole("backoffLimit")
    deadline = parameters.whole("activeDeadlineSeconds", "timeoutSeconds", least=1)
    if backoff is not None:
        limits["backoffLimit"] = backoff
    if deadline is not None:
        limits["activeDeadlineSeconds"] = deadline
    return limits


def _environment(given: Any) -> list[dict[str, Any]]:
    """Return the environment, from a map of texts or a list of `{name, value}`."""
    if given is None:
        return []
    pairs = [{"name": name, "value": value} for name, value in given.items()] if isinstance(given, dict) else given
    problem = BadParameter("parameters.env is neither a map of texts nor a list of {name, value}; write one of them")
    if not isinstance(pairs, list):
        raise problem
    for pair in pairs:
        if not isinstance(pair, dict) or set(pair) - {"name", "value", "valueFrom"} or not pair.get("name"):
            raise problem
        if not isinstance(pair["name"], str) or not isinstance(pair.get("value", ""), str):
            raise problem
    return [dict(pair) for pair in pairs]


class JobEngine(RunsOneJob):
    """Runs a command in a Job.

    >>> JobEngine().name
    'job'
    """

    name = "job"
    reads: tuple[Kind[Object], ...] = ()
    gets: tuple[Kind[Object], ...] = ()

    def needs(self, _request: EngineRequest) -> tuple[ObjectRef, ...]:
        """Return nothing."""
        return ()

    def render(self, request: EngineRequest) -> Rendered | Refused:
        """Return the Job."""
        try:
            parameters = Parameters(request.parameters, known=_KNOWN)
            container: dict[str, Any] = {
                "name": "command",
                "image": parameters.text("image", required=True),
                "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
            }
            parts = {
                "command": parameters.texts("command"),
                "args": parameters.texts("args"),
                "env": _environment(request.parameters.get("env")),
            }
            limits = job_limits(parameters, request)
        except BadParameter as error:
            return Refused(str(error))
        container.update({part: value for part, value in parts.items() if value})
        template = {
            "restartPolicy": "Never",
            "serviceAccountName": request.settings.runner_service_account,
            "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [container],
        }
        return Rendered(
            JOB.new(
                child_name(request),
                request.operation.namespace,
                spec={**limits, "template": {"spec": template}},
            ),
            kept=timedelta(seconds=limits["ttlSecondsAfterFinished"]),
        )
