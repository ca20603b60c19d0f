"""Guarded writes: the server applies a write only to the version of the object that the caller read.

Guarantees: pure. The server compares uid and resourceVersion with the stored object before it
changes anything, so of two concurrent writers that read the same version exactly one succeeds.

Optimistic concurrency: https://github.com/kubernetes/community/blob/master/contributors/devel/sig-architecture/api-conventions.md#concurrency-control-and-consistency
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from konverge.errors import Conflict, NotFound, ObjectChanged, UsageError
from konverge.kinds import Resource
from konverge.objects import Metadata

__all__ = ["expected_version", "guarded_patch", "object_changed"]


def expected_version(expect: Resource | Metadata) -> Metadata:
    """Return the metadata of an object that was read; raises UsageError for an object that was never stored."""
    metadata = expect if isinstance(expect, Metadata) else expect.metadata
    if not metadata.uid or not metadata.resource_version:
        raise UsageError(
            f"expect={metadata.path or 'an object without a name'} has no uid or no resourceVersion, so no write can be compared with it: "
            "pass the object, or its metadata, as the API server or a cache returned it"
        )
    return metadata


def guarded_patch(patch: Mapping[str, Any], expected: Metadata) -> dict[str, Any]:
    """Return a merge patch that names the uid and the resourceVersion of the expected object.

    >>> guarded_patch({"spec": {"paused": True}}, Metadata(name="a", uid="0a1b", resource_version="7"))
    {'spec': {'paused': True}, 'metadata': {'uid': '0a1b', 'resourceVersion': '7'}}
    """
    guard = {"uid": expected.uid, "resourceVersion": expected.resource_version}
    return {**patch, "metadata": {**(patch.get("metadata") or {}), **guard}}


def object_changed(error: Conflict | NotFound) -> ObjectChanged:
    """Return the error of a guarded write that lost a race, with the server's own message."""
    return ObjectChanged(
        error.message, status=error.status, reason=error.reason, causes=error.causes, request=error.request
    )
