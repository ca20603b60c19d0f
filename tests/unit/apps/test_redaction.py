"""No text of another program carries a secret into a status or an Event, and the cause is still reported."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from konverge.conditions import Condition
from konverge.errors import Invalid
from konverge.reconcilers.apps import ApplicationInstanceReconciler, Settings
from konverge.reconcilers.shared.helm_release.redaction import redacted, without_queries, without_values
from konverge.reconcilers.shared.helm_release.translate import translate

RECORDINGS = Path(__file__).parents[2] / "recordings" / "flux"
PLANTED = "hunter2-Tr0ub4dor"
HEAD = "Helm upgrade failed for release team/shop with chart shop@1.2.0"

TEXTS: dict[str, tuple[str, str]] = {
    "a refused value": (
        (
            f'{HEAD}: server-side apply failed for object team/shop /v1, Kind=Service: Service "shop" is invalid: '
            f'[spec.ports[0].name: Invalid value: "{PLANTED}": must be no more than 15 characters, spec.type: Required value]'
        ),
        'Service "shop" is invalid; spec.ports[0].name: Invalid value; spec.type: Required value',
    ),
    "a refused value with quotes in it": (
        f'{HEAD}: Secret "shop" is invalid: data: Invalid value: "a\\" {PLANTED}: spec.x: Forbidden": bad',
        'Secret "shop" is invalid; data: Invalid value',
    ),
    "a refused object": (
        (
            f'{HEAD}: Deployment.apps "shop" is invalid: spec.template.spec.containers[0].env[1]: Invalid value: '
            f'map[string]interface{{}}{{"name":"DB", "value":"{PLANTED}"}}: unknown'
        ),
        'Deployment.apps "shop" is invalid; spec.template.spec.containers[0].env[1]: Invalid value',
    ),
    "a key of a map": (
        f'{HEAD}: Secret "shop" is invalid: data[{PLANTED}]: Invalid value: "x": no',
        'Secret "shop" is invalid; data[...]: Invalid value',
    ),
    "a chart's fail": (
        f"{HEAD}: execution error at (shop/templates/check.yaml:3:4): the password {PLANTED} is too short",
        "the chart's template shop/templates/check.yaml:3:4 failed",
    ),
    "a chart's fail that looks like a refusal": (
        f'{HEAD}: execution error at (shop/templates/check.yaml:3:4): Service "{PLANTED.lower()}" is invalid',
        "the chart's template shop/templates/check.yaml:3:4 failed",
    ),
    "a template that calls fail": (
        f'{HEAD}: template: shop/templates/a.yaml:1:3: executing "shop/templates/a.yaml" at <fail "{PLANTED}">: error calling fail: x',
        "the chart's template shop/templates/a.yaml:1:3 failed",
    ),
    "a chart's schema": (
        (
            f"{HEAD}: values don't meet the specifications of the schema(s) in the following chart(s):\nshop:\n"
            f"- at '/password': '{PLANTED}' does not match pattern '^[a-z]+$'"
        ),
        "the values do not fit the chart's schema",
    ),
    "a policy": (
        f'{HEAD}: admission webhook "validate.kyverno.svc-fail" denied the request: env DB_PASSWORD={PLANTED} is not allowed',
        'admission webhook "validate.kyverno.svc-fail" denied the request',
    ),
    "rendered YAML": (
        f"{HEAD}: YAML parse error on shop/templates/cm.yaml: error converting YAML to JSON: yaml: unknown anchor '{PLANTED}' referenced",
        "the chart's template shop/templates/cm.yaml failed",
    ),
    "a value of the wrong type": (
        f'{HEAD}: Secret in version "v1" cannot be handled as a Secret: json: cannot unmarshal "{PLANTED}" into []byte',
        'Secret in version "v1" cannot be handled as a Secret',
    ),
    "a hook": (
        f"{HEAD}: pre-upgrade hooks failed: job failed: BackoffLimitExceeded, log: {PLANTED}",
        "pre-upgrade hooks failed",
    ),
    "a missing right": (
        (
            f'{HEAD}: secrets is forbidden: User "system:serviceaccount:team:shop" cannot create resource "secrets" '
            f'in API group "" in the namespace "team": {PLANTED}'
        ),
        'User "system:serviceaccount:team:shop" cannot create resource "secrets"',
    ),
    "a wait": (
        f"{HEAD}: timeout waiting for: [Deployment/team/shop-web status: 'InProgress'] {PLANTED}",
        "timeout waiting for; Deployment/team/shop-web status: 'InProgress'",
    ),
    "words that are not known": (f"something else altogether: {PLANTED}", "Flux's own words, which may quote values"),
}


@pytest.mark.parametrize("form", TEXTS)
@pytest.mark.parametrize(
    "reason", ["UpgradeFailed", "InstallFailed", "TestFailed", "StateError", "ChartMutateError", "NewReason"]
)
def test_redaction_removes_a_planted_secret_and_keeps_the_cause(form: str, reason: str) -> None:
    text, cause = TEXTS[form]
    cause = redacted(Condition(type="Released", status="False", reason=reason, message=text))
    assert PLANTED.lower() not in cause.lower()
    assert cause in cause
    assert "condition Released of the HelmRelease" in cause


@pytest.mark.parametrize("form", TEXTS)
@pytest.mark.parametrize(
    "shape",
    [
        (
            ("Ready", "False", "UpgradeFailed"),
            ("Released", "False", "UpgradeFailed"),
            ("Stalled", "True", "RetriesExceeded"),
        ),
        (
            ("Ready", "Unknown", "Progressing"),
            ("Released", "False", "UpgradeFailed"),
            ("Reconciling", "True", "Progressing"),
        ),
        (
            ("Ready", "False", "RollbackFailed"),
            ("Released", "False", "UpgradeFailed"),
            ("Remediated", "False", "RollbackFailed"),
        ),
        (("Ready", "False", "StateError"),),
        (("Ready", "False", "ValuesError"),),
        (
            ("Ready", "False", "TestFailed"),
            ("TestSuccess", "False", "TestFailed"),
            ("Reconciling", "True", "Progressing"),
        ),
        (("Ready", "False", "UninstallFailed"), ("Released", "False", "UninstallFailed")),
    ],
    ids=lambda shape: f"{shape[0][2]}, {len(shape)} conditions",
)
def test_no_translation_contains_a_planted_secret(make: Any, form: str, shape: Any) -> None:
    texts = {"RetriesExceeded": "Failed to upgrade after 1 attempt(s)", "Progressing": "Running 'upgrade' action"}
    conditions = [make.condition(*one, texts.get(one[2], TEXTS[form][0])) for one in shape]
    for changes in (
        {},
        {"deleted": 5},
        {"spec": {"suspend": True}, "annotations": {"vworkspace.io/applied-intent-hash": "intent"}},
    ):
        assert PLANTED.lower() not in repr(translate(make.facts(make.release(*conditions, **changes)))).lower()


def told_by_flux() -> Iterator[Condition]:
    for path in RECORDINGS.glob("*.jsonl"):
        for line in path.read_text().splitlines():
            for entry in json.loads(line).get("object", {}).get("status", {}).get("conditions", ()):
                if entry["status"] == "False" and entry["reason"].endswith("Failed"):
                    yield Condition(
                        type=entry["type"], status="False", reason=entry["reason"], message=entry["message"]
                    )


def test_every_recorded_failure_of_a_release_is_reported_with_a_cause() -> None:
    found = {one.message: redacted(one) for one in told_by_flux() if one.message.startswith("Helm ")}
    assert len(found) >= 5
    for text, cause in found.items():
        assert cause.startswith(text.partition(": ")[0] + ": "), cause
        assert "99999999" not in cause


def test_a_url_loses_the_signature_of_an_object_store() -> None:
    text = f'Get "https://s3.example.com/shop-1.0.0.tgz?X-Amz-Signature={PLANTED}&a=b": dial tcp: connection refused'
    assert without_queries(text) == 'Get "https://s3.example.com/shop-1.0.0.tgz": dial tcp: connection refused'


def test_a_failing_source_is_reported_without_the_signature_in_its_url(make: Any) -> None:
    text = f'Get "https://bot:{PLANTED}@s3.example.com/index.yaml?sig={PLANTED}": EOF'
    failed = make.condition("FetchFailed", "True", "Failed", text, ago=60)
    waiting = make.condition("Ready", "False", "SourceNotReady", text)
    translation = translate(make.facts(make.release(waiting), repository=make.source("HelmRepository", failed)))
    assert translation.row == "chart_unreachable"
    assert PLANTED not in repr(translation)
    assert "https://s3.example.com/index.yaml" in repr(translation)


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        (f'spec.values.a: Invalid value: "{PLANTED}": must be short', "spec.values.a: Invalid value: must be short"),
        (f'spec.values: Invalid value: {{"a":"{PLANTED}"}}: must be small', "spec.values: Invalid value"),
        (
            'spec: Invalid value: "object": exactly one of chart and chartRef',
            "spec: Invalid value: exactly one of chart and chartRef",
        ),
        (
            f'spec.mode: Unsupported value: "{PLANTED}": supported values: "warn"',
            'spec.mode: Unsupported value: supported values: "warn"',
        ),
    ],
)
def test_a_refused_child_is_reported_without_the_refused_value(text: str, kept: str) -> None:
    assert without_values(text) == kept


async def test_the_status_after_a_refused_child_does_not_contain_its_values(make: Any, context: Any) -> None:
    ctx = context()
    ctx.refusal = Invalid(
        f'HelmRelease "shop" is invalid: spec.values.a: Invalid value: "{PLANTED}": too long', status=422
    )
    await ApplicationInstanceReconciler(Settings()).reconcile(make.instance(), ctx)
    assert "spec.values.a: Invalid value: too long" in ctx.message("Blocked")
    assert PLANTED not in repr(ctx.plan)


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "text", ["x" * 1_000_000, "a." * 500_000, "Get://" + "a" * 1_000_000, 'Service "' + "a" * 1_000_000]
)
def test_searching_a_long_text_for_urls_takes_linear_time(text: str) -> None:
    """For each letter of it a scheme used to be searched up to the end of the text."""
    assert without_queries(text) == text
    assert without_queries(f"{text} 1https://bot:hunter2@a.example.com/b?c=d") == f"{text} 1https://a.example.com/b"
