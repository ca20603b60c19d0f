"""One request for a resource, as read from its URL and parameters: verb, target, and the options of writes with their checks.

Guarantees: pure. `options_of` refuses the same options as the real server, with its messages (`pkg/apis/meta/v1/validation`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Final

from konverge_testing.apiserver.apply import Views, require_manager, validate_manager
from konverge_testing.apiserver.auth import Attributes
from konverge_testing.apiserver.golang import quoted
from konverge_testing.apiserver.requests import ADMIN, Call, User
from konverge_testing.apiserver.resources import Resource, Version
from konverge_testing.apiserver.statuses import FieldError, bad_request, invalid

__all__ = ["APPLY_TYPES", "ResourceRequest", "WriteOptions", "RequestInfo", "options_of", "require_timeout", "route"]

APPLY_TYPES: Final = frozenset({"application/apply-patch+yaml", "application/apply-patch"})
_VALIDATIONS: Final = ("Ignore", "Strict", "Warn")


@dataclass(frozen=True, slots=True)
class RequestInfo:
    """The target of a request, from its path and method. `group` is None for a non-resource path (`/version`)."""

    verb: str
    path: str
    group: str | None = None
    version: str = ""
    resource: str = ""
    namespace: str = ""
    name: str = ""
    subresource: str = ""

    def named(self, name: str) -> RequestInfo:
        """Return the target for one object of this collection."""
        return replace(self, name=name)


@lru_cache(maxsize=4096)
def route(attributes: Attributes) -> RequestInfo:
    """Return the target of a request; the name that a list selects by its field selector is not in its path."""
    if attributes.path:
        return RequestInfo(attributes.verb, attributes.path)
    name = "" if attributes.verb in ("deletecollection", "list", "watch") else attributes.name
    return RequestInfo(
        attributes.verb,
        "",
        attributes.group,
        attributes.version,
        attributes.resource,
        attributes.namespace,
        name,
        attributes.subresource,
    )


@dataclass(slots=True)
class WriteOptions:
    """The options of a write."""

    dry_run: bool = False
    manager: str = ""
    """As given, or ""."""
    validation: str = "Warn"
    force: bool = False


@dataclass(slots=True)
class ResourceRequest:
    """A request for a known resource."""

    call: Call
    info: RequestInfo
    resource: Resource
    version: Version
    user: User = ADMIN
    options: WriteOptions = field(default_factory=WriteOptions)
    warnings: list[str] = field(default_factory=list)
    views: Views | None = None
    """The object in other versions for field owners, if a webhook converts it."""

    @property
    def group(self) -> str:
        """The resource's group."""
        return self.resource.group

    @property
    def plural(self) -> str:
        """The resource's plural."""
        return self.resource.plural

    @property
    def namespace(self) -> str:
        """The namespace of the URL, "" for cluster-scoped resources."""
        return self.info.namespace if self.resource.namespaced else ""

    @property
    def api_version(self) -> str:
        """`group/version` of the URL."""
        return self.resource.api_version(self.version.name)

    @property
    def media_type(self) -> str:
        """The kind of the body, without parameters."""
        return self.call.headers.get("content-type", "").partition(";")[0].strip().lower()

    @property
    def agent(self) -> str:
        """The user agent's program."""
        return self.call.headers.get("user-agent", "")


_UNITS: Final = ("ns", "us", "µs", "μs", "ms", "s", "m", "h")
_AMOUNT: Final = re.compile(r"(?:\d+\.?\d*|\.\d+)")
_UNIT: Final = re.compile(r"[^.\d]*")


def require_timeout(call: Call) -> None:
    """Refuse a `timeout` that is not a duration of Go; its length is ignored."""
    given = call.query.get("timeout")
    wrong = _unfit_duration(given) if given else ""
    if wrong:
        raise bad_request(f"invalid timeout specified in the request URL - time: {wrong}")


def _unfit_duration(text: str) -> str:
    """Return the error of Go's `time.ParseDuration`, or "" for a duration.

    >>> _unfit_duration("1h1.5s"), _unfit_duration("5"), _unfit_duration("5x")
    ('', 'missing unit in duration "5"', 'unknown unit "x" in duration "5x"')
    """
    rest = text[1:] if text[:1] in ("+", "-") else text
    if rest == "0":
        return ""
    if not rest:
        return f"invalid duration {quoted(text)}"
    while rest:
        amount = _AMOUNT.match(rest)
        if amount is None:
            return f"invalid duration {quoted(text)}"
        rest = rest[amount.end() :]
        unit = _UNIT.match(rest)
        name = unit.group() if unit is not None else ""
        if not name:
            return f"missing unit in duration {quoted(text)}"
        if name not in _UNITS:
            return f"unknown unit {quoted(name)} in duration {quoted(text)}"
        rest = rest[len(name) :]
    return ""


def options_of(call: Call, kind: str, *, apply: bool = False, body: dict[str, Any] | None = None) -> WriteOptions:
    """Read and check the options of a write; `kind` is CreateOptions, UpdateOptions, PatchOptions or DeleteOptions.

    `body` holds the options in the body of a deletion; they take precedence over the parameters.
    """
    query, errors = call.query, []
    dry_runs = tuple((body or {}).get("dryRun") or ()) or query.all("dryRun")
    validation = query.get("fieldValidation") if kind != "DeleteOptions" else ""
    manager = query.get("fieldManager")
    errors += [
        FieldError("NotSupported", "dryRun", list(dry_runs), 'supported values: "All"')
        for one in dry_runs[:1]
        if set(dry_runs) != {"All"}
    ]
    if kind == "PatchOptions" and not apply and "force" in query:
        errors.append(FieldError("Forbidden", "force", None, "may not be specified for non-apply patch"))
    errors += require_manager(manager) if apply else validate_manager(manager)
    if validation and validation not in _VALIDATIONS:
        supported = ", ".join(f'"{one}"' for one in ("", *_VALIDATIONS))
        errors.append(FieldError("NotSupported", "fieldValidation", validation, f"supported values: {supported}"))
    if errors:
        raise invalid("meta.k8s.io", kind, "", errors)
    return WriteOptions(bool(dry_runs), manager, validation or "Warn", query.flag("force"))
