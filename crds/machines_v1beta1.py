"""`infrastructure.cluster.x-k8s.io/v1beta1`: the kinds of Nstance, as an infrastructure provider of Cluster API.

NstanceCluster fulfils the contract of a Cluster, NstanceControlPlane of an existing control plane, NstanceMachinePool of a MachinePool over
several shards, NstanceMachine of a Machine. NstanceMachineTemplate is the template of NstanceMachines for MachineSets. An NstanceShardGroup
is the part of a pool on one shard.

Guarantees: group, kinds and fields are as in Nstance's documents. The labels of the contract are on the definitions: this version
fulfils the contracts v1beta1 and v1beta2, so statuses have the fields of both. No field that users write has a default in the schema.

Caveats: a group's name is not checked here, so that stored objects stay writable; the controller reports a name that no server accepts.

Source: docs/reference/machines.md#kinds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final

from pydantic import Field

from konverge.crds.declaration import Column
from konverge.crds.markers import Atomic, Cel, Immutable, ListMap, PreserveUnknown
from konverge.crds.resource import CustomResource, resource
from konverge.crds.status import Status
from konverge.model import Model

__all__ = [
    "CONTRACT_LABELS",
    "GROUP",
    "ControlPlaneEndpoint",
    "ControlPlaneInitialization",
    "FailureDomain",
    "Initialization",
    "MachineAddress",
    "MachineMetadata",
    "NodeInfo",
    "NstanceCluster",
    "NstanceClusterSpec",
    "NstanceClusterStatus",
    "NstanceControlPlane",
    "NstanceControlPlaneSpec",
    "NstanceControlPlaneStatus",
    "NstanceMachine",
    "NstanceMachinePool",
    "NstanceMachinePoolSpec",
    "NstanceMachinePoolStatus",
    "NstanceMachineSpec",
    "NstanceMachineStatus",
    "NstanceMachineTemplate",
    "NstanceMachineTemplateResource",
    "NstanceMachineTemplateSpec",
    "NstanceMachineTemplateStatus",
    "NstanceShardGroup",
    "NstanceShardGroupSpec",
    "NstanceShardGroupStatus",
    "ShardGroupConfig",
]

GROUP: Final = "infrastructure.cluster.x-k8s.io"
CONTRACT_LABELS: Final[Mapping[str, str]] = {
    "cluster.x-k8s.io/v1beta1": "v1beta1",
    "cluster.x-k8s.io/v1beta2": "v1beta1",
    "cluster.x-k8s.io/provider": "infrastructure-nstance",
}
"""Contract of Cluster API to the version of the kind that fulfils it, and the label that clusterctl uses to find a provider's
definitions."""

_GROUP_STAYS: Final = "another group is another pool: create one, and delete this one"
_TEMPLATE_STAYS: Final = "the specification of a template cannot be changed; create another template and refer to it"

_VERSION: Final = f"{GROUP}/v1beta1"
_CATEGORIES: Final = ("cluster-api",)

Name = Annotated[str, Field(min_length=1, max_length=253)]
Text = Annotated[str, Field(max_length=512)]
Vars = Annotated[dict[str, Annotated[str, Field(max_length=4096)]], Field(max_length=256)]
Subnets = Annotated[tuple[Name, ...], Field(max_length=1), Atomic()]
Count = Annotated[int, Field(ge=0, json_schema_extra={"format": "int32"})]
Time = Annotated[str, Field(json_schema_extra={"format": "date-time"})]
Port = Annotated[int, Field(ge=0, le=65535, json_schema_extra={"format": "int32"})]


class Initialization(Model):
    """The state of the first provisioning, by the contract v1beta2."""

    provisioned: bool | None = None
    """Whether the infrastructure exists; once true it stays true."""


class ControlPlaneEndpoint(Model):
    """The endpoint of the cluster's API server."""

    host: Text = ""
    """The host name or IP address."""
    port: Port = 0
    """The port."""


class FailureDomain(Model):
    """A failure domain, which is a shard."""

    name: Name
    """The shard."""
    control_plane: bool | None = None
    """Whether control plane machines may be placed there."""
    attributes: dict[str, str] | None = None
    """Further facts about it."""


class NstanceClusterSpec(Model):
    """The endpoint."""

    control_plane_endpoint: ControlPlaneEndpoint | None = None
    """The endpoint of the API server; the controller sets it."""


class NstanceClusterStatus(Status):
    """The state of the cluster."""

    initialization: Initialization | None = None
    """The state of the first provisioning."""
    failure_domains: Annotated[tuple[FailureDomain, ...], ListMap("name")] = ()
    """The shards."""


@resource(
    _VERSION,
    categories=_CATEGORIES,
    labels=CONTRACT_LABELS,
    conditions=("Ready", "ShardsReachable", "Paused"),
    columns=(Column("Provisioned", ".status.initialization.provisioned", type="boolean"),),
)
class NstanceCluster(CustomResource[NstanceClusterSpec, NstanceClusterStatus]):
    """The infrastructure of a Cluster: Nstance manages machines, so there is nothing to provision for the cluster itself."""


class NstanceControlPlaneSpec(Model):
    """Nothing: the control plane is managed elsewhere."""


class ControlPlaneInitialization(Model):
    """The state of the first initialization, by the contract v1beta2."""

    control_plane_initialized: bool | None = None
    """Whether the API server can be used."""


class NstanceControlPlaneStatus(Status):
    """The state of the control plane."""

    initialization: ControlPlaneInitialization | None = None
    """The state of the first initialization."""
    external_managed_control_plane: bool | None = None
    """Whether no Machine runs the control plane."""


@resource(
    _VERSION,
    categories=_CATEGORIES,
    labels=CONTRACT_LABELS,
    conditions=("Available",),
    columns=(Column("Initialized", ".status.initialization.controlPlaneInitialized", type="boolean"),),
)
class NstanceControlPlane(CustomResource[NstanceControlPlaneSpec, NstanceControlPlaneStatus]):
    """A control plane that is managed elsewhere: because of it Cluster API counts the Cluster as initialized, and watches its Nodes."""


class NstanceMachinePoolSpec(Model):
    """A group of instances over shards."""

    group: Annotated[Name, Immutable(_GROUP_STAYS)]
    """The group on the servers. It cannot be changed: the instances of the old group would belong to no pool."""
    shards: Annotated[tuple[Name, ...], Field(min_length=1, max_length=64), Atomic()]
    """The shards among which the replicas of the MachinePool are distributed, in any order."""
    template: Text | None = None
    """The template of a new group; not for a static group, whose template the servers have."""
    instance_type: Text | None = None
    """The type of the instances, if the group allows another than its own."""
    vars: Vars | None = None
    """Variables, merged over the template's. A key that is removed here stays on the servers."""
    subnets: Subnets | None = None
    """The subnet pool of a new group, one at most; left out, the template's. Not for a static group."""
    provider_id_list: Annotated[tuple[Text, ...], Atomic(), Field(alias="providerIDList")] = ()
    """The provider ids of the instances that run; the controller sets it."""


class NstanceMachinePoolStatus(Status):
    """The state of the pool."""

    ready: bool | None = None
    """Whether the pool was provisioned; Cluster API reads this of a pool, and `initialization` of other kinds."""
    initialization: Initialization | None = None
    """The state of the first provisioning."""
    replicas: Count | None = None
    """How many instances run."""
    nodes: Count | None = None
    """How many Nodes have a provider id of the list: Cluster API reads the list again whenever it changes."""
    is_static: bool | None = None
    """Whether the configuration of a server has the group: then its template, subnets and shards are fixed."""
    template: Text | None = None
    """The template that the servers use."""
    subnets: Annotated[tuple[Text, ...], Field(max_length=64), Atomic()] = ()
    """The subnet pools that the servers use."""
    observed_owner_generation: Annotated[int | None, Field(json_schema_extra={"format": "int64"})] = None
    """The generation of the MachinePool that was last distributed."""


def _of_static(field: str, rule: str, words: str) -> Cel:
    """Return the rule about a field of a pool whose group is static; without the webhook it is the only one."""
    is_static = "has(oldSelf.status) && has(oldSelf.status.isStatic) && oldSelf.status.isStatic"
    return Cel(
        f"!({is_static}) || {rule}",
        f"the group is static: change its {words} in the configuration of the servers",
        reason="FieldValueForbidden",
        field_path=f".spec.{field}",
    )


def _text(owner: str) -> str:
    return f"(has({owner}.template) ? {owner}.template : '')"


def _list(owner: str) -> str:
    return f"(has({owner}.subnets) ? {owner}.subnets : [])"


_STATIC_POOL: Final = (
    # A setting that differs from the servers' may be removed, or set to the servers' value.
    _of_static(
        "template",
        f"{_text('self.spec')} == {_text('oldSelf.spec')} || ({_text('oldSelf.spec')} != {_text('oldSelf.status')} "
        f"&& {_text('self.spec')} in ['', {_text('oldSelf.status')}])",
        "template",
    ),
    _of_static(
        "subnets",
        f"{_list('self.spec')} == {_list('oldSelf.spec')} || (!{_list('oldSelf.spec')}.all(s, s in {_list('oldSelf.status')}) "
        f"&& {_list('self.spec')}.all(s, s in {_list('oldSelf.status')}))",
        "subnets",
    ),
    _of_static(
        "shards",
        "(self.spec.shards.all(s, s in oldSelf.spec.shards) && oldSelf.spec.shards.all(s, s in self.spec.shards))",
        "shards",
    ),
)


@resource(
    _VERSION,
    categories=_CATEGORIES,
    labels=CONTRACT_LABELS,
    conditions=("Ready", "Paused"),
    columns=(
        Column("Group", ".spec.group"),
        Column("Static", ".status.isStatic", type="boolean"),
        Column("Ready", ".status.ready", type="boolean"),
    ),
    rules=_STATIC_POOL,
)
class NstanceMachinePool(CustomResource[NstanceMachinePoolSpec, NstanceMachinePoolStatus]):
    """A group of instances over shards, scaled by its MachinePool."""


class NstanceShardGroupSpec(Model):
    """A group on one shard."""

    group: Name
    """The group on the server."""
    shard: Name
    """The shard."""
    size: Count
    """How many instances the shard is to run."""
    template: Text | None = None
    """The template of a new group."""
    instance_type: Text | None = None
    """The type of the instances."""
    subnets: Subnets | None = None
    """The subnet pool of a new group."""
    vars: Vars | None = None
    """Variables, merged over the template's."""


class ShardGroupConfig(Model):
    """The settings of a group as the server merged them."""

    template: Text | None = None
    """The template."""
    subnets: Annotated[tuple[Text, ...], Atomic()] = ()
    """The subnet pool."""
    instance_type: Text | None = None
    """The type of the instances."""
    vars: Vars | None = None
    """The variables."""


class NstanceShardGroupStatus(Status):
    """The state of the group on its shard."""

    replicas: Count | None = None
    """How many instances run."""
    provider_ids: Annotated[tuple[Text, ...], Atomic(), Field(alias="providerIDs")] = ()
    """The provider ids of the instances that run, as the server has them."""
    is_static: bool | None = None
    """Whether the server's configuration has the group."""
    config: ShardGroupConfig | None = None
    """The settings as the server merged them."""
    last_sync_time: Time | None = None
    """When the server last responded about the group."""


@resource(
    _VERSION,
    categories=_CATEGORIES,
    labels=CONTRACT_LABELS,
    conditions=("Ready", "ShardReachable", "ConfigValid"),
    columns=(
        Column("Group", ".spec.group"),
        Column("Shard", ".spec.shard"),
        Column("Size", ".spec.size", type="integer"),
        Column("Static", ".status.isStatic", type="boolean"),
        Column.condition("Ready"),
    ),
)
class NstanceShardGroup(CustomResource[NstanceShardGroupSpec, NstanceShardGroupStatus]):
    """The part of a pool on one shard; the controller of pools creates it."""


class NstanceMachineSpec(Model):
    """An instance on demand."""

    group_ref: Annotated[Any, PreserveUnknown()]
    """The group on the servers: its name, or an object with its name as `name`."""
    instance_type: Text | None = None
    """The type of the instance, if the group allows another than its own."""
    vars: Vars | None = None
    """Variables, merged over the group's."""
    provider_id: Annotated[Text | None, Field(alias="providerID")] = None
    """The provider id of the Node; the controller sets it."""
    failure_domain: Text | None = None
    """The shard; the controller sets it."""

    @property
    def group(self) -> str:
        """The name of the group; "" if the reference has none."""
        name = self.group_ref.get("name") if isinstance(self.group_ref, Mapping) else self.group_ref
        return name if isinstance(name, str) else ""


class MachineAddress(Model):
    """An address of an instance."""

    type: Text
    """Hostname, InternalIP, ExternalIP, InternalDNS or ExternalDNS."""
    address: Text
    """The address."""


class NstanceMachineStatus(Status):
    """The state of an instance on demand."""

    ready: bool | None = None
    """Whether the instance runs."""
    initialization: Initialization | None = None
    """The state of the first provisioning."""
    instance_id: Annotated[Text | None, Field(alias="instanceID")] = None
    """The id of the instance on the server."""
    shard: Text | None = None
    """The shard of the instance."""
    provider_id: Annotated[Text | None, Field(alias="providerID")] = None
    """The provider id, as the server has it."""
    failure_domain: Text | None = None
    """The shard, by the contract."""
    addresses: Annotated[tuple[MachineAddress, ...], Atomic()] = ()
    """The addresses of the instance."""


@resource(
    _VERSION,
    categories=_CATEGORIES,
    labels=CONTRACT_LABELS,
    conditions=("Ready", "Paused", "ServerDeleted"),
    columns=(
        Column("Group", ".spec.groupRef"),
        Column("InstanceID", ".status.instanceID"),
        Column("ProviderID", ".status.providerID"),
        Column("Ready", ".status.ready", type="boolean"),
    ),
)
class NstanceMachine(CustomResource[NstanceMachineSpec, NstanceMachineStatus]):
    """One instance on demand, owned by a Machine."""


class MachineMetadata(Model):
    """Labels and annotations of the created objects."""

    labels: dict[str, str] | None = None
    """Labels."""
    annotations: dict[str, str] | None = None
    """Annotations."""


class NstanceMachineTemplateResource(Model):
    """An NstanceMachine to create."""

    metadata: MachineMetadata | None = None
    """Labels and annotations."""
    spec: Annotated[NstanceMachineSpec, Immutable(_TEMPLATE_STAYS)]
    """The specification."""


class NstanceMachineTemplateSpec(Model):
    """The template."""

    template: NstanceMachineTemplateResource
    """The NstanceMachine to create."""


class NodeInfo(Model):
    """Facts about a Node that does not exist yet, for autoscalers."""

    architecture: Text | None = None
    """The processor architecture, as in amd64."""
    operating_system: Text | None = None
    """The operating system, as in linux."""


class NstanceMachineTemplateStatus(Status):
    """Facts that an autoscaler needs to scale from zero."""

    capacity: dict[str, str] | None = None
    """The resources of a Node."""
    node_info: NodeInfo | None = None
    """The system of a Node."""


@resource(
    _VERSION,
    categories=_CATEGORIES,
    labels=CONTRACT_LABELS,
    columns=(Column("Group", ".spec.template.spec.groupRef"),),
)
class NstanceMachineTemplate(CustomResource[NstanceMachineTemplateSpec, NstanceMachineTemplateStatus]):
    """The template of NstanceMachines for a MachineSet. Its specification cannot be changed: existing machines would not follow."""
