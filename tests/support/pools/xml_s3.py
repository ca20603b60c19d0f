"""An S3 server over HTTP that is strict about XML, as AWS and MinIO are, with versions, uploads and locks in memory.

A body that XML 1.0 does not admit is refused with MalformedXML; names in lists are encoded if the request has `encoding-type`. Otherwise
they are written unchanged, so a list with a control character cannot be parsed.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from urllib.parse import quote_plus, unquote
from xml.etree import ElementTree
from xml.sax.saxutils import escape

from aiohttp import web
from aiohttp.test_utils import RawTestServer

from konverge.reconcilers.pools.buckets import S3Access
from konverge.reconcilers.pools.buckets.words import OWNER_TAG


@dataclass
class XmlS3:
    """The server, with one bucket."""

    owner: str
    versions: set[tuple[str, str]]
    uploads: set[tuple[str, str]] = field(default_factory=set)
    locked: frozenset[str] = frozenset()
    exists: bool = True
    deletions: list[str] = field(default_factory=list)
    """The deletions of versions: "list", or the key of one."""

    @asynccontextmanager
    async def serve(self) -> AsyncIterator[S3Access]:
        """Serve until the block ends."""
        # Without a router: its patterns match no path with a line feed.
        async with RawTestServer(self._respond, host="127.0.0.1") as server:
            yield S3Access(endpoint=f"http://127.0.0.1:{server.port}", access_key="a", secret_key="b")

    async def _respond(self, request: web.BaseRequest) -> web.Response:
        _, _, key = request.raw_path.split("?")[0].strip("/").partition("/")
        if not self.exists:
            return _error(404, "NoSuchBucket")
        if key:
            return self._object(request, unquote(key))
        match request.method:
            case "GET":
                return self._list(request)
            case "POST":
                return await self._delete_listed(request)
            case "DELETE" if self.versions or self.uploads:
                return _error(409, "BucketNotEmpty")
            case "DELETE":
                self.exists = False
                return web.Response(status=204)
        return web.Response()

    def _object(self, request: web.BaseRequest, key: str) -> web.Response:
        if "uploadId" in request.query:
            self.uploads.discard((key, request.query["uploadId"]))
            return web.Response(status=204)
        self.deletions.append(key)
        if key in self.locked:
            return _error(403, "AccessDenied")
        self.versions.discard((key, request.query.get("versionId", "")))
        return web.Response(status=204)

    def _list(self, request: web.BaseRequest) -> web.Response:
        query = request.query
        encoded = query.get("encoding-type") == "url"
        shown = quote_plus if encoded else escape
        head = "<EncodingType>url</EncodingType>" * encoded + "<IsTruncated>false</IsTruncated>"
        if "tagging" in query:
            return _document(
                "Tagging", f"<TagSet><Tag><Key>{OWNER_TAG}</Key><Value>{self.owner}</Value></Tag></TagSet>"
            )
        if "uploads" in query:
            found = (f"<Key>{shown(key)}</Key><UploadId>{upload}</UploadId>" for key, upload in sorted(self.uploads))
            parts = "".join(f"<Upload>{part}</Upload>" for part in found)
            return _document("ListMultipartUploadsResult", head + parts)
        found = (f"<Key>{shown(key)}</Key><VersionId>{version}</VersionId>" for key, version in sorted(self.versions))
        return _document("ListVersionsResult", head + "".join(f"<Version>{part}</Version>" for part in found))

    async def _delete_listed(self, request: web.BaseRequest) -> web.Response:
        self.deletions.append("list")
        try:
            tree = ElementTree.fromstring(await request.read())
        except ElementTree.ParseError:
            return _error(400, "MalformedXML")
        errors = ""
        for named in tree.iter():
            if not named.tag.endswith("Object"):
                continue
            part = {child.tag.rpartition("}")[2]: child.text or "" for child in named}
            if part["Key"] in self.locked:
                errors += "<Error><Code>AccessDenied</Code></Error>"
            self.versions.discard((part["Key"], part.get("VersionId", "")))
        return _document("DeleteResult", errors)


def _document(root: str, inner: str) -> web.Response:
    text = f'<?xml version="1.0" encoding="UTF-8"?><{root}>{inner}</{root}>'
    return web.Response(text=text, content_type="application/xml")


def _error(status: int, code: str) -> web.Response:
    document = _document("Error", f"<Code>{code}</Code>")
    return web.Response(text=document.text, content_type="application/xml", status=status)
