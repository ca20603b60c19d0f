"""The controllers of the family: their watches and the RBAC rules that they need.

Only the metadata of Secrets and ConfigMaps is watched, which is enough to notice a change; only the live read that checks for a key brings
their content into this process.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from konverge.crds.apps_v1alpha1 import ApplicationInstance
from konverge.crds.ops_v1alpha1 import Operation
from konverge.keys import Key
from konverge.kinds import Kind, kind_of
from konverge.logs import get_logger
from konverge.objects import Metadata, Object
from konverge.reconcilers.apps.admission import validating_webhook
from konverge.reconcilers.apps.contention import BY_HELM_RELEASE, VIEW, affects_rivals, helm_release_of, rivals_of
from konverge.reconcilers.apps.kinds import (
    CONFIG_MAP,
    HELM_CHART,
    HELM_RELEASE,
    HELM_REPOSITORY,
    NAMESPACE,
    OCI_REPOSITORY,
    SECRET,
)
from konverge.reconcilers.apps.operations import install as operations
from konverge.reconcilers.apps.operations.admission import validating_webhook as operation_webhook
from konverge.reconcilers.apps.operations.metrics import OperationMetrics
from konverge.reconcilers.apps.reconciler import ApplicationInstanceReconciler
from konverge.reconcilers.apps.settings import Settings
from konverge.reconcilers.apps.words import CONTROLLER, FINALIZER, Blocked, Flux, Label, Type
from konverge.runtime import Controller, Rule
from konverge.runtime.builder.rules import rules_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from konverge.client import Client
    from konverge.runtime import Caches, Manager

__all__ = ["BY_REFERENT", "controller", "install", "referents_of", "rules"]

_LOG = get_logger("konverge.apps")

_HELM_STORAGE: Final = "sh.helm.release.v1."
"""Name prefix of Helm's own Secrets, one for each revision of each release: by far the most events, and never values."""

BY_REFERENT: Final = "referent"
"""The index of instances by the Secret and the ConfigMap that their values name."""
_REFERENCES: Final = {SECRET.kind: "secretRef", CONFIG_MAP.kind: "configMapRef"}


def _key(namespace: str, name: str) -> Key:
    return Key("", kind_of(ApplicationInstance), namespace, name)


def referents_of(instance: Object) -> tuple[str, ...]:
    """Return the index keys of the Secret and the ConfigMap that the values of an instance name.

    >>> referents_of(VIEW.new("shop", "web", spec={"values": {"secretRef": {"name": "values"}}}))
    ('Secret/web/values',)
    """
    named = [(kind, instance.get("spec", "values", field, "name")) for kind, field in _REFERENCES.items()]
    return tuple([f"{kind}/{instance.namespace}/{name}" for kind, name in named if name])


def instances_using(referent: Kind[Object]) -> Callable[[Metadata, Caches], Iterable[Key]]:
    """Return a map function from a Secret or ConfigMap to the instances whose values name it."""

    def instances(changed: Metadata, caches: Caches) -> Iterable[Key]:
        if changed.name.startswith(_HELM_STORAGE):
            return []
        using = f"{referent.kind}/{changed.namespace}/{changed.name}"
        found = caches(VIEW).metadata_by_index(BY_REFERENT, using)
        return [_key(instance.namespace, instance.name) for instance in found]

    return instances


def release_of_chart(chart: Object, _caches: Caches) -> Iterable[Key]:
    """Map a HelmChart of Flux to the instance of its HelmRelease, which has the instance's name."""
    name, namespace = chart.metadata.label(Flux.CHART_OF_RELEASE), chart.metadata.label(Flux.CHART_OF_NAMESPACE)
    return (_key(namespace, name),) if name and namespace else ()


def instances_in(namespace: Metadata, caches: Caches) -> Iterable[Key]:
    """Map a namespace to the instances in it."""
    return caches(ApplicationInstance).keys(namespace.name)


def controller(settings: Settings | None = None) -> Controller[ApplicationInstance]:
    """Return the description of the controller. Kinds of Flux are optional: without them instances are Blocked."""
    chosen = Settings() if settings is None else settings
    selected = f"{Label.MANAGED_BY}={Label.CONTROL_PLANE}" if chosen.require_managed_by else ""
    described = (
        Controller.of(ApplicationInstance)
        .named(CONTROLLER)
        .finalizer(FINALIZER)
        .invalid_as(Type.BLOCKED, Blocked.VALIDATION_FAILED)
        .counts_conditions()
        # Shared: stored state decides which of several instances keeps a Helm release, with a live read before the first apply.
        .sharded()
        .owns(HELM_RELEASE, optional=True)
        .owns(HELM_REPOSITORY, optional=True)
        .owns(OCI_REPOSITORY, optional=True)
        .watches(HELM_CHART, to=release_of_chart, optional=True)
        .watches(CONFIG_MAP, to=instances_using(CONFIG_MAP), metadata_only=True)
        .reads_live(CONFIG_MAP)
        .selecting(selected)
        .watches(VIEW, to=rivals_of, when=affects_rivals, labels=selected)
        .indexes(VIEW, BY_HELM_RELEASE, by=helm_release_of)
        .indexes(VIEW, BY_REFERENT, by=referents_of)
    )
    if chosen.watch_secrets:
        described = described.watches(
            SECRET, to=instances_using(SECRET), metadata_only=True, namespaces=chosen.secret_namespaces
        ).reads_live(SECRET)
    if chosen.require_namespace_label:
        described = described.watches(NAMESPACE, to=instances_in, metadata_only=True)
    if not (chosen.url_allow_list or chosen.service_account):
        described = described.starts_when(_warn_about_flux_rights)
    return described.reconciled_by(ApplicationInstanceReconciler(chosen))


async def _warn_about_flux_rights(_client: Client) -> str:
    """Log a warning at the start; never delays the controller."""
    _LOG.warning(
        "charts are installed with the rights of Flux, and every author of an ApplicationInstance can get those rights through a chart: "
        "set apps.service_account, or apps.url_allow_list to the chart sources that you trust"
    )
    return ""


def _operations(settings: Settings, metrics: OperationMetrics | None = None) -> Controller[Operation]:
    return operations.controller(
        settings.operations,
        cluster_id=settings.cluster_id,
        namespace=settings.namespace,
        watch_secrets=settings.watch_secrets,
        secret_namespaces=settings.secret_namespaces,
        metrics=metrics,
        instances=settings,
    )


def install(manager: Manager, settings: Settings | None = None) -> None:
    """Add the family's controllers to a manager, and its webhook if the settings enable it.

    >>> from konverge.runtime import Manager
    >>> manager = Manager("konverge")
    >>> install(manager)
    >>> [controller.name for controller in manager.controllers]
    ['applicationinstance', 'operation']
    """
    chosen = Settings() if settings is None else settings
    manager.add(controller(chosen))
    if chosen.operations.enabled:
        manager.add(_operations(chosen, OperationMetrics.within(manager.metrics)))
    reached = manager.settings.webhooks
    if chosen.check_at_admission or (chosen.check_at_admission is None and (reached.service or reached.url)):
        manager.add(validating_webhook(chosen))
        if chosen.operations.enabled:
            rows = operations.chosen_rows(chosen.operations, watch_secrets=chosen.watch_secrets)
            manager.add(operation_webhook(chosen.operations, rows, chosen))


def rules(settings: Settings | None = None) -> tuple[Rule, ...]:
    """Return the RBAC rules that the family needs with these settings."""
    chosen = Settings() if settings is None else settings
    needed = rules_of(controller(chosen))
    if chosen.operations.enabled:
        needed += rules_of(_operations(chosen))
    return needed
