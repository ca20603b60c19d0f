"""Settings of the family of workspaces: every number with its unit, default and reason.

Guarantees: the defaults are safe to run with. None of the settings is a secret.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from konverge.reconcilers.shared.endpoints import InvalidEndpoint, parse_endpoint

__all__ = ["WorkspaceSettings"]

Seconds = Annotated[float, Field(gt=0)]


def _server(text: str) -> str:
    try:
        parse_endpoint(f"https://{text}")
    except InvalidEndpoint as error:
        raise ValueError(f"{error}: write host or host:port") from None
    if set(text) & set("/?#"):
        raise ValueError("a host has no scheme and no path: write host or host:port")
    return text


class WorkspaceSettings(BaseModel):
    """Settings of the controller of WorkspaceClaims.

    >>> WorkspaceSettings(namespace="cloudapi").credential_seconds
    86400.0
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    provider: Literal["kcp", "memory"] = "kcp"
    """Where workspaces are made. memory: in this process alone, for a demo: they are lost when it ends."""
    kubeconfig: str = ""
    """The file of a kubeconfig whose server is the root workspace of kcp (`https://host/clusters/root`); it may make workspaces there."""
    hosts: tuple[Annotated[str, AfterValidator(_server)], ...] = ()
    """Servers of this kcp beside the server of `kubeconfig`, as `host` or `host:port`: shards with an address of their own. Credentials of
    the root are sent to these and to no other server, over https only."""
    namespace: Annotated[str, Field(pattern=r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$", max_length=63)] = ""
    """The namespace of the Secrets with kubeconfigs. Empty: the operator's own; then a Secret that was deleted is missed at `recheck`."""
    credential_seconds: Annotated[float, Field(ge=600)] = 86400.0
    """Seconds for which a credential is asked for; kcp may give another time. It is renewed when a third of its time is left."""
    poll: Seconds = 5.0
    """Seconds until a workspace that is being prepared or deleted is looked at again: kcp is another API server, and is not watched."""
    retry: Seconds = 30.0
    """Seconds until a provider that did not respond is asked again."""
    recheck: Seconds = 300.0
    """Seconds until one that is ready, or that another owner has, is looked at again: that may change."""
