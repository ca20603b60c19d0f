"""The family's vocabulary: messages, labels, and metrics."""

import doctest

import pytest
from prometheus_client import CollectorRegistry, Gauge, generate_latest

from konverge.conditions import check_condition
from konverge.crds import declaration_of
from konverge.crds.quota_v1beta2 import MAX_POOL_NAME, ResourcePool
from konverge.reconcilers.quota import words
from konverge.reconcilers.quota.words import (
    METRICS,
    Capsule,
    Message,
    Metric,
    QuotaAnnotation,
    QuotaCondition,
    QuotaLabel,
    QuotaReason,
)


def test_the_examples_of_the_words_run() -> None:
    assert doctest.testmod(words).failed == 0


def test_the_metrics_are_those_of_capsule_v0_10() -> None:
    assert {metric.name: metric.labels for metric in METRICS} == {
        **{
            f"capsule_pool_{name}": ("pool", "resource")
            for name in (
                *("limit", "available", "usage", "resource", "usage_percentage"),
                *("exhaustion", "exhaustion_percentage"),
            )
        },
        **{
            f"capsule_pool_namespace_{name}": ("pool", "target_namespace", "resource")
            for name in ("usage", "usage_percentage")
        },
        "capsule_pool_condition": ("pool", "condition"),
        "capsule_claim_condition": ("name", "target_namespace", "condition", "status", "reason", "pool"),
        "capsule_claim_resource": ("name", "target_namespace", "resource"),
    }


@pytest.mark.parametrize(
    ("metric", "explained"),
    [
        (words.POOL_AVAILABLE, "Current resource availability for a given resource in a resource pool"),
        (words.POOL_LIMIT, "Current resource limit for a given resource in a resource pool"),
        (words.POOL_RESOURCE, "Type of resource being used in a resource pool"),
        (words.POOL_USAGE, "Current resource usage for a given resource in a resource pool"),
        (words.CLAIM_CONDITION, "The current condition status of a claim."),
    ],
)
def test_a_metric_explains_itself_as_the_requirement_prints_it(metric: Metric, explained: str) -> None:
    registry = CollectorRegistry()
    Gauge(metric.name, metric.help, metric.labels, registry=registry)
    assert (
        generate_latest(registry).decode().startswith(f"# HELP {metric.name} {explained}\n# TYPE {metric.name} gauge\n")
    )


def test_a_series_is_exposed_as_the_requirement_prints_it() -> None:
    registry = CollectorRegistry()
    found: Metric = words.POOL_AVAILABLE
    gauge = Gauge(found.name, found.help, found.labels, registry=registry)
    gauge.labels(pool="sampler", resource="limits.memory").set(2147483648)
    assert 'capsule_pool_available{pool="sampler",resource="limits.memory"} 2.147483648e+09' in (
        generate_latest(registry).decode()
    )


def test_every_condition_that_the_words_name_can_be_written() -> None:
    types = (QuotaCondition.ASSIGNED, QuotaCondition.BOUND, QuotaCondition.READY, QuotaCondition.EXHAUSTED)
    reasons = [value for name, value in vars(QuotaReason).items() if name.isupper()]
    messages = [value for name, value in vars(Message).items() if name.isupper()]
    for type_ in types:
        for reason in reasons:
            for message in messages:
                check_condition(type_, reason, message, types)
    assert set(declaration_of(ResourcePool).conditions) == {QuotaCondition.READY, QuotaCondition.EXHAUSTED}


def test_pool_quota_has_a_name_and_label_the_api_accepts() -> None:
    longest = words.quota_name("p" * MAX_POOL_NAME)
    assert (longest[:13], len(longest) <= 253) == ("capsule-pool-", True)
    assert (QuotaLabel.POOL, QuotaAnnotation.RELEASE) == ("projectcapsule.dev/pool", "projectcapsule.dev/release")
    assert words.FINALIZER == "controller.projectcapsule.dev/finalize"
    assert Capsule.TENANT_LABEL == "capsule.clastix.io/tenant"


@pytest.mark.parametrize(
    ("said", "printed"),
    [
        (words.pool_not_found("sample"), 'ResourcePool.capsule.clastix.io "sample" not found'),
        (words.pool_not_found("migration-size"), 'ResourcePool.capsule.clastix.io "migration-size" not found'),
        (
            words.shortage("requests.memory", "2Gi", "512Mi"),
            "requested: requests.memory=2Gi, available: requests.memory=512Mi",
        ),
        (
            words.queued("requests.memory", "2Gi", "1Gi"),
            "requested: requests.memory=2Gi, queued: requests.memory=1Gi",
        ),
        (Message.CLAIMED, "Claimed resources"),
    ],
)
def test_a_message_is_worded_as_the_requirement_prints_it(said: str, printed: str) -> None:
    assert said == printed
