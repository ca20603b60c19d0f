"""Validation of the environment variables of a container, and of where their values come from.

Guarantees: pure; errors come in the server's order. Source: `pkg/apis/core/validation/validation.go` (ValidateEnv, ValidateEnvFrom,
validateFileKeyRefVolumes).
"""

from __future__ import annotations

from typing import Final

from konverge_testing.apiserver import names
from konverge_testing.apiserver.statuses import FieldError
from konverge_testing.apiserver.strategies import texts
from konverge_testing.apiserver.strategies.base import Data, Errors, invalid, required, text_errors
from konverge_testing.apiserver.strategies.paths import no_backsteps
from konverge_testing.apiserver.strategies.pods.references import ENV_FIELDS, field_errors, resource_errors

__all__ = ["env_errors", "env_from_errors", "file_reference_errors"]

_SOURCES: Final = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")
_ONE_SOURCE: Final = (
    "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
)


def env_errors(variables: list[Data], path: str) -> Errors:
    """Check the variables of a container."""
    errors: Errors = []
    for index, variable in enumerate(variables):
        here, name = f"{path}[{index}]", variable.get("name", "")
        errors += text_errors(f"{here}.name", name, texts.env_name) if name else [required(f"{here}.name")]
        if variable.get("valueFrom") is not None:
            errors += _value_from(variable["valueFrom"], bool(variable.get("value")), f"{here}.valueFrom")
    return errors


def _value_from(source: Data, has_value: bool, path: str) -> Errors:
    given = [name for name in _SOURCES if name in source]
    errors: Errors = []
    for name in given:
        if name == "fieldRef":
            errors += field_errors(source[name], f"{path}.{name}", ENV_FIELDS)
        elif name == "resourceFieldRef":
            errors += resource_errors(source[name], f"{path}.{name}")
        elif name == "fileKeyRef":
            errors += _file_ref(source[name], f"{path}.{name}")
        else:
            errors += _key_ref(source[name], f"{path}.{name}")
    if not given:
        errors.append(invalid(path, "", _ONE_SOURCE))
    elif has_value:
        errors.append(invalid(path, "", "may not be specified when `value` is not empty"))
    elif len(given) > 1:
        errors.append(invalid(path, "", "may not have more than one field specified at a time"))
    return errors


def _key_ref(reference: Data, path: str) -> Errors:
    errors = text_errors(f"{path}.name", reference.get("name", ""), names.dns1123_subdomain)
    key = reference.get("key", "")
    return errors + (text_errors(f"{path}.key", key, texts.config_key) if key else [required(f"{path}.key")])


def _file_ref(reference: Data, path: str) -> Errors:
    key, volume, target = (reference.get(name, "") for name in ("key", "volumeName", "path"))
    errors = text_errors(f"{path}.key", key, texts.env_name) if key else [required(f"{path}.key")]
    errors += (
        text_errors(f"{path}.volumeName", volume, names.dns1123_label) if volume else [required(f"{path}.volumeName")]
    )
    return errors + (no_backsteps(target, f"{path}.path") if target else [required(f"{path}.path")])


def env_from_errors(sources: list[Data], path: str) -> Errors:
    """Check the ConfigMaps and Secrets whose entries become variables."""
    errors: Errors = []
    for index, source in enumerate(sources):
        here = f"{path}[{index}]"
        if source.get("prefix"):
            errors += text_errors(f"{here}.prefix", source["prefix"], texts.env_name)
        given = [name for name in ("configMapRef", "secretRef") if name in source]
        for name in given:
            wanted = source[name].get("name", "")
            where = f"{here}.{name}.name"
            errors += text_errors(where, wanted, names.dns1123_subdomain) if wanted else [required(where)]
        if not given:
            errors.append(invalid(path, "", "must specify one of: `configMapRef` or `secretRef`"))
        elif len(given) > 1:
            errors.append(invalid(path, "", "may not have more than one field specified at a time"))
    return errors


def file_reference_errors(spec: Data, path: str) -> Errors:
    """Check that the files of environment variables are in an emptyDir of the pod."""
    errors: Errors = []
    volumes = {each.get("name", ""): each for each in spec.get("volumes") or ()}
    for kind in ("initContainers", "containers", "ephemeralContainers"):
        for index, container in enumerate(spec.get(kind) or ()):
            for number, variable in enumerate(container.get("env") or ()):
                reference = (variable.get("valueFrom") or {}).get("fileKeyRef")
                if reference is None:
                    continue
                name = reference.get("volumeName", "")
                where = f"{path}.{kind}[{index}].env[{number}].valueFrom.fileKeyRef.volumeName"
                if name not in volumes:
                    errors.append(FieldError("NotFound", where, name))
                elif "emptyDir" not in volumes[name]:
                    errors.append(invalid(where, name, "referenced volume must be of type emptyDir"))
    return errors
