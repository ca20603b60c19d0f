"""Resources without streaming lists (WatchList), shared by the informers of a set.

client-go keeps no such list, so each relist tries a streaming list again, also on a server that never ends one:
https://github.com/kubernetes/kubernetes/issues/140890
"""

from __future__ import annotations

from konverge.client import ResourceInfo

__all__ = ["WatchListDenylist"]


class WatchListDenylist:
    """Resources whose streaming lists the server did not honour, each until its entry expires.

    >>> denylist = WatchListDenylist(seconds=3600)
    >>> info = ResourceInfo(api_version="apps/v1", kind="Deployment", plural="deployments", namespaced=True)
    >>> denylist.add(info, now=0.0)
    >>> denylist.denies(info, now=10.0), denylist.denies(info, now=3600.0)
    (True, False)
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        # The end of each entry by group and resource; expired entries stay, at most one per resource.
        self._until: dict[str, float] = {}

    def add(self, info: ResourceInfo, now: float) -> None:
        """Disable streaming lists of this resource for `seconds`."""
        self._until[info.group_resource] = now + self._seconds

    def denies(self, info: ResourceInfo | None, now: float) -> bool:
        """Report whether streaming lists of this resource are disabled at this time."""
        return bool(self._until) and info is not None and now < self._until.get(info.group_resource, now)
