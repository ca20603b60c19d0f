"""Continue tokens: the beginning of the next page of a LIST, and its version.

Guarantees: the same token as the server's, character by character. Source: k8s.io/apiserver `pkg/storage/continue.go`. Texts that are not
tokens are refused with the server's words for the usual mistakes; errors deep inside JSON only resemble Go's.
"""

from __future__ import annotations

import base64
import json
import posixpath
import re
from typing import Any, Final, NamedTuple

from konverge_testing.apiserver.statuses import StatusError, bad_request

__all__ = ["ContinuePosition", "continued", "encode_token", "parse_token"]

_VERSION: Final = "meta.k8s.io/v1"
_FOREIGN: Final = re.compile(r"[^A-Za-z0-9_-]")


class ContinuePosition(NamedTuple):
    """The position where a list continues."""

    start: str
    """The first key of the page, below the prefix: `/name` or `/namespace/name`; a key plus a zero character means the next key."""
    version: int
    """The version of the first page; negative: the current version."""


def encode_token(place: ContinuePosition) -> str:
    """Encode a token."""
    text = json.dumps({"v": _VERSION, "rv": place.version, "start": place.start}, separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def continued(place: ContinuePosition) -> str:
    """Return the token that continues a list inconsistently after its version has expired."""
    return encode_token(ContinuePosition(place.start.removeprefix("/"), -1))


def parse_token(text: str) -> ContinuePosition:
    """Decode a token. Raises StatusError (400)."""
    data = _decoded(text)
    if data.get("v", "") != _VERSION:
        raise _invalid(f"server does not recognize this encoded version {data.get('v', '')}")
    version, start = data.get("rv", 0), data.get("start", "")
    if version == 0:
        raise _invalid(f"incorrect encoded start resourceVersion (version {_VERSION})")
    if not start:
        raise _invalid(f"encoded start key empty (version {_VERSION})")
    key = start if start.startswith("/") else f"/{start}"
    if key.startswith("//") or posixpath.normpath(key) != key:
        raise _invalid(start)
    return ContinuePosition(key, version)


def _decoded(text: str) -> dict[str, Any]:
    if found := _FOREIGN.search(text):
        raise _invalid(f"illegal base64 data at input byte {len(text[: found.start()].encode())}")
    if len(text) % 4 == 1:
        raise _invalid(f"illegal base64 data at input byte {len(text) - 1}")
    decoded = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode("latin-1")
    try:
        data = json.loads(decoded)
    except ValueError:
        first = decoded.lstrip()[:1]
        if first in ("", "{"):
            raise _invalid("unexpected end of JSON input") from None
        raise _invalid(f"invalid character '{first}' looking for beginning of value") from None
    if (
        not isinstance(data, dict)
        or not isinstance(data.get("rv", 0), int)
        or not isinstance(data.get("start", ""), str)
    ):
        raise _invalid("json: cannot unmarshal value into Go value of type storage.continueToken")
    return data


def _invalid(why: str) -> StatusError:
    return bad_request(f"invalid continue token: continue key is not valid: {why}")
