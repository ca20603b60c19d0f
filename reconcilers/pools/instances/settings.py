"""Settings of the controller of instances: each with its unit, default and reason."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from konverge.reconcilers.shared.endpoints import EndpointEntry

__all__ = ["MaterialSettings"]

Seconds = Annotated[float, Field(gt=0)]


class MaterialSettings(BaseModel):
    """Settings of the controller that creates the objects of instances.

    >>> MaterialSettings().chart
    'nextcloud'
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    chart_url: str = "https://nextcloud.github.io/helm/"
    """The repository of the chart, https or oci."""
    chart: str = "nextcloud"
    """The chart; its values are those of nextcloud/helm."""
    chart_version: str = "6.6.10"
    """The chart of versions that neither helm.version nor a map names; such a version is the tag of the image."""
    versions: dict[str, str] = Field(default_factory=dict)
    """The built-in version map: exact versions of Nextcloud and the chart that installs each. A NextcloudVersionMap replaces it."""
    aliases: dict[str, str] = Field(default_factory=dict)
    """Other words for versions of the map."""
    service_account: str = ""
    """The service account that Flux installs the charts with, in the namespace of each instance without an account of its pool or profile.
    Empty: Flux's own rights, which are normally the rights on the whole cluster."""
    allowed_service_accounts: tuple[str, ...] = ()
    """Names that `serviceAccountName` of a pool's template or a profile may have besides `service_account`; `*` allows every name."""
    tenant_helm: bool = False
    """Whether a Nextcloud may set `helm` and a flavour of the image (33.0.1-fpm) if its pool or profile leaves `tenantHelm` out. It needs a
    service account. Such a tenant can read every Secret in the namespace of its instance: keep it false if tenants share that
    namespace."""
    tenant_annotations: tuple[str, ...] = (
        "cert-manager.io/cluster-issuer",
        "cert-manager.io/issuer",
        "nginx.ingress.kubernetes.io/proxy-body-size",
        "nginx.ingress.kubernetes.io/proxy-read-timeout",
        "nginx.ingress.kubernetes.io/proxy-send-timeout",
    )
    """Annotations of the ingress that a Nextcloud may set; `prefix*` allows every name with that prefix. Snippets and other annotations of
    some ingress controllers read the Secrets of all namespaces: do not allow them."""
    s3_endpoints: tuple[EndpointEntry, ...] = ()
    """The S3 servers that a Nextcloud may name: `host`, `host:port`, `*.domain`, or `http://host:port` for a server without TLS. Empty:
    every public HTTPS host on port 443. An entry without `*` may have a private address. Servers that pools, profiles and these
    settings name need no entry."""
    bucket_provider: Literal["s3", "objectbucketclaim"] = "s3"
    """Who creates buckets: this program with the keys of s3.credentialsSecret, or the provisioner of ObjectBucketClaims."""
    bucket_storage_class: str = ""
    """The storage class of ObjectBucketClaims."""
    s3_endpoint: str = ""
    """The S3 server of an instance that names no server."""
    s3_region: str = "us-east-1"
    """The region of an instance that names no region."""
    s3_path_style: bool = True
    """Whether the bucket is in the path of a URL: self-hosted servers rarely have a certificate for each bucket."""
    database_backup_schedule: str = "0 0 2 * * *"
    """When the databases that ask for backups are backed up: six fields, the first are seconds."""
    file_backup_image: str = "rclone/rclone:1.71.2"
    """The image that copies the files of instances that ask for backups; its entry point is rclone."""
    file_backup_schedule: str = "30 2 * * *"
    """When the files of an instance without a schedule of its own are copied: five fields, in UTC of the control plane."""
    database_deadline: Seconds = 900.0
    """Seconds after which a database that is not ready is reported as stalled: CloudNativePG does not report an unbound volume."""
    source_grace: Seconds = 30.0
    """Seconds that a failing chart source is tolerated."""
    stuck_after: Seconds = 600.0
    """Seconds without progress of a release after which it is reported as stalled."""
    interval: Seconds = 300.0
    """Seconds between the reconciles of Flux."""
    retry: Seconds = 30.0
    """Seconds until a step is tried again if no watch reports the end of its wait: for a user's Secret, a bucket or a deletion."""
    at_once: Annotated[int, Field(ge=1)] = 4
    """Workers of the controller."""
