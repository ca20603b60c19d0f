"""The address of the API server and the credentials for it, from a kubeconfig, a mounted ServiceAccount or arguments.

Guarantees: if no configuration is found, the error lists everything that was tried. In a cluster the mounted ServiceAccount is read
directly, and kubernetes_asyncio (72 MiB) is not imported. A configuration holds no connection; `open` creates a transport, which holds
connections.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import urlsplit

from konverge.client.credentials import Credentials, CredentialSource, FixedCredentials, TlsMaterial
from konverge.client.in_cluster import MOUNT, is_mounted, mounted
from konverge.client.proxy import checked_proxy, proxy_from_environment
from konverge.client.tls import TlsOptions
from konverge.errors import ConfigError

if TYPE_CHECKING:
    from konverge.client.settings import ClientSettings
    from konverge.client.transport import Transport

__all__ = ["ClientConfig", "TransportFactory"]

TransportFactory: TypeAlias = "Callable[[ClientConfig, ClientSettings, str], Transport]"
"""Creates a transport from a configuration, settings and a User-Agent."""


def _http(config: ClientConfig, settings: ClientSettings, user_agent: str) -> Transport:
    from konverge.client.http_transport import HttpTransport

    return HttpTransport(
        server=config.server,
        source=config.source,
        options=config.tls,
        proxy=config.proxy,
        settings=settings,
        user_agent=user_agent,
    )


class ClientConfig:
    """A server and credentials, from `load`, `in_cluster`, `from_kubeconfig`, `direct` or `over`.

    `server` is the URL, `namespace` the default namespace ("" if none), `origin` the file or folder that it was read from.

    >>> config = ClientConfig.direct("http://localhost:8001", namespace="web")
    >>> config.server, config.namespace
    ('http://localhost:8001', 'web')
    """

    def __init__(
        self,
        *,
        server: str,
        source: CredentialSource,
        namespace: str = "",
        tls: TlsOptions | None = None,
        proxy: str = "",
        origin: str = "",
        transport: TransportFactory = _http,
    ) -> None:
        parts = urlsplit(server)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise ConfigError(f"{origin or 'configuration'}: {server!r} is no URL of an API server (https://host:port)")
        self.server = server.rstrip("/")
        self.source = source
        self.namespace = namespace
        self.tls = tls or TlsOptions()
        self.proxy = proxy
        self.origin = origin
        self._transport = transport

    def __repr__(self) -> str:
        return f"<ClientConfig {self.server} from {self.origin or 'arguments'}>"

    @property
    def host(self) -> str:
        """Host and port, as they label the metrics."""
        return urlsplit(self.server).netloc.rpartition("@")[2]

    def open(self, settings: ClientSettings, user_agent: str) -> Transport:
        """Create a transport; it connects at its first use."""
        return self._transport(self, settings, user_agent)

    def through(self, wrap: Callable[[Transport], Transport]) -> ClientConfig:
        """Return this configuration with a transport around its transport, for instance to record the requests."""
        inner, config = self._transport, copy(self)
        config._transport = lambda *arguments: wrap(inner(*arguments))
        return config

    @classmethod
    async def load(
        cls,
        *,
        kubeconfig: str | Path | None = None,
        context: str | None = None,
        strict_x509: bool | None = None,
        mount: Path = MOUNT,
        environ: Mapping[str, str] | None = None,
    ) -> ClientConfig:
        """Find a configuration: the argument, $KUBECONFIG, the mounted ServiceAccount, `~/.kube/config`, in this order.

        A named context means a kubeconfig, so the mount is then skipped. Raises ConfigError that lists what was tried.
        """
        env = os.environ if environ is None else environ
        if kubeconfig is not None:
            return await cls.from_kubeconfig(kubeconfig, context=context, strict_x509=strict_x509, environ=env)
        if env.get("KUBECONFIG"):
            return await cls.from_kubeconfig(env["KUBECONFIG"], context=context, strict_x509=strict_x509, environ=env)
        if context is None and is_mounted(mount, env):
            return cls.in_cluster(mount=mount, environ=env, strict_x509=strict_x509)
        home = Path(env.get("HOME") or Path.home(), ".kube", "config")
        if await asyncio.to_thread(home.is_file):
            return await cls.from_kubeconfig(home, context=context, strict_x509=strict_x509, environ=env)
        raise ConfigError(
            "no configuration for an API server was found; tried: a kubeconfig argument (none given), $KUBECONFIG (not set), "
            f"the ServiceAccount in {mount} ({'passed over for the context' if context else 'not mounted'}), "
            f"{home} (no such file)"
        )

    @classmethod
    def in_cluster(
        cls, *, mount: Path = MOUNT, environ: Mapping[str, str] | None = None, strict_x509: bool | None = None
    ) -> ClientConfig:
        """Use the mounted ServiceAccount: token, CA and namespace; rotated files are read again.

        KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT give host and port. Raises ConfigError that names the file or
        variable that is missing.
        """
        env = os.environ if environ is None else environ
        pod = mounted(mount, env)
        return cls(
            server=pod.server,
            source=pod.source,
            namespace=pod.namespace,
            tls=TlsOptions(strict_x509=strict_x509),
            proxy=proxy_from_environment(pod.server, env),
            origin=str(mount),
        )

    @classmethod
    async def from_kubeconfig(
        cls,
        path: str | Path,
        *,
        context: str | None = None,
        strict_x509: bool | None = None,
        timeout: float = 60.0,
        environ: Mapping[str, str] | None = None,
    ) -> ClientConfig:
        """Use a kubeconfig, or several joined as in $KUBECONFIG; `context` None takes the current one.

        Tokens, token files, client certificates, exec plugins and auth providers are renewed when they expire or their files
        change; `timeout` is how long a plugin may take. Raises ConfigError that names the file and what is wrong with it.
        """
        # Imported here because it brings kubernetes_asyncio: 350 ms and 72 MiB that a pod never needs.
        from konverge.client.kubeconfig import open_kubeconfig

        env = os.environ if environ is None else environ
        kubeconfig = await open_kubeconfig(path, context=context, timeout=timeout)
        proxy = kubeconfig.proxy or proxy_from_environment(kubeconfig.server, env)
        return cls(
            server=kubeconfig.server,
            source=kubeconfig.source,
            namespace=kubeconfig.namespace,
            tls=TlsOptions(verify=kubeconfig.verify, server_name=kubeconfig.server_name, strict_x509=strict_x509),
            proxy=checked_proxy(proxy),
            origin=kubeconfig.origin,
        )

    @classmethod
    def direct(
        cls,
        server: str,
        *,
        token: str = "",
        ca: bytes = b"",
        certificate: bytes = b"",
        key: bytes = b"",
        namespace: str = "",
        tls: TlsOptions | None = None,
        proxy: str = "",
    ) -> ClientConfig:
        """Use the given server and credentials; `ca`, `certificate` and `key` are PEM bytes."""
        credentials = Credentials(
            authorization=f"Bearer {token}" if token else "",
            tls=TlsMaterial(ca=ca, certificate=certificate, key=key),
        )
        return cls(
            server=server,
            source=FixedCredentials(credentials),
            namespace=namespace,
            tls=tls,
            proxy=checked_proxy(proxy),
        )

    @classmethod
    def over(
        cls, transport: TransportFactory, *, server: str = "http://in-process", namespace: str = ""
    ) -> ClientConfig:
        """Use the transport that this factory creates, for instance to an API server in the same process."""
        return cls(
            server=server,
            source=FixedCredentials(Credentials()),
            namespace=namespace,
            origin="a transport of its own",
            transport=transport,
        )
