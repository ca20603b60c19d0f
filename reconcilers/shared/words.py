"""Words of the vworkspace API that several families read and write."""

from __future__ import annotations

from typing import Final

__all__ = ["ControlPlaneLabel"]


class ControlPlaneLabel:
    """Labels of objects that a control plane manages."""

    MANAGED_BY: Final = "app.vworkspace.io/managed-by"
    CLUSTER_ID: Final = "app.vworkspace.io/cluster-id"

    CONTROL_PLANE: Final = "control-plane"
    """The value of MANAGED_BY."""
