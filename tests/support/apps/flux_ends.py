"""The final conditions of an ApplicationInstance for each recording of Flux, and the conditions that never appear on the way (table in
their README).
"""

HEALTHY = {
    "Ready": "True/HelmReleaseReady",
    "Reconciling": "False/Stable",
    "Degraded": "False/Recovered",
    "Stalled": "",
}
GAVE_UP = {
    "Ready": "False/HelmReleaseFailed",
    "Reconciling": "False/Stable",
    "Degraded": "True/HelmReleaseFailed",
    "Stalled": "True/RetriesExceeded",
}
GONE = {"Ready": "False/HelmReleaseMissing", "Reconciling": "True/HelmReleaseInstalling", "Stalled": ""}

ENDS: dict[str, dict[str, str]] = {
    "chart-version-missing": HEALTHY,
    "depends-on": HEALTHY,
    "drift-enabled": {"Ready": "True/HelmReleaseReady", "Reconciling": "False/Stable", "Degraded": "True/Drifted"},
    "install-failed": GAVE_UP,
    "install-upgrade": GONE,
    "oci-chart-ref": {"Ready": "False/Upgrading", "Reconciling": "True/HelmReleaseUpgrading"},
    "rename-release": HEALTHY,
    "repo-unreachable": {"Ready": "False/Installing", "Reconciling": "True/ChartSourceSyncing", "Degraded": ""},
    "retry-on-failure": HEALTHY,
    "source-missing": HEALTHY,
    "suspended": GONE,
    "test-fails": GAVE_UP,
    "uninstall-fails": GONE,
    "upgrade-failed-no-retries": HEALTHY,
    "upgrade-failed-rollback": HEALTHY,
    "upgrade-slow-times-out": GAVE_UP,
    "values-secret": HEALTHY,
}

NEVER: dict[str, tuple[tuple[str, str], ...]] = {
    "chart-version-missing": (("Degraded", "True/"),),
    "depends-on": (("Degraded", "True/"),),
    "drift-enabled": (("Ready", "Unknown/"), ("Degraded", "True/HelmReleaseFailed")),
    "install-failed": (("Ready", "True/"), ("Ready", "False/Upgrading")),
    "install-upgrade": (("Degraded", "True/"), ("Ready", "False/ChartUnreachable"), ("Stalled", "True/")),
    "oci-chart-ref": (("Degraded", "True/"),),
    "rename-release": (("Degraded", "True/"),),
    "repo-unreachable": (("Degraded", "True/"),),
    "retry-on-failure": (("Stalled", "True/"), ("Ready", "Unknown/")),
    "source-missing": (("Degraded", "True/"),),
    "suspended": (("Degraded", "True/"), ("Stalled", "True/")),
    "test-fails": (("Ready", "False/Upgrading"), ("Ready", "True/"), ("Reconciling", "True/HelmReleaseUpgrading")),
    "uninstall-fails": (("Stalled", "True/"),),
    "upgrade-failed-no-retries": (("Ready", "Unknown/"),),
    "upgrade-failed-rollback": (("Ready", "Unknown/"),),
    "upgrade-slow-times-out": (("Ready", "Unknown/"),),
    "values-secret": (("Stalled", "True/"),),
}
