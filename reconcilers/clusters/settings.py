"""Settings of Clusters and pull mode: every number and switch, with unit, default and reason."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from konverge.reconcilers.shared.durations import Duration

__all__ = ["Settings"]

DeniedNamespace = Annotated[
    str, Field(pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$|^[a-z0-9][-a-z0-9]*\*$", max_length=63)
]
"""A namespace, or a prefix of names with `*` behind it."""


class Settings(BaseModel):
    """How the agent of a Cluster talks to its control plane, and what jobs may do.

    >>> Settings().heartbeat.total_seconds()
    60.0
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    namespace: str = ""
    """The namespace of the operator: of the Secrets with tokens and credentials, and of the journal; empty: the pod's own, or the one that
    the kubeconfig names. No job writes in it."""
    credentials_secret: str = "vworkspace-agent-credentials"  # noqa: S105  # a name
    """The name of the Secret with the credential."""
    token_secrets: tuple[str, ...] = ("registration",)
    """The names of the Secrets, in the namespace of the operator, from which a Cluster may take its registration token. The right to read
    Secrets is given for these names only; a Cluster that names another Secret is not registered."""
    journal_secret: str = "vworkspace-agent-journal"  # noqa: S105  # a name
    """The name of the Secret with the journal: a Secret, because a job may hold values that are refused later."""

    heartbeat: Duration = timedelta(seconds=60)
    """How often `status.lastHeartbeat` is written while the control plane responds."""
    silence: Duration = timedelta(seconds=180)
    """Without a response for so long the Cluster is Disconnected; more than `wait` and `timeout` together."""
    wait: Annotated[int, Field(ge=0, le=300)] = 30
    """Seconds that a poll for jobs waits on the control plane's side."""
    timeout: Duration = timedelta(seconds=30)
    """How long a request may take beyond `wait`."""
    retry_most: Duration = timedelta(seconds=60)
    """The longest pause between two tries of a control plane that does not respond; the first is one second."""
    most_response: Annotated[int, Field(ge=64 * 1024)] = 1024 * 1024
    """Bytes of a response at most; a longer one is not read."""
    most_job: Annotated[int, Field(ge=1024, le=256 * 1024)] = 256 * 1024
    """Bytes of one job at most."""
    most_pending: Annotated[int, Field(ge=1, le=100)] = 20
    """Jobs that are accepted at once at most; those that failed and wait for another attempt are not among them."""
    give_up: Duration = timedelta(minutes=10)
    """How long a job that the API server does not carry out keeps its place in a full journal; then another one that fails may
    take it."""
    retention: Duration = timedelta(days=7)
    """How long a finished job is remembered; has to be longer than the control plane repeats one."""
    most_remembered: Annotated[int, Field(ge=10, le=3000)] = 2000
    """Finished jobs that are remembered at most."""
    event_buffer: Annotated[int, Field(ge=1)] = 1000
    """Events that wait for the control plane at most; beyond, the oldest are dropped."""
    event_pause: Duration = timedelta(seconds=1)
    """How long events are gathered before they are sent; 100 are sent at once."""

    ca_file: str = ""
    """A file of PEM certificates that are trusted to sign the control plane's; empty: the system's."""
    plain_http: bool = False
    """Allow http:// endpoints, over which credentials travel in the clear; without it only those on the loopback."""
    namespaces: tuple[str, ...] = ()
    """The namespaces in which jobs may write; empty: every one but the denied ones."""
    denied_namespaces: tuple[DeniedNamespace, ...] = ("flux-system", "velero", "cert-manager")
    """Namespaces in which no job writes, whatever `namespaces` has: a name, or a prefix with `*` behind it. `kube-*` and the operator's own
    are always among them. The default has the usual namespaces of Flux, Velero and cert-manager; name theirs if it is another."""
    check_at_admission: bool | None = None
    """Serve the webhook that refuses an endpoint which the agent does not use; null: if the manager says how the API server reaches its
    webhooks (webhooks.service or webhooks.url). Without it such a Cluster is stored, and its phase is Error."""
