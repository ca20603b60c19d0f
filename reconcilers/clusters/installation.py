"""The controller of Clusters and its agents in a manager: watches, background work, RBAC rules."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING

from konverge.crds.ops_v1alpha1 import Cluster
from konverge.errors import UsageError
from konverge.keys import Key
from konverge.kinds import Kind
from konverge.objects import Object
from konverge.reconcilers.clusters.act import PlaneHttpTransport
from konverge.reconcilers.clusters.admission import validating_webhook
from konverge.reconcilers.clusters.agent_state import AgentConfig
from konverge.reconcilers.clusters.kinds import APPLICATION_INSTANCE, OPERATION
from konverge.reconcilers.clusters.metrics import PullMetrics
from konverge.reconcilers.clusters.reconciler import ClusterReconciler, report_failure
from konverge.reconcilers.clusters.service import AgentService, Connect
from konverge.reconcilers.clusters.settings import Settings
from konverge.reconcilers.clusters.transport import PlaneTransport
from konverge.reconcilers.clusters.words import CONTROLLER, FINALIZER
from konverge.runtime import Controller, Report, Rule

if TYPE_CHECKING:
    from konverge.runtime import Caches, Manager

__all__ = ["controller", "install", "rules"]


def _over_http(config: AgentConfig) -> PlaneTransport:
    return PlaneHttpTransport(config.endpoint, ca_file=config.settings.ca_file)


def _no_cluster(_found: Object, _caches: Caches) -> Iterable[Key]:
    """Enqueue nothing: the events of these kinds are for the control plane, and `AgentService.record` takes them."""
    return ()


def rules(settings: Settings | None = None) -> tuple[Rule, ...]:
    """Return the rights of the agents: Secrets by name in the operator's namespace, objects of the protocol's kinds everywhere.

    >>> [rule.names for rule in rules(Settings(namespace="konverge-system")) if "get" in rule.verbs and rule.resources == ("secrets",)]
    [('vworkspace-agent-credentials', 'vworkspace-agent-journal'), ('registration',)]
    """
    chosen = Settings() if settings is None else settings
    names = (chosen.credentials_secret, chosen.journal_secret)
    return (
        Rule("", ("secrets",), ("create",), namespace=chosen.namespace),
        Rule("", ("secrets",), ("delete", "get", "patch", "update"), names, chosen.namespace),
        *(
            (Rule("", ("secrets",), ("get",), chosen.token_secrets, chosen.namespace),)
            if chosen.token_secrets
            else ()  # a rule without names would be about every Secret
        ),
        *(
            Rule(kind.group, (str(kind.plural),), ("create", "delete", "get", "patch"))
            for kind in (APPLICATION_INSTANCE, OPERATION)
        ),
        Rule(Cluster.kind_of_resource().group, ("clusters",), ("patch",)),
        # For blocking owner references, if the API server enforces the right to set them.
        Rule(Cluster.kind_of_resource().group, ("clusters/finalizers",), ("update",)),
    )


def controller(settings: Settings, service: AgentService, report: Callable[[], Report]) -> Controller[Cluster]:
    """Return the description of the controller."""
    taken: list[Kind[Object]] = [APPLICATION_INSTANCE, OPERATION]
    # Not shared: the agents, and their memory of jobs, run on the leader.
    described = (
        Controller.of(Cluster)
        .named(CONTROLLER)
        .finalizer(FINALIZER)
        .reports_failure(by=report_failure)
        .counts_conditions()
        .needs(*rules(settings))
        .calls("the control plane")
    )
    for kind in taken:
        described = described.watches(kind, to=_no_cluster, when=partial(service.record, kind), optional=True)
    return described.reconciled_by(ClusterReconciler(settings, service, report))


def install(manager: Manager, settings: Settings | None = None, *, connect: Connect = _over_http) -> None:
    """Add the controller of Clusters and the work of its agents to a manager.

    `connect` creates the transport to a control plane; tests give one in the same process (`konverge_testing.agent_server`).

    >>> from konverge.runtime import Manager
    >>> manager = Manager("konverge")
    >>> install(manager)
    >>> [controller.name for controller in manager.controllers]
    ['cluster']
    """
    if manager.settings.namespace:
        raise UsageError(
            f"a Cluster is cluster-scoped, and this manager sees {manager.settings.namespace!r} alone; "
            "give it a manager without a namespace"
        )
    chosen = Settings() if settings is None else settings
    service = AgentService(PullMetrics.within(manager.metrics), connect)
    manager.add(controller(chosen, service, manager.report))
    manager.run_while_leading("agents", service.run)
    reached = manager.settings.webhooks
    if chosen.check_at_admission or (chosen.check_at_admission is None and (reached.service or reached.url)):
        manager.add(validating_webhook(chosen))
