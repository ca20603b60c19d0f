"""The start-up check for a running Capsule: two controllers that allocate from one pool would allocate it twice.

Guarantees: the check runs before the family's controllers start, and repeats while it finds a Capsule; other families are not affected
(X30). A Capsule is recognised by its webhooks for these kinds, and by the lease that its leader renews. `evidence` is pure. If RBAC denies
the check, the controllers do not start, and readiness names the missing rule.

Caveats: a Capsule that is installed later is not noticed; the hand-over page requires that its webhooks are removed first.

Source: docs/reference/capsule.md#objects.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

from konverge.client import Client
from konverge.clock import from_rfc3339, wall_clock
from konverge.crds.quota_v1beta2 import GROUP
from konverge.objects import Object
from konverge.reconcilers.quota.kinds import LEASE, MUTATING, VALIDATING

__all__ = ["HAND_OVER", "capsule_serves", "evidence"]

HAND_OVER: Final = "docs/guide/quota.md"
"""The page that describes the hand-over."""

_LEASE: Final = "42c733ea.clastix.capsule.io"
_PATHS: Final = ("/resourcepool/", "/resourcepools/")
_RESOURCES: Final = frozenset({"*", "*/*", "resourcepools", "resourcepoolclaims"})


async def capsule_serves(client: Client) -> str:
    """Return the evidence of a running Capsule and the remedy, "" if there is none."""
    hooks = [*(await client.list(VALIDATING)).items, *(await client.list(MUTATING)).items]
    leases = (await client.list(LEASE)).items
    signs = evidence(hooks, leases, wall_clock())
    if not signs:
        return ""
    return f"Capsule still serves ResourcePools here ({'; '.join(signs)}); hand them over first, as {HAND_OVER} says"


def evidence(hooks: Iterable[Object], leases: Iterable[Object], now: datetime) -> list[str]:
    """Return the evidence of a running Capsule: webhook configurations for these kinds, and a lease that is being renewed."""
    signs = [f"{hook.kind_name or 'webhook configuration'} {hook.name}" for hook in hooks if _guards(hook)]
    signs += [f"lease {lease.metadata.path}" for lease in leases if lease.name == _LEASE and _is_held(lease, now)]
    return sorted(signs)


def _guards(configuration: Object) -> bool:
    return any(_is_capsules(hook) for hook in configuration.get("webhooks", default=()))


def _is_capsules(hook: dict[str, object]) -> bool:
    view = Object(hook)
    target = str(view.get("clientConfig", "service", "path") or view.get("clientConfig", "url") or "")
    guarded = any(
        GROUP in (rule.get("apiGroups") or ()) and _RESOURCES & set(rule.get("resources") or ())
        for rule in view.get("rules", default=())
    )
    return guarded and any(path in f"{target}/" for path in _PATHS)


def _is_held(lease: Object, now: datetime) -> bool:
    renewed, seconds = lease.get("spec", "renewTime"), lease.get("spec", "leaseDurationSeconds", default=15)
    if not lease.get("spec", "holderIdentity") or not isinstance(renewed, str):
        return False
    try:
        return now - from_rfc3339(renewed) < timedelta(seconds=2 * int(seconds))
    except (ValueError, OverflowError):
        return True
