"""The family of Nextcloud pools: NextcloudPool keeps instances ready, a Nextcloud takes an instance, a NextcloudInstance runs.

A drop-in for the bnerd Nextcloud operator (`k8s.bnerd.com/v1alpha1`). Behaviour and decisions: docs/reference/pools.md.

    words.py, settings.py, metrics.py, kinds.py
    names.py       names of instances; profiles.py: the merge of a profile, and its digest; members.py: an instance as pools see it
    records.py     the instances of each pool and Nextcloud, by their statuses; nonces.py: the proof of a creation
    allowance.py   which namespaces may take an instance; release.py: the release of an instance
    claims/        a Nextcloud: pairing.py decides which claim gets which instance, lock.py takes it, act.py writes the tenant's fields
    orphans/       instances whose Nextcloud was deleted
    pool/          how many instances are created, replaced and deleted
    instances/     the objects of an instance; buckets/: its bucket

The folder of a kind has the same files: observe.py reads, decide.py decides what to do, status.py plans what to report, act.py writes if a
later decision needs the result, and reconciler.py connects them. Two writes of claims/ have files of their own, lock.py and create.py, so
that the names of the files show where an instance is locked. buckets/ has no reconciler: it is a provider.

Guarantees: an instance is taken by one write that carries the resourceVersion of the read instance, so it never has two tenants. A taken
instance never returns to its pool. Labels, annotations and claims on an instance prove nothing: the operator's records do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from konverge.lazy import at_first_use

if TYPE_CHECKING:
    from konverge.reconcilers.pools.installation import install
    from konverge.reconcilers.pools.settings import PoolSettings

__all__ = ["PoolSettings", "install"]

__getattr__ = at_first_use(__name__, {"installation": ("install",), "settings": ("PoolSettings",)})
