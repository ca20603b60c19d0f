"""The controller of instances: its watches and RBAC rules."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from random import Random, SystemRandom
from typing import TYPE_CHECKING, Final

from konverge.crds.pools_v1alpha1 import NextcloudInstance, NextcloudVersionMap
from konverge.keys import Key
from konverge.kinds import kind_of
from konverge.logs import get_logger
from konverge.objects import Metadata, Object
from konverge.reconcilers.pools.buckets import BucketProvider, ClaimedBuckets, S3Buckets, S3Folders
from konverge.reconcilers.pools.buckets.api import S3Connections
from konverge.reconcilers.pools.buckets.object_bucket_claim import OBJECT_BUCKET_CLAIM
from konverge.reconcilers.pools.buckets.planned import PlannedS3
from konverge.reconcilers.pools.instances.file_backups import CRON_JOB
from konverge.reconcilers.pools.instances.postgres import CNPG_CLUSTER
from konverge.reconcilers.pools.instances.reconciler import NextcloudInstanceReconciler
from konverge.reconcilers.pools.instances.settings import MaterialSettings
from konverge.reconcilers.pools.namespaces import EVERYWHERE, InstanceNamespaces
from konverge.reconcilers.pools.words import Finalizer, PoolsController
from konverge.reconcilers.shared.helm_release.kinds import HELM_CHART, HELM_RELEASE, HELM_REPOSITORY, OCI_REPOSITORY
from konverge.reconcilers.shared.helm_release.words import Flux
from konverge.runtime import Controller, Rule, by_back_reference

if TYPE_CHECKING:
    from konverge.client import Client
    from konverge.runtime import Caches

_LOG = get_logger("konverge.pools")

__all__ = ["buckets_of", "instance_controller", "rules"]

_WRITTEN: Final = ("create", "delete", "get", "patch")


def buckets_of(settings: MaterialSettings, connections: S3Connections, rng: Random) -> BucketProvider:
    """Return the provider of buckets that the settings name."""
    if settings.bucket_provider == "objectbucketclaim":
        return ClaimedBuckets(settings.bucket_storage_class)
    return S3Buckets(connections, rng)


def instance_of_chart(chart: Object, _caches: Caches) -> Iterable[Key]:
    """Map a HelmChart of Flux to the instance of its HelmRelease, which has the instance's name."""
    name, namespace = chart.metadata.label(Flux.CHART_OF_RELEASE), chart.metadata.label(Flux.CHART_OF_NAMESPACE)
    return (Key("", kind_of(NextcloudInstance), namespace, name),) if name and namespace else ()


def every_instance(_map: NextcloudVersionMap, caches: Caches) -> Iterable[Key]:
    """Map a NextcloudVersionMap to all instances: any of them may name a prefix or an alias."""
    return caches(NextcloudInstance).keys()


def _is_in(namespaces: InstanceNamespaces, metadata: Metadata, _caches: Caches) -> bool:
    return namespaces.allow(metadata.namespace)


def rules(settings: MaterialSettings, namespace: str) -> tuple[Rule, ...]:
    """Return the rights on the parts of instances in a namespace, "" for every namespace, beside the rights on owned kinds.

    A Role also gives the right on the namespace that it belongs to.

    >>> [rule.resources for rule in rules(MaterialSettings(), "clouds")][:3]
    [('secrets',), ('persistentvolumeclaims',), ('namespaces',)]
    """
    claims = (
        Rule(str(OBJECT_BUCKET_CLAIM.group), ("objectbucketclaims",), _WRITTEN, namespace=namespace),
        Rule("", ("configmaps",), ("get",), namespace=namespace),
    )
    return (
        Rule("", ("secrets",), ("create", "delete", "get"), namespace=namespace),
        Rule("", ("persistentvolumeclaims",), ("delete", "list"), namespace=namespace),
        Rule("", ("namespaces",), ("delete", "get"), namespace=namespace),
        Rule(str(CNPG_CLUSTER.group), ("clusters", "scheduledbackups"), _WRITTEN, namespace=namespace),
        *(claims if settings.bucket_provider == "objectbucketclaim" else ()),
    )


async def _warn_about_flux_rights(_client: Client) -> str:
    """Log a warning at the start; never delays the controller."""
    _LOG.warning(
        "charts of NextcloudInstances are installed with the rights of Flux: set pools.instances.service_account to an account in the "
        "namespaces of the instances"
    )
    return ""


def instance_controller(
    settings: MaterialSettings | None = None,
    *,
    s3: S3Connections,
    buckets: BucketProvider | None = None,
    rng: Random | None = None,
    namespaces: InstanceNamespaces = EVERYWHERE,
) -> Controller[NextcloudInstance]:
    """Return the controller of NextcloudInstances; `buckets` replaces the provider of the settings.

    The rights on all that an instance consists of are declared in these namespaces only. The caller closes `s3` after the last reconcile.
    """
    chosen = MaterialSettings() if settings is None else settings
    random = SystemRandom() if rng is None else rng
    provider = buckets_of(chosen, s3, random) if buckets is None else buckets
    folders = S3Folders(s3, random)
    described = (
        Controller.of(NextcloudInstance)
        .named(PoolsController.INSTANCE)
        .finalizer(Finalizer.INSTANCE, when=partial(_is_in, namespaces))
        .sharded()
        .owns(HELM_RELEASE, optional=True, written_in=namespaces.listed)
        .owns(HELM_REPOSITORY, optional=True, written_in=namespaces.listed)
        .owns(OCI_REPOSITORY, optional=True, written_in=namespaces.listed)
        .owns(CRON_JOB, written_in=namespaces.listed)
        .watches(HELM_CHART, to=instance_of_chart, optional=True)
        .watches(NextcloudVersionMap, to=every_instance, optional=True)
        .watches(CNPG_CLUSTER, to=by_back_reference(NextcloudInstance), optional=True)
        .reads_live()
        .needs(
            Rule("k8s.bnerd.com", ("nextcloudinstances",), ("list",)),
            *(rule for place in namespaces.listed or ("",) for rule in rules(chosen, place)),
        )
        .with_(concurrency=chosen.at_once)
    )
    if not chosen.service_account:
        described = described.starts_when(_warn_about_flux_rights)
    planned = PlannedS3(s3)
    provider_in_plan = buckets_of(chosen, planned, random) if buckets is None else buckets
    in_plan = NextcloudInstanceReconciler(chosen, provider_in_plan, S3Folders(planned, random), random, namespaces)
    return described.calls("the S3 servers", in_plan=in_plan).reconciled_by(
        NextcloudInstanceReconciler(chosen, provider, folders, random, namespaces)
    )
