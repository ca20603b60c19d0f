"""The life of claims under the lab's faults: `make test` once, `make lab` with every plan, with a crash before and after each write."""

from typing import Any

import pytest
from workspaces_lab import Workspaces, phase

from konverge.crds.workspaces_v1alpha1 import WorkspaceClaim
from konverge.reconcilers.workspaces.secrets import SECRET
from konverge_testing import Lab


def forget(data: dict[str, Any]) -> None:
    """Remove what is issued again, or read from a clock."""
    if data["kind"] == "Secret":
        data.pop("data", None)
        data["metadata"].pop("annotations", None)


@pytest.mark.scenario(quick=10)
async def test_claims_are_served_and_deleted(lab: Lab) -> None:
    made = Workspaces(lab)
    lab.may_differ(None, forget, why="tokens and times")
    lab.skip_plans("workspaceclaims*: recreate by hand *", why="the workspace has the uid of the claim before")
    await made.start()
    await made.claim("acme")
    await made.claim("second", id="other")
    await made.until("acme", phase("Ready"), timeout=400)
    await made.until("second", phase("Ready"), timeout=400)
    await lab.delete(WorkspaceClaim, "second")
    await lab.until_gone(WorkspaceClaim, "second", timeout=400)
    assert made.memory.names() == ("acme",)
    assert await lab.find(SECRET, "ws-other-kubeconfig") is None
