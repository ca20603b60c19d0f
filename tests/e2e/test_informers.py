"""Informers on a real API server: synchronization, handlers, recovery."""

import asyncio
import contextlib
import gc
import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest

from konverge.client import Client, ClientConfig
from konverge.clock import cpu_time
from konverge.errors import MetadataOnly, NotFound, NotServed, ServerFailure, TooManyRequests
from konverge.fields import Owner
from konverge.informers import Change, Informer, InformerSet, InformerSettings, RestartCause, Selection
from konverge.kinds import kind
from konverge_testing import ControlPlane, ControlPlaneConfig

pytestmark = [pytest.mark.control_plane, pytest.mark.timeout(180)]

CONFIG_MAP = kind("v1", "ConfigMap")
SECRET = kind("v1", "Secret")
ROLE_BINDING = kind("rbac.authorization.k8s.io/v1", "RoleBinding")
CRD = kind("apiextensions.k8s.io/v1", "CustomResourceDefinition")
READ = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list", "watch"]}


class Heard:
    """Records its events as text, and keeps the view that follows from them."""

    def __init__(self) -> None:
        self.words: list[str] = []
        self.view: dict[str, str] = {}
        self.wrong: list[str] = []

    async def of(self, words: str, seconds: float = 90.0) -> None:
        await until(lambda: words in self.words, seconds)

    def __call__(self, change: Change) -> None:
        if self.view.get(change.name) != (change.old.version if change.old else None):
            self.wrong.append(change.name)
        word = "added" if change.old is None else "deleted" if change.new is None else "changed"
        self.words.append(f"{word} {change.name}")
        if change.new is None:
            self.view.pop(change.name, None)
        else:
            self.view[change.name] = change.new.version


async def until(holds: Callable[[], bool], seconds: float = 90.0) -> None:
    async with asyncio.timeout(seconds):
        while not holds():
            await asyncio.sleep(0.01)


def informer_set(client: Client, **settings: Any) -> InformerSet:
    return InformerSet(
        client, settings=InformerSettings(**settings), managers=frozenset({client.name}), random=Random(1)
    )


async def changed(client: Client, name: str, namespace: str, value: str) -> None:
    await client.patch(CONFIG_MAP, name, namespace, patch={"data": {"value": value}}, style="merge")


# Between a client and its server


class Proxy:
    """Forwards TCP connections; can swallow every byte in silence, and can refuse connections."""

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.port = 0
        self.swallowing = False

    async def open(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def refuse(self) -> None:
        """Close the port and every connection."""
        if self._server is not None:
            self._server.close()
        for task in tuple(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(set(self._tasks))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        with contextlib.suppress(OSError, asyncio.CancelledError):
            up_reader, up_writer = await asyncio.open_connection(*self._target)
            try:
                async with asyncio.TaskGroup() as group:
                    group.create_task(self._pump(reader, up_writer))
                    group.create_task(self._pump(up_reader, writer))
            finally:
                up_writer.transport.abort()
                writer.transport.abort()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            if not self.swallowing:
                writer.write(data)
                await writer.drain()
        writer.close()


@asynccontextmanager
async def through_proxy(plane: ControlPlane, directory: Path) -> AsyncIterator[tuple[Client, Proxy]]:
    """A client of the administrator with all its traffic through a proxy."""
    proxy = Proxy(plane.host, plane.port)
    await proxy.open()
    text = plane.kubeconfig.read_text().replace(plane.url, f"https://127.0.0.1:{proxy.port}")
    kubeconfig = directory / "kubeconfig"
    kubeconfig.touch(mode=0o600)
    kubeconfig.write_text(text)
    try:
        async with Client(await ClientConfig.load(kubeconfig=kubeconfig), name="proxied") as client:
            yield client, proxy
    finally:
        await proxy.refuse()


# Sync and events


async def test_a_store_follows_the_server_by_a_streaming_list(admin: Client, namespace: str) -> None:
    await admin.create(CONFIG_MAP.new("before", namespace))
    heard, late = Heard(), Heard()
    async with informer_set(admin) as informers:
        informer = informers.acquire(Selection(CONFIG_MAP, namespace=namespace))
        await informer.add_handler("h", heard).synced()
        assert heard.view.keys() >= {"before"}
        await admin.create(CONFIG_MAP.new("after", namespace, data={"value": "1"}))
        await changed(admin, "after", namespace, "2")
        await admin.delete(CONFIG_MAP, "before", namespace)
        await heard.of("deleted before")
        await informer.add_handler("late", late).synced()

        cached = informer.store.get(namespace, "after")
        assert cached is not None
        live = await admin.get(CONFIG_MAP, "after", namespace)
        live.data["metadata"].pop("managedFields", None)
        assert cached.decode(CONFIG_MAP).data == live.data
        assert b"managedFields" not in cached.body
        assert late.view == heard.view
        assert heard.wrong == late.wrong == []
        statistics = informer.statistics()
        assert (statistics.lists, statistics.watches, statistics.fallbacks) == (0, 1, {})
        assert statistics.problem is None


async def test_a_plain_list_in_pages_gives_the_same(admin: Client, namespace: str) -> None:
    for number in range(7):
        await admin.create(CONFIG_MAP.new(f"n{number}", namespace))
    async with informer_set(admin, watch_list=False, page_size=3) as informers:
        informer = informers.acquire(Selection(CONFIG_MAP, namespace=namespace))
        heard = Heard()
        await informer.add_handler("h", heard).synced()
        assert {f"n{number}" for number in range(7)} <= heard.view.keys()
        assert informer.statistics().lists == 3
        cached = informer.store.get(namespace, "n3")
        assert cached is not None
        assert cached.decode(CONFIG_MAP).data["kind"] == "ConfigMap", "items of a list do not say it themselves"
        await changed(admin, "n3", namespace, "2")
        await heard.of("changed n3")


async def test_the_store_tells_when_it_shows_a_write(admin: Client, namespace: str) -> None:
    async with informer_set(admin) as informers:
        informer = informers.acquire(Selection(CONFIG_MAP, namespace=namespace))
        await informer.wait_synced()
        made = await admin.create(CONFIG_MAP.new("mine", namespace))
        version = made.metadata.resource_version
        await until(lambda: informer.store.shows(namespace, "mine", version) is True)
        assert informer.store.has_uid(namespace, "mine", made.metadata.uid)
        assert informer.store.shows(namespace, "mine", str(int(version) + 1000)) is False


async def test_field_sets_of_our_own_applies_are_kept_beside_the_object(admin: Client, namespace: str) -> None:
    async with informer_set(admin) as informers:
        informer = informers.acquire(Selection(CONFIG_MAP, namespace=namespace))
        await informer.wait_synced()
        body = {"metadata": {"name": "mine", "namespace": namespace}, "data": {"a": "1"}}
        await admin.apply(CONFIG_MAP, {"apiVersion": "v1", "kind": "ConfigMap", **body})
        await admin.create(CONFIG_MAP.new("foreign", namespace))
        await until(lambda: len(informer.store) >= 2 and informer.store.get(namespace, "foreign") is not None)
        mine, foreign = informer.store.get(namespace, "mine"), informer.store.get(namespace, "foreign")
        assert mine is not None
        assert foreign is not None
        assert mine.owned == {Owner(admin.name, "Apply", ""): b'{"f:data":{"f:a":{}}}'}
        assert foreign.owned is None


async def test_the_version_of_a_quiet_kind_moves_on_by_bookmarks(admin: Client, namespace: str) -> None:
    async with informer_set(admin, watch_timeout=(5, 5)) as informers:
        informer = informers.acquire(Selection(SECRET, namespace=namespace))
        await informer.wait_synced()
        made = await admin.create(SECRET.new("elsewhere", "default", data={}))
        try:
            # The server sends a bookmark shortly before it ends a watch, and about each minute.
            await until(lambda: informer.store.shows("default", "elsewhere", made.metadata.resource_version) is True)
            assert informer.statistics().bookmarks > 0
            assert informer.statistics().events == 0
        finally:
            await admin.delete(SECRET, "elsewhere", "default")


async def test_watches_that_end_in_good_order_go_on_without_a_list(admin: Client, namespace: str) -> None:
    async with informer_set(admin, watch_timeout=(1, 1)) as informers:
        informer = informers.acquire(Selection(CONFIG_MAP, namespace=namespace))
        heard = Heard()
        await informer.add_handler("h", heard).synced()
        await until(lambda: informer.statistics().restarts.get(RestartCause.ENDED, 0) >= 2)
        await admin.create(CONFIG_MAP.new("late", namespace))
        await heard.of("added late")
        assert informer.statistics().lists == 0
        assert informer.problem is None


# Which objects, and which parts of each


async def test_metadata_only_secrets_hold_no_data(admin: Client, namespace: str) -> None:
    await admin.create(SECRET.new("target", namespace, labels={"a": "b"}, data={"password": "aHVudGVyMg=="}))
    async with informer_set(admin) as informers:
        informer = informers.acquire(Selection(SECRET, namespace=namespace, metadata_only=True))
        await informer.wait_synced()
        await admin.patch(SECRET, "target", namespace, patch={"metadata": {"labels": {"a": "c"}}}, style="merge")

        def relabelled() -> bool:
            found = informer.store.get(namespace, "target")
            return found is not None and found.metadata.label("a") == "c"

        await until(relabelled)
        cached = informer.store.get(namespace, "target")
        assert cached is not None
        assert cached.body == b""
        assert "aHVudGVyMg" not in repr(cached.data())
        with pytest.raises(MetadataOnly):
            cached.decode(SECRET)
        assert informer.store.size == 0


async def test_selectors_decide_what_is_cached(admin: Client, namespace: str) -> None:
    for name, app in (("one", "shop"), ("two", "shop"), ("three", "blog")):
        await admin.create(CONFIG_MAP.new(name, namespace, labels={"app": app}))
    async with informer_set(admin) as informers:
        by_label = informers.acquire(Selection(CONFIG_MAP, namespace=namespace, labels="app=shop"))
        by_field = informers.acquire(Selection(CONFIG_MAP, namespace=namespace, fields="metadata.name=three"))
        heard = Heard()
        await by_label.add_handler("h", heard).synced()
        await by_field.wait_synced()
        assert heard.view.keys() == {"one", "two"}
        assert by_field.store.keys(namespace) == [(namespace, "three")]
        await admin.patch(CONFIG_MAP, "one", namespace, patch={"metadata": {"labels": {"app": "blog"}}}, style="merge")
        await admin.patch(
            CONFIG_MAP, "three", namespace, patch={"metadata": {"labels": {"app": "shop"}}}, style="merge"
        )
        await until(lambda: heard.view.keys() == {"two", "three"})
        assert heard.words[2:] == ["deleted one", "added three"], "leaving the selection is a deletion"


# Rights


async def test_a_missing_right_degrades_one_informer_and_mends_itself(
    client_for: Any, admin: Client, namespace: str
) -> None:
    await admin.create(CONFIG_MAP.new("known", namespace))
    client = await client_for(
        "watcher", rules=[{"apiGroups": [""], "resources": ["secrets"], "verbs": ["list", "watch"]}]
    )
    async with informer_set(client, backoff_cap=1.0, watch_timeout=(2, 2)) as informers:
        denied = informers.acquire(Selection(CONFIG_MAP, namespace=namespace))
        allowed = informers.acquire(Selection(SECRET, namespace=namespace))
        await allowed.wait_synced()
        await until(lambda: denied.problem is not None)
        assert denied.problem is not None
        assert denied.problem.cause == RestartCause.FORBIDDEN
        assert denied.problem.rule == READ
        assert not denied.synced
        assert allowed.problem is None

        role = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": "later", "namespace": namespace}}
        await admin.apply(kind("rbac.authorization.k8s.io/v1", "Role"), role | {"kind": "Role", "rules": [READ]})
        binding = role | {
            "kind": "RoleBinding",
            "subjects": [{"kind": "ServiceAccount", "name": "watcher", "namespace": namespace}],
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "later"},
        }
        await admin.apply(ROLE_BINDING, binding)
        await until(lambda: denied.synced and denied.problem is None)
        heard = Heard()
        await denied.add_handler("h", heard).synced()

        await admin.delete(ROLE_BINDING, "later", namespace)
        await until(lambda: denied.problem is not None and denied.problem.rule == READ)  # when the watch is reopened
        assert len(denied.store), "what was known stays readable"
        await admin.create(CONFIG_MAP.new("meanwhile", namespace))
        await admin.apply(ROLE_BINDING, binding)
        await heard.of("added meanwhile")
        await until(lambda: denied.problem is None)
        assert heard.wrong == []


# Kinds whose definitions are installed and deleted


def widgets(group: str) -> dict[str, Any]:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"widgets.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget"},
            "versions": [version],
        },
    }


_GROUPS = itertools.count(1)


async def create_when_served(client: Client, what: Any) -> None:
    async with asyncio.timeout(90):
        while True:
            try:
                await client.create(what)
                return
            except (NotFound, NotServed, TooManyRequests, ServerFailure):  # typical for a fresh CRD
                client.forget_discovery()
                await asyncio.sleep(0.1)


async def test_a_kind_appears_goes_and_comes_back(admin: Client, namespace: str) -> None:
    group = f"informers-{next(_GROUPS)}.example.com"
    widget = kind(f"{group}/v1", "Widget")
    heard = Heard()
    async with informer_set(admin, poll_cap=1.0, backoff_cap=2.0) as informers:
        informer = informers.acquire(Selection(widget))
        other = informers.acquire(Selection(CONFIG_MAP, namespace=namespace))
        registration = informer.add_handler("h", heard)
        await other.wait_synced()
        await until(lambda: informer.problem is not None)
        assert informer.problem is not None
        assert informer.problem.cause == RestartCause.NOT_SERVED
        assert "install its CRD" in informer.problem.message
        assert not registration.has_synced

        for round_ in ("1", "2"):
            await admin.create(CRD.decode(widgets(group)))
            await create_when_served(admin, widget.new(f"w{round_}", namespace))
            async with asyncio.timeout(60):
                await registration.synced()
            await heard.of(f"added w{round_}")
            await until(lambda: informer.problem is None)

            await admin.delete(CRD, f"widgets.{group}")
            await heard.of(f"deleted w{round_}", 60)
            await until(lambda: informer.problem is not None and informer.problem.cause == RestartCause.NOT_SERVED, 60)
            assert len(informer.store) == 0
            assert not registration.has_synced
        assert heard.wrong == []
        assert other.problem is None


# Connections and servers that fail


async def test_a_watch_that_is_silently_dead_is_noticed_and_repaired(
    control_plane: ControlPlane, admin: Client, namespace: str, tmp_path: Path
) -> None:
    async with (
        through_proxy(control_plane, tmp_path) as (client, proxy),
        informer_set(client, watch_idle=3.0) as informers,
    ):
        informer = informers.acquire(Selection(CONFIG_MAP, namespace=namespace))
        heard = Heard()
        await informer.add_handler("h", heard).synced()
        proxy.swallowing = True
        await admin.create(CONFIG_MAP.new("unheard", namespace))
        await asyncio.sleep(0.5)
        assert "added unheard" not in heard.words, "the proxy swallows"
        proxy.swallowing = False  # the network works again, but the old connection's stream has a hole
        began = asyncio.get_running_loop().time()
        await heard.of("added unheard", 10)
        assert asyncio.get_running_loop().time() - began < 5
        restarts = informer.statistics().restarts
        assert restarts.get(RestartCause.IDLE, 0) + restarts.get(RestartCause.UNREACHABLE, 0) >= 1
        assert informer.statistics().lists == 0


async def test_a_network_that_stays_silent_is_reported_and_mends_itself(
    control_plane: ControlPlane, admin: Client, namespace: str, tmp_path: Path
) -> None:
    async with (
        through_proxy(control_plane, tmp_path) as (client, proxy),
        informer_set(client, watch_idle=1.0, backoff_cap=1.0) as informers,
    ):
        informer = informers.acquire(Selection(CONFIG_MAP, namespace=namespace))
        heard = Heard()
        await informer.add_handler("h", heard).synced()
        proxy.swallowing = True
        await admin.create(CONFIG_MAP.new("unheard", namespace))
        await until(lambda: informer.statistics().restarts.get(RestartCause.IDLE, 0) == 1)
        await until(lambda: informer.problem is not None)
        proxy.swallowing = False
        await until(lambda: "added unheard" in heard.words and informer.problem is None)


async def test_refused_connections_are_waited_out(
    control_plane: ControlPlane, admin: Client, namespace: str, tmp_path: Path
) -> None:
    await admin.create(CONFIG_MAP.new("doomed", namespace))
    async with through_proxy(control_plane, tmp_path) as (client, proxy), informer_set(client) as informers:
        informer = informers.acquire(Selection(CONFIG_MAP, namespace=namespace))
        heard = Heard()
        await informer.add_handler("h", heard).synced()
        await proxy.refuse()
        await admin.delete(CONFIG_MAP, "doomed", namespace)
        await until(lambda: informer.problem is not None)
        await proxy.open()
        await heard.of("deleted doomed")
        await until(lambda: informer.problem is None)
        assert informer.statistics().lists == 0, "the version was still good"


async def test_a_deletion_that_happened_while_the_server_was_away_is_delivered(tmp_path: Path) -> None:
    """After its restart the server remembers no history, so the watch fails with 410 and only a new list gets the state."""
    async with ControlPlane(ControlPlaneConfig()) as plane, through_proxy(plane, tmp_path) as (client, proxy):
        config = await ClientConfig.load(kubeconfig=plane.kubeconfig)
        async with Client(config, name="admin") as admin, informer_set(client) as informers:
            await plane.create_namespace("web")
            for name in ("doomed", "replaced", "kept"):
                await admin.create(CONFIG_MAP.new(name, "web"))
            informer = informers.acquire(Selection(CONFIG_MAP, namespace="web"))
            heard = Heard()
            await informer.add_handler("h", heard).synced()
            known = len(heard.words)
            await proxy.refuse()
            await admin.delete(CONFIG_MAP, "doomed", "web")
            await admin.delete(CONFIG_MAP, "replaced", "web")
            await admin.create(CONFIG_MAP.new("replaced", "web"))
            await plane.restart_apiserver()
            await proxy.open()
            await until(lambda: "added replaced" in heard.words[known:], 60)
            assert heard.words[known:] == ["deleted doomed", "deleted replaced", "added replaced"]
            assert informer.statistics().restarts.get(RestartCause.EXPIRED) == 1, "410 in the middle"
            assert informer.statistics().lists == 0
            assert heard.wrong == []
            await until(lambda: informer.problem is None)


@pytest.mark.parametrize(
    ("config", "fallbacks"),
    [
        pytest.param(
            ControlPlaneConfig(feature_gates={"WatchList": False}), {RestartCause.UNSUPPORTED: 1}, id="feature off"
        ),
        pytest.param(ControlPlaneConfig(watch_cache=False), {}, id="no watch cache, which streams from etcd"),
    ],
)
async def test_servers_of_other_makes(config: ControlPlaneConfig, fallbacks: dict[str, int]) -> None:
    async with ControlPlane(config) as plane:
        admin = Client(await ClientConfig.load(kubeconfig=plane.kubeconfig), name="admin")
        async with admin, informer_set(admin) as informers:
            informer = informers.acquire(Selection(CONFIG_MAP))
            await informer.wait_synced()
            assert informer.statistics().fallbacks == fallbacks
            other = informers.acquire(Selection(CONFIG_MAP, namespace="default"))
            await other.wait_synced()
            assert other.statistics().fallbacks == {}, "what one learned is remembered for all"
            heard = Heard()
            await other.add_handler("h", heard).synced()
            await admin.create(CONFIG_MAP.new("new", "default"))
            await heard.of("added new")


# Many objects


class Stalls:
    """The longest step of this process's event loop, in seconds of CPU, so other processes do not count."""

    def __init__(self) -> None:
        self.longest = 0.0

    async def watch(self) -> None:
        last = cpu_time()
        while True:
            await asyncio.sleep(0.001)
            now = cpu_time()
            self.longest, last = max(self.longest, now - last), now


@pytest.mark.timeout(400)
async def test_five_thousand_objects_are_listed_both_ways() -> None:
    async with ControlPlane(ControlPlaneConfig()) as plane:  # discarded at once, which no namespace is
        admin = Client(await ClientConfig.load(kubeconfig=plane.kubeconfig), name="admin")
        async with admin:
            await plane.create_namespace("full")
            await fill(admin, "full")
            truth = {one.name: one.metadata.resource_version for one in (await admin.list(CONFIG_MAP, "full")).items}
            for watch_list in (True, False):
                stalls = Stalls()
                gc.collect()  # leftovers of the test itself
                watching = asyncio.create_task(stalls.watch())
                async with informer_set(admin, watch_list=watch_list) as informers:
                    informer: Informer = informers.acquire(Selection(CONFIG_MAP, namespace="full"))
                    heard = Heard()
                    await informer.add_handler("h", heard).synced()
                watching.cancel()
                assert heard.view == truth
                assert informer.statistics().lists == (0 if watch_list else -(-len(truth) // 500))
                assert stalls.longest < 0.05


async def fill(client: Client, namespace: str) -> None:
    numbers = iter(range(5_000))

    async def worker() -> None:
        for number in numbers:
            await client.create(CONFIG_MAP.new(f"n{number:05d}", namespace, data={"text": "x" * 200}))

    await asyncio.gather(*(worker() for _ in range(16)))
