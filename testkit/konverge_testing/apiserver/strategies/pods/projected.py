"""Validation of volumes whose files come from ConfigMaps, Secrets, tokens and fields of the pod.

Guarantees: pure; errors come in the server's order. Source: `pkg/apis/core/validation/validation.go` (validateProjectionSources,
validateDownwardAPIVolumeSource).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from konverge_testing.apiserver.strategies.base import Data, Errors, forbidden, invalid, missing_in, required
from konverge_testing.apiserver.strategies.paths import descending_path_errors
from konverge_testing.apiserver.strategies.pods.references import VOLUME_FIELDS, field_errors, resource_errors

__all__ = ["downward_errors", "item_errors", "mode_errors", "projected_errors"]

_MODE: Final = "must be a number between 0 and 0777 (octal), both inclusive"
_SHORTEST: Final = 600
_CONFLICT: Final = "conflicting duplicate paths"


def mode_errors(source: Data, path: str, name: str = "defaultMode") -> Errors:
    """Check the permissions of files."""
    mode = source.get(name)
    return [] if mode is None or 0 <= mode <= 0o777 else [invalid(f"{path}.{name}", mode, _MODE)]


def item_errors(source: Data, path: str) -> Errors:
    """Check the files that a ConfigMap or a Secret becomes."""
    return [
        error for index, item in enumerate(source.get("items") or ()) for error in _item(item, f"{path}.items[{index}]")
    ]


def _item(item: Data, path: str) -> Errors:
    errors = missing_in(item, path, "key", "path")
    errors += descending_path_errors(item.get("path", ""), f"{path}.path", reserved=True)
    return errors + mode_errors(item, path, "mode")


def downward_errors(source: Data, path: str) -> Errors:
    """Check files that show fields of the pod."""
    return mode_errors(source, path) + [error for file in source.get("items") or () for error in _file(file, path)]


def _file(file: Data, path: str) -> Errors:
    errors = missing_in(file, path, "path")
    errors += descending_path_errors(file.get("path", ""), f"{path}.path", reserved=True)
    field, resource = file.get("fieldRef"), file.get("resourceFieldRef")
    if field is not None:
        errors += field_errors(field, f"{path}.fieldRef", VOLUME_FIELDS)
        if resource is not None:
            text = "fieldRef and resourceFieldRef can not be specified simultaneously"
            errors.append(invalid(path, "resource", text))
    elif resource is not None:
        errors += resource_errors(resource, f"{path}.resourceFieldRef", volume=True)
    else:
        errors.append(required(path, "one of fieldRef and resourceFieldRef is required"))
    return errors + mode_errors(file, path, "mode")


def projected_errors(source: Data, path: str) -> Errors:
    """Check a volume of several sources, whose files may not have the same path."""
    errors = mode_errors(source, path)
    seen: set[str] = set()
    for index, each in enumerate(source.get("sources") or ()):
        here = f"{path}.sources[{index}]"
        for kind in ("secret", "configMap"):
            if (one := each.get(kind)) is not None:
                errors += missing_in(one, f"{here}.{kind}", "name")
                for number, item in enumerate(one.get("items") or ()):
                    errors += _item(item, f"{here}.{kind}.items[{number}]")
                    errors += _repeated(item.get("path", ""), seen, path, one.get("name", ""))
        for file in (each.get("downwardAPI") or {}).get("items") or ():
            errors += _file(file, f"{here}.downwardAPI")
            errors += _repeated(file.get("path", ""), seen, path, file.get("path", ""))
        token = each.get("serviceAccountToken")
        if token is not None:
            errors += _token(token, f"{here}.serviceAccountToken", path)
        if len(each) > 1:
            errors.append(forbidden(here, "may not specify more than 1 volume type per source"))
    return errors


def _repeated(file: str, seen: set[str], path: str, shown: str) -> Errors:
    """Note the path of a file; an error if another has it."""
    if file and file in seen:
        return [invalid(path, shown, _CONFLICT)]
    seen.add(file)
    return []


def _token(token: Mapping[str, Any], path: str, volume: str) -> Errors:
    errors: Errors = []
    seconds = token.get("expirationSeconds", 3600)
    if seconds < _SHORTEST:
        errors.append(invalid(f"{path}.expirationSeconds", seconds, "may not specify a duration less than 10 minutes"))
    if seconds > 1 << 32:
        text = "may not specify a duration larger than 2^32 seconds"
        errors.append(invalid(f"{path}.expirationSeconds", seconds, text))
    if not token.get("path"):
        return [*errors, required(f"{volume}.path")]
    return errors + descending_path_errors(token["path"], f"{volume}.path", reserved=True)
