"""A pytest plugin that plays macOS on Linux: `pytest -p other_system` runs tests without the calls that only Linux has.

It removes Linux's functions and constants from the standard library, says darwin, and replaces the default selector by a selector that a forked
process cannot use, as a kqueue. Differences of macOS behind the same calls are not shown.
"""

import asyncio.unix_events  # noqa: F401  # asyncio, multiprocessing and urllib choose their parts by the real system, before it is hidden
import errno
import multiprocessing.util  # noqa: F401  # as asyncio
import os
import resource
import select
import selectors
import signal
import socket
import sys
import sysconfig
import time
import urllib.request  # noqa: F401  # as asyncio

import aiohttp  # noqa: F401  # as above: its parts for darwin need C modules of macOS

_ONLY_LINUX = {
    os: (
        *(
            "sched_getaffinity",
            "sched_setaffinity",
            "pidfd_open",
            "memfd_create",
            "eventfd",
            "splice",
            "copy_file_range",
            "getrandom",
        ),
        *(
            "posix_fadvise",
            "posix_fallocate",
            "pipe2",
            "setresuid",
            "setresgid",
            "getresuid",
            "getresgid",
            "sched_setscheduler",
        ),
        *("getxattr", "setxattr", "unshare", "setns", "O_PATH", "O_DIRECT"),
    ),
    select: ("epoll",),
    signal: ("sigtimedwait", "sigwaitinfo", "pidfd_send_signal", "SIGPWR", "SIGSTKFLT", "SIGRTMIN", "SIGRTMAX"),
    socket: (
        *(
            "TCP_KEEPIDLE",
            "TCP_USER_TIMEOUT",
            "TCP_QUICKACK",
            "TCP_DEFER_ACCEPT",
            "TCP_CORK",
            "SO_BINDTODEVICE",
            "SO_PEERCRED",
            "SO_MARK",
        ),
        *("AF_NETLINK", "AF_PACKET", "AF_VSOCK", "SOCK_NONBLOCK", "SOCK_CLOEXEC", "MSG_NOSIGNAL", "MSG_ERRQUEUE"),
    ),
    time: ("CLOCK_BOOTTIME", "CLOCK_TAI", "pthread_getcpuclockid"),
    resource: ("prlimit", "RUSAGE_THREAD"),
}


class _Kqueue(selectors.PollSelector):
    def __init__(self) -> None:
        super().__init__()
        self._process = os.getpid()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if os.getpid() != self._process:
            raise OSError(errno.EBADF, "a kqueue is not inherited by a forked process")
        return super().select(timeout)


sysconfig.get_config_vars()  # reads a file that is named after the real system
for _module, _names in _ONLY_LINUX.items():
    for _name in _names:
        if hasattr(_module, _name):
            delattr(_module, _name)
selectors.DefaultSelector = _Kqueue  # type: ignore[misc,assignment]  # an alias, which typeshed has as a class
sys.platform = "darwin"
