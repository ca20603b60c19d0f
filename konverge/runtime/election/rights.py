"""The rights that an election needs. Pure."""

from __future__ import annotations

from konverge.rbac import Rule, plural_of
from konverge.runtime.election.record import LEASE
from konverge.runtime.election.settings import ElectionSettings

__all__ = ["rules_of_election"]


def rules_of_election(settings: ElectionSettings, manager: str) -> tuple[Rule, ...]:
    """Return the rights on the Lease of a manager's election, none if there is none.

    `create` cannot be limited to a name, the other verbs are:
    https://kubernetes.io/docs/reference/access-authn-authz/rbac/#referring-to-resources

    >>> rules_of_election(ElectionSettings(enabled=True, namespace="web"), "shop")[1].names
    ('shop',)
    """
    if not settings.enabled:
        return ()
    group, leases, namespace = LEASE.group, (plural_of(LEASE),), settings.namespace
    return (
        Rule(group, leases, ("create",), namespace=namespace),
        Rule(group, leases, ("get", "patch", "watch"), (settings.lease_of(manager),), namespace),
    )
