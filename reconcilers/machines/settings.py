"""Settings of the machines family: every number and name, with unit, default and reason.

Guarantees: the defaults are safe to run with.
"""

from __future__ import annotations

from typing import Annotated, Final, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from konverge.errors import ConfigError
from konverge.reconcilers.machines.identity.names import IdentityNames
from konverge.reconcilers.machines.shards.addresses import Address, is_identifier
from konverge.reconcilers.machines.shards.pace import SessionPace
from konverge.reconcilers.machines.words import MachinesLabel

__all__ = ["EVERY", "MachineSettings", "OnDemandAllowance"]

_LONGEST_NAME = 63
"""The limit of the name of a Cluster, which is the value of a label."""


def _identifier(text: str) -> str:
    if not is_identifier(text):
        raise ValueError("use at most 32 lower-case letters and digits, with single hyphens inside")
    return text


def _endpoint(text: str) -> str:
    if text:
        try:
            Address.parse(text)
        except ConfigError as error:
            raise ValueError(str(error)) from error
    return text


Seconds = Annotated[float, Field(gt=0)]
LabelValue = Annotated[str, Field(pattern=r"^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$", max_length=63)]
Identifier = Annotated[str, AfterValidator(_identifier)]
Name = Annotated[str, Field(pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$", max_length=253)]
Allowed = Annotated[str, Field(min_length=1, max_length=253)]
OptionalName = Annotated[str, Field(pattern=r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?)?$", max_length=253)]


EVERY: Final = "*"
"""In an allowance: every namespace, group or instance type."""


class OnDemandAllowance(BaseModel):
    """Pods that may request an instance of their own.

    >>> OnDemandAllowance(namespaces=("web",), groups=("gpu",)).machines
    10
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    namespaces: Annotated[tuple[Allowed, ...], Field(min_length=1)]
    """The namespaces of the pods; `*`: every namespace."""
    groups: Annotated[tuple[Allowed, ...], Field(min_length=1)]
    """The groups whose instances the pods may request; `*`: every group, including the group of control plane machines."""
    instance_types: tuple[Allowed, ...] = ()
    """The instance types that the pods may request; empty: only the type of the group; `*`: every type that the group allows."""
    machines: Annotated[int, Field(ge=1)] = 10
    """The number of pods of one namespace that have an instance at once, over all groups; further pods wait."""


class MachineSettings(BaseModel):
    """Settings of the operator of Nstance.

    >>> MachineSettings(cluster_id="acme", tenant="blue").cluster_name
    'acme--blue'
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    namespace: str = ""
    """The namespace of the operator, with the document of shards, the identity, the Cluster and the imported pools; empty: the namespace of
    the operator's pod, or of the kubeconfig."""
    cluster_id: Identifier = "nstance"
    """The cluster of the Nstance servers; the certificate has to name it."""
    tenant: Identifier = "default"
    """The tenant; the certificate has to name it."""
    shards_configmap: Name = "nstance-shards"
    """The ConfigMap with the document of shards. A change takes effect without a restart."""
    ca_configmap: Name = "nstance-cluster-ca"
    """The ConfigMap with the authority of the cluster, key ca.crt."""
    certificate_secret: Name = "nstance-operator-cert"  # noqa: S105  # the name of an object
    """The Secret with the operator's certificate; the operator writes it."""
    key_secret: Name = "nstance-operator-key"  # noqa: S105  # the name of an object
    """The Secret with the operator's key; the operator writes it."""
    nonce_secret: Name = "nstance-operator-nonce"  # noqa: S105  # the name of an object
    """The Secret with the nonce of the registration, key nonce.jwt; the operator deletes it after use."""
    control_plane_endpoint: Annotated[str, AfterValidator(_endpoint)] = ""
    """The address of the API server for machines, as host:port; empty: the address that the operator uses."""
    watch_filter: LabelValue = ""
    """Reconcile only objects whose label cluster.x-k8s.io/watch-filter has this value, and set the label on created objects; empty: every
    object. Providers of Cluster API have it as --watch-filter."""
    control_plane_stub: bool = True
    """Create the Cluster with an NstanceControlPlane: Cluster API then counts the Cluster as initialized, watches its Nodes, and cordons,
    drains and deletes the Node of a deleted Machine. Without it a Machine never becomes Ready, and the Node of a deleted Machine
    stays."""
    workload_account: OptionalName = "nstance-capi-workload"
    """The ServiceAccount in the operator's namespace with which Cluster API reaches the Nodes: the operator keeps a token of it in the
    Secret with the kubeconfig, renewed with ten minutes left of its hour. Empty: an administrator creates the Secret. A Secret without
    the annotation nstance.dev/token-expiry is an administrator's, and is never changed."""
    protect_at_admission: bool | None = None
    """Serve the webhook that denies changes of pools that no server would accept; null: if a setting names the address of the webhooks
    (webhooks.service or webhooks.url). Without the webhook such a change is stored, and the status reports it as refused."""
    on_demand_pods: bool = True
    """Create a Machine for each pod that requests an instance of its own and has permission. The metadata of all pods is then cached."""
    on_demand_allowances: tuple[OnDemandAllowance, ...] = ()
    """The pods that may request an instance, beside the pods of the operator's own namespace; empty: no other pods. An instance costs
    money and joins the cluster as a Node, so name the groups that tenants may use, and never the group of control plane machines."""
    adopt_instances: bool = False
    """Let an NstanceMachine take over the instance that its annotation nstance.dev/instance names, although the instance was created for
    another object. Set it for the target of `clusterctl move` and after a restore, until each machine is ready: the status then records the
    instance. Off, such an object is held with the reason ForeignInstance. An instance that counts for a group is never taken over."""
    call_timeout: Seconds = 10.0
    """The longest time in seconds of one call to a server."""
    poll: Seconds = 30.0
    """Seconds between two listings of the groups of a shard without an event, and between two checks for Nodes of deleted instances."""
    retry: Seconds = 30.0
    """Seconds until a refused change of a group is sent again, doubled with each refusal up to ten times as much."""
    unreachable_retry: Seconds = 10.0
    """Seconds until a call to an unreachable shard is tried again; the object is reconciled earlier if the shard is reachable again."""
    instance_start_poll: Seconds = 5.0
    """Seconds between two queries for the state of an instance on demand that does not run yet."""
    instance_poll: Seconds = 60.0
    """Seconds between two queries for the state of a running instance on demand: servers send no event at its end."""
    drain_timeout: Seconds = 300.0
    """Seconds for a drain whose event names no time of the deletion."""
    drain_poll: Seconds = 5.0
    """Seconds between two checks of the pods of a drained Node, and between two tries of an eviction that a budget refused."""
    drain_margin: Seconds = 15.0
    """Seconds between the acknowledgement of a drain that timed out and the deletion of its instance; at most a quarter of its time."""
    machines_at_once: Annotated[int, Field(ge=1)] = 8
    """Workers of the controller of NstanceMachines: each waits for at most one call."""
    retire_after: Seconds = 30.0
    """Seconds until the provider id of an instance that no server lists any more leaves its pool; Cluster API then deletes the Node. The
    id of an instance that is being drained stays until the end of the drain."""
    groups_at_once: Annotated[int, Field(ge=1)] = 8
    """Workers of the controller of shard groups: each waits for at most one call."""

    @model_validator(mode="after")
    def _short_enough(self) -> Self:
        if len(self.cluster_name) > _LONGEST_NAME:
            raise ValueError(
                f"the Cluster would be {self.cluster_name!r}, {len(self.cluster_name)} characters: use a cluster_id and a tenant of at "
                f"most {_LONGEST_NAME - 2} together"
            )
        return self

    @property
    def cluster_name(self) -> str:
        """The name of the Cluster and of its NstanceCluster."""
        return f"{self.cluster_id}--{self.tenant}"

    @property
    def filter_labels(self) -> dict[str, str]:
        """The label of the objects that are reconciled; none without a filter."""
        return {MachinesLabel.WATCH_FILTER: self.watch_filter} if self.watch_filter else {}

    @property
    def selector(self) -> str:
        """The label selector of the objects that are reconciled; "" selects all."""
        return ",".join(f"{name}={value}" for name, value in self.filter_labels.items())

    @property
    def identity_names(self) -> IdentityNames:
        """The objects of the identity."""
        return IdentityNames(self.ca_configmap, self.certificate_secret, self.key_secret, self.nonce_secret)

    @property
    def pace(self) -> SessionPace:
        """The times of a session."""
        return SessionPace(call=self.call_timeout, poll=self.poll)
