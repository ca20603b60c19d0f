from collections.abc import Iterable
from typing import Any

import pytest

from konverge.errors import UsageError
from konverge.informers import Cached
from konverge.keys import Key
from konverge.kinds import kind
from konverge.objects import Metadata, Object
from konverge.outcome import Done, Outcome
from konverge.runtime import Caches, Context, Controller, Manager, Rule, cluster_role, rules_of
from konverge_testing import Lab

BACKUP = kind("example.com/v1", "Backup")
CRON_JOB = kind("batch/v1", "CronJob")
SECRET = kind("v1", "Secret")
CONFIG_MAP = kind("v1", "ConfigMap")
NAMESPACE = kind("v1", "Namespace", namespaced=False)
VOLUME = kind("v1", "PersistentVolume", namespaced=False)


def untyped(value: Any) -> Any:  # an error for the type checker, which an untyped caller could pass
    return value


class Reconciler:
    async def reconcile(self, backup: Object, ctx: Context[Object]) -> Outcome:
        return Done()


class Finalizing(Reconciler):
    async def finalize(self, backup: Object, ctx: Context[Object]) -> Outcome:
        return Done()


def nobody(secret: Metadata, caches: Caches) -> Iterable[Key]:
    return ()


def whole(name: str = "backup") -> Controller[Object]:
    return (
        Controller.of(BACKUP)
        .named(name)
        .owns(CRON_JOB)
        .watches(SECRET, to=nobody, metadata_only=True)
        .reconciled_by(Reconciler())
    )


def test_a_controller_declaration_is_a_frozen_value_and_starts_nothing() -> None:
    first = Controller.of(BACKUP)
    second = first.owns(CRON_JOB)
    assert first.owned == ()
    assert [owned.kind for owned in second.owned] == [CRON_JOB]
    with pytest.raises(AttributeError):
        first.name = "other"  # type: ignore[misc]  # the point of the test


def test_the_name_is_the_kind_until_it_is_given() -> None:
    assert Controller.of(BACKUP).name == "backup"
    assert Controller.of(BACKUP).named("nightly-copies").name == "nightly-copies"


@pytest.mark.parametrize(
    ("mistake", "words"),
    [
        (lambda: Controller.of(BACKUP).named("Nightly Copies"), "lower case"),
        (lambda: Controller.of(BACKUP).finalizer("backup"), "domain/name"),
        (lambda: Controller.of(BACKUP).owns(CRON_JOB).owns(CRON_JOB), "twice"),
        (lambda: Controller.of(BACKUP).reconciled_by(untyped(Reconciler)), "is no reconciler"),
        (lambda: Controller.of(BACKUP).reconciled_by(untyped(object())), "is no reconciler"),
        (lambda: Controller.of(BACKUP).finalizer("example.com/b").reconciled_by(Reconciler()), "has no finalize"),
        (lambda: Controller.of(BACKUP).reconciled_by(Reconciler()).finalizer("example.com/b"), "has no finalize"),
        (lambda: Controller.of(BACKUP).reconciled_by(Finalizing()), r"declare a finalizer, .finalizer\("),
        (lambda: Controller.of(BACKUP).finalizer("example.com/b").reconciles_deleting(), "finalize gets objects"),
        (lambda: Controller.of(BACKUP).reconciles_deleting().finalizer("example.com/b"), "finalize gets objects"),
        (lambda: Controller.of(untyped(Metadata)), "declares no kind"),
        (lambda: kind("batch/v1/x", "Job"), "group/version"),
        (lambda: kind("ConfigMap", "v1"), r'write kind\("v1", "ConfigMap"\)'),
        (lambda: kind("configmap", "v1"), r'write kind\("v1", "configmap"\)'),
        (lambda: kind("CronJob", "batch/v1"), r'write kind\("batch/v1", "CronJob"\)'),
        (lambda: kind("batch/V1", "CronJob"), "group/version"),
        (lambda: kind("v1", "Config Map"), "CamelCase"),
        (lambda: Controller.of(BACKUP).selecting("tier in"), "write key=value"),
        (
            lambda: Controller.of(BACKUP).watches(SECRET, to=nobody, metadata_only=True, unlisted=True),
            "add optional=True",
        ),
        (
            lambda: Controller.of(BACKUP).watches(SECRET, to=nobody, metadata_only=True, labels="a=b=c"),
            "write key=value",
        ),
        (lambda: Manager("x").add(Controller.of(BACKUP)), "no reconciler"),
    ],
)
async def test_mistake_in_a_controller_declaration_is_an_error_with_the_remedy(mistake: Any, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        mistake()


def test_a_misspelt_number_is_refused_by_its_name() -> None:
    with pytest.raises(TypeError, match="concurency"):
        untyped(Controller.of(BACKUP)).with_(concurency=3)


async def test_two_controllers_of_one_name_are_an_error() -> None:
    manager = Manager("shop")
    manager.add(whole())
    with pytest.raises(UsageError, match="named 'backup'"):
        manager.add(whole())


async def test_two_controllers_that_write_one_status_are_an_error_with_remedy() -> None:
    manager = Manager("shop")
    manager.add(whole("first"))
    with pytest.raises(UsageError) as caught:
        manager.add(whole("second"))
    for word in ("'first'", "'second'", "writes_status_as"):
        assert word in str(caught.value)
    manager.add(whole("second").writes_status_as("second"))
    manager.add(whole("third").writes_status_as("shared", shared=True))
    manager.add(whole("fourth").writes_status_as("shared", shared=True))


async def test_controllers_that_share_a_kind_by_different_keys_are_an_error() -> None:
    def by_namespace(metadata: Metadata) -> str:
        return metadata.namespace

    manager = Manager("shop")
    manager.add(whole("first").sharded())
    for labels in ("", "tier=gold"):
        second = whole("second").writes_status_as("second").sharded(by=by_namespace)
        with pytest.raises(UsageError, match=r"'first' and 'second' share .* by different keys.*same function"):
            manager.add(second.selecting(labels) if labels else second)
    manager.add(whole("second").writes_status_as("second").sharded())
    manager.add(whole("third").writes_status_as("third"))


def test_the_rbac_rules_follow_from_the_controller_declaration() -> None:
    controller = (
        Controller.of(BACKUP)
        .owns(CRON_JOB)
        .watches(SECRET, to=nobody, metadata_only=True)
        .finalizer("example.com/backup")
        .needs(Rule("", ("secrets",), ("get",)))
        .reconciled_by(Finalizing())
    )
    rules = {(rule.group, resource): set(rule.verbs) for rule in rules_of(controller) for resource in rule.resources}
    assert rules == {
        ("example.com", "backups"): {"get", "list", "watch", "patch"},
        ("example.com", "backups/status"): {"patch"},
        ("example.com", "backups/finalizers"): {"update"},
        ("batch", "cronjobs"): {"get", "list", "watch", "create", "patch", "delete"},
        ("", "secrets"): {"get", "list", "watch"},
        ("events.k8s.io", "events"): {"create", "patch"},
    }


def test_children_are_got_and_written_in_the_named_namespaces_only() -> None:
    controller = Controller.of(BACKUP).owns(CRON_JOB, written_in=("web", "shop", "web")).reconciled_by(Reconciler())
    found = [(rule.namespace, rule.verbs) for rule in rules_of(controller) if "cronjobs" in rule.resources]
    written = ("create", "delete", "get", "patch")
    assert sorted(found) == [("", ("list", "watch")), ("shop", written), ("web", written)]


@pytest.mark.parametrize(
    ("live", "secrets"),
    [
        ((), {"list", "watch"}),
        ((SECRET,), {"get", "list", "watch"}),
    ],
)
def test_watched_kind_needs_get_only_with_declared_live_reads(live: tuple[Any, ...], secrets: set[str]) -> None:
    controller = whole().watches(CONFIG_MAP, to=nobody, metadata_only=True).reads_live(*live)
    rules = {(rule.group, resource): set(rule.verbs) for rule in rules_of(controller) for resource in rule.resources}
    assert rules["", "secrets"] == secrets
    assert rules["", "configmaps"] == {"list", "watch"}
    assert "get" in rules["example.com", "backups"] & rules["batch", "cronjobs"], "the runtime gets what it writes"


@pytest.mark.parametrize("verb", ["create", "update", "patch", "delete", "*"])
def test_a_watched_kind_that_the_declared_rules_write_may_be_got(verb: str) -> None:
    """The barrier reads an object from the server if the response to its write was lost."""
    controller = whole().watches(CONFIG_MAP, to=nobody, metadata_only=True).reads_live()
    rules = rules_of(controller.needs(Rule("", ("configmaps",), (verb,))))
    assert "get" in {got for rule in rules if "configmaps" in rule.resources for got in rule.verbs}


def test_right_to_get_a_written_kind_is_limited_to_the_writes_namespace() -> None:
    controller = whole().watches(CONFIG_MAP, to=nobody, metadata_only=True).reads_live()
    rules = rules_of(controller.needs(Rule("", ("configmaps",), ("create",), namespace="web")))
    assert {rule.namespace for rule in rules if "configmaps" in rule.resources and "get" in rule.verbs} == {"web"}


async def test_an_undeclared_live_read_is_an_error_that_says_what_to_add(lab: Lab) -> None:
    said: list[str] = []

    class ReadsLive(Reconciler):
        async def reconcile(self, backup: Object, ctx: Context[Object]) -> Outcome:
            for what in (BACKUP, CONFIG_MAP, NAMESPACE):
                ctx.live(what)
            try:
                ctx.live(SECRET)
            except UsageError as error:
                said.append(str(error))
            return Done()

    named = (
        Controller.of(CONFIG_MAP)
        .named("backup")
        .watches(SECRET, to=nobody, metadata_only=True)
        .reads_live(BACKUP)
        .needs(Rule("", ("namespaces",), ("get", "list")))
        .reconciled_by(ReadsLive())
    )
    await lab.start(lambda manager: manager.add(named))
    await lab.create(CONFIG_MAP.new("one"))
    await lab.settled()
    assert set(said) == {
        (
            "controller 'backup' reads Secret live, which its .reads_live(...) does not name, so konverge rbac gives no right to get it: "
            "declare .reads_live(SECRET)"
        )
    }


async def test_live_list_without_the_right_is_an_error_that_names_it(lab: Lab) -> None:
    said: list[str] = []

    class ListsLive(Reconciler):
        async def reconcile(self, backup: Object, ctx: Context[Object]) -> Outcome:
            for what in (CONFIG_MAP, NAMESPACE):
                await ctx.live(what).list()
            await ctx.live(SECRET).find("default", "none")
            await ctx.live(VOLUME).list()
            for refused in (ctx.live(SECRET).list(), ctx.live(VOLUME).get("", "none")):
                try:
                    await refused
                except UsageError as error:
                    said.append(str(error))
            return Done()

    described = (
        Controller.of(CONFIG_MAP)
        .named("backup")
        .reads_live(SECRET)
        .needs(Rule("", ("namespaces",), ("get", "list")), Rule("", ("persistentvolumes",), ("list",)))
        .reconciled_by(ListsLive())
    )
    assert {rule.verbs for rule in rules_of(described) if "secrets" in rule.resources} == {("get",)}
    await lab.start(lambda manager: manager.add(described))
    await lab.create(CONFIG_MAP.new("one"))
    await lab.settled()
    assert set(said) == {
        (
            "controller 'backup' lists Secret live, and .reads_live(...) gives the right to get alone: "
            "declare .needs(Rule('', ('secrets',), ('list',)))"
        ),
        (
            "controller 'backup' reads PersistentVolume live, which its .reads_live(...) does not name, so konverge rbac gives no right to "
            "get it: declare .reads_live(PERSISTENTVOLUME)"
        ),
    }


@pytest.mark.parametrize(
    ("name", "plural"), [("CronJob", "cronjobs"), ("Ingress", "ingresses"), ("NetworkPolicy", "networkpolicies")]
)
def test_a_plural_is_guessed_as_kubernetes_guesses_it(name: str, plural: str) -> None:
    rules = rules_of(Controller.of(kind("x.example.com/v1", name)).reconciled_by(Reconciler()))
    assert plural in {resource for rule in rules for resource in rule.resources}


def test_rules_of_equal_verbs_share_one_entry_of_the_role() -> None:
    role = cluster_role(
        "r", [Rule("", ("secrets",), ("get",)), Rule("", ("configmaps",), ("get",)), Rule("", ("secrets",), ("list",))]
    )
    assert role["rules"] == [
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]},
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "list"]},
    ]
    assert (role["kind"], role["metadata"]) == ("ClusterRole", {"name": "r"})
    narrow = cluster_role("r", [], namespace="web")
    assert (narrow["kind"], narrow["metadata"]) == ("Role", {"name": "r", "namespace": "web"})


def test_index_needs_a_watched_kind_and_equals_an_equal_declaration() -> None:
    def by_schedule(backup: Object) -> Iterable[str]:
        return (str(backup.get("spec", "schedule")),)

    described = whole().indexes(BACKUP, "schedule", by=by_schedule)
    cached = Cached(Metadata(name="a", namespace="web"), b'{"metadata":{"name":"a"},"spec":{"schedule":"nightly"}}')
    assert [list(index(cached)) for index in described.indexed] == [["nightly"]]
    assert described.indexed == whole().indexes(BACKUP, "schedule", by=by_schedule).indexed
    only_metadata = whole().indexes(SECRET, "name", by=lambda found: (type(found).__name__,)).indexed[0]
    assert list(only_metadata(Cached(Metadata(name="a"), b""))) == ["Metadata"]
    with pytest.raises(
        UsageError, match=r"indexes ConfigMap, which it does not watch: declare it with \.owns or \.watches"
    ):
        whole().indexes(kind("v1", "ConfigMap"), "name", by=lambda found: (found.name,))
