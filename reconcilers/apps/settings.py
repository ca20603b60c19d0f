"""Settings of the apps family: every number and switch, with unit, default and reason.

Guarantees: a default `Settings()` is safe to run with; the gates of the original operator (docs/reference/apps.md#names-and-labels) are
off. Durations are written as Go writes them, with days besides (`30s`, `5m`, `30d`).
"""

from __future__ import annotations

from datetime import timedelta
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, field_validator, model_validator

from konverge.reconcilers.apps.operations.settings import OperationSettings
from konverge.reconcilers.shared.durations import Duration
from konverge.reconcilers.shared.helm_release.versions import VersionRange

__all__ = ["Duration", "ForbiddenVersions", "Settings"]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ForbiddenVersions(_Frozen):
    """Versions of a chart that must not run. `chart` is a chart's name or `*`, `versions` comparators joined by spaces.

    >>> ForbiddenVersions(chart="shop", versions=">=1.2.0 <1.2.3").versions
    '>=1.2.0 <1.2.3'
    """

    chart: str
    versions: str

    @field_validator("versions")
    @classmethod
    def _readable(cls, value: str) -> str:
        VersionRange.parse(value)
        return value


class Settings(_Frozen):
    """How ApplicationInstances are rendered, checked and reported.

    >>> Settings.model_validate({"interval": "10m"}).interval.total_seconds()
    600.0
    """

    interval: Duration = timedelta(minutes=5)
    """How often Flux reconciles a release and its source without a request; `spec.interval` of both."""
    timeout: Duration = timedelta(minutes=5)
    """How long one Helm action may take; `spec.timeout` of the HelmRelease."""
    drift_detection: Literal["enabled", "warn", "disabled"] = "enabled"
    """`spec.driftDetection.mode`: Flux corrects drift below us only with `enabled`, reports it with `warn`."""
    source_grace: Duration = timedelta(seconds=30)
    """How long a source may fail before the instance is ChartUnreachable: each change of the version fails for half a second."""
    stuck_after: Duration = timedelta(minutes=15)
    """The time without progress after which Flux is requested once more to reconcile, and a spec that Flux has not begun is Stalled. A
    release that Flux has begun is Stalled after twice this time."""
    uninstall_patience: Duration = timedelta(minutes=10)
    """How long an uninstall may take before Stalled names the remedy; longer than `timeout`. The finalizer stays until its end."""
    refused_retry: Duration = timedelta(minutes=5)
    """The delay until children that the API server refused are sent again without a change: the cause of the refusal may have ended."""

    namespace: str = ""
    """The namespace of the operator, in which the Leases of Operations are kept; empty: the pod's own namespace, or the namespace of the
    kubeconfig's context. It must be the same for all replicas, and no tenant may write Leases in it."""

    cluster_id: str = ""
    """The label `app.vworkspace.io/cluster-id` of all created objects; empty: no label."""
    insecure_registries: frozenset[str] = frozenset()
    """OCI registries (`host` or `host:port`) that are reached by plain HTTP."""

    service_account: str = ""
    """The service account whose rights Flux uses to install the charts of instances without `spec.serviceAccountName`; empty: Flux's own
    rights, which usually cover the whole cluster. Set it if anyone besides the cluster's administrators writes ApplicationInstances."""
    allowed_service_accounts: tuple[str, ...] = ()
    """Names that `spec.serviceAccountName` may have besides `service_account`; `*` allows every name."""
    url_allow_list: tuple[str, ...] = ()
    """Prefixes that `spec.chart.url` must have; empty allows every URL. A prefix ends at a `/` of the URL or at its end."""
    forbidden_versions: tuple[ForbiddenVersions, ...] = ()
    """Charts and versions that must not run; an instance's annotation can override it."""

    watch_secrets: bool = True
    """Watch the metadata of Secrets, so that changed values take effect at once, and check that the key exists. False: no right on Secrets
    is needed; Flux notices a change after `interval`, and reports a missing key itself."""
    secret_namespaces: tuple[str, ...] = ()
    """The namespaces in which Secrets are watched and read; no other namespace needs rights on Secrets. Empty: all namespaces of the
    manager. An instance of another namespace with values from a Secret is Blocked."""
    check_at_admission: bool | None = None
    """Serve the webhooks that refuse inline secrets, parameters of Operations that can never work, and other problems that the schema does
    not detect; null: serve them if the manager's settings have the address of its webhooks (webhooks.service or webhooks.url). Without the
    webhooks such an instance is stored and Blocked, and such an Operation is Failed."""

    operations: OperationSettings = OperationSettings()
    """Operations: backups, restores, upgrades, commands."""

    require_managed_by: bool = False
    """Gate: ignore instances without label `app.vworkspace.io/managed-by=control-plane`."""
    require_cluster_id: bool = False
    """Gate: refuse instances whose label `app.vworkspace.io/cluster-id` names another cluster than `cluster_id`."""
    require_namespace_label: bool = False
    """Gate: refuse instances in namespaces without label `managed-by=vworkspace`."""

    @model_validator(mode="after")
    def _secret_settings_agree(self) -> Self:
        if self.secret_namespaces and not self.watch_secrets:
            raise ValueError(
                "watch_secrets=false watches no Secret, so secret_namespaces has no meaning: give one of the two"
            )
        return self

    def watches_secrets_in(self, namespace: str) -> bool:
        """Tell whether Secrets of a namespace are watched and read."""
        return self.watch_secrets and (not self.secret_namespaces or namespace in self.secret_namespaces)
