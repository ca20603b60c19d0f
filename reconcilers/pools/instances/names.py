"""Names of the objects of an instance. Each is derived from name or UID, so every reconcile finds the objects of the last one."""

from __future__ import annotations

import hashlib

__all__ = ["bucket_name", "copy_name", "claim_name", "cluster_name", "secret_name"]


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
    """Return the name of the CronJob that copies the files."""
    return f"{instance}-files"


def bucket_name(instance: str, uid: str) -> str:
    """Return the name of a bucket that is created: another instance of the same name gets another bucket.

    >>> bucket_name("nc-a", "uid-1")
    'nc-a-4a49acf8a6'
    """
    return f"{instance}-{hashlib.sha256(uid.encode()).hexdigest()[:10]}"
