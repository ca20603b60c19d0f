"""A webhook's JSON patch, with the reason why it does not apply: the server reports the reason for webhooks, but not for clients. Pure.

The package `patch` applies the patch; the messages are from evanphx/json-patch v4, the library of a real server for webhooks' patches.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from konverge_testing.apiserver.admission.call import AdmissionCall, Data
from konverge_testing.apiserver.patch import json_patch
from konverge_testing.apiserver.statuses import FieldError, StatusError, internal, invalid

__all__ = ["check_identity", "patched"]

_MISSING = "missing value"
_OPERATIONS = frozenset({"add", "copy", "move", "remove", "replace", "test"})


def patched(found: Data, operations: Sequence[Data]) -> Data:
    """Return a patched object; raises the server's 500 if an operation does not apply."""
    for operation in operations:
        try:
            found = json_patch(found, [operation])
        except StatusError as error:
            raise internal(_why(found, operation)) from error
    return found


def check_identity(call: AdmissionCall, after: Data, shown: Data, registered: Callable[[str, str], bool]) -> None:
    """Refuse a patched object whose kind or version changed; of built-in kinds, restore a removed kind or version.

    `registered` reports whether an apiVersion has a built-in kind.
    """
    if call.resource.custom and call.group_kind is None:
        _check_custom(call, after, shown)
        return
    if not after.get("kind"):
        after["kind"] = shown["kind"]
    if not after.get("apiVersion"):
        after["apiVersion"] = shown["apiVersion"]
    kind, api_version = str(after["kind"]), str(after["apiVersion"])
    if (api_version, kind) == (shown["apiVersion"], shown["kind"]):
        return
    if not registered(api_version, kind):
        scheme = 'in scheme "pkg/runtime/scheme.go:111"'
        raise internal(f'no kind "{kind}" is registered for version "{api_version}" {scheme}')
    version = api_version.rpartition("/")[2]
    inside = f"{(call.kind[0] or 'core').partition('.')[0]}.{call.kind[2]}"
    raise StatusError(500, "", f"converting ({version}.{kind}) to ({inside}): unknown conversion")


def _check_custom(call: AdmissionCall, after: Data, shown: Data) -> None:
    kind, api_version = str(after.get("kind") or ""), str(after.get("apiVersion") or "")
    if not kind:
        raise internal(f"Object 'Kind' is missing in '{json.dumps(after, sort_keys=True, separators=(',', ':'))}'")
    group, _, version = api_version.rpartition("/")
    if group != call.resource.group:
        words = f"{api_version or '/'}, Kind={kind} is unstructured and is not suitable for converting to"
        raise StatusError(500, "", f"{words} {json.dumps(shown['apiVersion'])}")
    if call.resource.version(version) is None:
        raise StatusError(500, "", f"request to convert CR from an invalid group/version: {api_version}")
    if kind != call.resource.kind:
        wrong = FieldError("Invalid", "kind", kind, f"must be {call.resource.kind}")
        raise invalid(call.resource.group, kind, str((after.get("metadata") or {}).get("name") or ""), [wrong])


def _why(found: Data, operation: Data) -> str:
    verb, path = str(operation.get("op", "")), str(operation.get("path", ""))
    if verb not in _OPERATIONS:
        return f"Unexpected kind: {verb}"
    if verb in ("copy", "move"):
        return _why_not_from(found, verb, str(operation.get("from", "")), path)
    container, key = _container_of(found, path)
    if container is None:
        shown = f'"{path}"' if verb in ("add", "remove") else path
        words = "is missing path" if verb == "test" else "doc is missing path"
        return f"{verb} operation does not apply: {words}: {shown}: {_MISSING}"
    problem = _problem(container, key, verb)
    if verb == "replace":
        return f"replace operation does not apply: doc is missing key: {path}: {_MISSING}"
    if verb == "test" and not problem:
        return f"testing value {path} failed: test failed"
    return f"error in {verb} for path: '{path}': {problem}"


def _why_not_from(found: Data, verb: str, origin: str, path: str) -> str:
    container, key = _container_of(found, origin)
    if container is None:
        return f"{verb} operation does not apply: doc is missing from path: {origin}: {_MISSING}"
    if problem := _problem(container, key, "get"):
        where = f"for from: '{origin}'" if verb == "copy" else f"for path: '{key}'"
        return f"error in {verb} {where}: {problem}"
    return f"{verb} operation does not apply: doc is missing destination path: {path}: {_MISSING}"


def _container_of(found: Any, path: str) -> tuple[dict[str, Any] | list[Any] | None, str]:
    """Return the container of the last part of a path, or None if it does not exist; and that part."""
    *parts, key = [part.replace("~1", "/").replace("~0", "~") for part in path.split("/")[1:]] or [""]
    for part in parts:
        if isinstance(found, list) and part.isdigit() and int(part) < len(found):
            found = found[int(part)]
        else:
            found = found.get(part) if isinstance(found, dict) else None
    return (found if isinstance(found, (dict, list)) else None), key


def _problem(container: dict[str, Any] | list[Any], key: str, verb: str) -> str:
    """Return the error of a key in a container, or ""."""
    if isinstance(container, dict):
        if key in container or verb in ("add", "test"):
            return ""
        return f"Unable to {'remove' if verb == 'remove' else 'get'} nonexistent key: {key}: {_MISSING}"
    if not key.lstrip("-").isdigit():
        parsing = f'strconv.Atoi: parsing "{key}": invalid syntax'
        return f"value was not a proper array index: '{key}': {parsing}" if verb == "add" else parsing
    size = len(container) + (verb == "add")
    return "" if -size <= int(key) < size else f"Unable to access invalid index: {key}: invalid index referenced"
