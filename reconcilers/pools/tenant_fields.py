"""The fields of an instance that a tenant may set, and the fields whose writer the instance records. Pure.

Flux installs the chart of an instance, so the author of the chart's values acts with the rights of Flux or of the service account. A
tenant is this author only if the administrators allow it (`tenantHelm`) and a service account limits it. A Secret that a tenant names is in
a namespace of other tenants, so its label has to name the tenant. Credentials go only to a server that the same side named.

Guarantees: a Nextcloud with a refused field changes nothing; `CHECKS` is the policy, in the order of the message. A message names fields
and remedies, and neither values nor objects of others.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from konverge.crds.pools_v1alpha1 import InstanceSettings, NextcloudInstanceSpec
from konverge.errors import KonvergeError
from konverge.objects import Object
from konverge.reconcilers.pools.words import PoolsLabel
from konverge.reconcilers.shared.endpoints import EndpointPolicy, is_host_name

if TYPE_CHECKING:
    from konverge.reconcilers.pools.instances.settings import MaterialSettings

__all__ = [
    "TENANT_FIELDS",
    "FieldsRefused",
    "TenantPolicy",
    "check_tenant",
    "defaults_without_pool",
    "endpoint_policy",
    "grants",
    "policy_of",
    "recorded_fields",
    "refusal",
    "secrets_of_tenant",
]

TENANT_FIELDS: Final = frozenset(field.alias or name for name, field in InstanceSettings.model_fields.items())
"""The fields of an instance that a Nextcloud has too; no other field of a Nextcloud reaches its instance."""
_SERVERS: Final = ("s3", "backups.data", "database.postgres.backup.s3")
"""The parts that name an S3 server, a bucket of it and the Secret with its keys."""
_SECRETS: Final = (
    *(f"{server}.credentialsSecret" for server in _SERVERS),
    *("admin.credentialsSecret", "database.credentialsSecret", "redis.credentialsSecret", "mail.credentialsSecret"),
    "ingress.tls.secretName",
)
_RECORDED: Final = (*_SECRETS, *(f"{server}.endpoint" for server in _SERVERS))
_RELEASE: Final = re.compile(r"[0-9]+(\.[0-9]+)*")
_REGION: Final = re.compile(r"[-A-Za-z0-9_]*")
_ANNOTATION: Final = re.compile(r"[-A-Za-z0-9 ._:/,@+=%*]{0,1024}")
"""No character that ends a directive or a string: ingress controllers write values into their own configuration."""
_MOST: Final = 1000


class FieldsRefused(KonvergeError):
    """The Nextcloud sets fields that its tenant may not set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantPolicy:
    """The limits of the tenant of one instance."""

    endpoints: EndpointPolicy
    annotations: tuple[str, ...] = ()
    helm: bool = False
    needs_account: bool = False
    """Whether `helm` is refused only because no service account limits it."""


def endpoint_policy(settings: MaterialSettings) -> EndpointPolicy:
    """Return the S3 servers that tenants may name."""
    return EndpointPolicy(settings.s3_endpoints, setting="pools.instances.s3_endpoints")


def policy_of(spec: Mapping[str, Any], settings: MaterialSettings) -> TenantPolicy:
    """Return the policy from the spec of an instance, or from the defaults of the profile of a new instance."""
    stated = spec.get("tenantHelm")
    wanted = settings.tenant_helm if stated is None else stated is True
    limited = bool(spec.get("serviceAccountName") or settings.service_account)
    return TenantPolicy(
        endpoints=endpoint_policy(settings),
        annotations=settings.tenant_annotations,
        helm=wanted and limited,
        needs_account=wanted and not limited,
    )


def defaults_without_pool(defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Return the defaults of a profile for an instance without a pool.

    Every tenant may name every profile, so a profile opens the chart only for the pools that name it.

    >>> defaults_without_pool({"tenantHelm": True, "replicas": 2})
    {'replicas': 2}
    """
    return {name: value for name, value in defaults.items() if name != "tenantHelm"}


Check: TypeAlias = Callable[[Mapping[str, Any], TenantPolicy], Iterator[str]]


def chart_is_the_administrators(spec: Mapping[str, Any], policy: TenantPolicy) -> Iterator[str]:
    """Version and values of the chart can add any object to it, a ClusterRoleBinding too."""
    fields = [f"helm.{name}" for name in ("version", "values") if _at(spec, f"helm.{name}") is not None]
    if not fields or policy.helm:
        return
    if policy.needs_account:
        yield f"{' and '.join(fields)}: tenantHelm needs a service account; the administrators set pools.instances.service_account"
    else:
        yield f"{' and '.join(fields)}: only the administrators set this, in a NextcloudPool or a NextcloudProfile"


def version_is_a_release(spec: Mapping[str, Any], policy: TenantPolicy) -> Iterator[str]:
    """A version of three parts that no map has is the tag of the image."""
    version = str(spec.get("version") or "")
    if version.count(".") >= 2 and not _RELEASE.fullmatch(version) and not policy.helm:
        yield "version: write numbers with dots between them, as in 33.0.1"


def host_is_a_name(spec: Mapping[str, Any], _policy: TenantPolicy) -> Iterator[str]:
    """The chart writes the host into its manifests without quotes."""
    host = _at(spec, "ingress.host")
    if host is not None and not is_host_name(str(host)):
        yield "ingress.host: write a DNS name in lower case"


def regions_are_words(spec: Mapping[str, Any], _policy: TenantPolicy) -> Iterator[str]:
    """A region becomes a variable of containers, and Kubernetes expands references to other variables in it."""
    for field in ("s3.region", "backups.data.region"):
        if not _REGION.fullmatch(str(_at(spec, field) or "")):
            yield f"{field}: use letters, digits, dashes and underscores only"


def annotations_are_allowed(spec: Mapping[str, Any], policy: TenantPolicy) -> Iterator[str]:
    """Annotations are configuration of the ingress controller, which all tenants share."""
    given = _at(spec, "ingress.annotations")
    for name, value in given.items() if isinstance(given, Mapping) else ():
        if not any(
            name == entry or (entry.endswith("*") and name.startswith(entry[:-1])) for entry in policy.annotations
        ):
            yield f"ingress.annotations {name}: pools.instances.tenant_annotations does not allow it"
        elif not _ANNOTATION.fullmatch(str(value)):
            yield f"ingress.annotations {name}: its value has a character that ingress controllers interpret"


def endpoints_are_allowed(spec: Mapping[str, Any], policy: TenantPolicy) -> Iterator[str]:
    """The daemon and the pods of the instance send credentials to these servers."""
    for server in _SERVERS:
        endpoint = _at(spec, f"{server}.endpoint")
        problem = "" if endpoint is None else policy.endpoints.refusal(str(endpoint))
        if problem:
            yield f"{server}.endpoint: {problem}"


def credentials_belong_to_the_server(spec: Mapping[str, Any], _policy: TenantPolicy) -> Iterator[str]:
    """Credentials of the administrators reach buckets of all tenants, and are sent to no server that a tenant names."""
    for server in _SERVERS:
        fields = [f"{server}.{name}" for name in ("endpoint", "bucket") if _at(spec, f"{server}.{name}") is not None]
        if fields and _at(spec, f"{server}.credentialsSecret") is None:
            yield f"{' and '.join(fields)}: name a Secret of your own in {server}.credentialsSecret too, or leave it to the administrators"


CHECKS: Final[tuple[Check, ...]] = (
    chart_is_the_administrators,
    version_is_a_release,
    host_is_a_name,
    regions_are_words,
    annotations_are_allowed,
    endpoints_are_allowed,
    credentials_belong_to_the_server,
)


def refusal(spec: Mapping[str, Any], policy: TenantPolicy) -> str:
    """Return why a tenant may not set these fields, "" if it may.

    >>> from konverge.reconcilers.pools.instances import MaterialSettings
    >>> refusal({"helm": {"values": {}}}, policy_of({}, MaterialSettings()))
    'helm.values: only the administrators set this, in a NextcloudPool or a NextcloudProfile'
    """
    text = "; ".join(problem for check in CHECKS for problem in check(spec, policy))
    return text if len(text) <= _MOST else f"{text[:_MOST]}..."


def check_tenant(spec: Mapping[str, Any], policy: TenantPolicy) -> None:
    """Raise FieldsRefused if a tenant may not set these fields."""
    problem = refusal(spec, policy)
    if problem:
        raise FieldsRefused(problem)


def recorded_fields(spec: Mapping[str, Any]) -> list[str]:
    """Return the fields about Secrets and servers that a tenant sets, for `spec.tenantFields` of its instance.

    >>> recorded_fields({"s3": {"credentialsSecret": "mine", "bucket": "b"}, "replicas": 2})
    ['s3.credentialsSecret']
    """
    return [field for field in _RECORDED if _at(spec, field) is not None]


def secrets_of_tenant(spec: NextcloudInstanceSpec) -> list[str]:
    """Return the names of the Secrets that the Nextcloud named, used or not."""
    fields = spec.tenant_fields or ()
    wire = spec.wire() if fields else {}
    names = [str(_at(wire, field)) for field in _SECRETS if field in fields and _at(wire, field) is not None]
    return list(dict.fromkeys(names))


def grants(secret: Object | None, tenant: str) -> bool:
    """Tell whether a Secret lets the Nextclouds of a namespace use it: only a writer of the Secret can label it."""
    return secret is not None and bool(tenant) and secret.metadata.label(PoolsLabel.TENANT) == tenant


def _at(spec: Mapping[str, Any], field: str) -> Any:
    value: Any = spec
    for name in field.split("."):
        if not isinstance(value, Mapping):
            return None
        value = value.get(name)
    return value
