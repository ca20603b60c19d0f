"""The state of one reconcile of the helm-controller stand-in: the release, its next status, and the desired state."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from konverge_testing.flux.state import ClusterView, Conditions, Object_, Status, World

__all__ = ["FORCE_AT", "REQUESTED_AT", "Work"]

REQUESTED_AT = "reconcile.fluxcd.io/requestedAt"
FORCE_AT = "reconcile.fluxcd.io/forceAt"
_COUNTERS = ("failures", "installFailures", "upgradeFailures")


@dataclass(slots=True)
class Work:
    """The state of one reconcile. `revision` and `config` are the wanted chart and values, known once both were found."""

    release: Object_
    status: Object_
    conditions: Conditions
    world: World
    view: ClusterView
    revision: str = ""
    digest: str = ""
    """Of a chart from an OCIRepository: the digest of its artifact."""
    config: str = ""

    @classmethod
    def on(cls, release: Object_, world: World, view: ClusterView) -> Work:
        """Begin on a copy of the release's status."""
        status: Object_ = copy.deepcopy(release.get("status") or {})
        return cls(release, status, Conditions(status, release["metadata"]["generation"], view.now()), world, view)

    @property
    def spec(self) -> Object_:
        """The spec."""
        result: Object_ = self.release["spec"]
        return result

    @property
    def generation(self) -> int:
        """The generation."""
        return int(self.release["metadata"]["generation"])

    @property
    def namespace(self) -> str:
        """The namespace."""
        return str(self.release["metadata"]["namespace"])

    @property
    def name(self) -> str:
        """The name of the HelmRelease."""
        return str(self.release["metadata"]["name"])

    @property
    def place(self) -> tuple[str, str]:
        """Name and namespace of the Helm release."""
        return str(self.spec.get("releaseName") or self.name), str(self.spec.get("targetNamespace") or self.namespace)

    @property
    def key(self) -> str:
        """`namespace/name` of the Helm release."""
        name, namespace = self.place
        return f"{namespace}/{name}"

    @property
    def history(self) -> list[Object_]:
        """The releases, newest first."""
        objects: list[Object_] = self.status.setdefault("history", [])
        return objects

    @property
    def latest(self) -> Object_ | None:
        """The newest release."""
        return self.history[0] if self.history else None

    @property
    def version(self) -> str:
        """The wanted chart version, without a digest."""
        return self.revision.partition("+")[0]

    @property
    def drift_mode(self) -> str:
        """The configured reaction to drift."""
        return str((self.spec.get("driftDetection") or {}).get("mode", "disabled"))

    def strategy(self, action: str) -> Object_:
        """The failure strategy of an action."""
        return {**(self.spec.get(action) or {})}

    def describe(self, entry: Object_) -> str:
        """Name a release as Flux's messages do."""
        return f"release {self.key}.v{entry['version']} with chart {entry['chartName']}@{entry['chartVersion'].partition('+')[0]}"

    def write(self) -> Iterator[Status]:
        """Write the status as it is now."""
        yield Status(copy.deepcopy(self.status))

    def write_if(self, before: Object_) -> Iterator[Status]:
        """Write the status if it differs from an earlier copy."""
        if self.status != before:
            yield from self.write()

    def copied(self) -> Object_:
        """Return a copy of the status to compare with."""
        return copy.deepcopy(self.status)

    def begin(self) -> Iterator[Status]:
        """Record the attempt before it starts. A changed intent resets the failure counters."""
        before = self.copied()
        self._note_attempt()
        if self.status != before:
            self.forget_failures()
            yield from self.write()

    def _note_attempt(self) -> None:
        self.status["lastAttemptedGeneration"] = self.generation
        self.status["lastAttemptedRevision"] = self.revision
        self.status["lastAttemptedConfigDigest"] = self.config
        if self.digest:
            self.status["lastAttemptedRevisionDigest"] = self.digest
        else:
            self.status.pop("lastAttemptedRevisionDigest", None)

    def forget_failures(self) -> None:
        """Reset the failure counters."""
        for counter in _COUNTERS:
            self.status.pop(counter, None)

    def count_failure(self, action: str) -> None:
        """Count one failure of an action."""
        for counter in ("failures", f"{action}Failures"):
            self.status[counter] = self.status.get(counter, 0) + 1

    def exhausted(self, action: str) -> bool:
        """Return whether exactly this intent has used up its retries; then nothing is retried."""
        tried = tuple(self.status.get(f"lastAttempted{what}") for what in ("Generation", "Revision", "ConfigDigest"))
        retries = (self.strategy(action).get("remediation") or {}).get("retries", 0)
        failures = self.status.get(f"{action}Failures", 0)
        retried = (self.strategy(action).get("strategy") or {}).get("name") == "RetryOnFailure"
        return tried == (self.generation, self.revision, self.config) and not retried and failures > retries >= 0

    def judge_drift(self) -> None:
        """Set the condition Drifted according to the world; remove it if drift detection is off."""
        if self.drift_mode == "disabled" or self.latest is None:
            self.conditions.drop("Drifted")
        elif self.key in self.world.drifted:
            text = (
                f"Cluster state of release {self.key}.v{self.latest['version']} has drifted from the desired state:\n"
            )
            text += f"ConfigMap/{self.key}-cm changed (0 additions, 1 changes, 0 removals)"
            self.conditions.set("Drifted", "True", "DriftDetected", text)
        else:
            text = "No drift detected against the cluster state"
            self.conditions.set("Drifted", "False", "NoDriftDetected", text)

    def take_force_request(self) -> bool:
        """Return whether an upgrade is requested although nothing changed; a request counts once, and only beside an equal requestedAt."""
        annotations = self.release["metadata"].get("annotations") or {}
        force, handled = annotations.get(FORCE_AT), self.status.get("lastHandledForceAt")
        if force is None:
            return False
        self.status["lastHandledForceAt"] = force
        requested = annotations.get(REQUESTED_AT)
        return bool(force == requested and force != handled and requested != self.status.get("lastHandledReconcileAt"))

    def handled(self) -> Iterator[Status]:
        """Record the request that this reconcile handled, successfully or not."""
        before = self.copied()
        self._note_request()
        yield from self.write_if(before)

    def _note_request(self) -> None:
        asked = (self.release["metadata"].get("annotations") or {}).get(REQUESTED_AT)
        if asked:
            self.status["lastHandledReconcileAt"] = asked

    def finish(self) -> Iterator[Status]:
        """The last write of a reconcile: generation, request, and a shorter history after a success."""
        before = self.copied()
        self.status["observedGeneration"] = self.generation
        if not self.spec.get("suspend"):
            self._note_request()
            if self.conditions.is_("Ready", "True"):
                self._note_attempt()
                self.forget_failures()
                shorten(self.history)
        yield from self.write_if(before)


def shorten(history: list[Any]) -> None:
    """Keep the history down to the last release that was deployed before the newest, and five entries at most."""
    deployed = ("deployed", "superseded")
    before = next((place for place, entry in enumerate(history) if place and entry["status"] in deployed), None)
    del history[5 if before is None else min(before + 1, 5) :]
