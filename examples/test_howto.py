"""The tests of the programs of docs/how-to, each by its page."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Self, cast

import howto_adopt
import howto_child_ready
import howto_every_night
import howto_http_session
import howto_live_secret
import howto_rate
import howto_rename_field
import howto_shared_config
import howto_side_by_side
import howto_spec_changed
import howto_terminal
import howto_two_statuses
from howto_adopt import Site, SiteSpec
from howto_child_ready import DEPLOYMENT, Shop
from howto_every_night import JOB, Report
from howto_http_session import Record, RecordSpec
from howto_live_secret import SECRET, Login
from howto_rate import Mailbox
from howto_rename_field import Cluster, ClusterSpec
from howto_shared_config import App, AppSpec
from howto_side_by_side import TRACK, Banner
from howto_spec_changed import Page, PageSpec
from howto_terminal import Volume, VolumeSpec
from howto_two_statuses import Host

import konverge as kv
from konverge.errors import NotOurs
from konverge_testing import Lab

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    import pytest

CONFIG_MAP = kv.kind("v1", "ConfigMap")


def has(key: str, value: str) -> Callable[[kv.Object], bool]:
    return lambda config: config.get("data", key) == value


def explains(text: str) -> Callable[[App], bool]:
    return lambda app: text in app.condition("Ready").message


def reconciles_of(reconciler: type[Any], monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """Return the list that takes the reasons of each reconcile."""
    recorded: list[tuple[str, ...]] = []
    reconcile = reconciler.reconcile

    async def recording(self: Any, object_: Any, ctx: kv.Context[kv.Resource]) -> kv.Outcome:
        recorded.append(ctx.reasons)
        return cast(kv.Outcome, await reconcile(self, object_, ctx))

    monkeypatch.setattr(reconciler, "reconcile", recording)
    return recorded


async def test_only_a_change_of_the_spec_reconciles_the_page(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    reconciles = reconciles_of(howto_spec_changed.PageReconciler, monkeypatch)
    await lab.start(howto_spec_changed.build)
    await lab.create(Page.new("home", spec=PageSpec(text="hello")))
    await lab.until(Page, "home", kv.is_true("Ready"))
    await lab.settled()
    before = list(reconciles)
    await lab.patch(Page, "home", {"metadata": {"labels": {"a": "b"}}})
    await lab.settled()
    assert reconciles == before
    await lab.patch(Page, "home", {"spec": {"text": "hello, world"}})
    await lab.until(CONFIG_MAP, "home", has("text", "hello, world"))
    await lab.delete(CONFIG_MAP, "home")
    await lab.until(CONFIG_MAP, "home", has("text", "hello, world"))


async def test_each_app_of_a_shared_config_sees_its_change(lab: Lab) -> None:
    await lab.start(howto_shared_config.build)
    for name in ("a", "b"):
        await lab.create(App.new(name, spec=AppSpec(config="colors")))
    await lab.until(App, "a", kv.is_false("Ready"))
    await lab.create(CONFIG_MAP.new("colors", data={"color": "red"}))
    for color in ("red", "blue"):
        await lab.patch(CONFIG_MAP, "colors", {"data": {"color": color}})
        for name in ("a", "b"):
            await lab.until(App, name, explains(color))


async def test_the_web_server_starts_after_the_database(lab: Lab) -> None:
    await lab.start(howto_child_ready.build)
    await lab.create(Shop.new("toys"))
    await lab.until(Shop, "toys", kv.is_false("Ready"))
    await lab.settled()
    assert await lab.find(DEPLOYMENT, "toys-web") is None
    await lab.ready(DEPLOYMENT, "toys-database")
    await lab.ready(DEPLOYMENT, "toys-web")
    await lab.until(Shop, "toys", kv.is_true("Ready"))


async def test_each_night_has_one_job(lab: Lab) -> None:
    await lab.start(howto_every_night.build)
    await lab.create(Report.new("sales"))
    await lab.until(Report, "sales", kv.is_true("Ready"))
    for jobs in (1, 2, 3):
        stored = await lab.client.list(JOB, lab.namespace)
        assert len(stored.items) == jobs
        await asyncio.sleep(86400)


async def test_a_dns_service_that_fails_is_called_again(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    sessions: list[Session] = []

    def connect() -> Session:
        sessions.append(Session())
        return sessions[-1]

    monkeypatch.setattr(howto_http_session, "connect", connect)
    await lab.start(howto_http_session.build)
    for name in ("www", "mail"):
        await lab.create(Record.new(name, spec=RecordSpec(address="10.0.0.1")))
    for name in ("www", "mail"):
        await lab.until(Record, name, kv.is_true("Ready"), timeout=60)
    [session] = sessions
    assert sorted(session.paths) == ["/records/mail", "/records/mail", "/records/www", "/records/www"]


class Session:
    """A session whose first request for each path fails."""

    def __init__(self) -> None:
        self.paths: list[str] = []
        self._failed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def put(self, path: str, *, json: object) -> Session:
        assert json == {"address": "10.0.0.1"}
        self._failed = path not in self.paths
        self.paths.append(path)
        return self

    def raise_for_status(self) -> None:
        if self._failed:
            raise TimeoutError


async def test_a_terminal_error_is_not_retried_until_the_spec_changes(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    reconciles = reconciles_of(howto_terminal.VolumeReconciler, monkeypatch)
    await lab.start(howto_terminal.build)
    await lab.create(Volume.new("data", spec=VolumeSpec(region="north")))
    volume = await lab.until(Volume, "data", lambda volume: volume.find_condition("Ready") is not None)
    assert volume.condition("Ready").reason == "UnknownRegion"
    await asyncio.sleep(3600)
    assert len(reconciles) == 1
    await lab.patch(Volume, "data", {"spec": {"region": "east"}})
    await lab.until(Volume, "data", kv.is_true("Ready"))


async def test_all_mailboxes_share_five_calls_a_second(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    times: list[float] = []

    async def call(*_: object) -> None:
        times.append(asyncio.get_running_loop().time())

    monkeypatch.setattr(howto_rate.MailboxReconciler, "call", call)
    await lab.start(howto_rate.build)
    for number in range(30):
        await lab.create(Mailbox.new(f"box-{number}"))
    for number in range(30):
        await lab.until(Mailbox, f"box-{number}", kv.is_true("Ready"))
    assert len(times) == 30
    assert all(later - earlier > 1.9 for earlier, later in zip(times, times[20:], strict=False))


async def test_an_object_without_an_owner_is_adopted_and_a_child_is_not(lab: Lab) -> None:
    await lab.create(CONFIG_MAP.new("shop", data={"title": "by hand", "color": "red"}))
    await lab.start(howto_adopt.build)
    await lab.create(Site.new("shop", spec=SiteSpec(title="Shop")))
    await lab.until(Site, "shop", kv.is_true("Ready"))
    config = await lab.get(CONFIG_MAP, "shop")
    assert config.get("data") == {"title": "Shop", "color": "red"}
    lab.expects(NotOurs)
    reference = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": "shop",
        "uid": config.metadata.uid,
        "controller": True,
    }
    await lab.create(
        kv.Object({**CONFIG_MAP.new("blog").to_dict(), "metadata": {"name": "blog", "ownerReferences": [reference]}})
    )
    await lab.create(Site.new("blog", spec=SiteSpec(title="Blog")))
    await lab.until(Site, "blog", kv.is_false("Ready"))


async def test_the_former_field_counts_until_it_is_replaced(lab: Lab) -> None:
    await lab.start(howto_rename_field.build)
    await lab.create(Cluster.new("main", spec=ClusterSpec(size=3)))
    await lab.until(Cluster, "main", kv.is_true("Deprecated"))
    await lab.until(CONFIG_MAP, "main", has("nodes", "3"))
    await lab.patch(Cluster, "main", {"spec": {"size": None, "replicas": 5}})
    await lab.until(Cluster, "main", kv.is_false("Deprecated"))
    await lab.until(CONFIG_MAP, "main", has("nodes", "5"))


async def test_each_operator_has_its_own_banners(lab: Lab) -> None:
    await lab.start(howto_side_by_side.build_stable, name="stable")
    await lab.start(howto_side_by_side.build_canary, name="canary")
    for track in ("stable", "canary"):
        await lab.create(Banner.new(track, labels={TRACK: track}))
        await lab.until(CONFIG_MAP, track, has("track", track))
    await lab.patch(Banner, "stable", {"metadata": {"labels": {TRACK: "canary"}}})
    await lab.until(CONFIG_MAP, "stable", has("track", "canary"))


async def test_a_login_is_ready_once_its_secret_has_a_password(lab: Lab) -> None:
    await lab.start(howto_live_secret.build)
    await lab.create(Login.new("shop"))
    await lab.until(Login, "shop", kv.is_false("Ready"))
    await lab.create(SECRET.new("shop", data={"password": "czNjcjN0"}))
    await lab.until(Login, "shop", kv.is_true("Ready"))


async def test_both_controllers_keep_their_conditions(lab: Lab) -> None:
    await lab.start(howto_two_statuses.build)
    await lab.create(Host.new("www"))
    for condition in ("Published", "Reachable", "Published"):
        await lab.until(Host, "www", kv.is_true(condition))
