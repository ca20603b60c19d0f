"""Which agent runs for a Cluster, and which of its requests have taken effect. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from konverge.crds.ops_v1alpha1 import Cluster
from konverge.reconcilers.clusters.agent_state import AgentConfig
from konverge.reconcilers.clusters.observe import ClusterProblem, ObservedCluster
from konverge.reconcilers.clusters.secrets import issued_elsewhere, owned_by, server_of
from konverge.reconcilers.clusters.settings import Settings
from konverge.reconcilers.clusters.words import Annotation, Authenticated

__all__ = ["AgentDecision", "decide_agent", "endpoint_problem"]

_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


_BY_SPEC, _BY_ANNOTATION = "spec", "annotation"
_BY_CLUSTER = (_BY_SPEC, _BY_ANNOTATION)
"""Requests for a rotation by the Cluster itself; all other requests are from jobs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentDecision:
    """The agent that has to run, and the requests of the Cluster that have taken effect."""

    config: AgentConfig | None = None
    """None: no agent."""
    problem: ClusterProblem | None = None
    """Why no agent runs."""
    patch: Mapping[str, Any] = field(default_factory=dict)
    """Removes used requests from the Cluster: a token in the spec, and requests for a rotation; empty: there is none."""
    rotated: bool = False
    """Whether the requested rotation is done."""
    forgets_rotation: bool = False
    """Whether the Secret still names a request that is done and removed: the next request has to differ."""


def decide_agent(observed: ObservedCluster, settings: Settings) -> AgentDecision:
    """Return which agent runs. A request is removed only once its effect is stored."""
    cluster, stored, digest = observed.cluster, observed.credentials, observed.token_digest
    rotate = _rotation(cluster)
    registers = bool(digest) and (stored is None or stored.token_digest != digest)
    rotated = bool(rotate) and stored is not None and stored.rotated_for == rotate
    problem = _problem(observed, settings)
    return AgentDecision(
        config=None
        if problem is not None
        else AgentConfig(
            owner=observed.owner,
            endpoint=cluster.endpoint,
            namespace=observed.namespace,
            token=observed.token if registers else "",
            token_digest=digest if registers else "",
            rotate="" if rotated else rotate,
            settings=settings,
        ),
        problem=problem,
        patch=_without_used(cluster, token_used=bool(digest) and not registers, rotated=rotated),
        rotated=rotated,
        forgets_rotation=not rotate and stored is not None and stored.rotated_for in _BY_CLUSTER,
    )


def _problem(observed: ObservedCluster, settings: Settings) -> ClusterProblem | None:
    """Return why no agent can run; another owner's Secret precedes the rest."""
    cluster, stored, secret = observed.cluster, observed.credentials, observed.secret
    if secret is not None and not owned_by(observed.owner, secret):
        return ClusterProblem(
            reason=Authenticated.VALIDATION_FAILED,
            message=f"the Secret {observed.namespace}/{secret.name} belongs to another Cluster; there can be one in a cluster: delete "
            "one of them",
        )
    problem = endpoint_problem(cluster.endpoint, settings)
    # The Secret of the token may be deleted once the cluster is registered.
    if problem is None and stored is None:
        problem = observed.token_problem
    if problem is not None:
        return problem
    if stored is None and not observed.token:
        return ClusterProblem(
            reason=Authenticated.CREDENTIAL_MISSING,
            message="there is no credential yet: give a registration token in registrationTokenSecretRef",
        )
    if (
        stored is not None
        and not stored.belongs_to(server_of(cluster.endpoint))
        and observed.token_digest in ("", stored.token_digest)
    ):
        return ClusterProblem(
            reason=Authenticated.CREDENTIAL_MISSING, message=issued_elsewhere(stored, cluster.endpoint)
        )
    return None


def _rotation(cluster: Cluster) -> str:
    """Return the request to replace the credential, "" if there is none."""
    if cluster.spec.rotate_credentials:
        return _BY_SPEC
    return _BY_ANNOTATION if Annotation.ROTATE in cluster.annotations else ""


def _without_used(cluster: Cluster, *, token_used: bool, rotated: bool) -> dict[str, Any]:
    patch: dict[str, Any] = {}
    spec: dict[str, Any] = {}
    if token_used and cluster.spec.registration_token:
        spec["registrationToken"] = None
    if rotated and cluster.spec.rotate_credentials:
        spec["rotateCredentials"] = None
    if spec:
        patch["spec"] = spec
    if rotated and Annotation.ROTATE in cluster.annotations:
        patch["metadata"] = {"annotations": {Annotation.ROTATE: None}}
    return patch


def endpoint_problem(endpoint: str, settings: Settings) -> ClusterProblem | None:
    """Return why an endpoint is not used."""
    try:
        parts = urlsplit(endpoint)
    except ValueError:  # for instance https://[::1
        return ClusterProblem(
            reason=Authenticated.VALIDATION_FAILED,
            message="controlPlaneEndpoint is no URL: write https://, a host, and a port or path if it has one",
        )
    if parts.scheme == "http" and not settings.plain_http and parts.hostname not in _LOOPBACK:
        return ClusterProblem(
            reason=Authenticated.VALIDATION_FAILED,
            message="controlPlaneEndpoint is http://, over which the credential would travel in the clear: write https://, "
            "or set clusters.plain_http",
        )
    return None
