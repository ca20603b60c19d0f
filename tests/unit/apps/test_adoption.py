"""Which HelmReleases an instance may adopt."""

from typing import Any

import pytest

from konverge.reconcilers.apps.adoption import obstacles
from konverge.reconcilers.apps.kinds import HELM_RELEASE

CHART = {"chartRef": {"kind": "OCIRepository", "name": "shop"}, "releaseName": "shop"}


def found(existing: dict[str, Any], rendered: dict[str, Any] | None = None) -> list[str]:
    return list(
        obstacles(
            HELM_RELEASE.new("shop", "web", spec={**CHART, **existing}),
            HELM_RELEASE.new("shop", "web", spec={**CHART, **(rendered or {})}),
        )
    )


@pytest.mark.parametrize(
    ("existing", "rendered", "word"),
    [
        ({"kubeConfig": {"secretRef": {"name": "other-cluster"}}}, {}, "spec.kubeConfig"),
        ({"kubeConfig": {"secretRef": {"name": "other-cluster"}}}, {"serviceAccountName": "tenant"}, "spec.kubeConfig"),
        ({"serviceAccountName": "platform"}, {}, "spec.serviceAccountName platform"),
    ],
)
def test_release_with_other_rights_is_not_adopted(
    existing: dict[str, Any], rendered: dict[str, Any], word: str
) -> None:
    (message,) = found(existing, rendered)
    assert word in message


@pytest.mark.parametrize("rendered", [{"serviceAccountName": "tenant"}, {"serviceAccountName": "platform"}])
def test_account_of_the_instance_replaces_the_account_of_the_release(rendered: dict[str, Any]) -> None:
    assert found({"serviceAccountName": "platform"}, rendered) == []
