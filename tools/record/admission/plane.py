"""A real control plane as `recorder` uses it: requests of any user, and waiting until its caches have caught up."""

import asyncio
import http.client
import json
import ssl
from collections.abc import Callable
from typing import Any

from record.admission.world import Data

from konverge_testing.plane import Plane

SECONDS = 20.0


class Server:
    """Requests to the plane as its administrator, or as a user whom the administrator impersonates."""

    def __init__(self, plane: Plane) -> None:
        self.plane = plane
        self._context = ssl.create_default_context(cafile=str(plane.layout.pki("ca.crt")))
        self._context.load_cert_chain(str(plane.layout.pki("admin.crt")), str(plane.layout.pki("admin.key")))
        self._bare = ssl.create_default_context(cafile=str(plane.layout.pki("ca.crt")))

    def ask(
        self,
        method: str,
        path: str,
        body: Data | None = None,
        headers: list[tuple[str, str]] | None = None,
        *,
        bare: bool = False,
    ) -> tuple[int, Any]:
        """Return status and document."""
        context = self._bare if bare else self._context
        connection = http.client.HTTPSConnection(
            "127.0.0.1", self.plane.layout.apiserver_port, timeout=30, context=context
        )
        try:
            data = json.dumps(body).encode() if body is not None else b""
            connection.putrequest(method, path)
            given = dict(headers or [])
            for name, value in [("Content-Length", str(len(data))), *(headers or [])]:
                connection.putheader(name, value)
            if body is not None and "Content-Type" not in given:
                connection.putheader("Content-Type", "application/json")
            connection.endheaders(data)
            answer = connection.getresponse()
            text = answer.read().decode()
            return answer.status, json.loads(text) if text.startswith("{") else text
        finally:
            connection.close()

    def as_user(
        self, user: str, groups: list[str], method: str, path: str, body: Data | None = None
    ) -> tuple[int, Any]:
        """Send a request as another user."""
        # A member of system:masters needs no impersonation to be the administrator.
        names = [("Impersonate-User", user), *(("Impersonate-Group", group) for group in groups)]
        kind = [("Content-Type", "application/merge-patch+json")] if method == "PATCH" else []
        return self.ask(method, path, body, [*names, *kind])

    def make(self, path: str, body: Data) -> Data:
        """Create something that must not fail."""
        status, document = self.ask("POST", path, body)
        if status != 201:
            raise SystemExit(f"{path}: {status} {document}")
        manifest: Data = document
        return manifest

    def wait_for_account(self, namespace: str) -> None:
        """Wait until pods can be created in a namespace."""
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/default"
        wait_for(path, lambda: self.ask("GET", path)[0] == 200)

    def wait_for_use(self, path: str) -> None:
        """Wait until the controller has counted the usage of a quota."""
        wait_for(path, lambda: "used" in self.get(path)["status"])

    def get(self, path: str) -> Any:
        """Read something."""
        return self.ask("GET", path)[1]


def bare(document: Any) -> Any:
    """Return a document without values that differ from run to run or are not compared."""
    if isinstance(document, list):
        return [bare(each) for each in document]
    if not isinstance(document, dict):
        return document
    return {key: bare(value) for key, value in document.items() if key != "managedFields"}


def wait_for(what: str, done: Callable[[], bool]) -> None:
    """Wait until the plane has caught up."""
    for _ in range(int(SECONDS / 0.1)):
        if done():
            return
        pause(0.1)
    raise SystemExit(f"waited in vain for {what}")


def pause(seconds: float) -> None:
    asyncio.run(asyncio.sleep(seconds))
