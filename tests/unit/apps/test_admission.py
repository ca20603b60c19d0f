"""The webhook rejects what the schema cannot check, before it is stored and with the text of the condition, and rejects nothing else."""

from contextlib import AsyncExitStack
from typing import Any

import pytest
from apps.lab import QUICK, Apps, says

from konverge.crds.apps_v1alpha1 import ApplicationInstance
from konverge.errors import Invalid
from konverge.objects import Object
from konverge.reconcilers import apps
from konverge.reconcilers.apps.admission import validating_webhook
from konverge.reconcilers.apps.operations.settings import OperationSettings
from konverge.runtime import Manager, ManagerSettings
from konverge.runtime.admission import WebhookSettings
from konverge_testing import Lab, admit

OPERATIONS = "/validate-ops-vworkspace-io-v1alpha1-operation"
PATH = "/validate-apps-vworkspace-io-v1alpha1-applicationinstance"
SETTINGS = apps.Settings(service_account="tenant", allowed_service_accounts=("robot",))
SECRET: dict[str, Any] = {"values": {"source": "inline", "inline": {"db": {"password": "hunter2"}}}}


def given(make: Any, **changes: Any) -> Object:
    return Object(make.instance(**changes).to_dict())


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        pytest.param(SECRET, "spec.values.inline.db.password look like secrets", id="a secret inline"),
        pytest.param(
            {"values": {"source": "inline", "inline": {"env": [{"name": "DB_PASSWORD", "value": "hunter2"}]}}},
            "spec.values.inline.env[0].value look like secrets",
            id="a secret in an entry of env",
        ),
        pytest.param(
            {"values": {"source": "inline", "inline": {"dsn": "postgres://a:hunter2@db/x"}}},
            "spec.values.inline.dsn look like secrets",
            id="a password in a URL",
        ),
        pytest.param({"release": {"namespace": "other"}}, "must be the instance's own namespace", id="another namespace"),
        pytest.param(
            {"mode": "placeholder", "chart": None, "values": None, "release": {"namespace": "other"}},
            "must be the instance's own namespace",
            id="a placeholder of another namespace",
        ),
        pytest.param({"chart": {"url": "https://a.example.com/../b"}}, "must not contain '..'", id="a URL that climbs"),
        pytest.param(
            {"serviceAccountName": "root"},
            "spec.serviceAccountName root is not allowed; choose robot or tenant, or leave it out",
            id="another service account",
        ),
    ],
)  # fmt: skip
async def test_a_new_instance_with_an_invalid_spec_is_refused(make: Any, spec: dict[str, Any], said: str) -> None:
    answer = await admit(validating_webhook(SETTINGS), given(make, spec=spec))
    assert not answer.allowed
    assert said in answer.message
    assert "hunter2" not in answer.message


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"serviceAccountName": "robot"},
        {"serviceAccountName": "tenant"},
        {"mode": "placeholder", "chart": None, "values": None},
        {"values": {"source": "inline", "inline": {"auth": {"existingSecret": "shop-db"}}}},
        {"values": {"source": "secretRef", "secretRef": {"name": "vals", "key": "k"}}},
    ],
    ids=str,
)
async def test_a_valid_instance_is_stored(make: Any, spec: dict[str, Any]) -> None:
    assert (await admit(validating_webhook(SETTINGS), given(make, spec=spec))).allowed


async def test_an_invalid_instance_stored_earlier_can_still_be_labelled_and_deleted(make: Any) -> None:
    webhook, old = validating_webhook(SETTINGS), given(make, spec=SECRET)
    assert (await admit(webhook, given(make, spec=SECRET, labels={"a": "b"}), old=old)).allowed
    dying = Object(old.to_dict())
    dying.data["metadata"] |= {"deletionTimestamp": "2030-01-01T00:00:00Z", "finalizers": []}
    dying.data["spec"]["chart"]["version"] = "9.9.9"
    assert (await admit(webhook, dying, old=old)).allowed
    assert not (await admit(webhook, given(make, spec={**SECRET, "chart": {"version": "9.9.9"}}), old=old)).allowed


async def test_an_object_that_breaks_the_schema_is_left_to_the_api_server(make: Any) -> None:
    broken = given(make, spec=SECRET)
    broken.data["spec"]["chart"]["version"] = "latest"
    assert (await admit(validating_webhook(SETTINGS), broken)).allowed


async def test_a_refusal_of_many_secrets_has_a_message_of_bounded_length(make: Any) -> None:
    inline = {f"password{'x' * 200}{number}password": "hunter2" for number in range(1000)}
    answer = await admit(
        validating_webhook(SETTINGS), given(make, spec={"values": {"source": "inline", "inline": inline}})
    )
    assert not answer.allowed
    assert len(answer.message) < 2000


REACHED = ManagerSettings(webhooks=WebhookSettings(service="konverge/webhooks"))


@pytest.mark.parametrize(
    ("desired", "settings", "served"),
    [
        (None, ManagerSettings(), False),
        (None, REACHED, True),
        (True, ManagerSettings(), True),
        (False, REACHED, False),
    ],
    ids=["nothing leads to it", "a Service leads to it", "asked for", "not wanted"],
)
def test_webhook_is_served_with_a_service_or_url_or_by_setting(
    desired: bool | None, settings: ManagerSettings, served: bool
) -> None:
    manager = Manager("konverge", settings=settings)
    apps.install(manager, apps.Settings(check_at_admission=desired))
    assert [webhook.path for webhook in manager.webhooks] == ([PATH, OPERATIONS] if served else [])


def test_without_operations_their_webhook_is_not_served() -> None:
    manager = Manager("konverge", settings=REACHED)
    apps.install(manager, apps.Settings(operations=OperationSettings(enabled=False)))
    assert [webhook.path for webhook in manager.webhooks] == [PATH]


async def test_inline_secrets_are_refused_at_admission_and_blocked_without_the_webhook(lab: Lab) -> None:
    settings = QUICK.model_copy(update={"check_at_admission": True})
    async with AsyncExitStack() as stack:
        here = await Apps(lab, stack).start(settings, flux=False)
        with pytest.raises(Invalid, match=r"spec\.values\.inline\.db\.password look like secrets"):
            await here.create(**SECRET)
        assert await lab.find(ApplicationInstance, "shop") is None
        lab.server.webhooks.clear()  # the API server's requests are rejected
        await here.create(**SECRET)
        blocked = await here.until(says("Blocked", "True", "ValidationFailed"))
        assert "hunter2" not in str(blocked.status)
