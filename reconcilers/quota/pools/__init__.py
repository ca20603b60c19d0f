"""Pools: the claims that a pool allocates, and one ResourceQuota for each namespace.

observer         caches -> PoolObservation (observe)
allocate         which claims are allocated, and what each namespace gets (pure); account: the part of one namespace; release: when a
                 released amount is free again; in_use: which claims pods use; listed_claims: the room in the pool's status
ledger           the accounts, kept between reconciles: only those that changed are computed
decide           the writes of an allocation, their order, and the outcome (pure)
render           the ResourceQuota, status and conditions of a pool (pure)
act              applies ResourceQuotas: the response decides which claims stay allocated
claim_writes     the writes to claims: each fails for itself
write_errors     rejection or transient error (pure)
rejected_quotas  memory of the claims that the API server rejected; rival: memory of the status that another process overwrites
reconciler       the controller
"""

from __future__ import annotations
