"""The interface of a provider of workspaces.

Guarantees of a provider: each verb can be repeated. A workspace belongs to the claim whose `ensure` created it; for any other claim
`ensure` and `credential` raise WorkspaceTaken, and `delete` deletes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum
from typing import Protocol

from konverge.errors import KonvergeError

__all__ = [
    "ClaimOfWorkspace",
    "ProviderUnavailable",
    "WorkspaceCredential",
    "WorkspacePhase",
    "WorkspaceProvider",
    "WorkspaceRefused",
    "WorkspaceState",
    "WorkspaceTaken",
]


class ProviderUnavailable(KonvergeError):
    """The provider did not respond, or refused: the state of the workspace is unknown, and the verb is tried again."""


class WorkspaceTaken(KonvergeError):
    """A workspace of this name belongs to another claim, or was created by hand."""


class WorkspaceRefused(KonvergeError):
    """The workspace cannot be used as the provider describes it; the message has the remedy."""


class WorkspacePhase(Enum):
    """The phases of a workspace, as far as a claim distinguishes them."""

    PREPARING = "preparing"
    READY = "ready"
    UNAVAILABLE = "unavailable"
    """The workspace was ready, or cannot become ready for now; it may become ready again."""
    DELETING = "deleting"
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class ClaimOfWorkspace:
    """The claim on whose behalf a verb is called."""

    workspace: str
    uid: str
    epoch: int = 0
    """Greater with each replica that owns the claim: a provider that keeps it can refuse a late call of the former owner."""


@dataclass(frozen=True, slots=True)
class WorkspaceState:
    """A workspace."""

    phase: WorkspacePhase
    url: str = ""
    message: str = ""
    """Why it is not ready, or not deleted yet."""
    identity: str = ""
    """Differs for each workspace of the same name."""


@dataclass(frozen=True, slots=True)
class WorkspaceCredential:
    """A kubeconfig for a workspace."""

    kubeconfig: str = field(repr=False)
    expires: datetime


class WorkspaceProvider(Protocol):
    """Creates workspaces, issues credentials for them, and deletes them.

    Errors: ProviderUnavailable, WorkspaceRefused, WorkspaceTaken.
    """

    async def ensure(self, claim: ClaimOfWorkspace) -> WorkspaceState:
        """Create the workspace if it does not exist, and return its state."""

    async def credential(self, claim: ClaimOfWorkspace, lifetime: timedelta) -> WorkspaceCredential:
        """Issue a credential for a workspace that is ready; the granted lifetime may differ."""

    async def delete(self, claim: ClaimOfWorkspace) -> WorkspaceState:
        """Begin to delete the workspace, and return its state: GONE if it does not exist, or belongs to another claim."""
