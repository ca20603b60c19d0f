"""`k8s.bnerd.com/v1alpha1`: pools of Nextclouds that are ready to be claimed.

NextcloudPool keeps a number of unassigned NextcloudInstances, a Nextcloud claims one for its tenant, a NextcloudProfile holds defaults, a
NextcloudVersionMap names the chart of each version.

Guarantees: group, kinds, fields, short names and labels equal the bnerd Nextcloud operator's, so its objects are accepted. `claimRef`,
`reclaimPolicy`, `instanceNamespace`, `allowedNamespaces` and the marked fields of a status are ours. No field that a tenant writes has a
default in the schema: a Nextcloud sets exactly the fields that its author wrote, and all other fields keep the values of the pool. The API
server itself checks that the claim of an instance never changes and is never removed, so a used instance cannot return to its pool, and
that an assigned Nextcloud is not pointed at another instance.

Caveats: Secrets (`credentialsSecret`) are named in the namespace of the NextcloudInstance. The operator checks which fields
of a Nextcloud it accepts (reconcilers/pools/tenant_fields.py); the schema does not know who writes.

Source: docs/reference/pools.md#kinds.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field

from konverge.crds.declaration import Column, Scale
from konverge.crds.durations import Duration, format_duration
from konverge.crds.markers import Atomic, Cel, Immutable, IntOrString, ListMap, ListSet, PreserveUnknown
from konverge.crds.resource import CustomResource, resource
from konverge.crds.status import Status
from konverge.model import Model

__all__ = [
    "GROUP",
    "MAX_INSTANCE_NAME",
    "MAX_POOL_NAME",
    "MIN_UNASSIGNED_AGE",
    "Admin",
    "AllowedNamespaces",
    "AppliedS3Config",
    "Backups",
    "BoundInstance",
    "ClaimRef",
    "DataBackup",
    "Database",
    "Helm",
    "ReleaseRef",
    "IngressSettings",
    "IngressTls",
    "InstanceRef",
    "InstanceSettings",
    "Lifecycle",
    "Mail",
    "NamespaceRequirement",
    "NamespaceSelector",
    "Nextcloud",
    "NextcloudInstance",
    "NextcloudInstanceSpec",
    "NextcloudInstanceStatus",
    "NextcloudPool",
    "NextcloudPoolSpec",
    "NextcloudPoolStatus",
    "NextcloudProfile",
    "NextcloudProfileSpec",
    "NextcloudSpec",
    "NextcloudStatus",
    "NextcloudVersionMap",
    "NextcloudVersionMapSpec",
    "NominatedInstance",
    "ObservedProfile",
    "Persistence",
    "Phase",
    "PoolSelector",
    "Postgres",
    "PostgresBackup",
    "PostgresBackupS3",
    "PostgresStorage",
    "ProfileRef",
    "ReclaimPolicy",
    "RecentCreation",
    "Redis",
    "Resources",
    "S3",
    "Template",
    "TemplateMetadata",
    "TemplateSettings",
    "VersionEntry",
]

GROUP = "k8s.bnerd.com"

MAX_POOL_NAME = 63
"""The longest name of a pool: it is the value of a label on each of its instances."""
MAX_INSTANCE_NAME = 47
"""The longest name of an instance: with a suffix of three characters it still names a CloudNativePG cluster (50) and a release (53)."""
MIN_UNASSIGNED_AGE = timedelta(minutes=10)
"""The shortest age for the replacement of unassigned instances: to create an instance takes minutes."""

_SUBDOMAIN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
_DNS_LABEL = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
_SERVICE_NAME = r"^[a-z]([-a-z0-9]*[a-z0-9])?$"
_LABEL_KEY = r"^([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$"
_LABEL_VALUE = r"^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$"
_HOST = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
_REGION = r"^[-A-Za-z0-9_]*$"
_QUANTITY = r"^(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTP]i)|[numkMGTPE]|Ei|([eE](\+|-)?[0-9]+))?$"
# No user and password (they would be stored in the clear), no query, no fragment.
_ENDPOINT = r"^(https?://)?[^\s/?#@]+(/[^\s?#@]*)?$"

ReclaimPolicy: TypeAlias = Literal["Delete", "Retain"]
Phase: TypeAlias = Literal["Pending", "Provisioning", "Ready", "Degraded", "Failed", "Deleting", "Released"]

ObjectName = Annotated[str, Field(min_length=1, max_length=253, pattern=_SUBDOMAIN)]
NamespaceName = Annotated[str, Field(min_length=1, max_length=63, pattern=_DNS_LABEL)]
Version = Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[A-Za-z0-9]([-+._A-Za-z0-9]*[A-Za-z0-9])?$")]
Amount = Annotated[int | str, IntOrString(_QUANTITY, max_length=64)]
Bucket = Annotated[str, Field(min_length=3, max_length=63, pattern=r"^[a-z0-9][-.a-z0-9]*[a-z0-9]$")]
Endpoint = Annotated[str, Field(max_length=2048, pattern=_ENDPOINT)]
Time = Annotated[str, Field(json_schema_extra={"format": "date-time"})]
# Both rules accept a stored value: the API server would refuse every other edit of such an object, its finalizers' too.
Labels = Annotated[
    dict[str, Annotated[str, Field(max_length=63)]],
    Field(max_length=64),
    Cel(
        "oldSelf.hasValue() && oldSelf.value() == self "
        f"|| self.all(key, key.matches('{_LABEL_KEY}') && self[key].matches('{_LABEL_VALUE}'))",
        "the API server refuses instances with such labels: a key is a name of at most 63 letters, digits, dashes, underscores and dots "
        "after an optional domain and slash, a value is such a name or empty",
        optional_old_self=True,
    ),
]
# The chart writes both into its manifests without quotes. A stored value is accepted, as in the rule of the labels.
HostName = Annotated[
    str,
    Field(min_length=1, max_length=253),
    Cel(
        f"oldSelf.hasValue() && oldSelf.value() == self || self.matches('{_HOST}')",
        "a host is a DNS name in lower case, without scheme, port and path",
        optional_old_self=True,
    ),
]
Region = Annotated[
    str,
    Field(max_length=63),
    Cel(
        f"oldSelf.hasValue() && oldSelf.value() == self || self.matches('{_REGION}')",
        "a region has letters, digits, dashes and underscores only",
        optional_old_self=True,
    ),
]
AppId = Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[A-Za-z0-9][-_A-Za-z0-9]*$")]


class IngressTls(Model):
    """TLS of the ingress."""

    enabled: bool | None = None
    """Whether the ingress serves HTTPS."""
    secret_name: ObjectName | None = None
    """The Secret with the certificate; left out, the name of the release with -tls. Not part of the original's API. A Secret that a
    Nextcloud names here or in `credentialsSecret` has the label `k8s.bnerd.com/tenant` with the namespace of the Nextcloud."""


class IngressSettings(Model):
    """The access to the Nextcloud from outside."""

    enabled: bool | None = None
    """Whether there is an ingress."""
    host: HostName | None = None
    """The host name."""
    class_name: ObjectName | None = None
    """The ingress class."""
    annotations: dict[str, str] | None = None
    """Annotations of the ingress. A Nextcloud sets only the annotations that the operator's settings allow."""
    tls: IngressTls | None = None


class PostgresStorage(Model):
    """The volume of the database."""

    size: Amount | None = None
    """How much is requested."""
    storage_class: ObjectName | None = None
    """The storage class; left out, the default of the cluster. Not part of the original's API."""


class PostgresBackupS3(Model):
    """Where the backups of the database are written."""

    bucket: Bucket | None = None
    endpoint: Endpoint | None = None
    credentials_secret: ObjectName | None = None
    """The Secret with the keys of the bucket."""


class PostgresBackup(Model):
    """Backups of the managed database."""

    enabled: bool | None = None
    s3: PostgresBackupS3 | None = None


class Postgres(Model):
    """The managed PostgreSQL cluster."""

    replicas: Annotated[int, Field(ge=1, le=16)] | None = None
    """How many members the cluster has; left out, 1."""
    storage: PostgresStorage | None = None
    backup: PostgresBackup | None = None


class Database(Model):
    """The database."""

    type: Literal["sqlite", "postgresql", "postgres", "pgsql", "mysql", "mariadb"] | None = None
    """Which database; left out, PostgreSQL if it is managed, else SQLite. postgres and pgsql mean postgresql."""
    managed: bool | None = None
    """Whether the operator creates the database: a CloudNativePG cluster. PostgreSQL only."""
    credentials_secret: ObjectName | None = None
    """The Secret with host, database, user and password of an external database."""
    delete_on_cleanup: bool | None = None
    """Whether the managed database is deleted with the instance; left out, it is kept."""
    postgres: Postgres | None = None


_MANAGED_IS_POSTGRESQL = Cel(
    "oldSelf.hasValue() && oldSelf.value() == self || !(has(self.managed) && self.managed && has(self.type)) "
    "|| !(self.type in ['sqlite', 'mysql', 'mariadb'])",
    "only PostgreSQL can be managed: set type to postgresql or leave it out, or set managed to false",
    optional_old_self=True,
)


class Redis(Model):
    """The cache."""

    enabled: bool | None = None
    credentials_secret: ObjectName | None = None
    """The Secret with the password; left out, one is generated."""


class S3(Model):
    """Object storage for the files."""

    enabled: bool | None = None
    """Whether files are kept in object storage."""
    bucket: Bucket | None = None
    """An existing bucket, which is never deleted; left out, one is created."""
    credentials_secret: ObjectName | None = None
    """The Secret with the keys of the bucket."""
    endpoint: Endpoint | None = None
    """The URL of the object storage; left out, the URL of the operator's settings. Not part of the original's API."""
    region: Region | None = None
    """The region. Not part of the original's API."""
    path_style: bool | None = None
    """Whether the bucket is in the path of a URL, and not in the host name; left out, as in the operator's settings. Not part of the
    original's API."""


class DataBackup(Model):
    """Backups of the files."""

    enabled: bool | None = None
    bucket: Bucket | None = None
    endpoint: Endpoint | None = None
    region: Region | None = None
    credentials_secret: ObjectName | None = None
    schedule: Annotated[str, Field(min_length=1, max_length=128)] | None = None
    """When, as cron writes it."""
    delete_on_cleanup: bool | None = None
    """Whether the backup is deleted with the instance; left out, it is kept."""


class Backups(Model):
    """Backups beside the database's."""

    data: DataBackup | None = None


class Admin(Model):
    """The administrator's account."""

    credentials_secret: ObjectName | None = None
    """The Secret with user and password; left out, one is generated."""


class Mail(Model):
    """Outgoing mail."""

    enabled: bool | None = None
    credentials_secret: ObjectName | None = None
    """The Secret with host, user and password of the mail server."""


class Resources(Model):
    """Requests and limits of the containers."""

    requests: dict[str, Amount] | None = None
    limits: dict[str, Amount] | None = None


class Persistence(Model):
    """The volume for files that are not in object storage."""

    enabled: bool | None = None
    size: Amount | None = None
    storage_class: ObjectName | None = None
    """The storage class; left out, the default of the cluster. Not part of the original's API."""


class Helm(Model):
    """The chart."""

    version: Version | None = None
    """The version of the chart; it wins over the version map."""
    values: Annotated[dict[str, Any] | None, PreserveUnknown(), Field(repr=False)] = None
    """Values of the chart; they win over everything that the operator generates. Secrets do not belong here."""


class InstanceSettings(Model):
    """The desired Nextcloud: the part that tenants, pools and profiles write alike. A field that is left out sets nothing."""

    version: Version | None = None
    """The version of Nextcloud: 33.0.1, a prefix (33: the newest 33.x), latest or stable."""
    replicas: Annotated[int, Field(ge=0, le=100)] | None = None
    """How many pods serve it."""
    ingress: IngressSettings | None = None
    database: Annotated[Database, _MANAGED_IS_POSTGRESQL] | None = None
    redis: Redis | None = None
    s3: S3 | None = None
    backups: Backups | None = None
    admin: Admin | None = None
    mail: Mail | None = None
    apps: Annotated[tuple[AppId, ...], ListSet(), Field(max_length=256)] | None = None
    """Apps that each start of a pod installs, if they are missing, and enables. An app that leaves the list stays as it is."""
    resources: Resources | None = None
    persistence: Persistence | None = None
    helm: Helm | None = None


class TemplateSettings(InstanceSettings):
    """The settings of pools and profiles for their instances: the part that tenants write too, and the rights of the release."""

    service_account_name: ObjectName | None = None
    """The service account in the namespace of the instance with whose rights Flux installs the chart; left out, the account of the
    operator's settings. Not part of the original's API."""
    tenant_helm: bool | None = None
    """Whether the Nextcloud of the instance may set `helm` and a flavour of the image (33.0.1-fpm); left out, the operator's settings
    decide. Such a tenant can read every Secret of the namespace: set it only if the namespace has one tenant. It needs a service
    account, and does not count in a profile that a Nextcloud names. Not part of the original's API."""


class ReleaseRef(Model):
    """The Flux HelmRelease that installs the Nextcloud."""

    name: str
    namespace: str


class InstanceRef(Model):
    """A NextcloudInstance."""

    name: ObjectName
    namespace: NamespaceName | None = None
    """Its namespace; left out, the operator's namespace for new instances."""


class BoundInstance(InstanceRef):
    """The NextcloudInstance that the operator bound."""

    uid: Annotated[str, Field(max_length=128)] | None = None
    """Its UID: an instance that is created later under the same name is another instance. Not part of the original's API."""


class NominatedInstance(Model):
    """The NextcloudInstance that the operator is about to take or to create for a Nextcloud: written before the instance is touched."""

    name: ObjectName
    namespace: NamespaceName
    uid: Annotated[str, Field(max_length=128)] | None = None
    """The UID of an instance that exists."""
    nonce_digest: Annotated[str, Field(max_length=64)] | None = None
    """The SHA-256 of the nonce that the new instance carries as an annotation."""
    pool: Annotated[str, Field(max_length=253)] | None = None
    """The pool of the instance."""


class NamespaceRequirement(Model):
    """A requirement on one label of a namespace."""

    key: Annotated[str, Field(min_length=1, max_length=317)]
    """The label."""
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    """How the label relates to the values."""
    values: Annotated[tuple[Annotated[str, Field(max_length=63)], ...], Field(max_length=64)] = ()
    """The values, for In and NotIn."""


@Cel(
    "(has(self.matchLabels) && self.matchLabels.size() > 0) || (has(self.matchExpressions) && self.matchExpressions.size() > 0)",
    "an empty selector would select every namespace: write from: All if that is meant",
)
class NamespaceSelector(Model):
    """Selects namespaces by their labels: all requirements must hold."""

    match_labels: Annotated[dict[str, Annotated[str, Field(max_length=63)]], Field(max_length=64)] = Field(
        default_factory=dict
    )
    """Labels with exactly these values."""
    match_expressions: Annotated[tuple[NamespaceRequirement, ...], Field(max_length=16)] = ()
    """Requirements on labels."""


@Cel(
    "self.from == 'Names' ? has(self.names) && self.names.size() > 0 : !has(self.names)",
    "names are needed with from: Names, and allowed only with it",
)
@Cel(
    "(self.from == 'Selector') == has(self.selector)",
    "a selector is needed with from: Selector, and allowed only with it",
)
class AllowedNamespaces(Model):
    """The namespaces whose Nextclouds may take an instance, as the allowedRoutes of a Gateway select the namespaces of its routes."""

    from_: Annotated[Literal["All", "Names", "Selector"], Field(alias="from")]
    """All namespaces, the namespaces in `names`, or the namespaces that `selector` selects."""
    names: Annotated[tuple[NamespaceName, ...], Atomic(), Field(max_length=256)] | None = None
    """The names of namespaces, with from: Names."""
    selector: NamespaceSelector | None = None
    """Selects namespaces by labels, with from: Selector. Every writer of these labels on a namespace opens it: choose labels that only
    administrators write."""


class PoolSelector(Model):
    """Which pools may serve the Nextcloud. An empty selector counts as none."""

    match_labels: Labels = Field(default_factory=dict)
    """The labels that an instance must have: its pool sets them with `template.metadata.labels`."""


class NextcloudSpec(InstanceSettings):
    """The desired state. instanceRef wins over poolSelector, which wins over profile; with none of them a bare instance is created."""

    instance_ref: InstanceRef | None = None
    """The instance to bind."""
    pool_selector: PoolSelector | None = None
    """Takes an idle instance of a pool; if there is none it waits, and no instance is created."""
    profile: ObjectName | None = None
    """The profile whose defaults a new instance gets. With poolSelector or instanceRef it is only recorded, but it must exist."""


class NextcloudStatus(Status):
    """The observed state; phase, helmRelease, url, version and most conditions are copied from the instance."""

    instance_ref: BoundInstance | None = None
    """The assigned instance."""
    nominated_instance: NominatedInstance | None = None
    """The instance that the operator is about to take or create; an instance is the Nextcloud's only if it was recorded here before. Not
    part of the original's API."""
    applied_profile: str | None = None
    phase: Phase | None = None
    helm_release: ReleaseRef | None = None
    url: str | None = None
    version: str | None = None
    pool: str | None = None
    """The pool of the instance before the assignment. Not part of the original's API."""
    assigned_at: Time | None = None
    """When the instance was assigned. Not part of the original's API."""


_INSTANCE_CONDITIONS = ("Ready", "SecretsReady", "DatabaseReady", "BucketReady", "BackupsReady", "ReleaseReady")

_ASSIGNED = "has(oldSelf.status) && has(oldSelf.status.instanceRef)"
_KEEPS_INSTANCE = Cel(
    f"!({_ASSIGNED}) || (has(oldSelf.spec.instanceRef) ? has(self.spec.instanceRef) && self.spec.instanceRef == oldSelf.spec.instanceRef "
    ": !has(self.spec.instanceRef) || self.spec.instanceRef.name == oldSelf.status.instanceRef.name)",
    "an assigned Nextcloud keeps its instance; delete it and create another to get another instance",
    reason="FieldValueForbidden",
    field_path=".spec",
)


@resource(
    f"{GROUP}/v1alpha1",
    plural="nextclouds",
    short_names=("nc",),
    conditions=("InstanceAssigned", "DriftFight", *_INSTANCE_CONDITIONS),
    columns=(
        Column("Phase", ".status.phase"),
        Column("URL", ".status.url"),
        Column("Version", ".status.version"),
        Column("Instance", ".status.instanceRef.name"),
        Column("Pool", ".status.pool"),
    ),
    rules=(_KEEPS_INSTANCE,),
    written_by="tenants",
)
class Nextcloud(CustomResource[NextcloudSpec, NextcloudStatus]):
    """A tenant's Nextcloud: claims an instance and configures it."""


class ClaimRef(Model):
    """The Nextcloud that an instance belongs to."""

    namespace: NamespaceName
    name: ObjectName
    uid: Annotated[str, Field(min_length=1, max_length=128)]


class NextcloudInstanceSpec(TemplateSettings):
    """The desired state."""

    profile: ObjectName | None = None
    """The profile whose defaults were merged into this spec when the instance was created."""
    claim_ref: (
        Annotated[
            ClaimRef,
            Immutable(
                "the claim of an instance cannot be changed or removed: a used instance never goes to another tenant"
            ),
        ]
        | None
    ) = None
    """The Nextcloud that has taken the instance; written once. Not part of the original's API."""
    reclaim_policy: ReclaimPolicy | None = None
    """The fate of the instance when its Nextcloud is deleted, as its pool had it at the claim. Not part of the original's API."""
    tenant_fields: Annotated[tuple[Annotated[str, Field(max_length=64)], ...], Field(max_length=32)] | None = None
    """The fields about Secrets and S3 servers that the Nextcloud set: it needs a grant for these Secrets, and no other credentials are sent
    to these servers. Not part of the original's API."""
    allowed_namespaces: AllowedNamespaces | None = None
    """The other namespaces whose Nextclouds may name this instance in instanceRef; left out, only the namespace of the instance. Not part
    of the original's API."""


class AppliedS3Config(Model):
    """The bucket in use."""

    auto_created: bool = False
    """Whether the operator created the bucket; only then the bucket is deleted with the instance."""
    bucket: str | None = None
    endpoint: str | None = None
    region: str | None = None
    named_by_tenant: bool | None = None
    """Whether the Nextcloud named the server or the credentials of the bucket. Not part of the original's API."""


class NextcloudInstanceStatus(Status):
    """The observed state."""

    phase: Phase | None = None
    helm_release: ReleaseRef | None = None
    url: str | None = None
    version: str | None = None
    applied_s3_config: Annotated[AppliedS3Config | None, Field(alias="appliedS3Config")] = None
    claim_ref: ClaimRef | None = None
    """A copy of spec.claimRef. Not part of the original's API."""
    assigned_at: Time | None = None
    """When the instance was first seen with a claim. Not part of the original's API."""
    ready_at: Time | None = None
    """When the instance became ready for the first time. Not part of the original's API."""


_INSTANCE_NAME = Cel(
    f"oldSelf.hasValue() || (self.metadata.name.size() <= {MAX_INSTANCE_NAME} && self.metadata.name.matches('{_SERVICE_NAME}'))",
    f"the name of a NextcloudInstance has at most {MAX_INSTANCE_NAME} lower-case letters, digits and dashes, and begins with a letter, "
    "because its release, its Services and its database are named after it; choose another name",
    optional_old_self=True,
)


@resource(
    f"{GROUP}/v1alpha1",
    short_names=("nci",),
    conditions=(*_INSTANCE_CONDITIONS, "MaintenanceRun"),
    columns=(
        Column("Phase", ".status.phase"),
        Column("Assigned", r".metadata.labels.k8s\.bnerd\.com/assigned"),
        Column("Nextcloud", ".spec.claimRef.name"),
        Column("Version", ".status.version"),
        Column("URL", ".status.url"),
    ),
    rules=(_INSTANCE_NAME,),
)
class NextcloudInstance(CustomResource[NextcloudInstanceSpec, NextcloudInstanceStatus]):
    """A Nextcloud that runs: a member of a pool, or assigned to a tenant."""


class ProfileRef(Model):
    """A NextcloudProfile."""

    name: ObjectName


class TemplateMetadata(Model):
    """Metadata of the instances of a pool."""

    labels: Labels = Field(default_factory=dict)
    """Labels of the instances: poolSelector.matchLabels of a Nextcloud selects them."""


class Template(Model):
    """The instances of a pool."""

    metadata: TemplateMetadata = TemplateMetadata()
    spec: TemplateSettings = TemplateSettings()
    """The spec of new instances; it wins over the profile."""


class Lifecycle(Model):
    """The life of instances over time."""

    recreate_on_profile_change: bool = False
    """Whether unassigned instances are replaced, a quarter of them at a time, when the profile changes."""
    max_unassigned_age: Annotated[
        Duration,
        Cel(
            f"duration(self) == duration('0s') || duration(self) >= duration('{format_duration(MIN_UNASSIGNED_AGE)}')",
            "instances that are replaced sooner than they are made never become ready: write at least "
            f"{format_duration(MIN_UNASSIGNED_AGE)}, or 0s for never",
        ),
    ] = timedelta(hours=168)
    """After this time an unassigned instance is replaced: at least 10m. 0s: never."""
    reclaim_policy: ReclaimPolicy = "Delete"
    """The fate of an instance whose Nextcloud is deleted. Retain keeps bucket, database, volumes, Secrets and namespace."""


class NextcloudPoolSpec(Model):
    """The desired state."""

    replicas: Annotated[int, Field(ge=0, le=10_000)] = 1
    """How many unassigned instances are kept."""
    profile_ref: ProfileRef | None = None
    """The profile whose defaults new instances get."""
    template: Template = Template()
    instance_namespace: NamespaceName | None = None
    """The namespace of the instances; left out, the namespace of the operator's settings. Not part of the original's API."""
    allowed_namespaces: AllowedNamespaces | None = None
    """The namespaces whose Nextclouds the pool serves; left out, none. An assigned Nextcloud keeps its instance. Not part of the original's
    API."""
    lifecycle: Lifecycle = Lifecycle()


class ObservedProfile(Model):
    """The profile as it was last seen."""

    name: str
    digest: str
    """The SHA-256 of the resolved profile."""
    observed_at: Time


class RecentCreation(Model):
    """The creation of an instance."""

    name: Annotated[str, Field(max_length=253)]
    created_at: Time
    """When the instance was created; of an instance that is still to be created, when its name was chosen."""
    nonce_digest: Annotated[str, Field(max_length=64)] | None = None
    """The SHA-256 of the nonce that the instance carries as an annotation: recorded before the creation, it proves who created it."""


class NextcloudPoolStatus(Status):
    """The observed state; only ready, assigned and observedProfile are part of the original's API."""

    ready: int = 0
    """Unassigned instances that are ready."""
    assigned: int = 0
    """Instances that a Nextcloud has taken."""
    unassigned: int = 0
    """Instances that no Nextcloud has taken, ready or not."""
    provisioning: int = 0
    """Unassigned instances that are not ready yet."""
    failed: int = 0
    """Unassigned instances that failed or made no progress for too long."""
    replicas: int = 0
    """Unassigned instances, as `kubectl scale` and autoscalers read them."""
    selector: str | None = None
    """The labels of the unassigned instances, for autoscalers."""
    observed_profile: ObservedProfile | None = None
    recent_creations: Annotated[tuple[RecentCreation, ...], ListMap("name")] | None = None
    """The creations of the last minute with a creation, also of deleted instances: the limit of creations counts them."""
    members: Annotated[tuple[Annotated[str, Field(max_length=128)], ...], Atomic(), Field(max_length=20_000)] | None = (
        None
    )
    """The UIDs of the unassigned instances that the operator created for the pool. Only listed instances are members; labels do not
    count."""
    adopted: Annotated[str, Field(max_length=256)] | None = None
    """The value of the annotation adopt-members at the last adoption."""


_SHORT_POOL_NAME = Cel(
    f"oldSelf.hasValue() || self.metadata.name.size() <= {MAX_POOL_NAME}",
    f"the name of a NextcloudPool has at most {MAX_POOL_NAME} characters, because it is the value of a label; choose a shorter one",
    optional_old_self=True,
)


@resource(
    f"{GROUP}/v1alpha1",
    short_names=("ncp",),
    scope="Cluster",
    conditions=("Ready", "ProfileResolved", "Progressing", "UnrecordedInstances"),
    columns=(
        Column("Desired", ".spec.replicas", type="integer"),
        Column("Ready", ".status.ready", type="integer"),
        Column("Provisioning", ".status.provisioning", type="integer"),
        Column("Assigned", ".status.assigned", type="integer"),
        Column("Profile", ".spec.profileRef.name"),
    ),
    scale=Scale(".spec.replicas", ".status.replicas", ".status.selector"),
    rules=(_SHORT_POOL_NAME,),
)
class NextcloudPool(CustomResource[NextcloudPoolSpec, NextcloudPoolStatus]):
    """Unassigned Nextclouds that are kept ready to be claimed."""


class NextcloudProfileSpec(Model):
    """The defaults."""

    defaults: TemplateSettings = TemplateSettings()
    """The values of new instances, unless the pool's template or the Nextcloud sets them."""


@resource(
    f"{GROUP}/v1alpha1",
    short_names=("ncprofile",),
    scope="Cluster",
    columns=(Column("Version", ".spec.defaults.version"),),
)
class NextcloudProfile(CustomResource[NextcloudProfileSpec, Status]):
    """Defaults that pools and Nextclouds share. Existing instances do not follow later edits."""


class VersionEntry(Model):
    """How one version of Nextcloud is installed."""

    version: Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[0-9]+(\.[0-9]+)*$")]
    """The exact version of Nextcloud, as in 33.0.1."""
    chart_version: Version
    """The version of the chart that installs it."""
    image: Annotated[str, Field(max_length=512)] | None = None
    """The image; left out, the chart's."""


class NextcloudVersionMapSpec(Model):
    """The known versions."""

    versions: Annotated[tuple[VersionEntry, ...], ListMap("version"), Field(max_length=512)] = ()
    """The known versions, in any order."""
    aliases: Annotated[dict[str, Annotated[str, Field(min_length=1, max_length=128)]], Field(max_length=64)] = Field(
        default_factory=dict
    )
    """Other words for a version: latest, stable."""


@resource(f"{GROUP}/v1alpha1", short_names=("ncvm",), scope="Cluster")
class NextcloudVersionMap(CustomResource[NextcloudVersionMapSpec, Status]):
    """The chart and image for each version of Nextcloud; without a map, the operator's settings apply."""
