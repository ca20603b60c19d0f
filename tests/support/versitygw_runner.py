"""A real versitygw for a test: an S3 server over a folder, with versions and accounts. `tools/go_programs.py versitygw` builds it."""

import asyncio
import hashlib
from asyncio.subprocess import DEVNULL, STDOUT
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from konverge.reconcilers.pools.buckets import S3Access
from konverge_testing.ports import ReservedPort

_SECONDS = 60
_ROOT = ("root-key", "root-secret")
_ETAG = '"d41d8cd98f00b204e9800998ecf8427e"'


class Versitygw:
    """One running server."""

    def __init__(self, program: Path, folder: Path, port: int) -> None:
        self._program = program
        self._folder = folder
        self.endpoint = f"http://127.0.0.1:{port}"
        self.root = S3Access(endpoint=self.endpoint, access_key=_ROOT[0], secret_key=_ROOT[1])

    async def _admin(self, *words: str) -> None:
        flags = ("--access", _ROOT[0], "--secret", _ROOT[1], "--endpoint-url", self.endpoint)
        process = await asyncio.create_subprocess_exec(
            str(self._program), "admin", *flags, *words, stdout=asyncio.subprocess.PIPE, stderr=STDOUT
        )
        said, _ = await process.communicate()
        assert process.returncode == 0, said.decode()

    async def account(self, name: str) -> S3Access:
        """Create an account that may create buckets."""
        await self._admin("create-user", "--access", name, "--secret", f"{name}-secret", "--role", "userplus")
        return S3Access(endpoint=self.endpoint, access_key=name, secret_key=f"{name}-secret")

    def put_deleted(self, bucket: str, key: str, *, versions: int) -> None:
        """Put empty versions of an object and a delete marker into a bucket with versioning, as files: a tenth of the time of requests.

        The layout is the posix backend's: the latest version is in the bucket, older versions are in a folder named by the hash of the key.
        """
        digest = hashlib.sha256(key.encode()).hexdigest()
        older = self._folder / "versions" / bucket / digest[:2] / digest[2:4] / digest[4:6] / digest
        older.mkdir(parents=True)
        sidecar = self._folder / "sidecar"
        for number in range(versions):
            (older / _version(number)).touch()
            _describe(sidecar / str(older).lstrip("/") / _version(number), {"version-id": _version(number)})
        (self._folder / "buckets" / bucket / key).touch()
        _describe(sidecar / bucket / key, {"version-id": _version(versions), "delete-marker": ""})

    async def revoke(self, access: S3Access) -> None:
        """Delete an account; its buckets stay."""
        await self._admin("delete-user", "--access", access.access_key)


def _version(number: int) -> str:
    """Return the id of a version; ids increase with the number."""
    return f"01M86Q8G4H{number:016d}"


def _describe(sidecar: Path, attributes: dict[str, str]) -> None:
    (sidecar / "meta").mkdir(parents=True)
    for name, value in {"etag": _ETAG, **attributes}.items():
        (sidecar / "meta" / name).write_text(value)


async def _listening(port: int, process: asyncio.subprocess.Process, log: Path) -> None:
    async with asyncio.timeout(_SECONDS):
        while True:
            assert process.returncode is None, log.read_text()
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(0.1)
            else:
                writer.close()
                await writer.wait_closed()
                return


@asynccontextmanager
async def versitygw(program: Path, folder: Path) -> AsyncIterator[Versitygw]:
    """Run a server over a folder until the block ends."""
    for name in ("buckets", "versions", "iam", "sidecar"):
        (folder / name).mkdir(parents=True)
    port, log = ReservedPort("127.0.0.1"), folder / "log"
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            *(str(program), "--port", f"127.0.0.1:{port.number}", "--access", _ROOT[0], "--secret", _ROOT[1]),
            *("--iam-dir", str(folder / "iam"), "--iam-cache-disable", "--quiet"),
            *("posix", "--sidecar", str(folder / "sidecar"), "--versioning-dir", str(folder / "versions")),
            str(folder / "buckets"),
            stdin=DEVNULL,
            stdout=output,
            stderr=STDOUT,
        )
        try:
            await _listening(port.number, process, log)
            yield Versitygw(program, folder, port.number)
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()
            port.release()
