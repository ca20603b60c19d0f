"""`apps.vworkspace.io/v1alpha1`: ApplicationInstance, an application that Helm installs through Flux.

Guarantees: group, kind, fields, columns and the shape of the status equal the vworkspace operator's, so its objects are accepted. The API
server checks everything that CEL can express; the message of each rule names the correct form.

The reconciler checks the rest (Blocked/ValidationFailed): that `release.namespace` is the namespace of the object (CEL
reads only name and generateName of metadata); secrets inside `values.inline` (CEL does not read unknown fields); that an
instance that becomes a placeholder owns no release (CEL reads only its status, which may lag behind).

Source: docs/reference/apps.md#api, docs/reference/apps.md#conditions, docs/reference/flux.md#rendered-objects.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from konverge.crds.declaration import Column
from konverge.crds.markers import Atomic, Cel, Immutable, PreserveUnknown
from konverge.crds.resource import CustomResource, resource
from konverge.crds.status import Status
from konverge.model import Model

__all__ = [
    "ADOPT",
    "GROUP",
    "MAX_NAME",
    "AppRef",
    "ApplicationInstance",
    "ApplicationInstanceSpec",
    "ApplicationInstanceStatus",
    "AppliedChart",
    "Chart",
    "Endpoint",
    "HelmReleaseRef",
    "Ingress",
    "Integrations",
    "KeyRef",
    "Release",
    "Switch",
    "Values",
]

GROUP = "apps.vworkspace.io"
ADOPT = "apps.vworkspace.io/adopt"
"""An annotation: with the value "true" an existing HelmRelease or source of the instance's name is taken over."""

MAX_NAME = 63
"""How long the name of a managed instance may be: helm-controller labels the HelmChart, and everything that the chart creates, with it."""

SourceType = Literal["oci", "helm"]

_SUBDOMAIN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
_DNS_LABEL = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
_KEY = r"^[-._a-zA-Z0-9]+$"
_CHART_NAME = r"^[a-zA-Z0-9]([-._a-zA-Z0-9]*[a-zA-Z0-9])?$"
# Semantic Versioning 2.0.0, with the "v" before it that many charts have: one version, never a range.
_EXACT_VERSION = (
    r"^v?(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)"
    r"(-(0|[1-9][0-9]*|[0-9]*[a-zA-Z-][0-9a-zA-Z-]*)(\.(0|[1-9][0-9]*|[0-9]*[a-zA-Z-][0-9a-zA-Z-]*))*)?"
    r"(\+[0-9a-zA-Z-]+(\.[0-9a-zA-Z-]+)*)?$"
)
# No user and password (they would be stored in the clear), no query, no fragment.
_URL = r"^(https?|oci)://[^\s/?#@]+(/[^\s?#@]*)?$"

ObjectName = Annotated[str, Field(min_length=1, max_length=253, pattern=_SUBDOMAIN)]
NamespaceName = Annotated[str, Field(min_length=1, max_length=63, pattern=_DNS_LABEL)]


class AppRef(Model):
    """The application in the catalogue."""

    catalog_id: Annotated[str, Field(min_length=1, max_length=253)]
    """The application's identity in the catalogue."""


@Cel(
    "self.sourceType != 'helm' || self.url.startsWith('https://') || self.url.startsWith('http://')",
    "sourceType helm needs an https:// or http:// URL of a chart repository; for an oci:// URL write sourceType: oci",
    field_path=".url",
)
@Cel(
    "self.sourceType != 'oci' || self.url.matches('^oci://[^/]+(/[a-z0-9._-]+)*/?$')",
    "sourceType oci needs a URL as in oci://registry.example.com/charts: lower case, without tag or digest",
    field_path=".url",
)
class Chart(Model):
    """The chart and its repository."""

    source_type: SourceType
    """helm: a chart repository over HTTP; oci: an OCI registry."""
    url: Annotated[str, Field(min_length=1, max_length=2048, pattern=_URL)]
    """The repository (https://, http://), or the registry and path that hold the chart (oci://)."""
    name: Annotated[
        str,
        Field(min_length=1, max_length=250, pattern=_CHART_NAME),
        Immutable(
            "the chart's name cannot be changed: Helm would uninstall the release and install another; delete the instance instead"
        ),
    ]
    """The chart's name. It cannot be changed, because Helm would uninstall one release and install another."""
    version: Annotated[str, Field(min_length=1, max_length=128, pattern=_EXACT_VERSION)]
    """One exact version (1.2.3, v1.2.3-rc.1), never a range."""


class Release(Model):
    """The Helm release. It cannot be renamed or moved, because Helm would uninstall it and install another.

    A placeholder may name a release too; nothing is installed for it.
    """

    name: Annotated[
        str, Field(min_length=1, max_length=53, pattern=_SUBDOMAIN), Immutable("the release cannot be renamed")
    ]
    """The name of the Helm release, at most 53 characters."""
    namespace: Annotated[NamespaceName, Immutable("the release cannot be moved to another namespace")]
    """The namespace of the release, which is the namespace of this object."""


class KeyRef(Model):
    """A key of a Secret or ConfigMap in the namespace of this object."""

    name: ObjectName
    """The name of the Secret or ConfigMap."""
    key: Annotated[str, Field(min_length=1, max_length=253, pattern=_KEY)]
    """The key whose value is a YAML document of chart values."""


@Cel(
    "has(self.inline) == (self.source == 'inline') && has(self.secretRef) == (self.source == 'secretRef') "
    "&& has(self.configMapRef) == (self.source == 'configMapRef')",
    "write exactly the field that source names: inline, secretRef or configMapRef",
)
class Values(Model):
    """The chart's values, from exactly one source."""

    source: Literal["inline", "secretRef", "configMapRef"]
    """Which of the fields below holds the values."""
    inline: Annotated[dict[str, Any] | None, PreserveUnknown(), Field(repr=False)] = None
    """The values themselves. Secrets do not belong here: use secretRef."""
    secret_ref: KeyRef | None = None
    """A key of a Secret. Its content is not copied."""
    config_map_ref: KeyRef | None = None
    """A key of a ConfigMap."""


class Switch(Model):
    """An integration that is on or off."""

    enabled: bool = False
    """Whether the integration is wanted."""


class Ingress(Switch):
    """Reachable from outside through an ingress."""

    host: Annotated[str, Field(max_length=253)] | None = None
    """The host name."""


class Integrations(Model):
    """Integrations that the platform adds to the application."""

    external_secrets: Switch | None = None
    """Secrets from an external store."""
    cert_manager: Switch | None = None
    """Certificates from cert-manager."""
    ingress: Ingress | None = None
    """An ingress."""


@Cel(
    "self.mode != 'managed' || (has(self.chart) && has(self.release) && has(self.values))",
    "mode managed needs chart, release and values",
)
@Cel(
    "self.mode != 'placeholder' || !(has(self.chart) || has(self.values))",
    "mode placeholder takes no chart or values: nothing is installed",
)
class ApplicationInstanceSpec(Model):
    """The desired state."""

    mode: Literal["managed", "placeholder"] = "managed"
    """managed: Helm installs the chart; placeholder: nothing is installed, the object only represents an application."""
    app_ref: AppRef
    chart: Chart | None = None
    release: Release | None = None
    values: Values | None = None
    service_account_name: ObjectName | None = None
    """The service account of this namespace with whose rights Flux installs the chart; the operator's settings list the allowed accounts
    and the default. Not part of the original's API."""
    integrations: Integrations | None = None


class HelmReleaseRef(Model):
    """The Flux HelmRelease of this instance."""

    name: str
    namespace: str


class AppliedChart(Model):
    """The chart that last became ready."""

    source_type: SourceType
    url: str
    name: str
    version: str


class Endpoint(Model):
    """Where the application can be reached."""

    name: str
    url: str
    type: str | None = None
    notes: str | None = None


class ApplicationInstanceStatus(Status):
    """The observed state."""

    helm_release_ref: HelmReleaseRef | None = None
    last_applied_chart: AppliedChart | None = None
    last_reconcile_time: Annotated[str, Field(json_schema_extra={"format": "date-time"})] | None = None
    """When the status last changed."""
    endpoints: Annotated[tuple[Endpoint, ...], Atomic()] = ()
    """Where the application can be reached."""


_MAY_OWN_A_RELEASE = "has(oldSelf.status) && has(oldSelf.status.helmReleaseRef)"
_BARE = "!has(oldSelf.spec.chart) && !has(oldSelf.spec.release)"
_BLOCKED = (
    "has(oldSelf.status) && has(oldSelf.status.conditions) "
    "&& oldSelf.status.conditions.exists(c, c.type == 'Blocked' && c.status == 'True')"
)
_STAYS_MANAGED = Cel(
    f"self.spec.mode == oldSelf.spec.mode || self.spec.mode == 'managed' || (!({_MAY_OWN_A_RELEASE}) && (({_BARE}) || ({_BLOCKED})))",
    "an instance that owns or may own a release cannot become a placeholder; delete it and create a placeholder",
)
_SHORT_NAME = Cel(
    f"self.spec.mode == 'placeholder' || self.metadata.name.size() <= {MAX_NAME} "
    "|| (oldSelf.hasValue() && oldSelf.value().spec.mode != 'placeholder')",
    f"the name of a managed instance has at most {MAX_NAME} characters, because Flux writes it into labels; choose a shorter one",
    optional_old_self=True,
)


@resource(
    f"{GROUP}/v1alpha1",
    short_names=("appinst",),
    conditions=("Ready", "Reconciling", "Degraded", "Suspended", "Blocked", "Deleting", "Stalled"),
    columns=(
        Column.condition("Ready"),
        Column("Chart", ".spec.chart.name"),
        Column("Version", ".spec.chart.version"),
    ),
    rules=(_STAYS_MANAGED, _SHORT_NAME),
    written_by="tenants",
)
class ApplicationInstance(CustomResource[ApplicationInstanceSpec, ApplicationInstanceStatus]):
    """An application that is installed from a Helm chart by Flux, or a placeholder for one."""

    @property
    def adopts(self) -> bool:
        """Whether an existing HelmRelease or source of this instance's name may be taken over."""
        return self.annotations.get(ADOPT) == "true"
