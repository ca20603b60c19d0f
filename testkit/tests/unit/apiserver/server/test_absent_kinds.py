"""Kinds of a real API server that the in-memory server lacks: a request gets an error about the missing kind, not about the path."""

import msgspec
import pytest

from konverge_testing import ApiServer
from konverge_testing.apiserver.requests import ADMIN, Call
from konverge_testing.apiserver.shells import answered

_REGISTRATION = "/apis/admissionregistration.k8s.io/v1"


@pytest.mark.parametrize(
    ("path", "code", "words"),
    [
        (f"{_REGISTRATION}/validatingadmissionpolicies", 501, "validatingadmissionpolicies of admissionregistration"),
        (
            f"{_REGISTRATION}/validatingadmissionpolicybindings",
            501,
            "not implemented by konverge's in-memory API server",
        ),
        (f"{_REGISTRATION}/mutatingadmissionpolicies", 501, "mutatingadmissionpolicies"),
        (f"{_REGISTRATION}/mutatingadmissionpolicybindings", 501, "mutatingadmissionpolicybindings"),
        ("/apis/resource.k8s.io/v1/deviceclasses", 501, "deviceclasses of resource.k8s.io"),
        ("/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas", 501, "flowschemas of flowcontrol.apiserver.k8s.io"),
        (f"{_REGISTRATION}/policies", 404, "the server could not find the requested resource"),
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_absent_kind_gets_501_and_unknown_kind_404(method: str, path: str, code: int, words: str) -> None:
    async with ApiServer() as server:
        call = Call.of(method, path, b"{}" if method == "POST" else b"")
        call.user = ADMIN
        response = await answered(server.handle, call)
    assert response.status == code
    assert words in msgspec.json.decode(response.body)["message"]
