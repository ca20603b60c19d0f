"""moto's S3 server in this process, reached over HTTP, and direct access to its memory for tests."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from konverge.reconcilers.pools.buckets import S3Access

MOTO_KEY = "AKIAMOTOMOTOMOTOMOTO"
SECRET_KEY = "hunter2/hunter2+hunter2"  # of a server in this process


class MotoServer:
    """One running server."""

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint
        self.access = S3Access(endpoint=endpoint, access_key=MOTO_KEY, secret_key=SECRET_KEY)

    @property
    def _backend(self) -> Any:
        return self._of_account("")

    def _of_account(self, account: str) -> Any:
        from moto.core.models import DEFAULT_ACCOUNT_ID
        from moto.s3.models import s3_backends

        return s3_backends[account or DEFAULT_ACCOUNT_ID]["aws"]

    def put(self, bucket: str, key: str, *, versions: int = 1, keys: int = 1, account: str = "") -> None:
        """Put versions of objects into a bucket; with several keys each key ends with a number."""
        backend = self._of_account(account)
        backend.put_bucket_versioning(bucket, "Enabled")
        for number in range(versions):
            backend.put_object(bucket, f"{key}-{number % keys}" if keys > 1 else key, b"")

    def versions(self, bucket: str) -> int:
        """Return how many versions and delete markers a bucket has."""
        return sum(len(found) for _, found in self._backend.get_bucket(bucket).keys.lists())

    def buckets(self) -> set[str]:
        """Return the names of all buckets."""
        return set(self._backend.buckets)

    def foreign_bucket(self, name: str) -> None:
        """Create a bucket of another account."""
        self._of_account("999999999999").create_bucket(name, "us-east-1")


@contextmanager
def moto_server() -> Iterator[MotoServer]:
    """Run a server until the block ends; its memory is empty."""
    from moto.s3.models import s3_backends
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        s3_backends.reset()
        host, port = server.get_host_and_port()
        yield MotoServer(f"http://{host}:{port}")
    finally:
        server.stop()
