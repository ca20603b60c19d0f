"""The configuration of a control plane.

Guarantees: plain frozen data with defaults for the smallest plane; the constructor starts nothing and reads nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from konverge_testing.binaries import Binaries
from konverge_testing.failures import ControlPlaneError

__all__ = ["CONTROLLERS", "ControlPlaneConfig"]

CONTROLLERS = (
    "namespace-controller",
    "garbage-collector-controller",
    "resourcequota-controller",
    "job-controller",
    "serviceaccount-controller",
    "serviceaccount-token-controller",
    "ttl-after-finished-controller",
    "persistentvolumeclaim-protection-controller",
    "persistentvolume-protection-controller",
)
"""The controllers that work without nodes, and that reconcilers depend on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlPlaneConfig:
    """The settings of a control plane.

    - `controllers`: run kube-controller-manager with `controller_names` (garbage collection, namespace removal,
      ResourceQuota, Jobs, default ServiceAccounts, protection of claims in use). Off by default. Without it the admission of
      ServiceAccounts is off too, since no controller creates them.
    - `apiserver_flags`, `controller_manager_flags`: name without dashes -> value; they win over ours.
    - `feature_gates`: of the API server, for instance `{"WatchList": False}`.
    - `watch_cache`, `watch_cache_sizes`: False serves every read from etcd; sizes are by `resource.group`.
    - `min_watch_seconds`: the API server ends a watch without a timeout of its own after a random time between this and
      twice this.
    - `compaction_seconds`: how often history is dropped: older versions then lead to 410, in watches and in continue tokens.
    - `audit`: write one JSON line per request (metadata only) to `ControlPlane.audit_file`.
    - `start_seconds`: how long the start may take until `/readyz` is ok.
    - `root`: where the directory of the plane is created; by default one folder per user in the system's temporary folder.
    - `binaries`: the programs; by default `find_binaries` looks for them.

    >>> ControlPlaneConfig(controllers=True, feature_gates={"WatchList": False}).start_seconds
    60.0
    """

    controllers: bool = False
    controller_names: tuple[str, ...] = CONTROLLERS
    apiserver_flags: Mapping[str, str] = field(default_factory=dict)
    controller_manager_flags: Mapping[str, str] = field(default_factory=dict)
    feature_gates: Mapping[str, bool] = field(default_factory=dict)
    watch_cache: bool = True
    watch_cache_sizes: Mapping[str, int] = field(default_factory=dict)
    min_watch_seconds: int | None = None
    compaction_seconds: int | None = None
    audit: bool = False
    start_seconds: float = 60.0
    root: Path | None = None
    binaries: Binaries | None = None

    def __post_init__(self) -> None:
        for flags in (self.apiserver_flags, self.controller_manager_flags):
            dashed = [name for name in flags if name.startswith("-") or "=" in name]
            if dashed:
                raise ControlPlaneError(
                    f"flags are written as name and value, without dashes and =: {', '.join(dashed)}"
                )
