"""`validate_crd`: the errors of a CustomResourceDefinition, beyond generic metadata.

Guarantees: pure; `crd_default` ran before. Errors have the order and paths of the server's internal form, where fields that are equal in
all versions are at the top level. Not promised: certificates of conversion webhooks are not parsed; a violation in the stored CRD is not
tolerated at update. Source: apiextensions `pkg/apis/apiextensions/validation/validation.go`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from konverge_testing.apiserver.golang import quote
from konverge_testing.apiserver.names import dns1035_label, dns1123_subdomain
from konverge_testing.apiserver.schemas.crd.conversion import conversion_errors
from konverge_testing.apiserver.schemas.crd.internal import internal_spec, shown_versions, subschemas
from konverge_testing.apiserver.schemas.crd.schema import schema_errors
from konverge_testing.apiserver.schemas.fieldpath import find
from konverge_testing.apiserver.schemas.formats import unrecognized
from konverge_testing.apiserver.statuses import FieldError

__all__ = ["crd_warnings", "validate_crd"]

Data = dict[str, Any]

_COLUMN_TYPES: Final = ("boolean", "date", "integer", "number", "string")
_COLUMN_FORMATS: Final = ("byte", "date", "date-time", "double", "float", "int32", "int64", "password")
_MOST_SELECTABLE: Final = 8
_APPROVAL: Final = "api-approved.kubernetes.io"
_APPROVAL_PULL: Final = "see https://github.com/kubernetes/enhancements/pull/1111"


def validate_crd(crd: Data, old: Data | None = None) -> list[FieldError]:
    """Return the errors of a definition; `old` is None at creation."""
    written: Data = crd.get("spec") or {}
    spec = internal_spec(written)
    names, group = spec.get("names") or {}, spec.get("group") or ""
    errors: list[FieldError] = []
    if old is None and (name := crd["metadata"].get("name") or "") != f"{names.get('plural') or ''}.{group}":
        errors.append(FieldError("Invalid", "metadata.name", name, 'must be spec.names.plural+"."+spec.group'))
    errors += _spec(spec, _unchanged(written, old))
    if old is not None:
        errors += _immutable(spec, old)
    status = crd.get("status") or {}
    errors += _names(status.get("acceptedNames") or {}, "status.acceptedNames")
    errors += _stored(status.get("storedVersions") or [], spec["versions"])
    errors += _approval(crd, old)
    if written.get("preserveUnknownFields"):
        words = (
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"
        )
        errors.append(FieldError("Invalid", "spec.preserveUnknownFields", True, words))
    return errors


def _unchanged(spec: Data, old: Data | None) -> frozenset[str]:
    """Return the versions whose schema equals the stored schema: the costs of their rules are not checked."""
    before = {one.get("name"): one.get("schema") for one in ((old or {}).get("spec") or {}).get("versions") or ()}
    return frozenset(
        name
        for one in spec.get("versions") or ()
        if (name := one.get("name")) in before and before[name] == one.get("schema")
    )


def _spec(spec: Data, unchanged: frozenset[str]) -> list[FieldError]:
    errors = _group(spec.get("group") or "")
    scope = spec.get("scope") or ""
    if not scope:
        errors.append(FieldError("Required", "spec.scope"))
    elif scope not in ("Cluster", "Namespaced"):
        errors.append(FieldError("NotSupported", "spec.scope", scope, 'supported values: "Cluster", "Namespaced"'))
    if not (spec.get("validation") or {}).get("openAPIV3Schema"):
        for index, version in enumerate(spec["versions"]):
            if not (version.get("schema") or {}).get("openAPIV3Schema"):
                errors.append(FieldError("Required", f"spec.versions[{index}].schema.openAPIV3Schema"))
    errors += _versions(spec, unchanged)
    names = spec.get("names") or {}
    errors += [
        FieldError("Required", f"spec.names.{one}")
        for one in ("plural", "singular", "kind", "listKind")
        if not names.get(one)
    ]
    errors += _names(names, "spec.names")
    schema = (spec.get("validation") or {}).get("openAPIV3Schema")
    if schema is not None:
        path, same = "spec.validation.openAPIV3Schema", (spec["versions"] or [{}])[0].get("name") in unchanged
        errors += schema_errors(schema, path, has_status=_any_status(spec), unchanged=same)
    errors += _subresources(spec.get("subresources"), "spec.subresources")
    errors += _columns(spec.get("additionalPrinterColumns"), "spec.additionalPrinterColumns")
    if spec.get("selectableFields"):
        if spec.get("validation") is None:
            words = "may only be set when validations.schema is included"
            errors.append(FieldError("Invalid", "spec.selectableFields", "", words))
        else:
            errors += _selectable(spec["selectableFields"], schema or {}, "spec.selectableFields")
    return errors + conversion_errors(spec.get("conversion"), "spec.conversion")


def _group(group: str) -> list[FieldError]:
    if not group:
        return [FieldError("Required", "spec.group")]
    if found := dns1123_subdomain(group):
        return [FieldError("Invalid", "spec.group", group, ",".join(found))]
    if "." not in group:
        return [FieldError("Invalid", "spec.group", group, "should be a domain with at least one dot")]
    return []


def _versions(spec: Data, unchanged: frozenset[str]) -> list[FieldError]:
    errors: list[FieldError] = []
    versions = spec["versions"]
    lifted = any(version.get("subresources") is not None for version in versions)
    for index, version in enumerate(versions):
        path, name = f"spec.versions[{index}]", version.get("name") or ""
        if found := dns1035_label(name):
            errors.append(FieldError("Invalid", f"{path}.name", name, ",".join(found)))
        subresources = version.get("subresources") if lifted else spec.get("subresources")
        has_status, same = (subresources or {}).get("status") is not None, name in unchanged
        errors += _version(version, path, has_status=has_status, unchanged=same)
    seen = [version.get("name") or "" for version in versions]
    if len(set(seen)) != len(seen):
        errors.append(
            FieldError("Invalid", "spec.versions", shown_versions(versions), "must contain unique version names")
        )
    if sum(bool(version.get("storage")) for version in versions) != 1:
        words = "must have exactly one version marked as storage version"
        errors.append(FieldError("Invalid", "spec.versions", shown_versions(versions) or None, words))
    if seen and seen[0] and (found := dns1035_label(seen[0])):
        errors.append(FieldError("Invalid", "spec.version", seen[0], ",".join(found)))
    return errors


def _version(version: Data, path: str, *, has_status: bool, unchanged: bool) -> list[FieldError]:
    errors = _deprecation(version, f"{path}.deprecationWarning")
    schema = (version.get("schema") or {}).get("openAPIV3Schema")
    if schema is not None:
        errors += schema_errors(schema, f"{path}.schema.openAPIV3Schema", has_status=has_status, unchanged=unchanged)
    errors += _subresources(version.get("subresources"), f"{path}.subresources")
    errors += _columns(version.get("additionalPrinterColumns"), f"{path}.additionalPrinterColumns")
    if version.get("selectableFields"):
        if schema is None:
            words = "may only be set when `version.schema.openAPIV3Schema` is not included"
            errors.append(FieldError("Invalid", f"{path}.selectableFields", "", words))
        else:
            errors += _selectable(version["selectableFields"], schema, f"{path}.selectableFields")
    return errors


def _deprecation(version: Data, path: str) -> list[FieldError]:
    warning = version.get("deprecationWarning")
    if warning is None:
        return []
    if not version.get("deprecated"):
        return [FieldError("Invalid", path, warning, "can only be set for deprecated versions")]
    found = []
    if len(warning.encode()) > 256:
        found.append("must be <= 256 characters long")
    if not warning:
        found.append("must not be an empty string")
    for index, char in enumerate(warning):
        if not char.isprintable():
            at = len(warning[:index].encode())
            found.append(f"must only contain printable UTF-8 characters; non-printable character found at index {at}")
            break
    return [FieldError("Invalid", path, warning, words) for words in found]


def _any_status(spec: Data) -> bool:
    several = [spec.get("subresources"), *(version.get("subresources") for version in spec["versions"])]
    return any((one or {}).get("status") is not None for one in several)


def _names(names: Data, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for name in ("plural", "singular"):
        value = names.get(name) or ""
        if value and (found := dns1035_label(value)):
            errors.append(FieldError("Invalid", f"{path}.{name}", value, ",".join(found)))
    for name in ("kind", "listKind"):
        value = names.get(name) or ""
        if value and (found := dns1035_label(value.lower())):
            words = f"may have mixed case, but should otherwise match: {','.join(found)}"
            errors.append(FieldError("Invalid", f"{path}.{name}", value, words))
    errors += _labels(names, "shortNames", path)
    if names.get("kind") and names["kind"] == names.get("listKind"):
        errors.append(FieldError("Invalid", f"{path}.listKind", names["kind"], "kind and listKind may not be the same"))
    return errors + _labels(names, "categories", path)


def _labels(names: Data, field: str, path: str) -> list[FieldError]:
    found = [
        (f"{path}.{field}[{index}]", value, dns1035_label(value)) for index, value in enumerate(names.get(field) or ())
    ]
    return [FieldError("Invalid", here, value, ",".join(wrong)) for here, value, wrong in found if wrong]


def _simple_path(text: str, path: str) -> list[FieldError]:
    if not text.startswith("."):
        return [FieldError("Invalid", path, text, "must be a simple json path starting with .")]
    return []


def _subresources(found: Any, path: str) -> list[FieldError]:
    scale = (found or {}).get("scale")
    if scale is None:
        return []
    errors: list[FieldError] = []
    for name, under in (("specReplicasPath", ".spec"), ("statusReplicasPath", ".status")):
        text, here = scale.get(name) or "", f"{path}.scale.{name}"
        if not text:
            errors.append(FieldError("Required", here))
        elif wrong := _simple_path(text, here):
            errors += wrong
        elif not text.startswith(f"{under}."):
            errors.append(FieldError("Invalid", here, text, f"should be a json path under {under}"))
    if text := scale.get("labelSelectorPath"):
        here = f"{path}.scale.labelSelectorPath"
        if wrong := _simple_path(text, here):
            errors += wrong
        elif not text.startswith((".spec.", ".status.")):
            errors.append(FieldError("Invalid", here, text, "should be a json path under either .spec or .status"))
    return errors


def _columns(columns: Any, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, column in enumerate(columns or ()):
        here = f"{path}[{index}]"
        if not column.get("name"):
            errors.append(FieldError("Required", f"{here}.name"))
        kind, form, json_path = (column.get(name) or "" for name in ("type", "format", "jsonPath"))
        if kind not in _COLUMN_TYPES:
            words = f"must be one of {','.join(_COLUMN_TYPES)}"
            errors.append(FieldError("Invalid" if kind else "Required", f"{here}.type", kind, words))
        if form and form not in _COLUMN_FORMATS:
            errors.append(FieldError("Invalid", f"{here}.format", form, f"must be one of {','.join(_COLUMN_FORMATS)}"))
        errors += (
            _simple_path(json_path, f"{here}.JSONPath") if json_path else [FieldError("Required", f"{here}.JSONPath")]
        )
    return errors


def _selectable(fields: list[Data], schema: Mapping[str, Any], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, field in enumerate(fields):
        text, here = field.get("jsonPath") or "", f"{path}[{index}].jsonPath"
        if not text:
            errors.append(FieldError("Required", here))
            continue
        found = find(text, schema, arrays=False)
        if found.wrong:
            errors.append(FieldError("Invalid", here, text, f"is an invalid path: {found.wrong}"))
            continue
        if found.root == "metadata":
            errors.append(FieldError("Invalid", here, text, "must not point to fields in metadata"))
        if (found.schema or {}).get("type") not in ("string", "boolean", "integer"):
            words = "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed."
            errors.append(FieldError("Invalid", here, text, words))
        if found.path in seen:
            errors.append(FieldError("Duplicate", here, text))
        seen.add(found.path)
    if len(seen) > _MOST_SELECTABLE:
        errors.append(FieldError("TooMany", path, len(seen), f"must have at most {_MOST_SELECTABLE} items"))
    return errors


def _immutable(spec: Data, old: Data) -> list[FieldError]:
    before = old.get("spec") or {}
    conditions = (old.get("status") or {}).get("conditions") or ()
    established = any(one.get("type") == "Established" and one.get("status") == "True" for one in conditions)
    names, names_before = spec.get("names") or {}, before.get("names") or {}
    pairs = [
        ("spec.scope", spec.get("scope"), before.get("scope")),
        ("spec.names.kind", names.get("kind"), names_before.get("kind")),
    ]
    pairs = pairs if established else []
    pairs.append(("spec.group", spec.get("group"), before.get("group")))
    pairs.append(("spec.names.plural", names.get("plural"), names_before.get("plural")))
    return [FieldError("Invalid", path, new or "", "field is immutable") for path, new, was in pairs if new != was]


def _stored(stored: list[str], versions: list[Data]) -> list[FieldError]:
    path = "status.storedVersions"
    if not stored:
        return [FieldError("Invalid", path, None, "must have at least one stored version")]
    names = [version.get("name") or "" for version in versions]
    storage = [version.get("name") or "" for version in versions if version.get("storage")]
    errors = [
        FieldError("Invalid", path, stored, f"must have the storage version {name}")
        for name in storage
        if name not in stored
    ]
    for index, name in enumerate(stored):
        if name not in names:
            words = (
                f"missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions until a "
                f"storage migration ensures no data remains persisted in {name} and removes {name} from status.storedVersions"
            )
            errors.append(FieldError("Invalid", f"{path}[{index}]", name, words))
    return errors


def _approval_state(crd: Data) -> tuple[str, str]:
    text = (crd["metadata"].get("annotations") or {}).get(_APPROVAL) or ""
    if not text:
        return "missing", f"protected groups must have approval annotation {quote(_APPROVAL)}, {_APPROVAL_PULL}"
    url = urlsplit(text)
    if text.startswith("unapproved") or (url.scheme and url.netloc):
        return "good", ""
    words = f'protected groups must have approval annotation {quote(_APPROVAL)} with either a URL or a reason starting with "unapproved"'
    return "wrong", f"{words}, {_APPROVAL_PULL}"


def _approval(crd: Data, old: Data | None) -> list[FieldError]:
    group = (crd.get("spec") or {}).get("group") or ""
    if group not in ("k8s.io", "kubernetes.io") and not group.endswith((".k8s.io", ".kubernetes.io")):
        return []
    state, words = _approval_state(crd)
    if state == "good" or (old is not None and _approval_state(old)[0] == state):
        return []
    path = f"metadata.annotations[{_APPROVAL}]"
    if state == "missing":
        return [FieldError("Required", path, "", words)]
    return [FieldError("Invalid", path, crd["metadata"]["annotations"][_APPROVAL], words)]


def crd_warnings(crd: Data, old: Data | None = None) -> list[str]:
    """Return the warnings for new formats that the server does not know."""
    known = set(_unrecognized(old)) if old is not None else set()
    return [f"unrecognized format {quote(name)}" for name in _unrecognized(crd) if name not in known]


def _unrecognized(crd: Data) -> list[str]:
    spec = internal_spec(crd.get("spec") or {})
    several = [spec.get("validation"), *(version.get("schema") for version in spec["versions"])]
    schemas = [one["openAPIV3Schema"] for one in several if one and one.get("openAPIV3Schema")]
    return [found for schema in schemas for place in subschemas(schema) if (found := unrecognized(place))]
