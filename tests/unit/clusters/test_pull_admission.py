"""The webhook of Clusters rejects an endpoint that the agent would not use, with the text of the condition."""

import pytest
from pull_kit import TOKEN
from pull_lab import Plane, is_

from konverge.crds.ops_v1alpha1 import Cluster
from konverge.objects import Object
from konverge.reconcilers import clusters
from konverge.reconcilers.clusters.admission import validating_webhook
from konverge.runtime import Manager, ManagerSettings
from konverge.runtime.admission import WebhookSettings
from konverge_testing import Lab, admit

WEBHOOK = validating_webhook(clusters.Settings())


def cluster(endpoint: str, **more: object) -> Object:
    spec = {"clusterId": "east", "controlPlaneEndpoint": endpoint, "registrationToken": TOKEN, **more}
    return Object(Cluster.decode({"metadata": {"name": "east"}, "spec": spec}).to_dict())


@pytest.mark.parametrize("endpoint", ["http://plane.example.com", "https://[::1"])
async def test_unsupported_endpoint_is_refused_with_the_message_of_the_condition(lab: Lab, endpoint: str) -> None:
    here = Plane(lab)
    await here.run()
    await here.create(controlPlaneEndpoint=endpoint)
    found = await here.until(is_("Authenticated", "False", "ValidationFailed"))
    condition = found.find_condition("Authenticated")
    assert condition is not None
    answer = await admit(WEBHOOK, cluster(endpoint))
    assert not answer.allowed
    assert answer.message == condition.message


@pytest.mark.parametrize("endpoint", ["https://plane.example.com", "http://127.0.0.1:8443", "http://localhost"])
async def test_an_endpoint_that_is_used_is_admitted(endpoint: str) -> None:
    assert (await admit(WEBHOOK, cluster(endpoint))).allowed


async def test_a_cluster_stored_earlier_can_still_be_changed_in_other_fields() -> None:
    old = cluster("http://plane.example.com")
    assert (await admit(WEBHOOK, cluster("http://plane.example.com", rotateCredentials=True), old=old)).allowed
    assert not (await admit(WEBHOOK, cluster("http://other.example.com"), old=old)).allowed


@pytest.mark.parametrize(
    ("desired", "service", "served"), [(None, "", 0), (None, "a/b", 1), (True, "", 1), (False, "a/b", 0)]
)
def test_webhook_is_served_if_reachable_or_required_by_the_setting(
    desired: bool | None, service: str, served: int
) -> None:
    manager = Manager("konverge", settings=ManagerSettings(webhooks=WebhookSettings(service=service)))
    clusters.install(manager, clusters.Settings(check_at_admission=desired))
    assert len(manager.webhooks) == served
