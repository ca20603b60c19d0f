"""Which resources are better listed plainly, remembered by all informers of a set.

client-go has no such memory, and asks at each round the server that never ends a streaming list:
https://github.com/kubernetes/kubernetes/issues/140890
"""

from __future__ import annotations

from konverge.client import ResourceInfo

__all__ = ["PlainMemory"]


class PlainMemory:
    """Resources whose streaming lists the server did not honour, each until a time.

    >>> memory = PlainMemory(seconds=3600)
    >>> info = ResourceInfo(api_version="apps/v1", kind="Deployment", plural="deployments", namespaced=True)
    >>> memory.remember(info, now=0.0)
    >>> memory.plain(info, now=10.0), memory.plain(info, now=3600.0)
    (True, False)
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._until: dict[str, float] = {}

    def remember(self, info: ResourceInfo, now: float) -> None:
        """List this resource plainly for a while."""
        self._until[info.group_resource] = now + self._seconds

    def plain(self, info: ResourceInfo | None, now: float) -> bool:
        """Tell whether this resource is to be listed plainly now."""
        return bool(self._until) and info is not None and now < self._until.get(info.group_resource, now)
