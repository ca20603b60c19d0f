"""The stand-in for Flux writes the same as the recorded Flux.

Compared with each of the 17 recordings: the sequence of condition states (type, status, reason; without repetitions) of the HelmRelease and
of each source, and for the HelmRelease also the fields that freshness depends on: the observedGeneration of each condition, generation,
lastAttemptedGeneration and -Revision, observedGeneration, lastHandledReconcileAt, failures, length and newest entry of the history. Not
compared: texts, times, how writes of different objects interleave, digests, and older entries of the history.

Each scenario is a script of the actions from outside; the number of Flux's retries during the recording is part of the script.
"""

from collections.abc import Callable
from typing import Any

import pytest

Script = Callable[[Any], Any]
"""From the kit to a store in which the scenario was played."""

CHART = ("HelmChart", "team-shop")
VALUES = {"valuesFrom": [{"kind": "Secret", "name": "vals", "valuesKey": "values.yaml"}]}
REFUSED = {"1.2.0": "Service is invalid"}


def install_upgrade(kit: Any) -> Any:
    dry = kit.dry()
    dry.install()
    dry.upgrade(version="1.1.0")
    dry.upgrade(version="1.1.0", values={"greeting": "hello"})
    dry.delete("HelmRelease", "shop")
    dry.run("HelmRelease")
    dry.run(*CHART)
    return dry


def upgrade_failed_no_retries(kit: Any) -> Any:
    dry = kit.dry(refused=REFUSED)
    dry.install()
    dry.upgrade(version="1.2.0")
    dry.upgrade(version="1.3.0")
    return dry


def upgrade_failed_rollback(kit: Any) -> Any:
    dry = kit.dry(refused=REFUSED)
    remediation = {"retries": 1, "strategy": "rollback", "remediateLastFailure": True}
    dry.install(upgrade={"remediation": {"retries": 1, "strategy": "rollback"}})
    dry.upgrade(version="1.2.0", upgrade={"remediation": remediation})
    dry.run("HelmRelease")
    dry.upgrade(upgrade={"remediation": remediation})
    return dry


def upgrade_slow_times_out(kit: Any) -> Any:
    dry = kit.dry(slow={"1.1.0"})
    dry.install()
    dry.upgrade(version="1.1.0")
    return dry


def retry_on_failure(kit: Any) -> Any:
    dry = kit.dry(refused=REFUSED)
    retry = {"strategy": {"name": "RetryOnFailure", "retryInterval": "6s"}}
    dry.install(upgrade=retry)
    dry.upgrade(version="1.2.0", upgrade=retry)
    dry.run("HelmRelease", times=3)
    dry.upgrade(version="1.3.0", upgrade=retry)
    return dry


def install_failed(kit: Any) -> Any:
    dry = kit.dry(refused=REFUSED)
    dry.install(version="1.2.0")
    return dry


def suspended(kit: Any) -> Any:
    dry = kit.dry()
    dry.install()
    dry.upgrade(version="1.1.0", suspend=True)
    dry.upgrade(version="1.1.0", suspend=False)
    dry.upgrade(version="1.1.0", suspend=True)
    dry.delete("HelmRelease", "shop")
    dry.run("HelmRelease")
    return dry


def source_missing(kit: Any) -> Any:
    dry = kit.dry()
    dry.put("HelmRelease", "shop", kit.spec())
    dry.run("HelmRelease")
    dry.run(*CHART, times=6)
    dry.run("HelmRelease")
    dry.put("HelmRepository", "shop", {"url": "http://charts"})
    dry.run("HelmRepository")
    dry.run(*CHART)
    dry.run("HelmRelease")
    return dry


def chart_version_missing(kit: Any) -> Any:
    dry = kit.dry(versions={"1.0.0"})
    dry.put("HelmRepository", "shop", {"url": "http://charts"})
    dry.run("HelmRepository")
    dry.put("HelmRelease", "shop", kit.spec("9.9.9"))
    dry.run("HelmRelease")
    dry.run(*CHART, times=2)
    dry.run("HelmRelease")
    dry.upgrade()
    return dry


def repo_unreachable(kit: Any) -> Any:
    dry = kit.dry(unreachable={"http://nobody"})
    dry.put("HelmRepository", "shop", {"url": "http://nobody"})
    dry.put("HelmRelease", "shop", kit.spec())
    dry.run("HelmRepository")
    dry.run("HelmRelease")
    dry.run(*CHART, times=6)
    dry.run("HelmRepository", times=4)
    dry.run("HelmRelease")
    return dry


def values_secret(kit: Any) -> Any:
    dry = kit.dry()
    dry.install(**VALUES)
    for text, key in (
        ("a: 1", "other"),
        ("[unclosed", "values.yaml"),
        ("a: 1", "values.yaml"),
        ("a: 2", "values.yaml"),
    ):
        dry.put_secret(text, key)
        dry.run("HelmRelease")
    dry.put_secret("a: 3")
    dry.ask("token-1")
    dry.run("HelmRelease")
    return dry


def depends_on(kit: Any) -> Any:
    dry = kit.dry()
    dry.install(dependsOn=[{"name": "base"}])
    dry.put("HelmRelease", "base", {**kit.spec(), "releaseName": "base"})
    dry.run("HelmRelease", "base")
    dry.run("HelmChart", "team-base")
    dry.run("HelmRelease", "base")
    dry.run("HelmRelease")
    return dry


def drift_enabled(kit: Any) -> Any:
    dry = kit.dry()
    dry.install(driftDetection={"mode": "enabled"})
    dry.world.drifted.add("team/shop")
    dry.ask("d1")
    dry.run("HelmRelease", times=2)
    dry.upgrade(driftDetection={"mode": "warn"})
    dry.world.drifted.add("team/shop")
    dry.ask("d2")
    dry.run("HelmRelease")
    return dry


def helm_test_fails(kit: Any) -> Any:
    dry = kit.dry(failing_tests={"1.0.0"})
    dry.install(test={"enable": True})
    return dry


def oci_chart_ref(kit: Any) -> Any:
    dry = kit.dry(versions={"1.0.0", "1.1.0"})

    def tag(version: str) -> None:
        dry.put("OCIRepository", "shop", {"url": "oci://registry/charts/shop", "ref": {"tag": version}})
        dry.run("OCIRepository")

    tag("1.0.0")
    dry.put("HelmRelease", "shop", kit.spec(chartRef={"kind": "OCIRepository", "name": "shop"}))
    dry.run("HelmRelease")
    tag("1.1.0")
    dry.run("HelmRelease")
    tag("7.7.7")
    dry.run("OCIRepository", times=5)
    return dry


def uninstall_fails(kit: Any) -> Any:
    dry = kit.dry(stuck={"team/shop": "termination timeout"})
    dry.install()
    dry.delete("HelmRelease", "shop")
    dry.run("HelmRelease")
    dry.world.stuck.clear()
    dry.run("HelmRelease")
    dry.run(*CHART)
    return dry


def rename_release(kit: Any) -> Any:
    dry = kit.dry()
    dry.install()
    dry.put("HelmRelease", "shop", {**kit.spec(), "releaseName": "renamed"})
    dry.run("HelmRelease", times=2)
    return dry


SCRIPTS: dict[str, Script] = {
    "chart-version-missing": chart_version_missing,
    "depends-on": depends_on,
    "drift-enabled": drift_enabled,
    "install-failed": install_failed,
    "install-upgrade": install_upgrade,
    "oci-chart-ref": oci_chart_ref,
    "rename-release": rename_release,
    "repo-unreachable": repo_unreachable,
    "retry-on-failure": retry_on_failure,
    "source-missing": source_missing,
    "suspended": suspended,
    "test-fails": helm_test_fails,
    "uninstall-fails": uninstall_fails,
    "upgrade-failed-no-retries": upgrade_failed_no_retries,
    "upgrade-failed-rollback": upgrade_failed_rollback,
    "upgrade-slow-times-out": upgrade_slow_times_out,
    "values-secret": values_secret,
}


@pytest.mark.parametrize("scenario", SCRIPTS)
def test_the_stand_in_reproduces_the_states_of_conditions(kit: Any, scenario: str) -> None:
    real, played = kit.recorded(scenario), SCRIPTS[scenario](kit).seen
    names = {name for _, name, _ in real}
    assert names == {name for _, name, _ in played}
    assert {name: kit.states(played, name) for name in names} == {name: kit.states(real, name) for name in names}


@pytest.mark.parametrize("scenario", SCRIPTS)
def test_the_stand_in_reproduces_the_fields_that_decide_freshness(kit: Any, scenario: str) -> None:
    assert kit.progress(SCRIPTS[scenario](kit).seen) == kit.progress(kit.recorded(scenario))


def test_every_recording_has_a_script(kit: Any) -> None:
    assert set(SCRIPTS) == set(kit.names())


def test_the_comparison_sees_a_missing_step(kit: Any) -> None:
    played = install_upgrade(kit).seen
    release = [event for event in played if event[1] == "HelmRelease/shop"]
    assert kit.progress(release[:-3] + release[-2:]) != kit.progress(kit.recorded("install-upgrade"))


def test_a_release_that_is_deleted_while_suspended_leaves_its_workloads_behind(kit: Any) -> None:
    assert suspended(kit).world.installed == {"team/shop": "1.1.0"}


def test_a_release_that_is_deleted_is_uninstalled(kit: Any) -> None:
    assert install_upgrade(kit).world.installed == {}


def test_a_values_error_quotes_values_as_the_real_one_does(kit: Any) -> None:
    dry = kit.dry()
    dry.put_secret("password: *hunter2")
    dry.install(**VALUES)
    release = dry.objects["HelmRelease", "shop"]
    assert any("hunter2" in entry["message"] for entry in release["status"]["conditions"])


def origins(events: Any) -> list[str]:
    """The fields that identify the source of a chart, without those that depend on its content: by kind, without repetitions."""
    newest: dict[str, Any] = {}
    found = []
    for _, name, made in events:
        kind, status = made["kind"], made.get("status") or {}
        if name in ("HelmRepository/shop", "OCIRepository/shop"):
            newest[kind] = (status.get("artifact") or {}).get("revision", "")
        if kind == "HelmChart" and "artifact" in status and status.get("observedGeneration") != -1:
            found.append(
                f"chart of the repository: {status['observedSourceArtifactRevision'] == newest['HelmRepository']}"
            )
        if kind == "HelmRelease" and status.get("history") and "OCIRepository" in newest:
            digest = newest["OCIRepository"].rpartition("@")[2]
            latest = status["history"][0]["ociDigest"] == digest
            found.append(f"attempted: {status['lastAttemptedRevisionDigest'] == digest}, deployed: {latest}")
    return [one for place, one in enumerate(found) if not place or found[place - 1] != one]


@pytest.mark.parametrize("scenario", ["install-upgrade", "oci-chart-ref"])
def test_the_stand_in_reports_the_source_of_a_chart_as_recorded(kit: Any, scenario: str) -> None:
    assert origins(SCRIPTS[scenario](kit).seen) == origins(kit.recorded(scenario))
    assert len(origins(kit.recorded(scenario))) >= 1


def test_a_mirror_makes_the_same_artifact_and_another_url_another_one(kit: Any) -> None:
    revisions = []
    dry = kit.dry(mirrors={"oci://mirror/shop": "oci://registry/shop"})
    for url in ("oci://registry/shop", "oci://mirror/shop", "oci://other/shop"):
        dry.put("OCIRepository", "shop", {"url": url, "ref": {"tag": "1.0.0"}})
        dry.run("OCIRepository")
        revisions.append(dry.objects["OCIRepository", "shop"]["status"]["artifact"]["revision"])
    assert revisions[0] == revisions[1] != revisions[2]
