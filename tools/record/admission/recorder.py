"""Record a real control plane's responses about rights, tokens, namespaces, quota, webhooks and eviction, for the unit tests.

Run it by hand after a new version of Kubernetes: `make record ONLY=admission`. It starts a plane of its own, writes
`recorded.json` beside the tests of the rooms `auth` and `admission` and `bootstrap.json` into the room `auth`, and takes about a minute.

The requests of the sections `world`, `requests`, `escalations`, `reviews` and `namespaces` are the files themselves, without the responses; a new
case is a request without its response.
"""

import asyncio
import base64
import json
import re
import ssl
from pathlib import Path
from typing import Any

import trustme
from aiohttp import web
from record.admission.hooks import HOOKS, MAPS, plane_answer
from record.admission.plane import Server, bare, pause, wait_for
from record.admission.pods import record_defaults, record_evictions
from record.admission.world import QUOTA_SETUP, QUOTA_STEPS, Data

from konverge_testing.config import CONTROLLERS, ControlPlaneConfig
from konverge_testing.plane import Plane

ROOT = Path(__file__).resolve().parents[3]
ROOMS = ROOT / "testkit/tests/unit/apiserver"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
HOOK_PATH = "/apis/admissionregistration.k8s.io/v1/"
TOKEN_CACHE_SECONDS = 11.0
"""Seconds that a server caches the authentication of a token."""


def clean(document: Data) -> Data:
    """Return an object as a client would write it."""
    metadata = {
        key: value
        for key, value in document["metadata"].items()
        if key in ("annotations", "labels", "name", "namespace")
    }
    return {"apiVersion": document["apiVersion"], "kind": document["kind"], **bare(document), "metadata": metadata}


# -- the room auth ----------------------------------------------------------------------------------------------------


def bootstrap(server: Server) -> list[Data]:
    """Return the roles and bindings of an untouched plane."""
    results: list[Data] = []
    for plural in ("clusterroles", "clusterrolebindings", "roles", "rolebindings"):
        listed = server.get(f"{RBAC}/{plural}")
        kind = listed["kind"].removesuffix("List")
        whole = ({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, **item} for item in listed["items"])
        results += [clean(each) for each in whole]
    for each in results:
        if each.get("aggregationRule"):
            # The controller may have written these already; the values follow from the other roles.
            each["rules"] = None
    return results


def _rights(server: Server, recorded: Data) -> Data:
    server.make("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "rights"}})
    for each in recorded["world"]:
        place = "/namespaces/rights" if "namespace" in each["metadata"] else ""
        server.make(f"{RBAC}{place}/{each['kind'].lower()}s", each)
    wait_for("aggregation", lambda: len(server.get(f"{RBAC}/clusterroles/sum")["rules"] or ()) == 2)
    wait_for("the view role", lambda: bool(server.get(f"{RBAC}/clusterroles/edit")["rules"]))
    pause(1.0)
    cases = []
    for user, groups, method, path in _fields(recorded["requests"], "user", "groups", "method", "path"):
        sent: Data | None = {} if method in ("POST", "PUT", "PATCH") else None
        status, document = server.as_user(user, groups, method, path, sent)
        cases.append({"user": user, "groups": groups, "method": method, "path": path, **_refusal(status, document)})
    escalations = []
    for user, groups, plural, body in _fields(recorded["escalations"], "user", "groups", "plural", "body"):
        place = "/namespaces/rights" if "namespace" in body["metadata"] else ""
        status, document = server.as_user(user, groups, "POST", f"{RBAC}{place}/{plural}?dryRun=All", body)
        escalations.append(
            {
                "user": user,
                "groups": groups,
                "plural": plural,
                "body": body,
                "status": status,
                "answer": _failure(document),
            }
        )
    reviews = []
    for user, groups, path, body in _fields(recorded["reviews"], "user", "groups", "path", "body"):
        status, document = server.as_user(user, groups, "POST", path, body)
        reviews.append(
            {"user": user, "groups": groups, "path": path, "body": body, "status": status, "answer": bare(document)}
        )
    names = ("admin", "edit", "view")
    settled = {name: server.get(f"{RBAC}/clusterroles/{name}")["rules"] for name in names}
    return {
        "world": recorded["world"],
        "aggregated": settled,
        "requests": cases,
        "escalations": escalations,
        "reviews": reviews,
    }


def _fields(cases: list[Data], *names: str) -> list[list[Any]]:
    return [[case[name] for name in names] for case in cases]


def _refusal(status: int, document: Any) -> Data:
    refused = status == 403 and "cannot" in document["message"]
    return {"allowed": not refused, **({"answer": document} if refused else {})}


def _failure(document: Any) -> Any:
    return document if isinstance(document, dict) and document.get("kind") == "Status" else None


def _impersonations(server: Server) -> list[Data]:
    cases = []
    wanted: list[list[tuple[str, str]]] = [
        [("Impersonate-User", "ann")],
        [("Impersonate-User", "ann"), ("Impersonate-Group", "g1"), ("Impersonate-Group", "g2")],
        [("Impersonate-User", "system:serviceaccount:rights:robot")],
        [("Impersonate-User", "system:node:n1")],
        [("Impersonate-User", "ann"), ("Impersonate-Uid", "7")],
        [("Impersonate-User", "ann"), ("Impersonate-Extra-Scopes", "a")],
        [("Impersonate-User", "ann"), ("Impersonate-Extra-Example.com%2fscopes", "a")],
        [("Impersonate-User", "ann"), ("Impersonate-Group", "system:masters")],
        [("Impersonate-Group", "g1")],
        [("Impersonate-Uid", "7")],
    ]
    for account in ("robot", "actor", "player"):
        token = server.plane.service_account_token("rights", account)
        for headers in wanted:
            given = [("Authorization", f"Bearer {token}"), *headers]
            status, document = server.ask("GET", "/api/v1/namespaces/rights/pods", None, given, bare=True)
            cases.append({"account": account, "headers": headers, "status": status, "answer": _failure(document)})
    return cases


def _tokens(server: Server) -> Data:
    path = "/api/v1/namespaces/rights/serviceaccounts"
    review = "/apis/authentication.k8s.io/v1/tokenreviews"
    head = {"apiVersion": "authentication.k8s.io/v1"}

    def request(account: str, spec: Data, **metadata: str) -> Data:
        body = {**head, "kind": "TokenRequest", "metadata": metadata, "spec": spec}
        status, document = server.ask("POST", f"{path}/{account}/token", body)
        return {"account": account, "body": body, "status": status, "answer": bare(document)}

    def reviewed(token: str, **spec: Any) -> Data:
        status, document = server.ask("POST", review, {**head, "kind": "TokenReview", "spec": {"token": token, **spec}})
        return {"status": status, "answer": bare(document)}

    requests = [
        request("robot", {"expirationSeconds": 60}),
        request("robot", {"expirationSeconds": 1 << 40}),
        request("absent", {}),
        request("robot", {}, name="other"),
        request("robot", {}, uid="other"),
        request("robot", {"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "absent"}}),
        request("robot", {"boundObjectRef": {"kind": "Deployment", "apiVersion": "apps/v1", "name": "absent"}}),
        request("robot", {"audiences": ["other"], "expirationSeconds": 900}),
    ]
    good = request("robot", {})["answer"]["status"]["token"]
    reviews = {"valid": reviewed(good), "wrong": reviewed("abc"), "empty": reviewed("")}
    reviews["audience"] = reviewed(good, audiences=["other"])
    reviews["tampered"] = reviewed(good[:-3])
    masked = re.compile(r"eyJ[\w.-]+")
    bearer = [("Authorization", f"Bearer {good}")]
    body = {**head, "kind": "SelfSubjectReview"}
    own = server.ask("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", body, bearer, bare=True)
    server.ask("DELETE", f"{path}/robot")
    pause(TOKEN_CACHE_SECONDS)
    reviews["deleted"] = reviewed(good)
    server.make(path, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}})
    pause(1.0)
    reviews["made anew"] = reviewed(good)
    wrong = server.ask("GET", "/api/v1/pods", None, [("Authorization", "Bearer abc")], bare=True)
    nobody = server.ask("GET", "/api/v1/pods", None, bare=True)
    basic = server.ask("GET", "/api/v1/pods", None, [("Authorization", "Basic YTpi")], bare=True)
    calls = {"wrong": wrong[1], "nobody": nobody[1], "basic": basic[1]}
    result = {"requests": requests, "reviews": reviews, "self": bare(own[1]), "calls": calls}
    shown: Data = json.loads(masked.sub("TOKEN", json.dumps(result)))
    return shown


# -- the room admission -----------------------------------------------------------------------------------------------


def _namespaces(server: Server, recorded: list[Data]) -> list[Data]:
    finalized = {"name": "ending"}
    server.make("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": finalized})
    held = {"name": "held", "finalizers": ["example.com/hold"]}
    server.make("/api/v1/namespaces/ending/configmaps", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": held})
    server.ask("DELETE", "/api/v1/namespaces/ending")
    wait_for("the end", lambda: server.get("/api/v1/namespaces/ending")["status"]["phase"] == "Terminating")
    cases = []
    for method, path, body in _fields(recorded, "method", "path", "body"):
        status, document = server.ask(method, path, body)
        cases.append({"method": method, "path": path, "body": body, "status": status, "answer": _failure(document)})
    server.ask(
        "PUT",
        "/api/v1/namespaces/ending/configmaps/held",
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "held"}},
    )
    return cases


def _quota(server: Server) -> Data:
    high = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 1000}
    server.make("/apis/scheduling.k8s.io/v1/priorityclasses", high)
    for namespace, quotas in QUOTA_SETUP.items():
        server.make("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
        base = f"/api/v1/namespaces/{namespace}"
        server.wait_for_account(namespace)
        for quota in quotas:
            server.make(f"{base}/resourcequotas", quota)
            server.wait_for_use(f"{base}/resourcequotas/{quota['metadata']['name']}")
    pause(1.0)
    steps = []
    for method, path, body in QUOTA_STEPS:
        namespace = path.split("/namespaces/")[1].split("/")[0]
        listed = f"/api/v1/namespaces/{namespace}/resourcequotas"
        before = bare(server.get(listed)["items"])
        old = server.get(path) if method == "PUT" else None
        if old is not None and body is not None:
            body = {**body, "metadata": old["metadata"], "spec": {**old["spec"], **body["spec"]}}
        status, document = server.ask(method, path, body)
        after = {item["metadata"]["name"]: item["status"]["used"] for item in server.get(listed)["items"]}
        steps.append({
            "method": method, "path": path, "body": body, "status": status, "before": before, "old": bare(old),
            "answer": bare(document), "after": after,
        })  # fmt: skip
        pause(0.2)
    return {"steps": steps, "recalculated": _recalculated(server)}


def _recalculated(server: Server) -> Data:
    """Return the controller's results, with the objects that they depend on."""
    resources = {
        "/api/v1": ["configmaps", "persistentvolumeclaims", "pods", "secrets", "services"],
        "/apis/coordination.k8s.io/v1": ["leases"],
    }
    pause(6.0)
    result: Data = {}
    for namespace in QUOTA_SETUP:
        objects = {
            f"{base.removeprefix('/apis/').partition('/')[0] if base != '/api/v1' else ''}/{plural}": bare(
                server.get(f"{base}/namespaces/{namespace}/{plural}")["items"]
            )
            for base, plurals in resources.items()
            for plural in plurals
        }
        quotas = bare(server.get(f"/api/v1/namespaces/{namespace}/resourcequotas")["items"])
        result[namespace] = {"quotas": quotas, "objects": objects}
    return result


async def ask_with_webhooks(server: Server, cases: list[Data]) -> list[Data]:
    """Return the cases with the requests to their webhooks and the responses to the client."""
    authority = trustme.CA()
    certificate = authority.issue_cert("127.0.0.1")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate.configure_cert(context)
    seen: list[Data] = []
    behaviour: list[Any] = [None]

    async def handle(request: web.Request) -> web.StreamResponse:
        review = await request.json()
        seen.append({"target": request.path_qs, "review": bare(review)})
        return await plane_answer(behaviour[0], review, request.path)

    application = web.Application()
    application.router.add_post("/{path:.*}", handle)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    address = f"https://127.0.0.1:{runner.addresses[0][1]}"
    bundle = base64.b64encode(authority.cert_pem.bytes()).decode()
    try:
        return [await _hook_case(server, case, address, bundle, seen, behaviour) for case in cases]
    finally:
        await runner.cleanup()


async def _hook_case(
    server: Server, case: Data, address: str, bundle: str, seen: list[Data], behaviour: list[Any]
) -> Data:
    kind = case["kind"]
    plural = f"{HOOK_PATH}{kind.lower()}webhookconfigurations"
    text = json.dumps(case["webhooks"]).replace("ADDRESS", address).replace("BUNDLE", bundle)
    config = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": f"{kind}WebhookConfiguration",
        "metadata": {"name": "probe"},
    }
    manifest = await asyncio.to_thread(server.make, plural, {**config, "webhooks": json.loads(text)})
    await asyncio.sleep(1.3)
    seen.clear()
    behaviour[0] = case["behaviour"]
    method, path, body = case["request"]
    headers = [("User-Agent", "recorder")]
    if method == "PATCH":
        headers.append(("Content-Type", "application/merge-patch+json"))
    old = await asyncio.to_thread(server.ask, "GET", path.partition("?")[0]) if method != "POST" else (0, None)
    status, document = await asyncio.to_thread(server.ask, method, path, body, headers)
    asked = sorted(seen, key=lambda each: str(each["target"])) if kind == "Validating" else list(seen)
    await asyncio.to_thread(server.ask, "DELETE", f"{plural}/probe")
    shown = json.dumps({"asked": asked, "answer": bare(document), "webhooks": bare(manifest["webhooks"])})
    shown = (
        shown.replace(address, "ADDRESS").replace(address.removeprefix("https://"), "HOST").replace(bundle, "BUNDLE")
    )
    if method == "POST" and status == 201 and "dryRun" not in path:
        await asyncio.to_thread(server.ask, "DELETE", f"{path}/{document['metadata']['name']}")
    return {**case, "status": status, "old": bare(old[1]), **json.loads(shown)}


def main() -> None:
    """Record everything."""
    names = (*CONTROLLERS, "clusterrole-aggregation-controller")
    plane = Plane(ControlPlaneConfig(controllers=True, controller_names=names))
    plane.start()
    try:
        server = Server(plane)
        wait_for("the roles", lambda: server.ask("GET", f"{RBAC}/clusterroles/system:public-info-viewer")[0] == 200)
        roles = bootstrap(server)
        auth: Data = _rights(server, _recorded("auth"))
        for account in ("robot", "actor", "player"):
            plane.service_account_token("rights", account)
        auth["impersonations"] = _impersonations(server)
        auth["tokens"] = _tokens(server)
        admission: Data = {
            "namespaces": _namespaces(server, _recorded("admission")["namespaces"]),
            "quota": _quota(server),
            "evictions": record_evictions(server),
        }
        admission["defaults"] = record_defaults(server)
        server.make(MAPS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kept"}})
        admission["webhooks"] = asyncio.run(ask_with_webhooks(server, HOOKS))
    finally:
        plane.stop()
    _write(ROOT / "testkit/konverge_testing/apiserver/auth/bootstrap.json", roles)
    _write(ROOMS / "auth/recorded.json", auth)
    _write(ROOMS / "admission/recorded.json", admission)


def _recorded(room: str) -> Data:
    recorded: Data = json.loads((ROOMS / room / "recorded.json").read_text())
    return recorded


def _write(path: Path, document: Any) -> None:
    lines = _lines(document)
    path.write_text(lines + "\n")
    print(path.relative_to(ROOT), len(lines))


def _lines(document: Any, depth: int = 0) -> str:
    """Write JSON with a line per case, so that a diff shows the case."""
    if isinstance(document, list):
        return "[\n" + ",\n".join(json.dumps(each, separators=(",", ":")) for each in document) + "\n]"
    if isinstance(document, dict) and depth < 2:
        return (
            "{\n"
            + ",\n".join(f"{json.dumps(key)}: {_lines(value, depth + 1)}" for key, value in document.items())
            + "\n}"
        )
    return json.dumps(document, separators=(",", ":"))


if __name__ == "__main__":
    main()
