"""S3 over HTTP, by aiobotocore: the only effect of the family outside of Kubernetes.

Guarantees: every call has a limit of time. `S3Access` is the only source of keys, endpoints and regions: neither the environment
nor ~/.aws is read. No error contains a credential, a text of the server, or the key of an object. No redirect is followed, and the server
of an account that is `public_only` has a public address at each connection.

Caveats: aiobotocore and botocore log requests, with the access key in their headers, at level DEBUG of their own loggers. The daemon never
lowers foreign loggers below WARNING (cmd/konverged/logs.py); other programs should not either.

The retries of botocore are off: `retries.py` repeats calls in the virtual time of the lab too, and its delays have jitter.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import os
import re
import ssl
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import unquote_plus

from konverge.client.credentials import TlsMaterial
from konverge.client.tls import TlsOptions, make_context
from konverge.errors import ConfigError
from konverge.reconcilers.pools.buckets.api import PAGE, ObjectVersion, S3Access, S3Api, Upload, VersionPage
from konverge.reconcilers.pools.buckets.failures import BucketFailure, failure_of
from konverge.reconcilers.pools.buckets.words import BucketReason
from konverge.reconcilers.shared.resolver import NoPublicAddress, PublicResolver

__all__ = ["HttpS3", "HttpS3Connections", "s3_client_installed"]

Value = TypeVar("Value")

_SECONDS: Final = 30.0
"""The limit of one call: a DeleteObjects of 1,000 versions takes seconds on a slow server."""
_CONNECT_SECONDS: Final = 10.0
_ACCOUNTS: Final = 16
"""How many accounts keep their connections; beyond that, the least recently used accounts are closed."""
_NO_TAGS: Final = frozenset({"NoSuchTagSet", "NoSuchTagSetError"})
_NOT_IMPLEMENTED: Final = frozenset({"NotImplemented", "MethodNotAllowed"})
_GONE: Final = frozenset({"NoSuchKey", "NoSuchVersion"})
_KEPT: Final = _GONE | {"AccessDenied", "InvalidRequest", "ObjectLocked"}
"""Codes about one version: a retention lock has the first or the second."""
_NOT_IN_XML: Final = re.compile("[^\\t\\n\\r\\x20-\\ud7ff\\ue000-\\ufffd\\U00010000-\\U0010ffff]")
"""A character that no document of XML 1.0 can contain, not even as a reference (https://www.w3.org/TR/xml/#charsets)."""


def _named(version: ObjectVersion) -> dict[str, str]:
    return {"Key": version.key, "VersionId": version.version} if version.version else {"Key": version.key}


def s3_client_installed() -> bool:
    """Tell whether the extra `konverge[pools]` is installed."""
    return importlib.util.find_spec("aiobotocore") is not None


def _missing() -> BucketFailure:
    return BucketFailure(
        BucketReason.CLIENT_MISSING,
        "no S3 client is installed: pip install 'konverge[pools]', or choose ObjectBucketClaims",
    )


@dataclass(slots=True)
class _Account:
    """A connected account; it is not closed while it has users."""

    api: HttpS3
    stack: AsyncExitStack
    users: int = 0


class HttpS3Connections:
    """Accounts of S3 servers over HTTP; `close` ends all connections.

    `seconds` is the limit of one call. `resolver` looks up the servers of accounts that are `public_only`.
    """

    def __init__(self, *, seconds: float = _SECONDS, resolver: PublicResolver | None = None) -> None:
        self._seconds = seconds
        self._resolver = resolver
        self._session: Any = None
        self._accounts: dict[S3Access, _Account] = {}
        self._lock = asyncio.Lock()

    @asynccontextmanager
    async def of(self, access: S3Access) -> AsyncIterator[S3Api]:
        """Return the operations of an account."""
        async with self._lock:
            account = self._accounts.pop(access, None) or await self._connect(access)
            self._accounts[access] = account  # the last is the most recently used
            account.users += 1
            await self._close_idle()
        try:
            yield account.api
        finally:
            account.users -= 1

    async def close(self) -> None:
        """Close all connections."""
        async with self._lock:
            while self._accounts:
                await self._accounts.popitem()[1].stack.aclose()

    async def _close_idle(self) -> None:
        idle = [access for access, account in self._accounts.items() if not account.users]
        for access in idle[: max(0, len(self._accounts) - _ACCOUNTS)]:
            await self._accounts.pop(access).stack.aclose()

    async def _connect(self, access: S3Access) -> _Account:
        if self._session is None:
            self._session = await asyncio.to_thread(_load)
        async with AsyncExitStack() as stack:
            try:
                authorities = stack.enter_context(_authorities(access.ca_bundle))
                options = _options(access, self._seconds, authorities, self._resolver)
                client = await stack.enter_async_context(self._session.create_client("s3", **options))
                client.meta.events.register_first("needs-retry.s3", _end_of_redirects)
            except ConfigError:
                raise BucketFailure(
                    BucketReason.UNREACHABLE, "the CA bundle of the object storage is no PEM certificate"
                ) from None
            except ValueError:  # botocore: the endpoint cannot be parsed
                raise BucketFailure(BucketReason.UNREACHABLE, "the endpoint of the object storage is no URL") from None
            return _Account(HttpS3(client, access.region, self._seconds), stack.pop_all())


def _load() -> Any:
    """Return a session with the model of S3 loaded: 0.3 s of CPU, in a thread so that the event loop is not blocked."""
    try:
        session = importlib.import_module("aiobotocore.session").AioSession()
    except ModuleNotFoundError:
        raise _missing() from None
    for variable in ("config_file", "credentials_file"):
        session.set_config_variable(variable, os.devnull)
    session.set_config_variable("profile", None)
    session.warm_up_loader_caches("s3")
    return session


@contextmanager
def _authorities(bundle: str) -> Iterator[str | bool]:
    """Return the certificates that botocore trusts: a file of the bundle, else the system's authorities; by default it takes certifi's.

    aiobotocore has a setting for an SSLContext, which it refuses beside its own (aiobotocore/httpsession.py, _create_connector).
    """
    if not bundle:
        yield ssl.get_default_verify_paths().cafile or True
        return
    make_context(TlsMaterial(ca=bundle.encode()), TlsOptions())  # raises ConfigError
    with tempfile.TemporaryDirectory(prefix="konverge-") as folder:
        path = Path(folder, "ca.pem")
        path.write_text(bundle)
        yield str(path)


def _without_redirects() -> Any:
    """Return the HTTP session of aiobotocore without redirects.

    aiohttp follows redirects by default, so a server could send requests to any other host. botocore expects to see the response 307
    itself, as with urllib3 (botocore/utils.py, S3RegionRedirectorv2).
    """
    base: Any = importlib.import_module("aiobotocore.httpsession").AIOHTTPSession

    class Direct(base):  # type: ignore[misc]  # aiobotocore has no types
        async def _get_session(self, proxy_url: Any) -> Any:
            session = await super()._get_session(proxy_url)
            return _Direct(session)

    return Direct


def _end_of_redirects(request_dict: dict[str, Any], response: tuple[Any, dict[str, Any]] | None, **_: Any) -> None:
    """Mark a request as redirected if its response names no region.

    botocore sends another HeadBucket to such a server to find the region, and its response may be a redirect again, without end
    (botocore/utils.py, S3RegionRedirectorv2.get_bucket_region).
    """
    if response is None:
        return
    headers = response[1].get("ResponseMetadata", {}).get("HTTPHeaders", {})
    named = "x-amz-bucket-region" in headers or "Region" in response[1].get("Error", {})
    context = request_dict.get("context", {}).get("s3_redirect")
    if context is not None and not named:
        context["redirected"] = True


class _Direct:
    """A session whose requests follow no redirect."""

    def __init__(self, session: Any) -> None:
        self._session = session

    async def request(self, method: str, **arguments: Any) -> Any:
        return await self._session.request(method, **arguments, allow_redirects=False)


def _options(
    access: S3Access, seconds: float, authorities: str | bool, resolver: PublicResolver | None
) -> dict[str, Any]:
    # A proxy would resolve the name itself.
    guarded = (
        {"connector_args": {"resolver": resolver or PublicResolver()}, "proxies": {}} if access.public_only else {}
    )
    config = importlib.import_module("aiobotocore.config").AioConfig(
        connect_timeout=min(seconds, _CONNECT_SECONDS),
        read_timeout=seconds,
        retries={"total_max_attempts": 1},
        s3={"addressing_style": "path" if access.path_style else "virtual"},
        signature_version="s3v4",
        # Checksums in trailers are an addition of AWS that other servers refuse (https://github.com/boto/boto3/issues/4392).
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
        ignore_configured_endpoint_urls=True,
        user_agent_extra="konverge",
        http_session_cls=_without_redirects(),
        **guarded,
    )
    return {
        "endpoint_url": access.endpoint if "://" in access.endpoint else f"https://{access.endpoint}",
        "region_name": access.region,
        "aws_access_key_id": access.access_key,
        "aws_secret_access_key": access.secret_key,
        "verify": authorities,
        "config": config,
    }


def _is_private(error: BaseException) -> bool:
    """Tell whether a connection failed because its name has no public address."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, NoPublicAddress):
        cause = cause.__cause__ or cause.__context__
    return cause is not None


class HttpS3:
    """The operations of S3 on one account."""

    def __init__(self, client: Any, region: str, seconds: float) -> None:
        self._client = client
        self._region = region
        self._seconds = seconds

    @asynccontextmanager
    async def _limited(self, operation: str) -> AsyncIterator[None]:
        """Apply the time limit, and raise each error as a BucketFailure without causes: a cause may quote credentials."""
        exceptions = importlib.import_module("botocore.exceptions")
        unreadable = importlib.import_module("botocore.parsers").ResponseParserError
        try:
            async with asyncio.timeout(self._seconds):
                yield
        except exceptions.ClientError as error:
            code = error.response.get("Error", {}).get("Code", "")
            status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
            raise failure_of(operation, str(code), int(status)) from None
        except TimeoutError:
            raise BucketFailure(
                BucketReason.UNREACHABLE, f"{operation}: no response within {self._seconds:g} s"
            ) from None
        except (exceptions.ParamValidationError, exceptions.NoCredentialsError) as error:
            raise BucketFailure(BucketReason.REFUSED, f"{operation}: {type(error).__name__}") from None
        except (exceptions.BotoCoreError, unreadable, OSError) as error:
            if _is_private(error):
                message = f"{operation}: the endpoint has no public address: the administrators can add it to pools.instances.s3_endpoints"
                raise BucketFailure(BucketReason.ENDPOINT, message) from None
            # Only the name: the text may hold the URL of a proxy with a password.
            raise BucketFailure(BucketReason.UNREACHABLE, f"{operation}: {type(error).__name__}") from None

    async def _call(self, operation: str, method: Callable[..., Awaitable[Value]], **arguments: Any) -> Value:
        async with self._limited(operation):
            return await method(**arguments)

    async def head(self, bucket: str) -> bool:
        """Tell whether the bucket exists."""
        try:
            await self._call("HeadBucket", self._client.head_bucket, Bucket=bucket)
        except BucketFailure as failure:
            if failure.absent:
                return False
            raise
        return True

    async def create(self, bucket: str) -> None:
        """Create the bucket; succeeds if this account already has the bucket."""
        # us-east-1 is the only region that may not be named: https://github.com/boto/boto3/issues/125
        place = {} if self._region in {"", "us-east-1"} else {"LocationConstraint": self._region}
        more = {"CreateBucketConfiguration": place} if place else {}
        try:
            await self._call("CreateBucket", self._client.create_bucket, Bucket=bucket, **more)
        except BucketFailure as failure:
            if failure.code != "BucketAlreadyOwnedByYou":
                raise

    async def tags(self, bucket: str) -> Mapping[str, str] | None:
        """Return the tags of the bucket; None if the server has no tags of buckets."""
        try:
            tagging = await self._call("GetBucketTagging", self._client.get_bucket_tagging, Bucket=bucket)
        except BucketFailure as failure:
            if failure.code in _NO_TAGS:
                return {}
            if failure.code in _NOT_IMPLEMENTED:
                return None
            raise
        return {tag["Key"]: tag["Value"] for tag in tagging.get("TagSet", ())}

    async def tag(self, bucket: str, tags: Mapping[str, str]) -> None:
        """Replace the tags of the bucket."""
        tagging = {"TagSet": [{"Key": key, "Value": value} for key, value in tags.items()]}
        try:
            await self._call("PutBucketTagging", self._client.put_bucket_tagging, Bucket=bucket, Tagging=tagging)
        except BucketFailure as failure:
            if failure.code not in _NOT_IMPLEMENTED:
                raise

    async def first_versions(self, bucket: str, prefix: str = "") -> VersionPage:
        """Return the first page of versions and delete markers; of plain objects, if the server has no versions."""
        where = {"Bucket": bucket, "MaxKeys": PAGE, "Prefix": prefix}
        try:
            page = await self._call("ListObjectVersions", self._client.list_object_versions, **where)
        except BucketFailure as failure:
            if failure.code not in _NOT_IMPLEMENTED:
                raise
            page = await self._call("ListObjectsV2", self._client.list_objects_v2, **where)
        entries = [*page.get("Versions", ()), *page.get("DeleteMarkers", ()), *page.get("Contents", ())]
        versions = [ObjectVersion(entry["Key"], entry.get("VersionId", "")) for entry in entries]
        return VersionPage(versions, bool(page.get("IsTruncated")))

    async def delete_versions(self, bucket: str, versions: Sequence[ObjectVersion]) -> Mapping[str, int]:
        """Delete at most PAGE versions; return the error codes of the versions that stay, with their numbers.

        One request names all versions whose key XML can carry. Each other version has a request of its own, with the key in the URL:
        servers refuse the whole list for one such key (https://github.com/boto/boto3/issues/2005).
        """
        stay: Counter[str] = Counter()
        unlistable: list[ObjectVersion] = []
        listed: list[dict[str, str]] = []
        for version in versions[:PAGE]:
            if _NOT_IN_XML.search(version.key):
                unlistable.append(version)
            else:
                listed.append(_named(version))
        if listed:
            response = await self._call(
                "DeleteObjects", self._client.delete_objects, Bucket=bucket, Delete={"Objects": listed, "Quiet": True}
            )
            stay.update(str(error.get("Code", "")) for error in response.get("Errors", ()))
        for version in unlistable:
            try:
                await self._call("DeleteObject", self._client.delete_object, Bucket=bucket, **_named(version))
            except BucketFailure as failure:
                if failure.transient or failure.code not in _KEPT:
                    raise
                stay[failure.code] += 1
        codes: Counter[str] = Counter()
        for code, number in stay.items():
            codes[failure_of("DeleteObjects", code, 0).code or "Unknown"] += number
        return {code: number for code, number in codes.items() if code not in _GONE}

    async def uploads(self, bucket: str) -> Sequence[Upload]:
        """Return some uploads that were not completed; none if the server cannot list them."""
        try:
            # botocore requests encoded keys in all lists but this.
            page = await self._call(
                "ListMultipartUploads", self._client.list_multipart_uploads, Bucket=bucket, EncodingType="url"
            )
        except BucketFailure as failure:
            if failure.code in _NOT_IMPLEMENTED:
                return ()
            raise
        encoded = page.get("EncodingType") == "url"
        return [
            Upload(unquote_plus(upload["Key"]) if encoded else upload["Key"], upload["UploadId"])
            for upload in page.get("Uploads", ())
        ]

    async def abort(self, bucket: str, upload: Upload) -> None:
        """Abort an upload; succeeds if it does not exist any more."""
        try:
            await self._call(
                "AbortMultipartUpload",
                self._client.abort_multipart_upload,
                Bucket=bucket,
                Key=upload.key,
                UploadId=upload.upload,
            )
        except BucketFailure as failure:
            if failure.code != "NoSuchUpload":
                raise

    async def delete(self, bucket: str) -> bool:
        """Delete the bucket; False if it is not empty."""
        try:
            await self._call("DeleteBucket", self._client.delete_bucket, Bucket=bucket)
        except BucketFailure as failure:
            if failure.code == "BucketNotEmpty":
                return False
            if not failure.absent:
                raise
        return True
