"""Bodies that are nested deeper than this server, or any server, allows."""

import msgspec
import pytest

from konverge_testing import ApiServer
from konverge_testing.apiserver.requests import ADMIN, Call
from konverge_testing.apiserver.shells import answered

_PATH = "/api/v1/namespaces/default/configmaps"


@pytest.mark.parametrize(
    ("media_type", "body", "code", "words"),
    [
        ("application/json", b'{"data": ' + b"[" * 300 + b"]" * 300 + b"}", 501, "deeper than 200 levels"),
        ("application/json", b'{"data": ' + b"[" * 100_000, 400, "invalid character '[' exceeded max depth"),
        ("application/yaml", b"{a: " * 300 + b"}" * 300, 501, "deeper than 200 levels"),
        ("application/yaml", b"[" * 200_000 + b"]" * 200_000, 400, "yaml: exceeded max depth of 10000"),
        ("application/yaml", b"- " * 20_000, 400, "yaml: exceeded max depth of 10000"),
    ],
)
async def test_body_with_excessive_nesting_is_refused_before_decoding(
    media_type: str, body: bytes, code: int, words: str
) -> None:
    async with ApiServer() as server:
        call = Call.of("POST", _PATH, body, content_type=media_type)
        call.user = ADMIN
        response = await answered(server.handle, call)
    assert response.status == code
    assert words in msgspec.json.decode(response.body)["message"]
