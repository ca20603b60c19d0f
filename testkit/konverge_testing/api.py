"""The few calls to the API server that the test kit itself makes: readiness, namespaces, ServiceAccount tokens.

Guarantees: blocking, one connection per call, a deadline on each; they work before there is any client and outside any event
loop. For everything else there is `konverge.client`.
"""

from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from konverge_testing.failures import ControlPlaneError, NoResponse

__all__ = ["Response", "Api"]

_CALL_SECONDS = 15.0
_EXISTS = 409
_JSON = "application/json"
_METADATA = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
_MERGE = "application/merge-patch+json"


@dataclass(frozen=True, slots=True, repr=False)
class Response:
    """An HTTP status and the body; the repr does not show it, because it may hold a token."""

    status: int
    text: str

    @property
    def ok(self) -> bool:
        """Whether the status is 2xx."""
        return 200 <= self.status < 300

    def document(self) -> dict[str, Any]:
        """Return the decoded body, or an empty dict if it is not a JSON object."""
        try:
            document = json.loads(self.text)
        except ValueError:
            return {}
        return document if isinstance(document, dict) else {}


class Api:
    """Calls with one client certificate. The constructor reads the files and sends nothing."""

    def __init__(self, *, host: str, port: int, authority: Path, certificate: Path, key: Path) -> None:
        self._host = host
        self._port = port
        self._context = ssl.create_default_context(cafile=str(authority))
        self._context.load_cert_chain(str(certificate), str(key))

    def request(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        seconds: float = _CALL_SECONDS,
        accept: str = _JSON,
        content_type: str = _JSON,
    ) -> Response:
        """Send one request and return the response, whatever its status; raises NoResponse if there is none."""
        connection = http.client.HTTPSConnection(self._host, self._port, timeout=seconds, context=self._context)
        data = None if body is None else json.dumps(body)
        try:
            connection.request(method, path, body=data, headers={"Accept": accept, "Content-Type": content_type})
            response = connection.getresponse()
            return Response(response.status, response.read().decode())
        except (OSError, http.client.HTTPException) as error:
            raise NoResponse(f"{method} {path}: no answer from the API server: {error}") from error
        finally:
            connection.close()

    def ready(self) -> tuple[bool, str]:
        """Request `/readyz`; returns whether it is ok, and the response's text or the network error."""
        try:
            answer = self.request("GET", "/readyz?verbose", seconds=2.0)
        except NoResponse as error:
            return False, str(error)
        return answer.ok, answer.text

    def create(self, path: str, document: Mapping[str, Any]) -> dict[str, Any]:
        """Create an object in a collection; returns what the server stored, or {} if an object of that name exists."""
        answer = self.request("POST", path, document)
        self._expect(answer, f"create {document['kind']}", (_EXISTS,))
        return answer.document() if answer.ok else {}

    def delete(self, path: str) -> None:
        """Delete an object; accepts that it is already deleted or under deletion."""
        self._expect(self.request("DELETE", path), f"delete {path}", (404, 409))

    def create_namespace(self, name: str) -> None:
        """Create a namespace; an existing namespace is left unchanged."""
        self.create("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})

    def delete_namespace(self, name: str) -> None:
        """Request the removal of a namespace; the namespace controller, if it runs, does it later."""
        self.delete(f"/api/v1/namespaces/{name}")

    def let_go(self, namespaces: Collection[str]) -> None:
        """Remove the finalizers of the custom objects of these namespaces: the controllers that would have done so ended with their tests.

        Otherwise the namespace controller would try to empty each of these namespaces again and again for as long as it runs.
        """
        if not namespaces:
            return
        for path in self._custom_collections():
            listed = self.request("GET", path, accept=_METADATA).document()
            for item in listed.get("items") or ():  # null, if there are none
                metadata = item["metadata"]
                if metadata.get("namespace") in namespaces and metadata.get("finalizers"):
                    base, _, plural = path.rpartition("/")
                    self.request(
                        "PATCH",
                        f"{base}/namespaces/{metadata['namespace']}/{plural}/{metadata['name']}",
                        {"metadata": {"finalizers": None}},
                        content_type=_MERGE,
                    )

    def _custom_collections(self) -> Iterator[str]:
        """The collections of namespaced custom resources, over all namespaces."""
        for group in self.request("GET", "/apis").document().get("groups") or ():
            if "." not in group["name"] or group["name"].endswith(".k8s.io"):
                continue
            path = f"/apis/{group['preferredVersion']['groupVersion']}"
            for resource in self.request("GET", path).document().get("resources") or ():
                if resource["namespaced"] and "/" not in resource["name"] and "list" in resource["verbs"]:
                    yield f"{path}/{resource['name']}"

    def create_service_account(self, namespace: str, name: str) -> None:
        """Create a ServiceAccount; an existing ServiceAccount is left unchanged."""
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}}
        self.create(f"/api/v1/namespaces/{namespace}/serviceaccounts", account)

    def service_account_token(
        self, namespace: str, name: str, *, seconds: int = 3600, audiences: tuple[str, ...] = ()
    ) -> str:
        """Request a token of a ServiceAccount by the TokenRequest API."""
        answer = self.request(
            "POST",
            f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token",
            {
                "apiVersion": "authentication.k8s.io/v1",
                "kind": "TokenRequest",
                "spec": {"expirationSeconds": seconds, "audiences": list(audiences)},
            },
        )
        self._expect(answer, f"request a token of {namespace}/{name}")
        return str(answer.document()["status"]["token"])

    def _expect(self, answer: Response, what: str, also: tuple[int, ...] = ()) -> None:
        if not answer.ok and answer.status not in also:
            raise ControlPlaneError(f"{what}: {answer.status} {answer.document().get('message', '')}".rstrip())
