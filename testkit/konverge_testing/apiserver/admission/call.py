"""`AdmissionCall`: one write as admission sees it, before it is stored. Pure data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

from konverge_testing.apiserver.requests import ADMIN, User
from konverge_testing.apiserver.resources import Resource
from konverge_testing.apiserver.statuses import StatusError, forbidden

__all__ = ["CONFIGURATIONS", "AdmissionCall", "Data", "Operation", "denied"]

Data: TypeAlias = dict[str, Any]
Operation: TypeAlias = Literal["CONNECT", "CREATE", "DELETE", "UPDATE"]

CONFIGURATIONS: Final = frozenset(
    {
        "mutatingadmissionpolicies",
        "mutatingadmissionpolicybindings",
        "mutatingwebhookconfigurations",
        "validatingadmissionpolicies",
        "validatingadmissionpolicybindings",
        "validatingwebhookconfigurations",
    }
)
"""Resources of admissionregistration.k8s.io: no webhook is called for them."""


@dataclass(slots=True)
class AdmissionCall:
    """One write. `object` and `old` are whole objects in `version`; None if the operation has none."""

    operation: Operation
    resource: Resource
    version: str
    namespace: str = ""
    """The namespace of the request; for a Namespace, its own name, as a real server has it."""
    name: str = ""
    """The name in the request; "" if it is not generated yet."""
    object: Data | None = None
    old: Data | None = None
    user: User = ADMIN
    subresource: str = ""
    dry_run: bool = False
    options: Data | None = None
    """The CreateOptions, UpdateOptions, PatchOptions or DeleteOptions of the request, with kind and apiVersion, as sent to webhooks."""
    group_kind: tuple[str, str, str] | None = None
    """The group, version and kind of `object` if a subresource has a kind of its own (Scale, Eviction, TokenRequest)."""
    warnings: list[str] = field(default_factory=list)
    """Warnings of webhooks for the client; the shell sends them."""

    @property
    def id(self) -> tuple[str, str]:
        """Group and plural."""
        return self.resource.id

    @property
    def kind(self) -> tuple[str, str, str]:
        """Group, version and kind of the object."""
        return self.group_kind or (self.resource.group, self.version, self.resource.kind)


def denied(call: AdmissionCall, why: str) -> StatusError:
    """Return the 403 of an admission plugin; it names the object if the object has a name."""
    name = call.name
    if not name:
        metadata = (call.object or {}).get("metadata") or {}
        name = metadata.get("name") or metadata.get("generateName") or "Unknown"
    return forbidden(call.resource.group, call.resource.plural, name, why)
