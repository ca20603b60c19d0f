"""The check distinguishes a running Capsule from a stopped one, and from konverge's own webhook."""

from datetime import UTC, datetime
from typing import Any

import pytest

from konverge.objects import Object
from konverge.reconcilers.quota.admission import assigning
from konverge.reconcilers.quota.capsule_check import evidence
from konverge.reconcilers.quota.kinds import LEASE, MUTATING, VALIDATING

NOW = datetime(2030, 1, 1, tzinfo=UTC)
LEADER = "42c733ea.clastix.capsule.io"


def hook(
    path: str = "/resourcepools/mutating", resources: tuple[str, ...] = ("resourcepools",), **client: Any
) -> Object:
    config = client or {"service": {"name": "capsule", "namespace": "capsule-system", "path": path}}
    rules = [{"apiGroups": ["capsule.clastix.io"], "resources": list(resources), "operations": ["UPDATE"]}]
    return MUTATING.new("capsule", webhooks=[{"name": "x", "clientConfig": config, "rules": rules}])


def lease(**spec: Any) -> Object:
    said = {
        "holderIdentity": "capsule-0",
        "leaseDurationSeconds": 15,
        "renewTime": "2029-12-31T23:59:50.000000Z",
        **spec,
    }
    return LEASE.new(LEADER, "capsule-system", spec=said)


@pytest.mark.parametrize(
    "configuration",
    [
        hook(),
        hook("/resourcepool/claim/mutating", ("resourcepoolclaims",)),
        hook("/resourcepools/claim/validating", ("*",)),
        hook(url="https://capsule.example.com/resourcepools/mutating"),
    ],
)
def test_webhooks_of_every_generation_of_capsule_are_recognised(configuration: Object) -> None:
    assert evidence([configuration], [], NOW) == ["MutatingWebhookConfiguration capsule"]


@pytest.mark.parametrize(
    "configuration",
    [
        hook(resources=("tenants",)),
        hook("/namespaces", ("resourcepools",)),
        VALIDATING.new("empty"),
        VALIDATING.new("odd", webhooks=[{"name": "x"}]),
    ],
)
def test_webhooks_that_guard_other_kinds_do_not_count(configuration: Object) -> None:
    assert evidence([configuration], [], NOW) == []


def test_our_own_webhook_is_not_mistaken_for_capsules() -> None:
    assert evidence([hook(assigning().path, ("resourcepoolclaims",))], [], NOW) == []


@pytest.mark.parametrize(
    ("spec", "held"),
    [
        ({}, True),
        ({"renewTime": "2029-12-31T23:59:00.000000Z"}, False),
        ({"holderIdentity": ""}, False),
        ({"renewTime": None}, False),
        ({"renewTime": "yesterday"}, True),
    ],
)
def test_a_lease_counts_while_its_holder_renews_it(spec: dict[str, Any], held: bool) -> None:
    assert evidence([], [lease(**spec)], NOW) == ([f"lease capsule-system/{LEADER}"] if held else [])


def test_leases_of_other_programs_do_not_count() -> None:
    other = Object({**lease().to_dict(), "metadata": {"name": "other", "namespace": "x"}})
    assert evidence([], [other], NOW) == []
