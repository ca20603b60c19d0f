"""Names of the objects of an instance. Each is derived from name or UID, so every reconcile finds the objects of the last reconcile.

Guarantees: each name is valid for its kind, for every name of an instance that the API server admits.
"""

from __future__ import annotations

import hashlib
from typing import Final

__all__ = ["bucket_name", "copy_name", "claim_name", "cluster_name", "secret_name"]

_LONGEST_CRON_JOB: Final = 52
"""The controller of CronJobs appends eleven characters for the name of a Job."""
_FILES: Final = "-files"


def cluster_name(instance: str) -> str:
    """Return the name of the CloudNativePG Cluster.

    >>> cluster_name("nc-happy-sun-a1b2c3")
    'nc-happy-sun-a1b2c3-db'
    """
    return f"{instance}-db"


def secret_name(instance: str, purpose: str) -> str:
    """Return the name of a Secret that is generated for one purpose."""
    return f"{instance}-{purpose}"


def claim_name(instance: str) -> str:
    """Return the name of the ObjectBucketClaim, of its Secret and of its ConfigMap."""
    return f"{instance}-s3"


def copy_name(instance: str) -> str:
    """Return the name of the CronJob that copies the files; a long name of an instance is cut and gets a hash.

    >>> copy_name("nc-a"), len(copy_name("n" * 47))
    ('nc-a-files', 52)
    """
    most = _LONGEST_CRON_JOB - len(_FILES)
    if len(instance) <= most:
        return f"{instance}{_FILES}"
    return f"{instance[: most - 11].rstrip('-')}-{_digest(instance)}{_FILES}"


def bucket_name(instance: str, uid: str) -> str:
    """Return the name of a bucket that is created: another instance of the same name gets another bucket.

    >>> bucket_name("nc-a", "uid-1")
    'nc-a-4a49acf8a6'
    """
    return f"{instance}-{_digest(uid)}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:10]
