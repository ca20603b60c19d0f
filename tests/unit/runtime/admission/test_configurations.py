"""The webhook configurations, as data."""

import base64
from typing import Any

import pytest
from widgets import CONFIG_MAP, Widget

import konverge as kv
from konverge.runtime.admission.configurations import empty_secret
from konverge.runtime.admission.settings import IN_PROCESS, place_of

SERVICE = kv.WebhookSettings(service="web/hooks")


def yes(_: Any) -> kv.Allow:
    return kv.Allow()


CHECK = kv.Webhook.validating(Widget).handled_by(yes)
FILL = kv.Webhook.mutating(Widget).handled_by(yes)


def manager(*webhooks: kv.Webhook[Any], settings: kv.WebhookSettings = SERVICE, **more: Any) -> kv.Manager:
    made = kv.Manager("shop", settings=kv.ManagerSettings(webhooks=settings, **more))
    for webhook in webhooks:
        made.add(webhook)
    return made


def entry(webhook: kv.Webhook[Any], **more: Any) -> dict[str, Any]:
    (configuration,) = manager(webhook, **more).webhook_configurations()
    (found,) = configuration["webhooks"]
    assert isinstance(found, dict)
    return found


def test_a_plain_webhook_says_everything_that_matters() -> None:
    (configuration,) = manager(CHECK).webhook_configurations()
    assert configuration == {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "shop"},
        "webhooks": [
            {
                "name": "validate.widgets.tests.konverge.dev",
                "admissionReviewVersions": ["v1"],
                "clientConfig": {
                    "service": {
                        "namespace": "web",
                        "name": "hooks",
                        "path": "/validate-tests-konverge-dev-v1-widget",
                        "port": 443,
                    }
                },
                "failurePolicy": "Fail",
                "matchPolicy": "Equivalent",
                "rules": [
                    {
                        "apiGroups": ["tests.konverge.dev"],
                        "apiVersions": ["v1"],
                        "operations": ["CREATE", "UPDATE"],
                        "resources": ["widgets"],
                        "scope": "Namespaced",
                    }
                ],
                "sideEffects": "None",
                "timeoutSeconds": 10,
            }
        ],
    }


def test_each_sort_of_webhook_has_a_configuration_of_its_own() -> None:
    found = manager(CHECK, FILL, FILL.named("more"), kv.Webhook.validating(CONFIG_MAP).handled_by(yes))
    made = {one["kind"]: [each["name"] for each in one["webhooks"]] for one in found.webhook_configurations()}
    assert made == {
        "MutatingWebhookConfiguration": ["mutate.widgets.tests.konverge.dev", "more.widgets.tests.konverge.dev"],
        "ValidatingWebhookConfiguration": ["validate.widgets.tests.konverge.dev", "validate.configmaps.core"],
    }


@pytest.mark.parametrize(
    ("webhook", "field", "value"),
    [
        (CHECK.ignoring_failures(), "failurePolicy", "Ignore"),
        (CHECK.within(3), "timeoutSeconds", 3),
        (CHECK.with_effects(), "sideEffects", "NoneOnDryRun"),
        (CHECK.exactly(), "matchPolicy", "Exact"),
        (FILL.reinvoked_if_needed(), "reinvocationPolicy", "IfNeeded"),
        (CHECK.selecting("app=shop"), "objectSelector", {"matchLabels": {"app": "shop"}}),
        (
            CHECK.selecting(namespaces="team,!old,tier in (b,a),zone!=x"),
            "namespaceSelector",
            {
                "matchExpressions": [
                    {"key": "team", "operator": "Exists"},
                    {"key": "old", "operator": "DoesNotExist"},
                    {"key": "tier", "operator": "In", "values": ["a", "b"]},
                    {"key": "zone", "operator": "NotIn", "values": ["x"]},
                ]
            },
        ),
        (
            CHECK.selecting("a=1,a=2"),
            "objectSelector",
            {"matchLabels": {"a": "2"}, "matchExpressions": [{"key": "a", "operator": "In", "values": ["1"]}]},
        ),
        (CHECK.only_if("few", "size(object.spec) < 3"), "matchConditions", [{"name": "few", "expression": "size(object.spec) < 3"}]),
    ],
)  # fmt: skip
def test_a_verb_is_a_field_of_the_entry(webhook: kv.Webhook[Any], field: str, value: Any) -> None:
    assert entry(webhook)[field] == value


def test_a_subresource_and_operations_are_in_the_rule() -> None:
    (rule,) = entry(CHECK.on("UPDATE", "DELETE", subresource="status"))["rules"]
    assert (rule["operations"], rule["resources"]) == (["UPDATE", "DELETE"], ["widgets/status"])


def test_a_manager_of_one_namespace_asks_for_its_objects_alone() -> None:
    assert entry(CHECK, namespace="web")["namespaceSelector"] == {"matchLabels": {"kubernetes.io/metadata.name": "web"}}
    both = entry(CHECK.selecting(namespaces="team=a"), namespace="web")["namespaceSelector"]
    assert both == {"matchLabels": {"team": "a", "kubernetes.io/metadata.name": "web"}}


def test_the_owner_of_the_certificates_is_named_on_request() -> None:
    (given,) = manager(CHECK).webhook_configurations(bundle=b"PEM")
    assert base64.b64decode(given["webhooks"][0]["clientConfig"]["caBundle"]) == b"PEM"
    (injected,) = manager(CHECK).webhook_configurations(inject_from="web/cert")
    assert injected["metadata"]["annotations"] == {"cert-manager.io/inject-ca-from": "web/cert"}


def rules(made: kv.Manager) -> list[dict[str, Any]]:
    return [rule.to_dict() for rule in made.rules()]


def test_self_made_certificates_need_one_secret_and_the_bundles() -> None:
    assert rules(manager(CHECK.reads(CONFIG_MAP), FILL)) == [
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"]},
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "update"], "resourceNames": ["shop-webhooks"]},
        {
            "apiGroups": ["admissionregistration.k8s.io"],
            "resources": ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"],
            "verbs": ["get", "patch"],
            "resourceNames": ["shop"],
        },
    ]


@pytest.mark.parametrize(
    "settings", [kv.WebhookSettings(certificates="/certs"), kv.WebhookSettings(address=IN_PROCESS)]
)
def test_mounted_certificates_and_tests_need_no_right_but_the_handlers(settings: kv.WebhookSettings) -> None:
    needed = kv.Rule("", ("pods",), ("get",))
    assert rules(manager(CHECK.needs(needed), settings=settings)) == [needed.to_dict()]


def test_a_manager_without_webhooks_needs_nothing_for_them() -> None:
    assert manager().rules() == ()
    assert manager().webhook_configurations() == []


def test_the_empty_secret_says_whose_it_is() -> None:
    assert empty_secret(place_of("shop", SERVICE), "shop")["metadata"] == {
        "name": "shop-webhooks",
        "namespace": "web",
        "labels": {"konverge.dev/webhook-certificates": "shop"},
    }
