"""Settings of the quota family: every number and switch, with unit, default and reason.

Promises: a `Settings()` with nothing given is safe to run with.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

__all__ = ["QuotaSettings"]

Seconds = Annotated[float, Field(gt=0)]


class QuotaSettings(BaseModel):
    """How pools are served.

    >>> QuotaSettings(parallel=4).max_claims
    5000
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    semantics: Literal["v0.12", "v0.14"] = "v0.12"
    """Which Capsule to be like: v0.12 is that of v0.10 to v0.12, v0.14 that of v0.13 and later (Bound means used, claims have
    `status.conditions`, an unused claim can be resized). `konverge crds --set quota.semantics=v0.14` prints its columns."""
    parallel: Annotated[int, Field(ge=1)] = 16
    """How many writes one pass of a pool makes at once: a pool may have a thousand namespaces, and the API server other clients."""
    pools_at_once: Annotated[int, Field(ge=1)] = 2
    """How many pools have a pass at once."""
    claims_at_once: Annotated[int, Field(ge=1)] = 4
    """How many claims without a pool are looked at at once."""
    max_claims: Annotated[int, Field(ge=1)] = 5000
    """How many claims one pool lists in its status; what is tested. Beyond, Ready=False/TooManyClaims, and what is listed stays."""
    max_status_bytes: Annotated[int, Field(ge=1024)] = 1_300_000
    """How many bytes the listed claims of a pool may take: etcd refuses objects above 1.5 MiB, whatever else is in them."""
    namespace_share: Annotated[float, Field(gt=0, le=1)] = 0.2
    """How much of both ceilings the claims of one namespace may take: with claims of nothing a tenant could fill them for all others.
    Beyond, a claim waits with Bound=False/TooManyClaims, and the pool and other namespaces go on."""
    refused_retry: Seconds = 300.0
    """Seconds after which a ResourceQuota that the API server refused is tried again without any change."""
    timeout: Seconds = 600.0
    """Seconds that one pass of a pool may take: the first one makes a ResourceQuota in every namespace."""
    barrier: Seconds = 600.0
    """Seconds to wait for the caches to show own writes. Longer than elsewhere: a pass that ran without them could hand out twice."""
    assign_at_admission: bool | None = None
    """Serve the webhook that writes spec.pool of claims without one; null: where the manager says how the API server reaches its
    webhooks (webhooks.service or webhooks.url). Without it the claim controller assigns, in status.pool alone."""
    guard_at_admission: bool | None = None
    """With the semantics of v0.14: serve the webhooks that refuse to edit or delete a claim that pods use, with a 403; null: as above."""
    beside_capsule: bool = False
    """Start although a Capsule that serves these kinds was found; for tests of the hand-over."""
