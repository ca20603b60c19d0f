"""The children of an ApplicationInstance: one HelmRelease and one source, one function each.

Rules (docs/reference/flux.md#rendered-objects, docs/reference/apps.md#names-and-labels): all have the instance's name and namespace,
because owner references and `valuesFrom` cannot cross namespaces. An OCI chart is an OCIRepository that the release names in `chartRef`;
`chart.spec.sourceRef` refuses that kind. Values from a Secret or ConfigMap are referred to, never copied. `suspend` is never rendered, so
that `flux suspend` stays in effect; strategies, remediation and tests are left to Flux's defaults.

Guarantees: pure, and a function of spec and settings only: equal input renders equal bytes, so that at rest nothing is written.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from konverge.crds.apps_v1alpha1 import ApplicationInstance
from konverge.crds.durations import format_duration
from konverge.fields import digest
from konverge.objects import Object
from konverge.reconcilers.apps.kinds import HELM_RELEASE, HELM_REPOSITORY, OCI_REPOSITORY
from konverge.reconcilers.apps.settings import Settings
from konverge.reconcilers.apps.words import Annotation, Label
from konverge.reconcilers.shared.helm_release.freshness import DesiredRelease

__all__ = [
    "RenderedChildren",
    "annotations_for",
    "children_of",
    "helm_release",
    "helm_repository",
    "label_value",
    "labels_for",
    "oci_repository",
    "oci_url",
    "desired_release",
]

_LAYER: Final = {"mediaType": "application/vnd.cncf.helm.chart.content.v1.tar+gzip", "operation": "copy"}
_LABEL_LENGTH = 63

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RenderedChildren:
    """The children of one instance, the source first."""

    source: Object
    release: Object

    def intent(self, token: str) -> str:
        """Return the digest of the intent; `token` replaces values in a Secret or ConfigMap."""
        return digest([self.source.kind_name, self.source.spec, self.release.spec, token])

    @property
    def origin(self) -> str:
        """The digest of the source."""
        return digest([self.source.kind_name, self.source.spec])


def _present(part: T | None) -> T:
    """Return a part of the spec whose presence validation has checked."""
    assert part is not None, "only a validated, managed instance is rendered"
    return part


def label_value(text: str) -> str:
    """Return a text that fits a label value: over 63 characters, its first 52, a dash, and 10 hex digits of its hash.

    >>> label_value("shop"), len(label_value("a" * 253))
    ('shop', 63)
    """
    if len(text) <= _LABEL_LENGTH:
        return text
    return f"{text[:52]}-{hashlib.sha256(text.encode()).hexdigest()[:10]}"


def labels_for(instance: ApplicationInstance, settings: Settings) -> dict[str, str]:
    """Return the labels of the instance's children."""
    labels = {
        Label.MANAGED_BY: Label.CONTROL_PLANE,
        Label.APPLICATION_INSTANCE: label_value(instance.name),
    }
    if settings.cluster_id:
        labels[Label.CLUSTER_ID] = label_value(settings.cluster_id)
    return labels


def annotations_for(instance: ApplicationInstance) -> dict[str, str]:
    """Return the annotations with the full name and the uid; the label may shorten the name."""
    return {Annotation.INSTANCE_NAME: instance.name, Annotation.INSTANCE_UID: instance.uid}


def _source_metadata(instance: ApplicationInstance, settings: Settings) -> dict[str, Mapping[str, str]]:
    return {"labels": labels_for(instance, settings), "annotations": annotations_for(instance)}


def helm_repository(instance: ApplicationInstance, settings: Settings) -> Object:
    """Return the source of a chart in a Helm repository."""
    chart = _present(instance.spec.chart)
    return HELM_REPOSITORY.new(
        instance.name,
        instance.namespace,
        **_source_metadata(instance, settings),
        spec={"url": chart.url, "interval": format_duration(settings.interval)},
    )


def oci_url(url: str, chart: str) -> str:
    """Return the URL of the repository that holds the chart; its name is appended unless it is the last segment already.

    >>> oci_url("oci://registry.example.com/charts/", "shop"), oci_url("oci://registry.example.com/charts/shop", "shop")
    ('oci://registry.example.com/charts/shop', 'oci://registry.example.com/charts/shop')
    """
    base = url.rstrip("/")
    return base if base.rpartition("/")[2] == chart else f"{base}/{chart}"


def oci_repository(instance: ApplicationInstance, settings: Settings) -> Object:
    """Return the source of a chart in an OCI registry. A tag cannot hold `+`; Helm and Flux write `_` for it."""
    chart = _present(instance.spec.chart)
    url = oci_url(chart.url, chart.name)
    spec: dict[str, Any] = {
        "url": url,
        "interval": format_duration(settings.interval),
        "ref": {"tag": chart.version.replace("+", "_")},
        "layerSelector": dict(_LAYER),
    }
    # Not urlsplit, which raises for `oci://[::1`: Flux reports such a URL itself.
    if url.partition("://")[2].partition("/")[0] in settings.insecure_registries:
        spec["insecure"] = True
    return OCI_REPOSITORY.new(instance.name, instance.namespace, **_source_metadata(instance, settings), spec=spec)


def _chart(instance: ApplicationInstance) -> dict[str, Any]:
    chart = _present(instance.spec.chart)
    if chart.source_type == "oci":
        return {"chartRef": {"kind": OCI_REPOSITORY.kind, "name": instance.name}}
    source = {"kind": HELM_REPOSITORY.kind, "name": instance.name}
    return {"chart": {"spec": {"chart": chart.name, "version": chart.version, "sourceRef": source}}}


def _values(instance: ApplicationInstance) -> dict[str, Any]:
    values = _present(instance.spec.values)
    if values.source == "inline":
        return {"values": dict(values.inline or {})}
    kind, reference = (
        ("Secret", values.secret_ref) if values.source == "secretRef" else ("ConfigMap", values.config_map_ref)
    )
    where = _present(reference)
    return {"valuesFrom": [{"kind": kind, "name": where.name, "valuesKey": where.key}]}


def _account(instance: ApplicationInstance, settings: Settings) -> dict[str, Any]:
    """Return the service account that installs the chart; without one it is helm-controller's."""
    account = instance.spec.service_account_name or settings.service_account
    return {"serviceAccountName": account} if account else {}


def helm_release(instance: ApplicationInstance, settings: Settings) -> Object:
    """Return the HelmRelease."""
    release = _present(instance.spec.release)
    return HELM_RELEASE.new(
        instance.name,
        instance.namespace,
        labels=labels_for(instance, settings),
        annotations=annotations_for(instance),
        spec={
            "interval": format_duration(settings.interval),
            "timeout": format_duration(settings.timeout),
            "releaseName": release.name,
            "targetNamespace": release.namespace,
            "driftDetection": {"mode": settings.drift_detection},
            **_account(instance, settings),
            **_chart(instance),
            **_values(instance),
        },
    )


def children_of(instance: ApplicationInstance, settings: Settings) -> RenderedChildren:
    """Return the children of a valid managed instance."""
    oci = _present(instance.spec.chart).source_type == "oci"
    source = oci_repository(instance, settings) if oci else helm_repository(instance, settings)
    return RenderedChildren(source, helm_release(instance, settings))


def desired_release(instance: ApplicationInstance, children: RenderedChildren, token: str) -> DesiredRelease:
    """Return the desired release, which the translation compares with Flux's status."""
    chart = _present(instance.spec.chart)
    return DesiredRelease(
        version=chart.version,
        oci=chart.source_type == "oci",
        intent=children.intent(token),
        source=children.origin,
        token=token,
    )
