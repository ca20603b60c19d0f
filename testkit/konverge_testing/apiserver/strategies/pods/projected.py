"""The rules of volumes whose files are from ConfigMaps, Secrets, tokens and fields of the pod.

Source: `pkg/apis/core/validation/validation.go` (validateProjectionSources, validateDownwardAPIVolumeSource).
"""

from __future__ import annotations

from typing import Final

from konverge_testing.apiserver.strategies.errors import Data, Errors, forbidden, invalid, required
from konverge_testing.apiserver.strategies.paths import reserved
from konverge_testing.apiserver.strategies.pods.references import VOLUME_FIELDS, field_errors, resource_errors
from konverge_testing.apiserver.strategies.rules import at, between, each, given, need, struct

__all__ = ["downward", "files", "projected_errors"]

_mode: Final = between(0, 0o777, "must be a number between 0 and 0777 (octal), both inclusive")
_item: Final = struct(need("key"), need("path", reserved), given("mode", _mode))
files: Final = struct(given("defaultMode", _mode), at("items", each(_item)))
"""The rules of the files of a ConfigMap or a Secret."""


def _reference(file: Data, path: str) -> Errors:
    field, resource = file.get("fieldRef"), file.get("resourceFieldRef")
    if field is not None:
        errors = field_errors(field, f"{path}.fieldRef", VOLUME_FIELDS)
        words = "fieldRef and resourceFieldRef can not be specified simultaneously"
        return errors if resource is None else [*errors, invalid(path, "resource", words)]
    if resource is not None:
        return resource_errors(resource, f"{path}.resourceFieldRef", volume=True)
    return [required(path, "one of fieldRef and resourceFieldRef is required")]


_file: Final = struct(need("path", reserved), _reference, given("mode", _mode))
downward: Final = struct(
    given("defaultMode", _mode),
    lambda source, path: [error for file in source.get("items") or () for error in _file(file, path)],
)
"""The rules of files that show fields of the pod."""


def projected_errors(source: Data, path: str) -> Errors:
    """Check a volume of several sources, whose files may not have the same path."""
    errors = given("defaultMode", _mode)(source, path)
    seen: set[str] = set()
    for index, part in enumerate(source.get("sources") or ()):
        here = f"{path}.sources[{index}]"
        for kind in ("secret", "configMap"):
            if (named := part.get(kind)) is not None:
                errors += need("name")(named, f"{here}.{kind}")
                for number, item in enumerate(named.get("items") or ()):
                    errors += _item(item, f"{here}.{kind}.items[{number}]")
                    errors += _repeated(item.get("path", ""), seen, path, named.get("name", ""))
        for file in (part.get("downwardAPI") or {}).get("items") or ():
            errors += _file(file, f"{here}.downwardAPI")
            errors += _repeated(file.get("path", ""), seen, path, file.get("path", ""))
        if (token := part.get("serviceAccountToken")) is not None:
            errors += _lifetime(token, f"{here}.serviceAccountToken") + need("path", reserved)(token, path)
        if len(part) > 1:
            errors.append(forbidden(here, "may not specify more than 1 volume type per source"))
    return errors


def _repeated(file: str, seen: set[str], path: str, shown: str) -> Errors:
    """Note the path of a file; return an error if another file has the path."""
    if file and file in seen:
        return [invalid(path, shown, "conflicting duplicate paths")]
    seen.add(file)
    return []


def _lifetime(token: Data, path: str) -> Errors:
    seconds = token.get("expirationSeconds", 3600)
    wrong = "less than 10 minutes" if seconds < 600 else "larger than 2^32 seconds" if seconds > 1 << 32 else ""
    return [invalid(f"{path}.expirationSeconds", seconds, f"may not specify a duration {wrong}")] if wrong else []
