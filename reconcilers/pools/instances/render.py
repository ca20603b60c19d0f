"""The HelmRelease of an instance and its source. Values refer to Secrets by name and never contain one.

Guarantees: pure; equal input renders equal bytes. Flux installs the chart with the rights of the service account. `helm.values` are merged
last, map by map; reconcilers/pools/tenant_fields.py decides who may set them. The volume of the chart is annotated so that Helm keeps it
when the release is uninstalled: its deletion is a step of its own, which Retain leaves out.

Source: https://github.com/nextcloud/helm/blob/main/charts/nextcloud/values.yaml.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from shlex import quote
from typing import Any
from urllib.parse import urlsplit

from konverge.crds.durations import format_duration
from konverge.crds.pools_v1alpha1 import AppliedS3Config, InstanceSettings
from konverge.fields import digest
from konverge.objects import Object
from konverge.reconcilers.pools.instances.databases import engine_of
from konverge.reconcilers.pools.instances.names import cluster_name, secret_name
from konverge.reconcilers.pools.instances.postgres import application_secret
from konverge.reconcilers.pools.instances.secrets import external_database, needed_secrets
from konverge.reconcilers.pools.instances.settings import MaterialSettings
from konverge.reconcilers.pools.instances.versions import ResolvedChart
from konverge.reconcilers.pools.profiles import merge
from konverge.reconcilers.shared.helm_release.freshness import DesiredRelease
from konverge.reconcilers.shared.helm_release.kinds import HELM_RELEASE, HELM_REPOSITORY, OCI_REPOSITORY

__all__ = ["RenderedRelease", "release_of", "url_of", "values_of"]

_KEEP = {"helm.sh/resource-policy": "keep"}
_LAYER = {"mediaType": "application/vnd.cncf.helm.chart.content.v1.tar+gzip", "operation": "copy"}


@dataclass(frozen=True, slots=True)
class RenderedRelease:
    """Source and release, and the desired release that the translation compares with Flux's status."""

    source: Object
    release: Object
    desired: DesiredRelease


def url_of(spec: InstanceSettings) -> str | None:
    """Return the URL of the Nextcloud; None without an ingress."""
    ingress = spec.ingress
    if ingress is None or not ingress.enabled or not ingress.host:
        return None
    return f"{'https' if ingress.tls and ingress.tls.enabled else 'http'}://{ingress.host}"


def _database(instance: str, spec: InstanceSettings) -> dict[str, Any]:
    engine = engine_of(spec)
    if spec.database is None or engine == "sqlite":
        return {"internalDatabase": {"enabled": True}}
    external = external_database(spec)
    secret = spec.database.credentials_secret or secret_name(instance, "db")
    keys = {"hostKey": "host", "databaseKey": "database", "usernameKey": "user", "passwordKey": "password"}
    if not external:
        secret = application_secret(cluster_name(instance))
        keys = {"hostKey": "host", "databaseKey": "dbname", "usernameKey": "username", "passwordKey": "password"}
    existing = {"enabled": True, "secretName": secret, **keys}
    return {
        "internalDatabase": {"enabled": False},
        "externalDatabase": {"enabled": True, "type": engine, "existingSecret": existing},
    }


def _object_store(bucket: AppliedS3Config | None, secret: str, *, path_style: bool) -> dict[str, Any]:
    if bucket is None or not bucket.bucket:
        return {}
    where = urlsplit(bucket.endpoint if "://" in (bucket.endpoint or "") else f"https://{bucket.endpoint or ''}")
    s3: dict[str, Any] = {
        "enabled": True,
        "bucket": bucket.bucket,
        "ssl": where.scheme != "http",
        "usePathStyle": path_style,
        "autoCreate": False,
        "existingSecret": secret,
        "secretKeys": {"accessKey": "AWS_ACCESS_KEY_ID", "secretKey": "AWS_SECRET_ACCESS_KEY"},
    }
    place = {"host": where.hostname, "port": str(where.port or ""), "region": bucket.region}
    return {"objectStore": {"s3": {**s3, **{key: value for key, value in place.items() if value}}}}


def values_of(
    instance: str,
    spec: InstanceSettings,
    chart: ResolvedChart,
    bucket: AppliedS3Config | None,
    bucket_secret: str,
    *,
    path_style: bool,
) -> dict[str, Any]:
    """Return the values of the chart."""
    secrets = {needed.purpose: needed.name for needed in needed_secrets(instance, spec)}
    nextcloud: dict[str, Any] = {
        "existingSecret": {
            "enabled": True,
            "secretName": secrets["admin"],
            "usernameKey": "username",
            "passwordKey": "password",
        },
        **_object_store(bucket, bucket_secret, path_style=path_style),
    }
    values: dict[str, Any] = {"nextcloud": nextcloud, **_database(instance, spec)}
    if chart.image:
        repository, _, tag = chart.image.rpartition(":")
        values["image"] = {"repository": repository, "tag": tag} if repository else {"repository": chart.image}
    elif chart.tag:
        values["image"] = {"tag": chart.tag}
    if spec.replicas is not None:
        values["replicaCount"] = spec.replicas
    if spec.ingress is not None and spec.ingress.enabled is not None:
        values["ingress"] = _ingress(instance, spec)
        if spec.ingress.host:
            nextcloud["host"] = spec.ingress.host
    if "redis" in secrets:
        values["redis"] = {
            "enabled": True,
            "auth": {
                "enabled": True,
                "existingSecret": secrets["redis"],
                "existingSecretPasswordKey": "redis-password",
            },
        }
    if "mail" in secrets:
        nextcloud["extraEnv"] = _mail(secrets["mail"], nextcloud.get("host") or instance)
    if spec.apps:
        nextcloud["hooks"] = {"before-starting": _enable(spec.apps)}
    if spec.resources is not None:
        values["resources"] = {
            name: dict(amounts)
            for name, amounts in (("requests", spec.resources.requests), ("limits", spec.resources.limits))
            if amounts
        }
    if spec.persistence is not None and spec.persistence.enabled:
        volume: dict[str, Any] = {"enabled": True, "annotations": _KEEP}
        if spec.persistence.size is not None:
            volume["size"] = str(spec.persistence.size)
        if spec.persistence.storage_class:
            volume["storageClass"] = spec.persistence.storage_class
        values["persistence"] = volume
    return merge(values, (spec.helm.values if spec.helm else None) or {})


def _enable(apps: Sequence[str]) -> str:
    """Return the script that the image runs before it starts: an app that cannot be enabled must not keep the Nextcloud from starting.

    `occ app:enable` downloads a missing app. The chart restarts the pods if the script changes.
    """
    return (
        "#!/bin/sh\n"
        f"php /var/www/html/occ app:enable {' '.join(quote(app) for app in apps)} "
        "|| echo 'not all apps of spec.apps could be enabled' >&2\n"
    )


def _mail(secret: str, domain: str) -> list[dict[str, Any]]:
    """Return the variables that configure mail in the image: the chart itself has no Secret for the host."""
    keys = {"SMTP_HOST": "host", "SMTP_NAME": "user", "SMTP_PASSWORD": "password"}
    of_secret = [
        {"name": name, "valueFrom": {"secretKeyRef": {"name": secret, "key": key}}} for name, key in keys.items()
    ]
    return [*of_secret, {"name": "MAIL_FROM_ADDRESS", "value": "nextcloud"}, {"name": "MAIL_DOMAIN", "value": domain}]


def _ingress(instance: str, spec: InstanceSettings) -> dict[str, Any]:
    ingress = spec.ingress
    assert ingress is not None, "checked by the caller"
    values: dict[str, Any] = {"enabled": bool(ingress.enabled)}
    if ingress.class_name:
        values["className"] = ingress.class_name
    if ingress.annotations:
        values["annotations"] = dict(ingress.annotations)
    if ingress.tls and ingress.tls.enabled and ingress.host:
        values["tls"] = [{"secretName": ingress.tls.secret_name or f"{instance}-tls", "hosts": [ingress.host]}]
    return values


def release_of(
    name: str,
    namespace: str,
    values: dict[str, Any],
    chart: ResolvedChart,
    settings: MaterialSettings,
    *,
    account: str = "",
) -> RenderedRelease:
    """Return source and release; without an `account` Flux installs the chart with its own rights."""
    oci = settings.chart_url.startswith("oci://")
    interval = format_duration(timedelta(seconds=settings.interval))
    source_spec: dict[str, Any] = {"url": settings.chart_url, "interval": interval}
    reference: dict[str, Any] = {
        "chart": {
            "spec": {
                "chart": settings.chart,
                "version": chart.chart,
                "sourceRef": {"kind": HELM_REPOSITORY.kind, "name": name},
            }
        }
    }
    if oci:
        source_spec |= {
            "url": f"{settings.chart_url.rstrip('/')}/{settings.chart}",
            "ref": {"tag": chart.chart.replace("+", "_")},
            "layerSelector": dict(_LAYER),
        }
        reference = {"chartRef": {"kind": OCI_REPOSITORY.kind, "name": name}}
    source = (OCI_REPOSITORY if oci else HELM_REPOSITORY).new(name, namespace, spec=source_spec)
    release = HELM_RELEASE.new(
        name,
        namespace,
        spec={
            "interval": interval,
            "timeout": "15m",
            "releaseName": name,
            "targetNamespace": namespace,
            "driftDetection": {"mode": "enabled"},
            **({"serviceAccountName": account} if account else {}),
            **reference,
            "values": values,
        },
    )
    origin = digest([source.kind_name, source.spec])
    intent = digest([source.kind_name, source.spec, release.spec])
    return RenderedRelease(source, release, DesiredRelease(version=chart.chart, oci=oci, intent=intent, source=origin))
