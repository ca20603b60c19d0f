"""The address of a server, and the rule for names of clusters, tenants, shards, groups and subnet pools.

The settings of the family use this module, so each start of the daemon imports it: it does not import YAML.
"""

from __future__ import annotations

import re
from ipaddress import IPv6Address

import msgspec

from konverge.errors import ConfigError

__all__ = ["Address", "is_identifier"]

_IDENTIFIER = re.compile(r"(?=.{1,32}\Z)[a-z0-9]+(-[a-z0-9]+)*\Z")
_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?\Z")


def is_identifier(text: str) -> bool:
    """Tell whether a text can name a cluster, tenant, shard, group or subnet pool.

    >>> [is_identifier(text) for text in ("us-west-2a", "a--b", "A", "")]
    [True, False, False, False]
    """
    return _IDENTIFIER.match(text) is not None


class Address(msgspec.Struct, frozen=True):
    """A host (a name or an IP address) and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        """Return it as documents have it."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def plain(self) -> Address:
        """The address in its canonical spelling: names in lower case, no IPv4 address in IPv6 form."""
        mapped = IPv6Address(self.host).ipv4_mapped if ":" in self.host else None
        return Address(self.host.lower() if mapped is None else str(mapped), self.port)

    @classmethod
    def parse(cls, text: str) -> Address:
        """Read `host:port` or `[v6]:port`; raises ConfigError.

        >>> Address.parse("[2600:1f18::a]:8993")
        Address(host='2600:1f18::a', port=8993)
        """
        host, colon, port = text.strip().rpartition(":")
        if not colon or not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
            raise ConfigError(f"{text!r} has no port: write host:port or [IPv6]:port")
        if host.startswith("[") and host.endswith("]"):
            try:
                return cls(str(IPv6Address(host[1:-1])), int(port))
            except ValueError as error:
                raise ConfigError(f"{text!r}: {error}; write [IPv6]:port") from error
        if not _HOST.match(host):
            raise ConfigError(f"{text!r} has no host name or IP address: write host:port or [IPv6]:port")
        return cls(host, int(port))
