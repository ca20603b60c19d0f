"""Job and CronJob.

Left out: rules of pod failure policies and success policies beyond their number. Source: `pkg/apis/batch/v1/defaults.go`,
`pkg/apis/batch/validation/validation.go`, `pkg/registry/batch/{job,cronjob}/strategy.go`.
"""

from __future__ import annotations

import copy
from typing import Final
from zoneinfo import available_timezones

from konverge_testing.apiserver import names
from konverge_testing.apiserver.strategies.base import BuiltInStrategy, value_at
from konverge_testing.apiserver.strategies.cron import wrong_schedule
from konverge_testing.apiserver.strategies.defaulting import Tree
from konverge_testing.apiserver.strategies.errors import Data, Errors, immutable, invalid, not_supported, required
from konverge_testing.apiserver.strategies.labels import selector_errors, selects
from konverge_testing.apiserver.strategies.pods.checks import template_errors
from konverge_testing.apiserver.strategies.pods.defaults import default_template
from konverge_testing.apiserver.strategies.pods.warnings import pod_warnings
from konverge_testing.apiserver.strategies.rules import (
    among,
    at,
    filled,
    given,
    must,
    not_negative,
    present,
    struct,
    when,
    wrong,
)

__all__ = ["CronJob", "Job"]

_UID: Final = "batch.kubernetes.io/controller-uid"
_NAME: Final = "batch.kubernetes.io/job-name"
_MANY: Final = 100_000
_TOO_MANY: Final = f"must be less than or equal to {_MANY} when completion mode is Indexed"
_ONLY_INDEXED: Final = "requires indexed completion mode"
_CONDITIONS: Final = Tree([("podFailurePolicy?.rules[].onPodConditions[].status+", "True")])
_UNMATCHED: Final = "`selector` does not match template `labels`"


class Job(BuiltInStrategy):
    """Job: pods that run to completion. The selector is generated from the job's uid unless `manualSelector` is set."""

    generation = True
    has_status = True
    named_label = True

    defaults = (
        ("spec.manualSelector", False),
        ("spec.completionMode", "NonIndexed"),
        ("spec.suspend", False),
        ("spec.parallelism", 1),
    )
    frozen = (
        "spec.completionMode",
        "spec.podFailurePolicy",
        "spec.backoffLimitPerIndex",
        "spec.managedBy",
        "spec.successPolicy",
    )

    def _default(self, new: Data) -> None:
        spec = new.setdefault("spec", {})
        default_job(spec)
        if labels := spec["template"]["metadata"].get("labels"):
            new["metadata"]["labels"] = new["metadata"].get("labels") or dict(labels)
        if "parallelism" not in spec:
            spec.setdefault("completions", 1)
        super()._default(new)
        spec.setdefault("backoffLimit", 2**31 - 1 if "backoffLimitPerIndex" in spec else 6)
        spec.setdefault("podReplacementPolicy", "Failed" if "podFailurePolicy" in spec else "TerminatingOrFailed")

    def _create(self, new: Data) -> None:
        super()._create(new)
        spec, metadata = new["spec"], new["metadata"]
        if spec.get("manualSelector"):
            return
        template = spec.setdefault("template", {}).setdefault("metadata", {})
        shared = not metadata.get("labels") or metadata.get("labels") == template.get("labels")
        generated = {each: metadata.get("name", "") for each in ("job-name", _NAME)}
        generated |= {each: metadata.get("uid", "") for each in ("controller-uid", _UID)}
        template["labels"] = {**generated, **(template.get("labels") or {})}
        if shared:  # upstream's default shares one map, so the generated labels are added to both
            metadata["labels"] = dict(template["labels"])
        selector = spec.setdefault("selector", {})
        selector["matchLabels"] = {_UID: metadata.get("uid", ""), **(selector.get("matchLabels") or {})}

    def _errors(self, new: Data, old: Data | None) -> Errors:
        spec = new.get("spec") or {}
        errors = _generated(new) + _selected_errors(spec)
        if spec.get("completionMode") == "Indexed" and spec.get("completions"):
            longest = f"{new['metadata'].get('name', '')}-{spec['completions'] - 1}"
            if names.dns1123_label(longest):
                text = f"will not able to create pod with invalid DNS label: {longest}"
                errors.append(invalid("metadata.name", new["metadata"].get("name", ""), text))
        if old is None:
            return errors
        before = old.get("spec") or {}
        errors += _selected_errors(spec) + _completions(spec, before)
        errors += immutable("spec.selector", spec.get("selector"), before.get("selector"))
        errors += _template_change(spec, before, started=bool((old.get("status") or {}).get("startTime")))
        return errors + self._frozen(new, old)

    def _status_errors(self, new: Data, old: Data) -> Errors:
        status, before = new.get("status") or {}, old.get("status") or {}
        errors = not_negative("active succeeded failed ready terminating")(status, "status")
        for name in ("failed", "succeeded"):
            if status.get(name, 0) < before.get(name, 0):
                errors.append(invalid(f"status.{name}", status.get(name, 0), f"cannot decrease the {name} counter"))
        return errors

    def _warnings(self, new: Data, old: Data | None) -> list[str]:
        return super()._warnings(new, old) + pod_warnings(value_at(new, "spec.template.spec") or {}, "spec.template")

    def _labels(self, object_: Data) -> dict[str, str]:
        return {"status.successful": str(value_at(object_, "status.succeeded") or 0)}


def default_job(spec: Data) -> None:
    """Fill in the defaults of the spec of a job or of a job template."""
    default_template(spec.setdefault("template", {}))
    _CONDITIONS.fill(spec)


def _generated(new: Data) -> Errors:
    """Check that a selector that is not manual is the generated one."""
    spec, metadata = new.get("spec") or {}, new["metadata"]
    if spec.get("manualSelector") or spec.get("selector") is None:
        return []
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels") or {}
    uid, name = metadata.get("uid", ""), metadata.get("name", "")
    wanted = {"controller-uid": uid, "job-name": name, _UID: uid, _NAME: name}
    errors: Errors = []
    for key, value in wanted.items():
        if key not in labels:
            errors.append(required(f"spec.template.metadata.labels[{key}]", f"must be '{value}'"))
        elif labels[key] != value:
            errors.append(invalid(f"spec.template.metadata.labels[{key}]", labels, f"must be '{value}'"))
    if not selects(spec["selector"], wanted):
        errors.append(invalid("spec.selector", spec["selector"], "`selector` not auto-generated"))
    return errors


def _selected_errors(spec: Data) -> Errors:
    errors = job_errors(spec, "spec")
    labels = value_at(spec, "template.metadata.labels")
    errors += present("selector", selector_errors)(spec, "spec")
    if not selects(spec.get("selector"), labels):
        errors.append(invalid("spec.template.metadata.labels", labels, _UNMATCHED))
    return errors


def _replacement(spec: Data, path: str) -> Errors:
    allowed = ("Failed",) if "podFailurePolicy" in spec else ("Failed", "TerminatingOrFailed")
    return given("podReplacementPolicy", among(*allowed))(spec, path)


_indexed: Final = struct(
    when(
        lambda spec: spec.get("completionMode") == "Indexed",
        present("completions", detail="when completion mode is Indexed"),
        given("parallelism", must(lambda count: count <= _MANY, _TOO_MANY)),
        when(
            lambda spec: "completions" in spec and spec.get("maxFailedIndexes", 0) > spec["completions"],
            at("maxFailedIndexes", wrong("must be less than or equal to completions")),
        ),
    ),
    when(
        lambda spec: spec.get("completionMode", "NonIndexed") == "NonIndexed",
        given("backoffLimitPerIndex maxFailedIndexes", wrong(_ONLY_INDEXED)),
    ),
    when(lambda spec: spec.get("completionMode") != "Indexed", given("successPolicy", wrong(_ONLY_INDEXED))),
)


def _restart(spec: Data, parent: str) -> Errors:
    policy, path = value_at(spec, "template.spec.restartPolicy"), f"{parent}.template.spec.restartPolicy"
    if policy in (None, "", "Always"):
        return [required(path, 'valid values: "OnFailure", "Never"')]
    if policy not in ("OnFailure", "Never"):
        return [not_supported(path, policy, ("OnFailure", "Never"))]
    if "podFailurePolicy" in spec and policy != "Never":
        return [invalid(path, policy, 'only "Never" is supported when podFailurePolicy is specified')]
    return []


job_errors: Final = struct(
    not_negative(
        "parallelism completions activeDeadlineSeconds backoffLimit ttlSecondsAfterFinished backoffLimitPerIndex maxFailedIndexes"
    ),
    when(
        lambda spec: "maxFailedIndexes" in spec,
        present("backoffLimitPerIndex", detail="when maxFailedIndexes is specified"),
    ),
    given("completionMode", among("NonIndexed", "Indexed")),
    _indexed,
    _replacement,
    at("template", template_errors),
    _restart,
)
"""The rules of the spec of a job, its selector aside."""


def _completions(spec: Data, before: Data) -> Errors:
    now, then = spec.get("completions"), before.get("completions")
    if spec.get("completionMode") != "Indexed":
        return immutable("spec.completions", now, then)
    if now is None or now == then or now == spec.get("parallelism"):
        return []
    return [invalid("spec.completions", now, "can only be modified in tandem with spec.parallelism")]


def _template_change(spec: Data, before: Data, *, started: bool) -> Errors:
    """Check that the template stayed; the placement of a suspended job that never started may change."""
    new, old = spec.get("template") or {}, copy.deepcopy(before.get("template") or {})
    if before.get("suspend") and not started:
        for part, field in (
            ("spec", "nodeSelector"),
            ("spec", "tolerations"),
            ("spec", "schedulingGates"),
            ("metadata", "labels"),
            ("metadata", "annotations"),
        ):
            given, target = new.get(part) or {}, old.setdefault(part, {})
            target.pop(field, None)
            target.update({field: given[field]} if field in given else {})
        affinity = (new.get("spec") or {}).get("affinity") or {}
        kept = {name: value for name, value in (old["spec"].get("affinity") or {}).items() if name != "nodeAffinity"}
        kept |= {name: value for name, value in affinity.items() if name == "nodeAffinity"}
        old["spec"].pop("affinity", None)
        old["spec"].update({"affinity": kept} if kept or "affinity" in (new.get("spec") or {}) else {})
    return immutable("spec.template", new, old)


class CronJob(BuiltInStrategy):
    """CronJob: jobs on a schedule."""

    generation = True
    has_status = True
    named_label = True

    defaults = (
        ("spec.concurrencyPolicy+", "Allow"),
        ("spec.suspend", False),
        ("spec.successfulJobsHistoryLimit", 3),
        ("spec.failedJobsHistoryLimit", 1),
    )

    def _default(self, new: Data) -> None:
        super()._default(new)
        default_job(new["spec"].setdefault("jobTemplate", {}).setdefault("spec", {}))

    def _errors(self, new: Data, old: Data | None) -> Errors:
        spec, before, name = new.get("spec") or {}, (old or {}).get("spec") or {}, new["metadata"].get("name", "")
        errors = _schedule_errors(spec, allow_zone=old is not None and "TZ" in before.get("schedule", ""))
        errors += not_negative("startingDeadlineSeconds")(spec, "spec")
        if old is None or spec.get("timeZone") != before.get("timeZone"):
            errors += _zone_errors(spec.get("timeZone"))
        errors += _cron_job(spec, "spec")
        words = "must be no more than 52 characters"
        return errors + ([invalid("metadata.name", name, words)] if old is None and len(name) > 52 else [])

    def _warnings(self, new: Data, old: Data | None) -> list[str]:
        path = "spec.jobTemplate.spec.template"
        return super()._warnings(new, old) + pod_warnings(value_at(new, f"{path}.spec") or {}, path)


_cron_job: Final = struct(
    at("concurrencyPolicy", among("Allow", "Forbid", "Replace")),
    at(
        "jobTemplate",
        at(
            "spec",
            job_errors,
            given("selector", wrong("`selector` will be auto-generated")),
            filled("manualSelector", lambda _, path: [not_supported(path, True, ("nil", "false"))]),
        ),
    ),
    not_negative("successfulJobsHistoryLimit failedJobsHistoryLimit"),
)


def _schedule_errors(spec: Data, *, allow_zone: bool) -> Errors:
    schedule, path = spec.get("schedule", ""), "spec.schedule"
    if not schedule:
        return [required(path)]
    wrong = wrong_schedule(schedule)
    errors = [invalid(path, schedule, wrong)] if wrong is not None else []
    if "TZ" in schedule and not allow_zone:
        errors.append(invalid(path, schedule, "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"))
    elif "TZ" in schedule and "timeZone" in spec:
        errors.append(invalid(path, schedule, "cannot use both timeZone field and TZ or CRON_TZ in schedule"))
    return errors


def _zone_errors(zone: str | None) -> Errors:
    path = "spec.timeZone"
    if zone is None:
        return []
    if not zone:
        return [invalid(path, zone, "timeZone must be nil or non-empty string")]
    if zone.lower() == "local":
        text = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
        return [invalid(path, zone, text)]
    return [] if zone in available_timezones() else [invalid(path, zone, f"unknown time zone {zone}")]
