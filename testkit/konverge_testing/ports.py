"""Ports on loopback that stay ours while the program that uses them is down.

Guarantees: on Linux the reserved port is given to no other program until `release`: the socket stays bound without listening, so
neither an outgoing connection nor a bind to port 0 gets its number, while a program that binds it by name with SO_REUSEADDR
(as every Go program does) may listen on it. So an API server that is restarted finds its port free.

Caveats: on other systems the port is not reserved; it was free a moment ago.
"""

from __future__ import annotations

import socket
import sys

__all__ = ["ReservedPort"]


class ReservedPort:
    """One port of 127.0.0.1."""

    def __init__(self, host: str) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._socket.bind((host, 0))
            self.number: int = self._socket.getsockname()[1]
        except OSError:
            self._socket.close()
            raise
        if sys.platform != "linux":
            self._socket.close()

    def release(self) -> None:
        """Release the port; may be called twice."""
        self._socket.close()
