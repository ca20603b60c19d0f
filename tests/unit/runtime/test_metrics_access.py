"""The users who may read metrics over TLS: the decisions on the in-memory API server in virtual time, and the server over real sockets."""

import asyncio
import json
import ssl
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from prometheus_client import CollectorRegistry

import konverge as kv
from konverge.client import Client
from konverge.errors import ConfigError, UsageError
from konverge.runtime.http.access import REVIEW_RULES, SUBJECT_ACCESS_REVIEWS, TOKEN_REVIEWS
from konverge.runtime.http.reviewer import AccessReviewer
from konverge.runtime.http.server import ProbeServer, ServerSettings
from konverge.runtime.http.serving_pair import ServingPair
from konverge_testing import ApiServer
from konverge_testing.apiserver.certificates import Authority
from konverge_testing.apiserver.faults.rules import Drop, Match, Refuse, Rule
from konverge_testing.apiserver.requests import Call, Response, User
from konverge_testing.in_process import in_process

FREE = "127.0.0.1:0"
RBAC = "rbac.authorization.k8s.io"
SCRAPER = "a-token-of-the-scraper"
OTHER = "a-token-of-someone-else"
USERS = {SCRAPER: User("prometheus", ()), OTHER: User("other", ("system:authenticated",))}
READS_METRICS = {"nonResourceURLs": ["/metrics"], "verbs": ["get"]}


pytestmark = pytest.mark.usefixtures("logs")


async def bind(admin: Client, name: str, kind: str, subject: str, *rules: dict[str, Any]) -> None:
    """Give a user or a group rights in the whole cluster."""
    head: dict[str, Any] = {"apiVersion": f"{RBAC}/v1", "metadata": {"name": name}}
    reference = {"apiGroup": RBAC, "kind": "ClusterRole", "name": name}
    subjects = [{"apiGroup": RBAC, "kind": kind, "name": subject}]
    await admin.create(kv.Object({**head, "kind": "ClusterRole", "rules": list(rules)}))
    await admin.create(kv.Object({**head, "kind": "ClusterRoleBinding", "roleRef": reference, "subjects": subjects}))


class Reviews:
    """A daemon that has the rights of the reviews and no others, its reviewer, and the reviews that it sent."""

    def __init__(self, server: ApiServer, **options: Any) -> None:
        self.server = server
        self.sent: list[str] = []
        config = in_process(self._handle, user=User("daemon"))
        self.client = Client(config, name="daemon", settings=kv.ManagerSettings().client)
        self.reviewer = AccessReviewer(lambda: self.client, **options)

    async def _handle(self, call: Call) -> Response:
        self.sent.append(call.path)
        return await self.server.handle(call)

    async def status(self, token: str, verb: str = "get", path: str = "/metrics") -> int:
        return (await self.reviewer.check([f"Bearer {token}"], verb, path)).status


@asynccontextmanager
async def reviews(**options: Any) -> AsyncIterator[Reviews]:
    async with ApiServer(tokens=USERS, rbac=True) as server:
        async with Client(server.config(), name="test") as admin:
            await bind(admin, "daemon", "User", "daemon", *(rule.to_dict() for rule in REVIEW_RULES))
            await bind(admin, "scrapers", "User", "prometheus", READS_METRICS)
        found = Reviews(server, **options)
        async with found.client:
            yield found


@pytest.mark.parametrize(
    ("authorization", "verb", "path", "status"),
    [
        ([], "get", "/metrics", 401),
        (["Basic YTpi"], "get", "/metrics", 401),
        (["Bearer"], "get", "/metrics", 401),
        (["Bearer "], "get", "/metrics", 401),
        ([f"Bearer  {SCRAPER}"], "get", "/metrics", 401),
        ([f"Bearer {SCRAPER} more"], "get", "/metrics", 401),
        ([f"Bearer {SCRAPER}\t"], "get", "/metrics", 200),
        (['Bearer "quoted"'], "get", "/metrics", 401),
        ([f"Bearer {SCRAPER}", f"Bearer {SCRAPER}"], "get", "/metrics", 401),
        (["Bearer unknown"], "get", "/metrics", 401),
        ([f"Bearer {SCRAPER}"], "get", "/metrics", 200),
        ([f"bearer {SCRAPER}"], "get", "/metrics", 200),
        ([f"Bearer {OTHER}"], "get", "/metrics", 403),
        ([f"Bearer {SCRAPER}"], "get", "/other", 403),
        ([f"Bearer {SCRAPER}"], "head", "/metrics", 403),
    ],
    ids=str,
)
async def test_request_with_a_known_token_and_the_users_right_is_admitted(
    authorization: list[str], verb: str, path: str, status: int
) -> None:
    async with reviews() as daemon:
        access = await daemon.reviewer.check(authorization, verb, path)
        assert access.status == status, access.text
        assert not any(token in access.text for token in USERS)
        if status == 403:
            assert f"nonResourceURLs: [{path}], verbs: [{verb}]" in access.text


async def test_right_may_be_granted_to_a_group_that_the_api_server_reports() -> None:
    async with reviews() as daemon, Client(daemon.server.config(), name="test") as admin:
        await admin.create(kv.Object({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "web"}}))
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "a", "namespace": "web"}}
        await admin.create(kv.Object(account))
        issued = await admin.raw("POST", "/api/v1/namespaces/web/serviceaccounts/a/token", body=b"{}")
        token = json.loads(issued)["status"]["token"]
        assert await daemon.status(token) == 403
        await bind(admin, "accounts", "Group", "system:serviceaccounts:web", READS_METRICS)
        await asyncio.sleep(30)
        assert await daemon.status(token) == 200


async def test_every_user_with_a_token_is_of_the_group_of_authenticated_users() -> None:
    async with reviews() as daemon:
        async with Client(daemon.server.config(), name="test") as admin:
            await bind(admin, "all", "Group", "system:authenticated", {**READS_METRICS, "verbs": ["head"]})
        assert await daemon.status(SCRAPER, "head") == 200


@pytest.mark.parametrize(
    ("token", "seconds", "sent"),
    [
        (SCRAPER, 0, []),
        (SCRAPER, 59, []),
        (SCRAPER, 60, [TOKEN_REVIEWS]),
        (SCRAPER, 299, [TOKEN_REVIEWS]),
        (SCRAPER, 300, [TOKEN_REVIEWS, SUBJECT_ACCESS_REVIEWS]),
        (OTHER, 29, []),
        (OTHER, 30, [SUBJECT_ACCESS_REVIEWS]),
        ("unknown", 29, []),
        ("unknown", 30, [TOKEN_REVIEWS]),
    ],
)
async def test_a_decision_is_asked_for_again_when_it_is_old(token: str, seconds: float, sent: list[str]) -> None:
    async with reviews() as daemon:
        first = await daemon.status(token)
        daemon.sent.clear()
        await asyncio.sleep(seconds)
        assert await daemon.status(token) == first
        assert daemon.sent == sent


async def test_many_requests_at_once_with_one_token_cost_two_reviews() -> None:
    async with reviews() as daemon:
        found = await asyncio.gather(*(daemon.status(SCRAPER) for _ in range(50)))
        assert found == [200] * 50
        assert len(daemon.sent) <= 2 * 4, "as many as may be in progress at once"


async def test_a_flood_of_unknown_tokens_is_forgotten_and_displaces_no_accepted_one() -> None:
    async with reviews(remembered=8) as daemon:
        assert await daemon.status(SCRAPER) == 200
        assert {await daemon.status(f"unknown-{number}") for number in range(50)} == {401}
        daemon.sent.clear()
        assert await daemon.status(SCRAPER) == 200
        assert daemon.sent == []
        assert await daemon.status("unknown-0") == 401
        assert daemon.sent == [TOKEN_REVIEWS]


@pytest.mark.parametrize(
    "resource", ["tokenreviews.authentication.k8s.io", "subjectaccessreviews.authorization.k8s.io"]
)
@pytest.mark.parametrize("failure", [Refuse(500, reason="InternalError"), Drop()], ids=["refused", "unreachable"])
async def test_an_api_server_that_fails_is_a_500_and_not_access(failure: Any, resource: str, logs: list[Any]) -> None:
    async with reviews() as daemon:
        fault = daemon.server.faults.add(Rule(Match(resources=(resource,)), failure))
        for _ in range(3):
            access = await daemon.reviewer.check([f"Bearer {SCRAPER}"], "get", "/metrics")
            assert access.status == 500
            assert SCRAPER not in access.text
        daemon.server.faults.remove(fault)
        assert await daemon.status(SCRAPER) == 200, "a failure is not remembered"
    told = [line for line in logs if line["log_level"] == "error"]
    assert len(told) == 1
    assert resource.partition(".")[0] in told[0]["error"]


async def test_without_review_rights_metrics_are_refused_and_the_log_names_them(logs: list[Any]) -> None:
    async with reviews() as daemon:
        async with Client(daemon.server.config(), name="test") as admin:
            await admin.delete(kv.kind(f"{RBAC}/v1", "ClusterRoleBinding", namespaced=False), "daemon")
        assert await daemon.status(SCRAPER) == 500
    [told] = [line for line in logs if line["log_level"] == "error"]
    assert 'cannot create resource "tokenreviews"' in told["error"]


async def test_before_the_manager_has_a_client_metrics_are_refused() -> None:
    manager = kv.Manager("shop")
    access = await AccessReviewer(lambda: manager.client).check([f"Bearer {SCRAPER}"], "get", "/metrics")
    assert access.status == 500


async def test_token_that_the_api_server_repeats_in_an_error_is_not_logged(logs: list[Any]) -> None:
    async def echo(call: Call) -> Response:
        status = {"kind": "Status", "code": 400, "reason": "BadRequest", "message": call.body.decode()}
        return Response(400, json.dumps(status).encode())

    async with Client(in_process(echo), name="daemon") as client:
        access = await AccessReviewer(lambda: client).check([f"Bearer {SCRAPER}"], "get", "/metrics")
    assert access.status == 500
    assert logs
    assert SCRAPER not in f"{logs}{access.text}"


# --- the certificate ------------------------------------------------------------------------------------------------------------


def write(folder: Path, authority: Authority) -> bytes:
    pair = authority.server("metrics", ["127.0.0.1"])
    (folder / "tls.crt").write_bytes(pair.certificate)
    (folder / "tls.key").write_bytes(pair.key)
    return pair.certificate


async def test_the_certificate_follows_its_files_and_stays_if_they_are_broken(tmp_path: Path, logs: list[Any]) -> None:
    authority = Authority.create("an authority")
    first, pair = write(tmp_path, authority), ServingPair(str(tmp_path))
    pair.start()
    try:
        assert pair.certificate == first
        (tmp_path / "tls.key").unlink()
        await asyncio.sleep(60)
        assert pair.certificate == first
        assert len([line for line in logs if line["log_level"] == "error"]) == 1
        second = write(tmp_path, authority)
        await asyncio.sleep(10)
        assert pair.certificate == second != first
    finally:
        await pair.stop()


async def test_files_missing_at_start_are_an_error_with_names_and_setting(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"tls\.crt cannot be read.*metrics_certificates"):
        ServingPair(str(tmp_path)).start()


async def test_error_for_a_missing_temporary_folder_names_what_to_mount(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, Authority.create("an authority"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "absent"))
    with pytest.raises(
        ConfigError, match=r"the serving certificate of metrics cannot be loaded.*mount a writable /tmp"
    ):
        ServingPair(str(tmp_path)).start()


async def test_a_self_made_certificate_is_replaced_before_it_ends() -> None:
    pair = ServingPair("")
    pair.start()
    try:
        first = pair.certificate
        await asyncio.sleep(59 * 86400)
        assert pair.certificate == first
        await asyncio.sleep(2 * 86400)
        assert pair.certificate != first
    finally:
        await pair.stop()


# --- over sockets ---------------------------------------------------------------------------------------------------------------


def serve(client: Any, **settings: Any) -> ProbeServer:
    return ProbeServer(
        registry=CollectorRegistry(),
        live=list,
        ready=list,
        settings=ServerSettings(**{"metrics": FREE, "health": "127.0.0.2:0", "secure": True, **settings}),
        client=client,
    )


def test_metrics_are_served_over_tls_to_authorized_users_and_probes_to_all(tmp_path: Path) -> None:
    authority = Authority.create("an authority")
    write(tmp_path, authority)
    verifying = ssl.create_default_context(cadata=authority.certificate.decode())

    async def get(url: str, token: str = "") -> tuple[int, str, str]:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        async with aiohttp.ClientSession() as session, session.get(url, headers=headers, ssl=verifying) as response:
            return response.status, response.headers.get("WWW-Authenticate", ""), await response.text()

    async def program() -> None:
        async with reviews() as daemon, serve(lambda: daemon.client, certificates=str(tmp_path)) as server:
            metrics, health = server.addresses["metrics"], server.addresses["health"]
            assert (metrics.split(":")[0], health.split(":")[0]) == ("https", "http")
            assert (await get(f"{metrics}/metrics"))[:2] == (401, "Bearer")
            assert (await get(f"{metrics}/metrics", OTHER))[0] == 403
            assert (await get(f"{metrics}/metrics", SCRAPER)) == (200, "", "")
            assert (await get(f"{health}/readyz"))[::2] == (200, "ok")
            with pytest.raises(aiohttp.ClientError):
                await get(metrics.replace("https", "http"))
        assert {task for task in asyncio.all_tasks() if task is not asyncio.current_task()} == set()

    asyncio.run(program())


@pytest.mark.parametrize(
    ("client", "settings", "complaint"),
    [
        (None, {}, "secure metrics take a client"),
        (
            lambda: None,
            {"health": FREE},
            "metrics over TLS need an address of their own: 127.0.0.1:0 is that of health",
        ),
    ],
    ids=["no client", "one address"],
)
async def test_secure_metrics_take_a_client_and_an_address_of_their_own(
    client: Any, settings: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(UsageError, match=complaint):
        await serve(client, **settings).start()
