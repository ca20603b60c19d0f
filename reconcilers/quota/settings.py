"""Settings of the quota family: every number and switch, with unit, default and reason.

Guarantees: the defaults are safe to run with.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

__all__ = ["Settings"]

Seconds = Annotated[float, Field(gt=0)]


class Settings(BaseModel):
    """Settings of the controllers of pools and claims.

    >>> Settings(parallel=4).max_claims
    5000
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    semantics: Literal["v0.12", "v0.14"] = "v0.12"
    """Which versions of Capsule to follow: v0.12 follows v0.10 to v0.12; v0.14 follows v0.13 and later (Bound means used, claims have
    `status.conditions`, an unused claim can be resized). `konverge crds --set quota.semantics=v0.14` prints its columns."""
    parallel: Annotated[int, Field(ge=1)] = 16
    """Concurrent writes of one pool's reconcile: a pool may have a thousand namespaces, and the API server has other clients."""
    pools_at_once: Annotated[int, Field(ge=1)] = 2
    """Workers of the pool controller."""
    claims_at_once: Annotated[int, Field(ge=1)] = 4
    """Workers of the claim controller."""
    max_claims: Annotated[int, Field(ge=1)] = 5000
    """Claims that one pool lists in its status; the tested maximum. Beyond it the pool is Ready=False/TooManyClaims; listed claims stay."""
    max_status_bytes: Annotated[int, Field(ge=1024)] = 1_300_000
    """Bytes that the listed claims of a pool may take: etcd refuses objects above 1.5 MiB."""
    namespace_share: Annotated[float, Field(gt=0, le=1)] = 0.2
    """The part of both limits that the claims of one namespace may take; otherwise one tenant could fill the list with empty claims.
    Beyond it a claim waits with Bound=False/TooManyClaims; the pool and other namespaces are not affected."""
    refused_retry: Seconds = 300.0
    """Seconds until a ResourceQuota that the API server rejected is sent again without a change."""
    timeout: Seconds = 600.0
    """Seconds that one reconcile of a pool may take: the first reconcile creates a ResourceQuota in every namespace."""
    barrier: Seconds = 600.0
    """Seconds to wait for the caches to show own writes. Longer than elsewhere: stale caches could lead to a double allocation."""
    assign_at_admission: bool | None = None
    """Serve the webhook that writes spec.pool of claims without a pool; null: serve it if the manager's settings have the address at which
    the API server reaches its webhooks (webhooks.service or webhooks.url). Without it the claim controller assigns, in status.pool only."""
    guard_at_admission: bool | None = None
    """With the semantics of v0.14: serve the webhooks that deny edits and deletions of claims in use, with a 403; null: as for
    assign_at_admission."""
    beside_capsule: bool = False
    """Start although a running Capsule that serves these kinds was found; for tests of the hand-over."""
