"""Which agent a Cluster gets, and which of its requests are used up: a table over pure decisions."""

from dataclasses import replace
from typing import Any

import pytest

from konverge.crds.ops_v1alpha1 import Cluster
from konverge.objects import Metadata, OwnerReference
from konverge.reconcilers.clusters.decide import decide_agent
from konverge.reconcilers.clusters.observe import ClusterProblem, ObservedCluster
from konverge.reconcilers.clusters.secrets import AgentCredentials, token_digest
from konverge.reconcilers.clusters.settings import Settings
from konverge.reconcilers.clusters.words import Annotation, Authenticated

ENDPOINT = "https://plane.example.com"
TOKEN = "join-me"
MISSING = ClusterProblem(reason=Authenticated.TOKEN_SECRET_MISSING, message="there is no registration token")


def cluster(*, annotations: dict[str, str] | None = None, **spec: Any) -> Cluster:
    metadata = {"name": "edge", "uid": "0a1b", "annotations": annotations or {}}
    spec = {"clusterId": "edge-1", "controlPlaneEndpoint": ENDPOINT, **spec}
    return Cluster.decode({"metadata": metadata, "spec": spec})


CREDENTIALS = AgentCredentials(
    credential="secret", cluster_id="edge-1", token_digest=token_digest(TOKEN), control_plane=ENDPOINT
)
NEW = ObservedCluster(cluster=cluster(), namespace="ops", token=TOKEN)
REGISTERED = replace(NEW, credentials=CREDENTIALS)
ROTATED = replace(REGISTERED, credentials=replace(CREDENTIALS, rotated_for="spec"))
OTHER = OwnerReference(api_version="k8s.bnerd.com/v1alpha1", kind="Cluster", name="other", uid="2c3d", controller=True)


@pytest.mark.parametrize(
    ("observed", "reason"),
    [
        (NEW, ""),
        (REGISTERED, ""),
        (replace(REGISTERED, token=""), ""),
        (replace(NEW, token=""), Authenticated.CREDENTIAL_MISSING),
        (replace(NEW, token="", token_problem=MISSING), Authenticated.TOKEN_SECRET_MISSING),
        # The Secret of the token may be deleted after the registration.
        (replace(REGISTERED, token="", token_problem=MISSING), ""),
        (replace(NEW, cluster=cluster(controlPlaneEndpoint="http://plane")), Authenticated.VALIDATION_FAILED),
        (replace(NEW, cluster=cluster(controlPlaneEndpoint="https://[::1")), Authenticated.VALIDATION_FAILED),
        # A credential is not sent to another control plane, except by a new token.
        (replace(REGISTERED, cluster=cluster(controlPlaneEndpoint="https://b")), Authenticated.CREDENTIAL_MISSING),
        (replace(REGISTERED, cluster=cluster(controlPlaneEndpoint="https://b"), token="new"), ""),
        (replace(NEW, secret=Metadata(name="agent", owner_references=(OTHER,))), Authenticated.VALIDATION_FAILED),
    ],
)
def test_no_agent_runs_with_a_problem_and_the_problem_has_a_reason(observed: ObservedCluster, reason: str) -> None:
    decision = decide_agent(observed, Settings())
    assert ("" if decision.problem is None else decision.problem.reason) == reason
    assert (decision.config is None) == bool(reason)


@pytest.mark.parametrize(
    ("observed", "token", "rotate"),
    [
        (NEW, TOKEN, ""),
        (REGISTERED, "", ""),
        (replace(REGISTERED, token="new"), "new", ""),
        (replace(REGISTERED, cluster=cluster(rotateCredentials=True)), "", "spec"),
        (replace(REGISTERED, cluster=cluster(annotations={Annotation.ROTATE: ""})), "", "annotation"),
        (replace(ROTATED, cluster=cluster(rotateCredentials=True)), "", ""),
    ],
)
def test_an_agent_gets_only_requests_without_an_effect(observed: ObservedCluster, token: str, rotate: str) -> None:
    config = decide_agent(observed, Settings()).config
    assert config is not None
    assert (config.token, config.token_digest, config.rotate) == (token, token_digest(token) if token else "", rotate)
    assert "new" not in repr(config)


@pytest.mark.parametrize(
    ("observed", "patch", "forgets"),
    [
        (NEW, {}, False),
        (replace(NEW, cluster=cluster(registrationToken=TOKEN)), {}, False),
        (
            replace(REGISTERED, cluster=cluster(registrationToken=TOKEN)),
            {"spec": {"registrationToken": None}},
            False,
        ),
        (replace(REGISTERED, cluster=cluster(rotateCredentials=True)), {}, False),
        (
            replace(ROTATED, cluster=cluster(rotateCredentials=True, annotations={Annotation.ROTATE: ""})),
            {"spec": {"rotateCredentials": None}, "metadata": {"annotations": {Annotation.ROTATE: None}}},
            False,
        ),
        (ROTATED, {}, True),
    ],
)
def test_a_used_request_is_removed(observed: ObservedCluster, patch: dict[str, Any], forgets: bool) -> None:
    decision = decide_agent(observed, Settings())
    assert (decision.patch, decision.forgets_rotation) == (patch, forgets)
