"""The official envtest archive: etcd, kube-apiserver and kubectl, fetched over HTTPS and held against a pinned SHA-512.

Guarantees: nothing is unpacked before the whole archive has the pinned checksum, so neither a mirror nor a proxy need be
trusted. If the network is closed, the fetch fails within seconds, and the next source is tried. Only regular files with
the expected names are unpacked, whatever their paths in the archive.

Caveats: without kube-controller-manager, which the archive lacks; only the pinned version.

Sources of the rules: the release index of the controller-tools project, which has the checksums.
"""

from __future__ import annotations

import hashlib
import shutil
import tarfile
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path, PurePosixPath

from konverge_testing.binaries import ENVTEST_VERSION
from konverge_testing.failures import InstallFailed
from konverge_testing.install_plan import ENVTEST_PROGRAMS
from konverge_testing.placing import placed

__all__ = ["MIRROR_VARIABLE", "Archive", "archive_for", "fetch", "platform_name"]

MIRROR_VARIABLE = "KONVERGE_ENVTEST_MIRROR"
"""A base URL that replaces the official URL, for machines that reach only a mirror; the checksums stay the same."""

_OFFICIAL = "https://github.com/kubernetes-sigs/controller-tools/releases/download"
_SILENCE_SECONDS = 10.0
_CHUNK = 1 << 18

_SHA512 = {
    "linux-amd64": "ea743186c8a799f5cf8faf16969f86189d003cb7d130e0ac4b58789f1e5748dc"
    "f30ebe91c837a10d5ac415383da3e10b9e64d65785c938c23e739781cfb76f08",
    "linux-arm64": "2d72ee985a8e262a3c57dc9f7f0fd891f6a8c7bf7ebaa2db6dc6d8eac8ae2818"
    "1afe51c1f368b67756cdb40b10de9b205609e1726e5f27f7c6d824dd9c6649ac",
    "darwin-amd64": "b4fe9f973cd1992e3880f8b230ed32c0c243b83371591e3e3315f4404df2cdbe"
    "f8ee94eeb9bb245b7e5feb987d5c4a76c43e0877654ab73f00d7bbc2b9984514",
    "darwin-arm64": "9278f9e5af556b2f1f2d139769c1f0d717c7b4426917fdebdba898bcb725a916"
    "e4910d6160886194ff9be9589ea7c5c32c2b8ae0754703874b7c8ba8ddfc41ce",
}
_MACHINES = {"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64"}

Report = Callable[[int, int], None]
"""Called with the number of bytes received, and the total (0: unknown)."""


@dataclass(frozen=True, slots=True)
class Archive:
    """One archive: its URL and its checksum."""

    url: str
    sha512: str


def platform_name(system: str, machine: str) -> str:
    """Return the archive's name for a platform, from `platform.system()` and `platform.machine()`.

    >>> platform_name("Linux", "x86_64")
    'linux-amd64'
    """
    return f"{system.lower()}-{_MACHINES.get(machine.lower(), machine.lower())}"


def archive_for(platform: str, environment: Mapping[str, str]) -> Archive | None:
    """Return the archive for a platform, or None if no checksum is pinned for it."""
    checksum = _SHA512.get(platform)
    if checksum is None:
        return None
    base = environment.get(MIRROR_VARIABLE, "").rstrip("/") or _OFFICIAL
    return Archive(f"{base}/envtest-v{ENVTEST_VERSION}/envtest-v{ENVTEST_VERSION}-{platform}.tar.gz", checksum)


def fetch(archive: Archive, directory: Path, report: Report, *, silence_seconds: float = _SILENCE_SECONDS) -> None:
    """Put the archive's programs into a folder.

    `silence_seconds` is how long connecting or waiting for more bytes may take. Raises InstallFailed with the reason.
    """
    directory.mkdir(parents=True, exist_ok=True)
    parcel = directory / ".envtest.tar.gz.part"
    try:
        result = _download(archive.url, parcel, report, silence_seconds)
        if result != archive.sha512:
            raise InstallFailed(f"{archive.url} is not what it should be: SHA-512 {result}, pinned is {archive.sha512}")
        _unpack(parcel, directory)
    except (OSError, HTTPException, tarfile.TarError, EOFError) as error:
        raise InstallFailed(
            f"{archive.url} could not be fetched: {_cause(error, silence_seconds)}; run the same command again later, "
            f"or name a mirror that this machine reaches in {MIRROR_VARIABLE}"
        ) from error
    finally:
        parcel.unlink(missing_ok=True)


def _cause(error: Exception, silence_seconds: float) -> str:
    """Return in one line why a download failed; connecting reports its timeout as the reason of a URLError, reading raises it."""
    inner = error.reason if isinstance(error, urllib.error.URLError) else error
    if isinstance(inner, TimeoutError):
        return f"the server sent nothing for {silence_seconds:g} s"
    return " ".join(f"{error}".split()) or type(error).__name__


def _download(url: str, target: Path, report: Report, silence_seconds: float) -> str:
    """Stream a URL into a file; returns its SHA-512."""
    if not url.startswith(("https://", "http://")):
        raise InstallFailed(f"{url} is no http address")
    checksum = hashlib.sha512()
    # The scheme is checked above, and the checksum verifies the content.
    with urllib.request.urlopen(url, timeout=silence_seconds) as response, target.open("wb") as file:  # noqa: S310  # the address is ours or the user's own mirror
        total = int(response.headers.get("Content-Length") or 0)
        came = 0
        while chunk := response.read(_CHUNK):
            file.write(chunk)
            checksum.update(chunk)
            came += len(chunk)
            report(came, total)
    return checksum.hexdigest()


def _unpack(parcel: Path, directory: Path) -> None:
    wanted = set(ENVTEST_PROGRAMS)
    with tarfile.open(parcel, "r:gz") as archive:
        for member in archive:
            name = PurePosixPath(member.name).name
            content = archive.extractfile(member) if member.isfile() and name in wanted else None
            if content is not None:
                with content, placed(directory / name) as path, path.open("wb") as file:
                    shutil.copyfileobj(content, file)
                wanted.remove(name)
    if wanted:
        raise InstallFailed(f"the archive lacks {', '.join(sorted(wanted))}")
