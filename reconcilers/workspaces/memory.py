"""Workspaces in memory: a provider for tests and for the demo.

Guarantees: a call with an epoch below the highest epoch of its claim is refused, and recorded in `late`.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import timedelta

from konverge.clock import wall_clock
from konverge.reconcilers.workspaces.provider import (
    ClaimOfWorkspace,
    ProviderUnavailable,
    WorkspaceCredential,
    WorkspacePhase,
    WorkspaceState,
    WorkspaceTaken,
)

__all__ = ["MemoryWorkspaces"]


@dataclass(slots=True)
class _Workspace:
    owner: str
    ready_at: float
    identity: str
    gone_at: float | None = None
    outage: str = ""


class MemoryWorkspaces:
    """A provider whose workspaces become ready, and disappear, after some seconds.

    >>> MemoryWorkspaces().url("acme")
    'https://workspaces.example.com/clusters/root:acme'
    """

    def __init__(self, *, preparing: float = 2.0, deleting: float = 2.0, epochs: dict[str, int] | None = None) -> None:
        self.preparing = preparing
        self.deleting = deleting
        self.away = ""
        """Why no call succeeds, "" if they do."""
        self.created: list[str] = []
        """The names of the created workspaces, in the order of their creation."""
        self.issued: list[str] = []
        """The names of the workspaces of the issued credentials."""
        self.late: list[tuple[str, int]] = []
        """Calls of a former owner: the workspace, and the epoch."""
        self._epochs = {} if epochs is None else epochs
        self._workspaces: dict[str, _Workspace] = {}

    def url(self, workspace: str) -> str:
        """Return the URL of a workspace."""
        return f"https://workspaces.example.com/clusters/root:{workspace}"

    def names(self) -> tuple[str, ...]:
        """Return the names of the workspaces that exist."""
        return tuple(name for name in self._workspaces if self._state(name).phase is not WorkspacePhase.GONE)

    def make_by_hand(self, workspace: str, owner: str = "") -> None:
        """Create a workspace that is ready, for another owner."""
        self._workspaces[workspace] = _Workspace(owner, self._now(), f"by-hand-{workspace}")

    def break_down(self, workspace: str, why: str) -> None:
        """Set a workspace to unavailable, until it is called with ""."""
        self._workspaces[workspace].outage = why

    async def ensure(self, claim: ClaimOfWorkspace) -> WorkspaceState:
        """Create the workspace if it does not exist."""
        self._check(claim)
        if self._state(claim.workspace).phase is WorkspacePhase.GONE:
            self.created.append(claim.workspace)
            created = _Workspace(claim.uid, self._now() + self.preparing, f"workspace-{len(self.created)}")
            self._workspaces[claim.workspace] = created
        self._check_owner(claim)
        return self._state(claim.workspace)

    async def credential(self, claim: ClaimOfWorkspace, lifetime: timedelta) -> WorkspaceCredential:
        """Issue a credential."""
        self._check(claim)
        self._check_owner(claim)
        self.issued.append(claim.workspace)
        text = f"server: {self.url(claim.workspace)}\ntoken: top-secret-{len(self.issued)}\n"
        return WorkspaceCredential(text, wall_clock() + lifetime)

    async def delete(self, claim: ClaimOfWorkspace) -> WorkspaceState:
        """Begin to delete the workspace."""
        self._check(claim)
        workspace = self._workspaces.get(claim.workspace)
        if workspace is None or workspace.owner != claim.uid:
            return WorkspaceState(WorkspacePhase.GONE)
        if workspace.gone_at is None:
            workspace.gone_at = self._now() + self.deleting
        return self._state(claim.workspace)

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    def _check(self, claim: ClaimOfWorkspace) -> None:
        if self.away:
            raise ProviderUnavailable(self.away)
        if claim.epoch < self._epochs.get(claim.uid, 0):
            self.late.append((claim.workspace, claim.epoch))
            raise ProviderUnavailable(f"another replica owns the claim of workspace {claim.workspace} by now")
        self._epochs[claim.uid] = claim.epoch

    def _check_owner(self, claim: ClaimOfWorkspace) -> None:
        if self._workspaces[claim.workspace].owner != claim.uid:
            raise WorkspaceTaken(f"the workspace {claim.workspace} exists and was not made for this claim")

    def _state(self, workspace: str) -> WorkspaceState:
        stored = self._workspaces.get(workspace)
        if stored is None or (stored.gone_at is not None and stored.gone_at <= self._now()):
            self._workspaces.pop(workspace, None)
            return WorkspaceState(WorkspacePhase.GONE)
        if stored.gone_at is not None:
            return WorkspaceState(WorkspacePhase.DELETING, message="its content is being deleted")
        if stored.outage:
            return WorkspaceState(WorkspacePhase.UNAVAILABLE, self.url(workspace), stored.outage)
        if stored.ready_at > self._now():
            return WorkspaceState(WorkspacePhase.PREPARING, message="it is being prepared")
        return WorkspaceState(WorkspacePhase.READY, self.url(workspace), identity=stored.identity)
