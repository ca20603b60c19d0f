"""The family of WorkspaceClaim: a workspace of kcp, and a Secret with a kubeconfig that is renewed before it expires.

A drop-in for cloudapi-operator (`cloudapi.team-orca.dev/v1alpha1`). Behaviour and decisions: docs/reference/workspaces.md.

    words.py, settings.py
    provider.py    the interface of a provider: three verbs. Pure
    memory.py      workspaces in memory, for tests and the demo
    kcp.py         workspaces of kcp
    kcp_urls.py    the URLs that may receive the credentials of kcp. Pure
    secrets.py     the Secret with the kubeconfig. Pure
    observe.py     a claim with its workspace and its Secret
    decide.py      the conditions, and whether a credential is due. Pure
    act.py         a new credential in the Secret
    reconciler.py, installation.py

Guarantees: a workspace or Secret of another owner is neither used nor deleted. A kubeconfig is in no log, Event, status or exception.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from konverge.lazy import at_first_use

if TYPE_CHECKING:
    from konverge.reconcilers.workspaces.installation import install
    from konverge.reconcilers.workspaces.kcp import KcpWorkspaces
    from konverge.reconcilers.workspaces.memory import MemoryWorkspaces
    from konverge.reconcilers.workspaces.provider import (
        ClaimOfWorkspace,
        ProviderUnavailable,
        WorkspaceCredential,
        WorkspacePhase,
        WorkspaceProvider,
        WorkspaceRefused,
        WorkspaceState,
        WorkspaceTaken,
    )
    from konverge.reconcilers.workspaces.settings import WorkspaceSettings

__all__ = [
    "ClaimOfWorkspace",
    "KcpWorkspaces",
    "MemoryWorkspaces",
    "ProviderUnavailable",
    "WorkspaceCredential",
    "WorkspacePhase",
    "WorkspaceProvider",
    "WorkspaceRefused",
    "WorkspaceSettings",
    "WorkspaceState",
    "WorkspaceTaken",
    "install",
]

__getattr__ = at_first_use(
    __name__,
    {
        "installation": ("install",),
        "kcp": ("KcpWorkspaces",),
        "memory": ("MemoryWorkspaces",),
        "provider": (
            "ClaimOfWorkspace",
            "ProviderUnavailable",
            "WorkspaceCredential",
            "WorkspacePhase",
            "WorkspaceProvider",
            "WorkspaceRefused",
            "WorkspaceState",
            "WorkspaceTaken",
        ),
        "settings": ("WorkspaceSettings",),
    },
)
