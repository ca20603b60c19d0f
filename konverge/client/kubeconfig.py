"""A kubeconfig, through kubernetes_asyncio; the only module that imports it.

kubernetes_asyncio reads and joins the files, authenticates (tokens, token files, OIDC, gcloud, passwords) and writes a refreshed OIDC
token back. This module and `exec_plugin` replace the parts that differ from kubectl: the current context of several joined files
(the first, not the last), a context that names a missing user or cluster (an error, not an anonymous client), TLS data (kept in
memory, not in temporary files that outlive the process), impersonation, and the time of renewal.

Guarantees: credentials are renewed before they expire, when one of their files changes, and after the server refused them; at most
every ten seconds. While a renewal fails, the old credentials are used, and a warning gives the reason.

How several files are joined: https://kubernetes.io/docs/concepts/configuration/organize-cluster-access-kubeconfig/#merging-kubeconfig-files
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from konverge.client.credentials import Credentials, TlsMaterial, loop_time
from konverge.client.exec_plugin import run_plugin
from konverge.client.kubeconfig_types import check_cluster, check_context, check_user
from konverge.clock import from_rfc3339, wall_clock
from konverge.errors import ConfigError
from konverge.logs import get_logger
from konverge.words import LogKey

if TYPE_CHECKING:
    from kubernetes_asyncio.config.kube_config import KubeConfigLoader

__all__ = ["Found", "KubeconfigCredentials", "open_kubeconfig"]

RENEW_EVERY = 10.0
"""Seconds between two renewals, at least: a plugin that gives refused tokens must not be run in a loop."""
LOOK_EVERY = 1.0
"""Seconds between two stats of the files, at least."""
SKEW = timedelta(seconds=60)
"""How long before their expiry credentials are renewed; never more than a tenth of a short life."""

_HEADER_NAME: Final = "!#$&'*+^`|"
"""The punctuation that the name of a header may hold (RFC 7230, token), beside what `quote` never encodes; % itself is encoded."""

_log = get_logger("konverge.client")


@dataclass(frozen=True, slots=True)
class KubeconfigContext:
    """One context of a kubeconfig: its parts, and the folder that relative paths in them start from."""

    context: str
    namespace: str
    cluster: Mapping[str, Any]
    cluster_folder: Path
    user: dict[str, Any]
    user_folder: Path

    @property
    def files(self) -> tuple[Path, ...]:
        """The files whose change means new credentials."""
        named = [(self.cluster, self.cluster_folder, "certificate-authority")]
        named += [(self.user, self.user_folder, name) for name in ("client-certificate", "client-key", "tokenFile")]
        return tuple(folder / str(part[name]) for part, folder, name in named if part.get(name))


def paths_of(path: str | Path) -> list[Path]:
    """Split a path list such as $KUBECONFIG; raises ConfigError if none of the files exists."""
    named = [path] if isinstance(path, Path) else [Path(part) for part in path.split(os.pathsep) if part]
    paths = [name.expanduser() for name in named if name.expanduser().is_file()]
    if not paths:
        raise ConfigError(f"kubeconfig {path}: no such file")
    return paths


def _section(files: Mapping[Path, Mapping[str, Any]], section: str, name: str) -> tuple[Mapping[str, Any], Path] | None:
    """The first entry of that name, and the folder of its file; as kubectl, the first file wins."""
    for path, content in files.items():
        for entry in content.get(section) or []:
            if isinstance(entry, Mapping) and entry.get("name") == name:
                return entry.get(section.removesuffix("s")) or {}, path.parent.absolute()
    return None


def choose(files: Mapping[Path, Mapping[str, Any]], context: str | None) -> KubeconfigContext:
    """Pick a context out of one or more parsed kubeconfigs; raises ConfigError that names what is missing."""
    where = ", ".join(str(path) for path in files)
    current = next((str(config["current-context"]) for config in files.values() if config.get("current-context")), "")
    name = context or current
    if not name:
        raise ConfigError(f"kubeconfig {where}: no current-context is set; name one")
    chosen = _section(files, "contexts", name)
    if chosen is None:
        known = (
            ", ".join(str(e.get("name")) for config in files.values() for e in config.get("contexts") or []) or "none"
        )
        raise ConfigError(f"kubeconfig {where}: no context {name!r}; there are: {known}")
    parts = {}
    for section, key in (("clusters", "cluster"), ("users", "user")):
        wanted = str(chosen[0].get(key) or "")
        entry = _section(files, section, wanted) if wanted else None
        if entry is None and (wanted or key == "cluster"):
            raise ConfigError(f"kubeconfig {where}: context {name!r} names the {key} {wanted!r}, which is not there")
        parts[key] = entry or ({}, Path())
    (cluster, cluster_folder), (user, user_folder) = parts["cluster"], parts["user"]
    try:
        check_context(name, chosen[0])
        check_cluster(str(chosen[0].get("cluster")), cluster)
        check_user(str(chosen[0].get("user")), user)
    except ConfigError as error:
        raise ConfigError(f"kubeconfig {where}: {error}") from None
    if not cluster.get("server"):
        raise ConfigError(f"kubeconfig {where}: the cluster of context {name!r} has no server")
    namespace = str(chosen[0].get("namespace") or "")
    # The user's dict is not copied out of the file's: a refreshed OIDC token is written into it, and from there back to the file.
    return KubeconfigContext(
        name, namespace, cluster, cluster_folder, user if isinstance(user, dict) else {}, user_folder
    )


def _pem(part: Mapping[str, Any], folder: Path, name: str) -> bytes:
    """The bytes of `<name>-data` or of the file that `name` points to; data wins, as in kubectl."""
    data = part.get(f"{name}-data")
    try:
        if data:
            return base64.b64decode("".join(str(data).split()), validate=True)
        return (folder / str(part[name])).read_bytes() if part.get(name) else b""
    except binascii.Error:
        raise ConfigError(f"{name}-data is not base64") from None
    except OSError as error:
        raise ConfigError(f"{name} {error.filename}: {error.strerror}") from error


def tls_material(choice: KubeconfigContext) -> TlsMaterial:
    """Read the TLS part of a context."""
    certificate = _pem(choice.user, choice.user_folder, "client-certificate")
    key = _pem(choice.user, choice.user_folder, "client-key")
    if bool(certificate) is not bool(key):
        raise ConfigError("client-certificate and client-key belong together, and one of them is missing")
    ca = _pem(choice.cluster, choice.cluster_folder, "certificate-authority")
    return TlsMaterial(ca=ca, certificate=certificate, key=key)


def impersonation(user: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Return the headers for `as`, `as-uid`, `as-groups` and `as-user-extra`."""
    headers = [("Impersonate-User", str(user["as"]))] if user.get("as") else []
    if user.get("as-uid"):
        headers.append(("Impersonate-Uid", str(user["as-uid"])))
    headers += [("Impersonate-Group", str(group)) for group in user.get("as-groups") or ()]
    for key, values in (user.get("as-user-extra") or {}).items():
        # A key may hold what the name of a header may not: a slash, a space. The API server decodes it.
        # https://github.com/kubernetes/kubernetes/issues/63682
        headers += [(f"Impersonate-Extra-{quote(str(key), safe=_HEADER_NAME)}", str(value)) for value in values]
    return tuple(headers)


def token_end(authorization: str) -> datetime | None:
    """Return the expiry of a bearer token if it is a JWT with `exp`, else None."""
    parts = authorization.removeprefix("Bearer ").split(".")
    if len(parts) != 3:
        return None
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
        return datetime.fromtimestamp(float(claims["exp"]), tz=wall_clock().tzinfo)
    except (ValueError, KeyError, TypeError, OverflowError):
        return None


def certificate_end(certificate: bytes) -> datetime | None:
    """Return the expiry of a client certificate; None without a certificate or if it cannot be read."""
    from cryptography import x509

    try:
        return x509.load_pem_x509_certificate(certificate).not_valid_after_utc if certificate else None
    except ValueError:
        return None


def renew_at(end: datetime | None, now: datetime) -> datetime | None:
    """Return when to renew credentials that end then: a minute earlier, or at nine tenths of what is left of a short life."""
    if end is None:
        return None
    return end - min(SKEW, max(end - now, timedelta(0)) / 10)


class _Reader:
    """Reads the files and obtains credentials from the plugin or provider that they name. Blocking parts run in a thread."""

    def __init__(self, paths: list[Path], context: str | None, timeout: float) -> None:
        self._paths = paths
        self._context = context
        self._timeout = timeout
        self.where = os.pathsep.join(str(path) for path in paths)

    async def read(self) -> tuple[KubeconfigContext, Credentials, datetime | None]:
        """Return the context, its credentials and when they end; raises ConfigError."""
        try:
            async with asyncio.timeout(self._timeout):
                choice, material, loader = await asyncio.to_thread(self._open)
                if "exec" in choice.user:
                    return choice, *await _by_plugin(choice, material)
                return choice, *await _by_loader(choice, material, loader)
        except ConfigError as error:
            raise error if str(error).startswith("kubeconfig") else ConfigError(f"{self._what}: {error}") from error
        except TimeoutError as error:
            raise ConfigError(f"{self._what}: credentials did not come within {self._timeout:g} s") from error
        except Exception as error:  # the loader raises any type of error for malformed input
            raise ConfigError(f"{self._what}: {str(error) or type(error).__name__}") from error

    @property
    def _what(self) -> str:
        return f"kubeconfig {self.where}" + (f", context {self._context}" if self._context else "")

    def _open(self) -> tuple[KubeconfigContext, TlsMaterial, KubeConfigLoader]:
        from kubernetes_asyncio.config.kube_config import KubeConfigLoader, KubeConfigMerger

        try:
            merger = KubeConfigMerger(os.pathsep.join(str(path) for path in self._paths))
        except (AttributeError, KeyError, TypeError) as error:  # raised for YAML of another shape
            raise ConfigError("this is no kubeconfig") from error
        files = {Path(path): content for path, content in merger.config_files.items()}
        choice = choose(files, self._context)
        user = choice.user
        if "auth-provider" not in user:
            # The loader gets no TLS data, because it leaves copies of keys in temporary files.
            user = {key: value for key, value in user.items() if not key.startswith("client-")}
        config = {
            "current-context": "it",
            "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
            "clusters": [{"name": "it", "cluster": {"server": str(choice.cluster["server"])}}],
            "users": [{"name": "it", "user": user}],
        }
        loader = KubeConfigLoader(
            config_dict=config,
            config_base_path=str(choice.user_folder),
            config_persister=lambda _config: merger.save_changes(),
        )
        return choice, tls_material(choice), loader


async def _by_plugin(choice: KubeconfigContext, material: TlsMaterial) -> tuple[Credentials, datetime | None]:
    response = await run_plugin(choice.user["exec"] or {}, choice.user_folder, choice.cluster, material.ca)
    if response.certificate:
        material = TlsMaterial(ca=material.ca, certificate=response.certificate, key=response.key)
    authorization = f"Bearer {response.token}" if response.token else ""
    end = response.end or token_end(authorization) or certificate_end(response.certificate)
    return Credentials(authorization=authorization, headers=impersonation(choice.user), tls=material), end


async def _by_loader(
    choice: KubeconfigContext, material: TlsMaterial, loader: KubeConfigLoader
) -> tuple[Credentials, datetime | None]:
    from kubernetes_asyncio.client.configuration import Configuration

    configuration = Configuration(host=str(choice.cluster["server"]))
    await loader.load_and_set(configuration)
    authorization = str(configuration.api_key.get("BearerToken") or "").strip()
    credentials = Credentials(authorization=authorization, headers=impersonation(choice.user), tls=material)
    return credentials, _end(choice, authorization)


def _end(choice: KubeconfigContext, authorization: str) -> datetime | None:
    """Return the expiry of credentials that a provider can renew; others stay until the file changes."""
    provider = choice.user.get("auth-provider") or {}
    expiry = (provider.get("config") or {}).get("expiry")
    if expiry:
        return expiry if isinstance(expiry, datetime) else from_rfc3339(str(expiry))
    return token_end(authorization) if provider else None


def _stamps(files: tuple[Path, ...]) -> tuple[tuple[int, int, int], ...]:
    stamps = []
    for path in files:
        try:
            status = path.stat()
            stamps.append((status.st_mtime_ns, status.st_ino, status.st_size))
        except OSError:
            stamps.append((0, 0, 0))
    return tuple(stamps)


class KubeconfigCredentials:
    """The credentials of one context, renewed when they are due."""

    def __init__(
        self, reader: _Reader, choice: KubeconfigContext, credentials: Credentials, end: datetime | None
    ) -> None:
        self._reader = reader
        self._lock = asyncio.Lock()
        self._stale = False
        self._take(choice, credentials, end)
        self._look_at = self._renew_not_before = float("-inf")

    def _take(self, choice: KubeconfigContext, credentials: Credentials, end: datetime | None) -> None:
        self._files = choice.files
        self._seen = _stamps(choice.files)
        self._credentials = credentials
        self._due = renew_at(end, wall_clock())

    async def current(self) -> Credentials:
        """Return the credentials to use now; waits for a renewal under way, since the old credentials may have expired."""
        if self._is_due(loop_time()):
            async with self._lock:
                if self._is_due(loop_time()):
                    await self._renew()
        return self._credentials

    def distrust(self) -> None:
        """Renew at the next use, unless that was just done."""
        self._stale = True

    def _is_due(self, now: float) -> bool:
        if now < self._renew_not_before:
            return False
        if self._files and now >= self._look_at:
            self._look_at = now + LOOK_EVERY
            self._stale = self._stale or _stamps(self._files) != self._seen
        return self._stale or (self._due is not None and wall_clock() >= self._due)

    async def _renew(self) -> None:
        self._renew_not_before = loop_time() + RENEW_EVERY
        try:
            self._take(*await self._reader.read())
            self._stale = False
        except ConfigError as error:
            _log.warning(
                "credentials could not be renewed, the old credentials are used until they can",
                **{LogKey.ERROR: str(error)},
            )


@dataclass(frozen=True, slots=True)
class Found:
    """Address, namespace, TLS options and credentials of one context of a kubeconfig."""

    server: str
    namespace: str
    source: KubeconfigCredentials
    verify: bool
    server_name: str
    proxy: str
    origin: str


async def open_kubeconfig(path: str | Path, *, context: str | None, timeout: float) -> Found:
    """Read a kubeconfig and authenticate once; raises ConfigError that names the file and what is wrong with it."""
    reader = _Reader(await asyncio.to_thread(paths_of, path), context, timeout)
    choice, credentials, end = await reader.read()
    return Found(
        server=str(choice.cluster["server"]),
        namespace=choice.namespace,
        source=KubeconfigCredentials(reader, choice, credentials, end),
        verify=not choice.cluster.get("insecure-skip-tls-verify", False),
        server_name=str(choice.cluster.get("tls-server-name") or ""),
        proxy=str(choice.cluster.get("proxy-url") or ""),
        origin=f"{reader.where}, context {choice.context}",
    )
