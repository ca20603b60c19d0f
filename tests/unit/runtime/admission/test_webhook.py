"""The sentence of a webhook: its meaning, and the sentences that are errors."""

from collections.abc import Callable
from typing import Any

import pytest
from widgets import CONFIG_MAP, Widget

import konverge as kv
from konverge.errors import UsageError
from konverge.kinds import kind
from konverge.runtime.admission.settings import place_of


def yes(_: Any) -> kv.Allow:
    return kv.Allow()


VALIDATING = kv.Webhook.validating(Widget)
MUTATING = kv.Webhook.mutating(Widget)


@pytest.mark.parametrize(
    ("webhook", "path", "name"),
    [
        (MUTATING, "/mutate-tests-konverge-dev-v1-widget", "mutate.widgets.tests.konverge.dev"),
        (VALIDATING, "/validate-tests-konverge-dev-v1-widget", "validate.widgets.tests.konverge.dev"),
        (kv.Webhook.mutating(CONFIG_MAP), "/mutate--v1-configmap", "mutate.configmaps.core"),
        (VALIDATING.named("few"), "/few-tests-konverge-dev-v1-widget", "few.widgets.tests.konverge.dev"),
        (
            VALIDATING.on("UPDATE", subresource="status"),
            "/validate-tests-konverge-dev-v1-widget-status",
            "validate.status.widgets.tests.konverge.dev",
        ),
    ],
)
def test_path_and_name_follow_from_kind_and_verb(webhook: kv.Webhook[Any], path: str, name: str) -> None:
    assert (webhook.path, webhook.name) == (path, name)


def test_every_verb_returns_a_new_value() -> None:
    assert VALIDATING.within(3).timeout == 3
    assert VALIDATING.timeout == 10


WRONG: Any = VALIDATING
"""For mistakes that a type checker sees too."""
TEXT: Any = {"warnings": "no"}


@pytest.mark.parametrize(
    ("mistake", "words"),
    [
        (WRONG.on, "the operations are CREATE, UPDATE, DELETE, CONNECT"),
        (lambda: WRONG.on("create"), "the operations are"),
        (lambda: MUTATING.on("CREATE", "DELETE"), "a deletion has no object to change"),
        (lambda: VALIDATING.on("UPDATE", subresource="scale"), "of another kind"),
        (lambda: VALIDATING.named("Bad Name"), "lower case letters"),
        (lambda: VALIDATING.named("a" * 31), "up to 30"),
        (lambda: VALIDATING.within(31), "1 to 30 seconds"),
        (lambda: VALIDATING.within(0), "1 to 30 seconds"),
        (lambda: VALIDATING.selecting("a in ("), "clause"),
        (lambda: VALIDATING.selecting(namespaces="!="), "clause"),
        (lambda: VALIDATING.only_if("", "true"), "a name of its own"),
        (lambda: VALIDATING.only_if("a", "true").only_if("a", "false"), "a name of its own"),
        (WRONG.reinvoked_if_needed, "only a mutating webhook"),
        (lambda: VALIDATING.reads(CONFIG_MAP).reads(CONFIG_MAP), "twice"),
        (lambda: VALIDATING.handled_by(kv.Allow), "is no handler"),
        (lambda: WRONG.handled_by(None), "is no handler"),
        (lambda: kv.Deny(""), "say what is wrong"),
        (lambda: kv.Deny("no", code=200), "400 to 599"),
        (lambda: kv.Deny("no", **TEXT), "tuple"),
        (lambda: kv.Allow(**TEXT), "tuple"),
        (lambda: kv.WebhookSettings(service="a", url=""), "namespace/name"),
        (lambda: kv.WebhookSettings(service="a/b", url="https://x"), "one of them"),
        (lambda: kv.WebhookSettings(service="a/b:no"), "namespace/name:port"),
        (lambda: kv.WebhookSettings(service="a/b/c"), "namespace/name"),
        (lambda: kv.WebhookSettings(url="http://x"), "https://host"),
        (lambda: kv.WebhookSettings(secret="x"), "namespace/name"),
        (lambda: kv.WebhookSettings(drain=-1), "0 or more"),
        (lambda: kv.WebhookSettings(address=""), "host:port"),
        (lambda: kv.WebhookSettings(address="9443"), "host:port"),
        (lambda: kv.WebhookSettings(look_seconds=0), "above 0"),
    ],
)  # fmt: skip
def test_a_mistake_in_the_sentence_is_an_error_there(mistake: Callable[[], Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        mistake()


def test_a_manager_takes_webhooks_beside_controllers() -> None:
    manager = kv.Manager("shop")
    manager.add(VALIDATING.handled_by(yes))
    assert [one.path for one in manager.webhooks] == [VALIDATING.path]
    assert manager.controllers == ()
    assert str(manager.report()) == "webhooks: starting"
    with pytest.raises(LookupError, match="serves no webhooks now"):
        _ = manager.admission


@pytest.mark.parametrize(
    ("webhooks", "words"),
    [
        ([VALIDATING], "has no handler"),
        (
            [kv.Webhook.validating(kind(f"example.com/{one}", "Box")).handled_by(yes) for one in ("v1", "v2")],
            r"named validate\.boxs\.example\.com",
        ),
        (
            [VALIDATING.handled_by(yes), VALIDATING.handled_by(yes)],
            r"two webhooks are served under /validate-.*\.named",
        ),
    ],
)
def test_a_manager_refuses_webhooks_that_cannot_be_served(webhooks: list[kv.Webhook[Any]], words: str) -> None:
    manager = kv.Manager("shop")
    with pytest.raises(UsageError, match=words):
        for webhook in webhooks:
            manager.add(webhook)


def test_names_that_are_not_given_follow_from_the_managers() -> None:
    place = place_of("shop", kv.WebhookSettings(service="web/hooks:8443"))
    assert (place.configuration, place.secret, place.service) == (
        "shop",
        ("web", "shop-webhooks"),
        ("web", "hooks", 8443),
    )
    assert place.hosts == ("hooks.web.svc", "hooks.web.svc.cluster.local", "hooks.web")
    elsewhere = place_of(
        "shop", kv.WebhookSettings(url="https://127.0.0.1:9443/base/", secret="a/b", configuration="c")
    )
    assert (elsewhere.configuration, elsewhere.secret, elsewhere.hosts) == ("c", ("a", "b"), ("127.0.0.1",))
    assert elsewhere.client_config("/x") == {"url": "https://127.0.0.1:9443/base/x"}


def test_webhook_configuration_without_an_address_is_an_error() -> None:
    manager = kv.Manager("shop")
    manager.add(VALIDATING.handled_by(yes))
    with pytest.raises(UsageError, match=r"webhooks\.service"):
        manager.webhook_configurations()


def test_a_kind_that_declares_its_plural_is_named_by_it() -> None:
    endpoints = kind("example.com/v1", "Ox", plural="oxen")
    assert kv.Webhook.validating(endpoints).name == "validate.oxen.example.com"
