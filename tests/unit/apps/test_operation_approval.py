"""Malformed approvals: each is rejected with the remedy, and none raises."""

from datetime import UTC, datetime

import pytest

from konverge.crds.ops_v1alpha1 import Operation
from konverge.reconcilers.apps.operations.settings import OperationSettings
from konverge.reconcilers.apps.operations.waiting.approval import lacking_approval


@pytest.mark.parametrize(
    "claim",
    ["[" * 2000, "{" * 2000, "null", "7", "[]", "{}", '{"expires": 7}', '{"expires": "tomorrow"}', "\x00", "1" * 400],
    ids=[
        "deep lists",
        "deep objects",
        "null",
        "a number",
        "a list",
        "empty",
        "a time that is a number",
        "no time",
        "a control",
        "400 digits",
    ],
)
def test_invalid_claim_is_refused_with_the_expected_form(claim: str) -> None:
    target = {"apiVersion": "apps.vworkspace.io/v1alpha1", "kind": "ApplicationInstance", "name": "shop"}
    spec = {"targetRef": target, "type": "Restore", "engine": "velero", "approvals": {"required": True, "claim": claim}}
    operation = Operation.decode({"metadata": {"name": "restore", "namespace": "web"}, "spec": spec})
    said = lacking_approval(operation, OperationSettings(), "c1", datetime(2026, 1, 1, tzinfo=UTC))
    assert said.startswith(
        "spec.approvals.claim is not a JSON object with cluster, namespace, name, digest and expires"
    )
