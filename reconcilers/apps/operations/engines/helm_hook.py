"""The engine `helmHookJob`: runs a Job that the chart declares as a hook.

Hooks are not part of the release's manifest. Helm keeps them in the record of the release, a Secret that is read by name only; it also
holds all values, so nothing of it is copied into a message or an output (docs/reference/helm.md#release-records). A hook that reaches for
the node is refused.
"""

from __future__ import annotations

import base64
import binascii
import copy
import json
import zlib
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

import yaml

from konverge.kinds import Kind
from konverge.objects import Object
from konverge.reconcilers.apps.kinds import HELM_RELEASE, SECRET
from konverge.reconcilers.apps.operations.engines.engine import (
    EngineBlocked,
    EngineRequest,
    ObjectRef,
    Refused,
    Rendered,
    child_name,
)
from konverge.reconcilers.apps.operations.engines.job import LIMITS, job_limits
from konverge.reconcilers.apps.operations.engines.job_status import JOB, RunsOneJob
from konverge.reconcilers.apps.operations.engines.parameters import BadParameter, Parameters
from konverge.reconcilers.apps.operations.words import BlockedReason, FailedReason, OpLabel
from konverge.reconcilers.apps.render import label_value
from konverge.reconcilers.apps.words import Flux

__all__ = ["HelmHookJobEngine", "hooks_of"]

_KNOWN: Final = ("hookName", *LIMITS)
"""The parameters of a hook's Job."""
_GZIP: Final = b"\x1f\x8b\x08"
_LARGEST: Final = 32 * 1024 * 1024
"""Bytes of an unpacked record at most: a Secret holds 1 MiB, and a small record can unpack to any size."""
_MOST_VALUES: Final = 100_000
"""Values in the manifest of a hook at most, aliases counted at each use: a few lines of YAML can expand beyond the memory."""
_HELM: Final = "helm.sh/"
_BASELINE: Final = frozenset(
    {
        *("AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE"),
        *("SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT"),
    }
)
"""The capabilities that the Pod Security Standard "baseline" lets a container add."""
_OF_ANOTHER_JOB: Final = (
    *("controller-uid", "job-name"),
    *("batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name"),
)


def hooks_of(record: str) -> list[dict[str, Any]]:
    """Return the hooks in the record of a release (`data.release` of its Secret); raises ValueError for an unreadable one.

    >>> text = base64.b64encode(base64.b64encode(b'{"hooks": [{"name": "migrate"}]}')).decode()
    >>> hooks_of(text)
    [{'name': 'migrate'}]
    """
    try:
        packed = base64.b64decode(base64.b64decode(record, validate=True), validate=True)
        if packed.startswith(_GZIP):
            unpacking = zlib.decompressobj(wbits=31)
            packed = unpacking.decompress(packed, _LARGEST)
            if unpacking.unconsumed_tail:
                raise ValueError("the record is too large")
        hooks = json.loads(packed).get("hooks") or []
        return [hook for hook in hooks if isinstance(hook, dict)]
    except (binascii.Error, zlib.error, ValueError, AttributeError):
        raise ValueError("the record of the release cannot be read") from None


def _release(request: EngineRequest) -> ObjectRef:
    return ObjectRef(HELM_RELEASE, request.target.namespace, request.target.name)


def _record(request: EngineRequest) -> ObjectRef | None:
    """Return the Secret with the record of the release that is deployed, None without one."""
    release = request.related.find(_release(request))
    status = {} if release is None else release.get("status") or {}
    history = status.get("history") or [{}]
    newest = history[0] if isinstance(history[0], dict) else {}
    namespace = status.get("storageNamespace") or request.target.namespace
    if newest.get("status") != Flux.DEPLOYED or namespace != request.target.namespace:
        return None
    return ObjectRef(SECRET, namespace, f"sh.helm.release.v1.{newest.get('name')}.v{newest.get('version')}", live=True)


class HelmHookJobEngine(RunsOneJob):
    """Clones the Job of a hook.

    >>> HelmHookJobEngine().name
    'helmHookJob'
    """

    name = "helmHookJob"
    reads: tuple[Kind[Object], ...] = (HELM_RELEASE,)
    gets: tuple[Kind[Object], ...] = (SECRET,)

    def needs(self, request: EngineRequest) -> tuple[ObjectRef, ...]:
        """Return the HelmRelease and, once it is known, the record of its release."""
        record = _record(request)
        return (_release(request),) if record is None else (_release(request), record)

    def render(self, request: EngineRequest) -> Rendered | Refused | EngineBlocked:
        """Return a clone of the hook's Job."""
        try:
            parameters = Parameters(request.parameters, known=_KNOWN)
            name = parameters.text("hookName", required=True)
            limits = job_limits(parameters, request)
        except BadParameter as error:
            return Refused(str(error))
        record = _record(request)
        if record is None:
            message = f"no release of {request.target.name} is deployed, and hooks are read from its record; have Flux deploy it"
            return EngineBlocked(BlockedReason.HOOK_REQUIRES_RELEASE, message)
        secret = request.related.find(record)
        if secret is None:
            return EngineBlocked(
                BlockedReason.MISSING_SECRET, f"Secret {record.name} with the record of the release is missing"
            )
        try:
            hooks = hooks_of(str((secret.get("data") or {}).get("release", "")))
            hook = next((entry for entry in hooks if entry.get("name") == name), None)
            if hook is None:
                jobs = sorted(str(entry.get("name")) for entry in hooks if entry.get("kind") == JOB.kind)
                message = f"the release has no hook {name}; its hooks that are Jobs: {', '.join(jobs) or 'none'}"
                return Refused(message, FailedReason.HOOK_NOT_FOUND)
            if hook.get("kind") != JOB.kind:
                return Refused(
                    f"the hook {name} is a {hook.get('kind')}, and only a Job can be run",
                    FailedReason.HOOK_UNSUPPORTED_KIND,
                )
            return _clone(hook, name, limits, request)
        except ValueError as error:
            return Refused(str(error), FailedReason.PRECONDITION_FAILED)


def _clone(hook: Mapping[str, Any], name: str, limits: Mapping[str, Any], request: EngineRequest) -> Rendered | Refused:
    """Return the Job under a name of its own, without anything that ties it to the hook's run."""
    try:
        manifest = yaml.safe_load(str(hook.get("manifest", "")))
    except (yaml.YAMLError, RecursionError):  # its text quotes the manifest, which may hold values
        raise ValueError(f"the manifest of the hook {name} cannot be read") from None
    if not _is_bounded(manifest):
        raise ValueError(f"the manifest of the hook {name} is too large")
    spec = manifest.get("spec") if isinstance(manifest, dict) else None
    metadata = manifest.get("metadata") or {} if isinstance(manifest, dict) else {}
    if not isinstance(spec, dict) or not isinstance(metadata, dict) or not isinstance(spec.get("template"), dict):
        raise ValueError(f"the manifest of the hook {name} has no Job in it")
    if metadata.get("namespace") not in (None, "", request.operation.namespace):
        return Refused(
            f"the hook {name} runs in another namespace; it can only be run by Helm", FailedReason.PRECONDITION_FAILED
        )
    escape = _escape(spec["template"].get("spec"))
    if escape:
        message = f"the hook {name} sets {escape}, which an Operation gives to no pod; it can only be run by Helm"
        return Refused(message, FailedReason.PRECONDITION_FAILED)
    spec = copy.deepcopy(spec)
    for field in ("selector", "manualSelector", "suspend"):
        spec.pop(field, None)
    template = spec["template"]
    template["metadata"] = _untied(template.get("metadata"))
    untied = _untied(metadata)
    labels = {**(untied.get("labels") or {}), OpLabel.HOOK_NAME: label_value(name)}
    job = JOB.new(
        child_name(request),
        request.operation.namespace,
        labels=labels,
        annotations=untied.get("annotations") or None,
        spec={**spec, **limits},
    )
    return Rendered(job, kept=timedelta(seconds=limits["ttlSecondsAfterFinished"]))


def _escape(pod: Any) -> str:
    """Return the field that would let a pod leave its namespace for the node, "" without such a field.

    Helm creates a hook with the rights of the chart's service account, this operator with its own: a tenant who writes the record of a
    release must not get a privileged pod from it. The fields are from the Pod Security Standard "baseline".
    """
    spec = pod if isinstance(pod, dict) else {}
    for field in ("hostNetwork", "hostPID", "hostIPC"):
        if spec.get(field):
            return field
    for volume in _dicts(spec.get("volumes")):
        if volume.get("hostPath") is not None:
            return "hostPath"
    for kind in ("initContainers", "containers", "ephemeralContainers"):
        for container in _dicts(spec.get(kind)):
            context = container.get("securityContext")
            context = context if isinstance(context, dict) else {}
            if context.get("privileged"):
                return "privileged"
            capabilities = context.get("capabilities")
            added = capabilities.get("add") if isinstance(capabilities, dict) else None
            if added and not _BASELINE.issuperset(map(str, added if isinstance(added, list) else [added])):
                return "capabilities.add"
            if any(port.get("hostPort") for port in _dicts(container.get("ports"))):
                return "hostPort"
    return ""


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


def _is_bounded(value: Any) -> bool:
    """Tell whether a value, written out without aliases, has at most `_MOST_VALUES` values."""
    left, waiting = _MOST_VALUES, [value]
    while waiting and left > 0:
        part = waiting.pop()
        left -= 1
        if isinstance(part, dict):
            waiting += part.values()
        elif isinstance(part, list):
            waiting += part
    return not waiting


def _untied(metadata: Any) -> dict[str, Any]:
    """Return labels and annotations of a hook, without the labels and annotations that Helm and the Job controller act on."""
    given = metadata if isinstance(metadata, dict) else {}
    labels = {key: value for key, value in (given.get("labels") or {}).items() if key not in _OF_ANOTHER_JOB}
    annotations = {key: value for key, value in (given.get("annotations") or {}).items() if not key.startswith(_HELM)}
    return {**({"labels": labels} if labels else {}), **({"annotations": annotations} if annotations else {})}
