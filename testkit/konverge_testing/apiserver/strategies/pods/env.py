"""The rules of the environment variables of a container, and of the sources of their values.

Source: `pkg/apis/core/validation/validation.go` (ValidateEnv, ValidateEnvFrom, validateFileKeyRefVolumes).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from konverge_testing.apiserver import names
from konverge_testing.apiserver.strategies import texts
from konverge_testing.apiserver.strategies.errors import Data, Errors, invalid, not_found
from konverge_testing.apiserver.strategies.paths import no_backsteps
from konverge_testing.apiserver.strategies.pods.containers_of import containers_at
from konverge_testing.apiserver.strategies.pods.references import ENV_FIELDS, field_errors, resource_errors
from konverge_testing.apiserver.strategies.rules import Rule, at, each, filled, given, need, struct, text

__all__ = ["env", "env_from_errors", "file_reference_errors"]

_SOURCES: Final = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")
_ONE_SOURCE: Final = (
    "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
)
_MORE_SOURCES: Final = "may not have more than one field specified at a time"

_subdomain: Final = text(names.dns1123_subdomain)
_key: Final = struct(at("name", _subdomain), need("key", text(texts.config_key)))
_file: Final = struct(
    need("key", text(texts.env_name)), need("volumeName", text(names.dns1123_label)), need("path", no_backsteps)
)
_CHECKS: Final[Mapping[str, Rule]] = {
    "fieldRef": lambda reference, path: field_errors(reference, path, ENV_FIELDS),
    "resourceFieldRef": resource_errors,
    "fileKeyRef": _file,
    "configMapKeyRef": _key,
    "secretKeyRef": _key,
}


def _value_from(variable: Data, path: str) -> Errors:
    source, here = variable.get("valueFrom"), f"{path}.valueFrom"
    if source is None:
        return []
    kinds = [kind for kind in _SOURCES if kind in source]
    errors = [error for kind in kinds for error in _CHECKS[kind](source[kind], f"{here}.{kind}")]
    if not kinds:
        errors.append(invalid(here, "", _ONE_SOURCE))
    elif variable.get("value"):
        errors.append(invalid(here, "", "may not be specified when `value` is not empty"))
    elif len(kinds) > 1:
        errors.append(invalid(here, "", _MORE_SOURCES))
    return errors


env: Final = each(need("name", text(texts.env_name)), _value_from)

_env_source: Final = struct(
    filled("prefix", text(texts.env_name)), given("configMapRef secretRef", need("name", _subdomain))
)


def env_from_errors(sources: list[Data] | None, path: str) -> Errors:
    """Check the ConfigMaps and Secrets whose entries become variables."""
    errors: Errors = []
    for index, source in enumerate(sources or ()):
        errors += _env_source(source, f"{path}[{index}]")
        count = sum(name in source for name in ("configMapRef", "secretRef"))
        if not count:
            errors.append(invalid(path, "", "must specify one of: `configMapRef` or `secretRef`"))
        elif count > 1:
            errors.append(invalid(path, "", _MORE_SOURCES))
    return errors


def file_reference_errors(spec: Data, path: str) -> Errors:
    """Check that the files of environment variables are in an emptyDir of the pod."""
    errors: Errors = []
    volumes = {volume.get("name", ""): volume for volume in spec.get("volumes") or ()}
    for here, container in containers_at(spec, path):
        for number, variable in enumerate(container.get("env") or ()):
            reference = (variable.get("valueFrom") or {}).get("fileKeyRef")
            if reference is None:
                continue
            name, where = reference.get("volumeName", ""), f"{here}.env[{number}].valueFrom.fileKeyRef.volumeName"
            if name not in volumes:
                errors.append(not_found(where, name))
            elif "emptyDir" not in volumes[name]:
                errors.append(invalid(where, name, "referenced volume must be of type emptyDir"))
    return errors
