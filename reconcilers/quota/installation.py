"""The family's controllers in a manager: their watches, predicates, map functions, webhooks and RBAC rules.

Two controllers: the first allocates pools, and the second handles claims without a responsible pool. They share the `WakeIndex`, the
`QuotaMetrics`, and the field manager of the status of claims.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import deepcopy
from typing import TYPE_CHECKING, Any, Final

from konverge.crds.quota_v1beta2 import COLUMNS_OF_V014, GROUP, ResourcePool, ResourcePoolClaim
from konverge.errors import UsageError
from konverge.keys import Key
from konverge.kinds import kind_of
from konverge.objects import Metadata, Object
from konverge.reconcilers.quota import words
from konverge.reconcilers.quota.admission import assigning
from konverge.reconcilers.quota.admission_guard import guarding
from konverge.reconcilers.quota.capsule_check import capsule_serves
from konverge.reconcilers.quota.claims.reconciler import ResourcePoolClaimReconciler
from konverge.reconcilers.quota.kinds import CLAIM, LEASE, MUTATING, NAMESPACE, POOL, RESOURCE_QUOTA, VALIDATING
from konverge.reconcilers.quota.metrics import QuotaMetrics
from konverge.reconcilers.quota.parse import pools_of
from konverge.reconcilers.quota.pools.reconciler import ResourcePoolReconciler
from konverge.reconcilers.quota.predicates import claim_changed, namespace_changed, pool_changed
from konverge.reconcilers.quota.settings import Settings
from konverge.reconcilers.quota.wake_index import WakeIndex
from konverge.runtime import Controller, Rule, Webhook, cluster_role, merged, rules_of

if TYPE_CHECKING:
    from konverge.runtime import Caches, Manager

__all__ = ["TENANT_ROLE", "controllers", "definitions", "install", "rules", "tenant_role"]

TENANT_ROLE: Final = "konverge-resourcepoolclaims"
"""The name of the optional ClusterRole that lets tenants manage claims."""

_LISTED: Final = ("list",)
_GATE_RULES: Final = (
    Rule(LEASE.group, (str(LEASE.plural),), _LISTED),
    Rule(MUTATING.group, (str(MUTATING.plural), str(VALIDATING.plural)), _LISTED),
)


class _MapFunctions:
    """Map functions: the pools and claims to reconcile after a change of another object."""

    def __init__(self, wake_index: WakeIndex, metrics: QuotaMetrics) -> None:
        self._wake_index = wake_index
        self._metrics = metrics

    def pools_of_claim(self, claim: Object, caches: Caches) -> Iterable[Key]:
        """Map a claim to the pools that its spec or status names."""
        if caches(CLAIM).metadata(claim.namespace, claim.name) is None:
            self._metrics.remove_claim(claim.namespace, claim.name)
            self._wake_index.set_waiting((claim.namespace, claim.name), None)
        return [_pool(name) for name in pools_of(claim)]

    def pools_of_namespace(self, namespace: Metadata, caches: Caches) -> Iterable[Key]:
        """Map a namespace to the pools that select it, or are responsible for it."""
        return [
            _pool(name)
            for name in self._wake_index.pools_of_namespace(namespace.name, dict(namespace.labels or {}), caches)
        ]

    def claims_of_pool(self, pool: Object, caches: Caches) -> Iterable[Key]:
        """Map a pool to the claims that wait for it or for any pool, and, if it is being deleted, to all of its own."""
        waiting = [path for path, name in self._wake_index.waiting.items() if name in ("", pool.name)]
        stored = caches(POOL).metadata("", pool.name)
        if stored is None or stored.deleting:
            waiting += [(claim.namespace, claim.name) for claim in caches(CLAIM).list() if pool.name in pools_of(claim)]
        return [Key("", kind_of(ResourcePoolClaim), namespace, name) for namespace, name in waiting]


def _pool(name: str) -> Key:
    return Key("", kind_of(ResourcePool), "", name)


def controllers(
    settings: Settings | None = None, *, metrics: QuotaMetrics | None = None
) -> tuple[Controller[ResourcePool], Controller[ResourcePoolClaim]]:
    """Return the controllers of pools and of claims; starts nothing."""
    chosen = Settings() if settings is None else settings
    quota_metrics = QuotaMetrics(chosen.semantics) if metrics is None else metrics
    wake_index = WakeIndex(by_use=chosen.semantics == words.Semantics.V014)
    maps = _MapFunctions(wake_index, quota_metrics)
    # Not shared: both controllers keep one index of the claims that wait for a pool, and a claim may move from one pool to another.
    pools = (
        Controller.of(ResourcePool)
        .named(words.ControllerName.POOL)
        .finalizer(words.FINALIZER)
        .when(pool_changed)
        .owns(
            RESOURCE_QUOTA,
            when=wake_index.quota_matters,
            known_by=lambda quota: words.pool_of_quota(quota.name),
            own_writes=False,
        )
        .watches(CLAIM, to=maps.pools_of_claim, when=claim_changed)
        .watches(NAMESPACE, to=maps.pools_of_namespace, when=namespace_changed, metadata_only=True)
        .writes_status_of(ResourcePoolClaim, words.STATUS_MANAGER)
        .needs(Rule(GROUP, (str(CLAIM.plural),), ("patch", "delete")))
        .reads_live()
        .with_(concurrency=chosen.pools_at_once, barrier=chosen.barrier, timeout=chosen.timeout)
    )
    claims = (
        Controller.of(ResourcePoolClaim)
        .named(words.ControllerName.CLAIM)
        .when(claim_changed)
        .watches(POOL, to=maps.claims_of_pool, when=wake_index.pool_affects_claims)
        .writes_status_as(words.STATUS_MANAGER, shared=True)
        .needs(Rule(GROUP, (str(CLAIM.plural),), ("patch",)))
        .reads_live()
        .with_(concurrency=chosen.claims_at_once)
    )
    if not chosen.beside_capsule:
        pools = pools.starts_when(capsule_serves).needs(*_GATE_RULES)
        claims = claims.starts_when(capsule_serves).needs(*_GATE_RULES)
    claim_reconciler = ResourcePoolClaimReconciler(wake_index, quota_metrics, chosen.semantics)
    return (
        pools.reconciled_by(ResourcePoolReconciler(chosen, wake_index, quota_metrics)),
        claims.reports_failure(by=claim_reconciler.report_failure).reconciled_by(claim_reconciler),
    )


def install(manager: Manager, settings: Settings | None = None) -> None:
    """Add the family's controllers, metrics and, if the settings enable them, webhooks to a manager.

    >>> from konverge.runtime import Manager
    >>> manager = Manager("konverge")
    >>> install(manager)
    >>> [controller.name for controller in manager.controllers]
    ['resourcepool', 'resourcepoolclaim']
    """
    if manager.settings.namespace:
        raise UsageError(
            f"the quota family looks after objects of the whole cluster, and this manager sees {manager.settings.namespace!r} alone: "
            "it would take the claims of all other namespaces for gone; give it a manager without a namespace"
        )
    chosen = Settings() if settings is None else settings
    metrics = QuotaMetrics.within(manager.metrics, chosen.semantics)
    manager.after_leading(metrics.clear)
    for controller in controllers(chosen, metrics=metrics):
        manager.add(controller)
    for webhook in _webhooks(chosen, reached=bool(manager.settings.webhooks.service or manager.settings.webhooks.url)):
        manager.add(webhook)


def _webhooks(settings: Settings, *, reached: bool) -> Iterable[Webhook[Object]]:
    """Return the webhooks to serve; by default, whether the API server can reach them decides."""
    assigns, guards = settings.assign_at_admission, settings.guard_at_admission
    if reached if assigns is None else assigns:
        yield assigning()
    if settings.semantics == words.Semantics.V014 and (reached if guards is None else guards):
        yield from guarding()


def definitions(manifests: Iterable[Mapping[str, Any]], settings: Settings | None = None) -> list[dict[str, Any]]:
    """Return CustomResourceDefinitions with the printer columns of these settings; the schema does not depend on them."""
    chosen = Settings() if settings is None else settings
    copies = [deepcopy(dict(manifest)) for manifest in manifests]
    if chosen.semantics == words.Semantics.V014:
        for spec in (manifest["spec"] for manifest in copies):
            columns = COLUMNS_OF_V014.get(spec["names"]["kind"])
            if spec["group"] == GROUP and columns is not None:
                for version in spec["versions"]:
                    version["additionalPrinterColumns"] = [column.entry() for column in columns]
    return copies


def rules(settings: Settings | None = None) -> tuple[Rule, ...]:
    """Return the RBAC rules that the family needs with these settings."""
    return merged(rule for controller in controllers(settings) for rule in rules_of(controller))


def tenant_role(name: str = TENANT_ROLE) -> dict[str, Any]:
    """Return the optional ClusterRole that lets tenants manage claims; it is aggregated to the roles admin and edit.

    >>> tenant_role()["rules"][0]["resources"]
    ['resourcepoolclaims']
    """
    verbs = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
    role = cluster_role(name, [Rule(GROUP, (str(CLAIM.plural),), verbs)])
    aggregated = ("rbac.authorization.k8s.io/aggregate-to-admin", "rbac.authorization.k8s.io/aggregate-to-edit")
    role["metadata"]["labels"] = dict.fromkeys(aggregated, "true")
    return role
