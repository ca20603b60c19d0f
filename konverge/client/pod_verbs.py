"""The verbs of a client for the containers of a pod: logs."""

from __future__ import annotations

from collections.abc import AsyncIterator

from konverge.client.core import ClientCore
from konverge.client.pod_logs import log_lines, log_request

__all__ = ["PodVerbs"]


class PodVerbs(ClientCore):
    """The subresources of a pod that the kubelet serves."""

    def logs(
        self,
        name: str,
        namespace: str,
        *,
        container: str = "",
        follow: bool = False,
        previous: bool = False,
        timestamps: bool = False,
        since_seconds: int | None = None,
        tail_lines: int | None = None,
    ) -> AsyncIterator[str]:
        """Yield the lines of a container's log; with `follow` until the container ends.

        A pod with several containers needs `container`; `previous` is the container before its last restart. The right is `get` of
        `pods/log`. Raises NotFound, and BadRequest for a container that has not started.
        """
        request = log_request(
            name,
            namespace,
            container=container,
            follow=follow,
            previous=previous,
            timestamps=timestamps,
            since_seconds=since_seconds,
            tail_lines=tail_lines,
        )
        return log_lines(self._sender, request, follow=follow, limit=self.settings.max_line_bytes)
