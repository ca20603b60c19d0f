"""The longest input that the API server admits: every field of the status is written, and fits."""

from typing import Any

import pytest
from apps.lab import QUICK, READY, Apps, says

from konverge.conditions import MAX_MESSAGE
from konverge.reconcilers.apps.kinds import HELM_RELEASE
from konverge.reconcilers.apps.settings import ForbiddenVersions

NAME = "n" * 63
LONGEST: dict[str, Any] = {
    "appRef": {"catalogId": "c" * 253},
    "chart": {
        "url": "https://charts.example.com/" + "u" * (2048 - 27),
        "name": "s" * 250,
        "version": "1.0.0-" + "r" * 122,
    },
    "release": {"name": "r" * 53},
    "serviceAccountName": "a" * 253,
    "integrations": {"ingress": {"enabled": True, "host": "h" * 253}},
}
REFERRED = {"name": "v" * 253, "key": "k" * 253}
SECRETS = {f"{number:04}{'k' * 240}password": "hunter2" for number in range(3000)}
NULLS = {f"{number:04}{'k' * 240}": None for number in range(3000)}
BLOCKED = says("Blocked", "True")
EVERY_ACCOUNT = QUICK.model_copy(update={"allowed_service_accounts": ("*",)})
NO_SOURCE = EVERY_ACCOUNT.model_copy(update={"url_allow_list": ("https://" + "t" * 2000,)})
NO_VERSION = EVERY_ACCOUNT.model_copy(
    update={"forbidden_versions": (ForbiddenVersions(chart="s" * 250, versions="=1.0.0-" + "r" * 122),)}
)


def inline(values: dict[str, Any]) -> dict[str, Any]:
    return {"source": "inline", "inline": values}


@pytest.mark.lab_on("memory")
@pytest.mark.parametrize(
    ("settings", "values", "said"),
    [
        pytest.param(EVERY_ACCOUNT, inline({"a": "x" * 500_000}), READY, id="half a megabyte of values, rolled out"),
        pytest.param(EVERY_ACCOUNT, inline(SECRETS), BLOCKED, id="three thousand inline secrets"),
        pytest.param(EVERY_ACCOUNT, inline(NULLS), READY, id="three thousand nulls, rolled out"),
        pytest.param(
            EVERY_ACCOUNT, {"source": "secretRef", "secretRef": REFERRED}, says("Ready", "False"), id="no such Secret"
        ),
        pytest.param(
            EVERY_ACCOUNT,
            {"source": "configMapRef", "configMapRef": REFERRED},
            says("Ready", "False"),
            id="no such ConfigMap",
        ),
        pytest.param(NO_SOURCE, inline({}), BLOCKED, id="a source that is not allowed"),
        pytest.param(NO_VERSION, inline({}), BLOCKED, id="a forbidden version"),
        pytest.param(QUICK, inline({}), BLOCKED, id="a service account that is not allowed"),
    ],
)
async def test_longest_admitted_input_fits_the_status_and_affects_no_other_instance(
    apps: Apps, settings: Any, values: dict[str, Any], said: Any
) -> None:
    await apps.start(settings)
    await apps.create(NAME, **LONGEST, values=values)
    found = await apps.until(said, name=NAME)
    assert all(len(condition.message or "") <= MAX_MESSAGE for condition in found.conditions)
    assert "hunter2" not in str(found.status)
    if said is BLOCKED:
        assert await apps.lab.find(HELM_RELEASE, NAME) is None
    if settings is EVERY_ACCOUNT:
        await apps.create("shop")
        await apps.until(READY)
    assert {record.error for record in apps.lab.manager.runner("applicationinstance").history.recent()} <= {"", None}
