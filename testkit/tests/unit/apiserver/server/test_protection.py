"""Classes of volume attributes that are in use are not deleted."""

import asyncio
from typing import Any

import msgspec

from konverge_testing import ApiServer
from konverge_testing.apiserver.requests import ADMIN, Call
from konverge_testing.apiserver.shells import answered

_CLASSES = "/apis/storage.k8s.io/v1/volumeattributesclasses"
_CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"


async def _send(server: ApiServer, method: str, path: str, body: dict[str, Any] | None = None) -> int:
    call = Call.of(method, path, b"" if body is None else msgspec.json.encode(body), content_type="application/json")
    call.user = ADMIN
    response = await answered(server.handle, call)
    while not server.idle:
        await asyncio.sleep(0)
    return response.status


async def test_a_class_of_volume_attributes_goes_once_no_claim_names_it() -> None:
    claim = {
        "metadata": {"name": "c"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "volumeAttributesClassName": "fast",
        },
    }
    async with ApiServer() as server:
        await _send(
            server,
            "POST",
            _CLASSES,
            {"metadata": {"name": "fast"}, "driverName": "d.example.com", "parameters": {"a": "b"}},
        )
        await _send(server, "POST", _CLAIMS, claim)
        await _send(server, "DELETE", f"{_CLASSES}/fast")
        assert await _send(server, "GET", f"{_CLASSES}/fast") == 200
        await _send(server, "DELETE", f"{_CLAIMS}/c")
        assert await _send(server, "GET", f"{_CLASSES}/fast") == 404
