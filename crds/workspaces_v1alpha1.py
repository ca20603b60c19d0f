"""`cloudapi.team-orca.dev/v1alpha1`: workspaces of kcp that claims request.

Guarantees: group, kind and fields are those of cloudapi-operator, so its objects are accepted. The API server itself checks that the id of
a claim never changes, and is neither added nor removed later.

Caveats: the original does not define whether a claim has a namespace; here it has none, because its status names the namespace of the
Secret.

Source: docs/reference/workspaces.md.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from konverge.crds.declaration import Column
from konverge.crds.markers import Cel, Immutable
from konverge.crds.resource import CustomResource, resource
from konverge.crds.status import Status
from konverge.model import Model

__all__ = [
    "GROUP",
    "KubeConfigSecret",
    "WorkspaceClaim",
    "WorkspaceClaimSpec",
    "WorkspaceClaimStatus",
    "WorkspacePhaseName",
]

GROUP = "cloudapi.team-orca.dev"

WorkspacePhaseName: TypeAlias = Literal["Initializing", "Ready", "Deleting"]
WorkspaceId = Annotated[str, Field(min_length=1, max_length=63, pattern=r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$")]


@Cel("has(self.id) == has(oldSelf.id)", "the id of a claim cannot be added or removed later")
class WorkspaceClaimSpec(Model):
    """The desired workspace."""

    id: Annotated[WorkspaceId | None, Immutable()] = None
    """The name of the workspace; left out, the name of the claim."""


class KubeConfigSecret(Model):
    """The Secret with the kubeconfig of the workspace, under the key `kubeconfig`."""

    name: Annotated[str, Field(max_length=253)]
    namespace: Annotated[str, Field(max_length=63)]


class WorkspaceClaimStatus(Status):
    """The state of the workspace."""

    phase: WorkspacePhaseName | None = None
    cluster_url: Annotated[str | None, Field(max_length=2048)] = None
    """The URL of the workspace, an API server of its own."""
    kube_config_secret: KubeConfigSecret | None = None


@resource(
    f"{GROUP}/v1alpha1",
    short_names=("wsc",),
    scope="Cluster",
    conditions=("Available", "Progressing", "Degraded"),
    columns=(
        Column("Phase", ".status.phase"),
        Column("URL", ".status.clusterUrl"),
        Column.condition("Available"),
        Column.condition("Degraded"),
    ),
    written_by="tenants",
)
class WorkspaceClaim(CustomResource[WorkspaceClaimSpec, WorkspaceClaimStatus]):
    """A request for a workspace, with a kubeconfig for it in a Secret."""

    @property
    def workspace(self) -> str:
        """The name of the workspace."""
        return self.spec.id or self.name
