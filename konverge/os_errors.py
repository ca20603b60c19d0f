"""The meaning of an error of the operating system for a user, in konverge's words.

The texts of errno differ between systems and name the call that failed ("Operation not permitted" may be a firewall, a NetworkPolicy or a
seccomp profile). A status, an Event and a message name the situation.

Guarantees: pure; a text quotes neither an address nor a path.
"""

from __future__ import annotations

import errno
import socket
import ssl
from collections.abc import Mapping
from typing import Final

__all__ = ["OS_ERRORS", "describe_os_error"]

OS_ERRORS: Final[Mapping[int, str]] = {
    errno.EPERM: "the system forbids it: a firewall, a NetworkPolicy or a security profile",
    errno.EACCES: "access is denied",
    errno.ENOENT: "it does not exist",
    errno.EISDIR: "a directory has its name",
    errno.ENOTDIR: "a part of its path is no directory",
    errno.EEXIST: "it exists already",
    errno.ENOSPC: "no space is left",
    errno.EROFS: "the file system is read-only",
    errno.EMFILE: "this process has too many open connections or files",
    errno.ENFILE: "the machine has too many open connections or files",
    errno.ENAMETOOLONG: "its name is too long",
    errno.ECONNREFUSED: "the connection is refused; no program listens at this address",
    errno.ECONNRESET: "the other side closed the connection",
    errno.ECONNABORTED: "the connection was ended",
    errno.EPIPE: "the other side closed the connection",
    errno.ENOTCONN: "the connection is closed",
    errno.ETIMEDOUT: "no response came in time",
    errno.EHOSTUNREACH: "no route leads to the host",
    errno.EHOSTDOWN: "the host does not run",
    errno.ENETUNREACH: "no route leads to the network",
    errno.ENETDOWN: "the network does not work",
    errno.EADDRINUSE: "another program uses the address",
    errno.EADDRNOTAVAIL: "this machine does not have the address",
    errno.EAFNOSUPPORT: "this machine does not support the kind of address",
    errno.EINVAL: "the address or the path cannot be used",
}


def describe_os_error(error: BaseException) -> str:
    """Return the meaning of the error; of an error without a known number only its name.

    >>> describe_os_error(ConnectionRefusedError(111, "Connection refused"))
    'the connection is refused; no program listens at this address'
    >>> describe_os_error(OSError(9999, "?"))
    'OSError 9999'
    """
    if isinstance(error, TimeoutError):
        return OS_ERRORS[errno.ETIMEDOUT]
    if isinstance(error, socket.gaierror):
        return "the name of the host cannot be resolved"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is refused: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return f"TLS failed: {error.reason or type(error).__name__}"
    if not isinstance(error, OSError) or not error.errno:
        return type(error).__name__
    # asyncio raises one error for several addresses that failed, with the number of the first.
    return OS_ERRORS.get(error.errno) or f"{type(error).__name__} {errno.errorcode.get(error.errno, error.errno)}"
