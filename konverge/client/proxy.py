"""The proxy for a server, from the environment variables.

Guarantees: the rules of Go's `http.ProxyFromEnvironment`, as kubectl and client-go use them: HTTPS_PROXY or HTTP_PROXY by the server's
scheme, upper case or lower; NO_PROXY with host names, domain suffixes, addresses, address ranges and `*`; never a proxy for the loopback.
Unlike aiohttp's `trust_env` it does not read `~/.netrc` into requests to the API server.

Source: https://pkg.go.dev/golang.org/x/net/http/httpproxy
"""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_address, ip_network
from urllib.parse import urlsplit

from konverge.errors import ConfigError

__all__ = ["checked_proxy", "proxy_from_environment"]


def checked_proxy(url: str) -> str:
    """Return a proxy's URL; raises ConfigError for a scheme that is not supported."""
    if url and urlsplit(url).scheme not in {"http", "https"}:
        scheme = urlsplit(url).scheme or "none"
        raise ConfigError(f"proxy with scheme {scheme!r}: only http and https proxies are supported")
    return url


def proxy_from_environment(server: str, environ: Mapping[str, str]) -> str:
    """Return the URL of the proxy for this server, "" for none."""
    parts = urlsplit(server)
    host = (parts.hostname or "").lower()
    name = "https_proxy" if parts.scheme == "https" else "http_proxy"
    proxy = environ.get(name.upper()) or environ.get(name) or ""
    excluded = environ.get("NO_PROXY") or environ.get("no_proxy") or ""
    port = parts.port or (443 if parts.scheme == "https" else 80)
    if not proxy or _loopback(host) or any(_matches(entry, host, port) for entry in excluded.split(",")):
        return ""
    return checked_proxy(proxy if "://" in proxy else f"http://{proxy}")


def _loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _matches(entry: str, host: str, port: int) -> bool:
    entry = entry.strip().lower()
    if not entry:
        return False
    if entry == "*":
        return True
    try:
        return ip_address(host) in ip_network(entry, strict=False)
    except ValueError:
        pass  # one of the two is a name, or the entry carries a port
    name, colon, wanted = entry.rpartition(":")
    if colon and wanted.isdigit() and "]" not in wanted:
        if int(wanted) != port:
            return False
        entry = name.strip("[]")
    entry = entry.removeprefix("*")
    if entry.startswith("."):
        return host.endswith(entry)
    return host == entry or host.endswith("." + entry)
