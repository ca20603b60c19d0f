"""Helm's actions, as helm-controller reports them: install, upgrade, test, rollback, uninstall, correction of drift.

Each is a generator of the recorded writes around one action; the `World` decides the outcome, and no Helm runs. The returned value is
whether the reconcile ends with its last write.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeAlias

from konverge.clock import rfc3339
from konverge_testing.flux.state import Delete, Effect, Effects, Finalizer, Object_, Retry
from konverge_testing.flux.work import Work, shorten

__all__ = ["Acting", "correct_drift", "install_or_upgrade", "uninstall", "uninstall_renamed"]

Acting: TypeAlias = Generator[Effect, None, bool]
"""Effects, and at the end whether the last write of the reconcile is due."""

RETRY = 2.0
"""Seconds before a remediated release, or a failed uninstall, is retried."""


def install_or_upgrade(work: Work, action: str) -> Acting:
    """Install or upgrade to the desired version."""
    text = f"Running '{action}' action with timeout of {work.spec.get('timeout', '5m0s')}"
    work.conditions.set("Reconciling", "True", "Progressing", text)
    work.conditions.set("Ready", "Unknown", "Progressing", text)
    yield from work.write()
    yield from work.begin()
    trouble = work.world.trouble(work.version)
    if trouble:
        return (yield from _fail(work, action, trouble))
    return (yield from _succeed(work, action))


def _entry(work: Work, action: str, status: str) -> Object_:
    """A new entry of the history for the desired version."""
    number = max((entry["version"] for entry in work.history), default=0) + 1
    now = rfc3339(work.view.now())
    name, namespace = work.place
    chart = work.spec["chart"]["spec"]["chart"] if "chart" in work.spec else name
    return {
        "version": number,
        "status": status,
        "action": action,
        "name": name,
        "namespace": namespace,
        "chartName": chart,
        "chartVersion": work.revision,
        **({"ociDigest": work.digest} if work.digest else {}),
        "configDigest": work.config,
        "firstDeployed": work.history[-1]["firstDeployed"] if work.history else now,
        "lastDeployed": now,
    }


def _deploy(work: Work, entry: Object_) -> None:
    for older in work.history:
        if older["status"] == "deployed":
            older["status"] = "superseded"
    work.history.insert(0, entry)
    work.world.installed[work.key] = entry["chartVersion"].partition("+")[0]
    work.world.drifted.discard(work.key)


def _succeed(work: Work, action: str) -> Acting:
    entry = _entry(work, action, "deployed")
    reason, message = f"{action.capitalize()}Succeeded", f"Helm {action} succeeded for {work.describe(entry)}"
    tested = bool((work.spec.get("test") or {}).get("enable"))
    work.conditions.drop("Remediated")
    work.conditions.set("Released", "True", reason, message)
    if tested:
        waits = f"Helm {work.describe(entry)} is awaiting tests"
        work.conditions.set("TestSuccess", "Unknown", "AwaitingTests", waits)
        work.conditions.set("Ready", "Unknown", "AwaitingTests", waits)
    else:
        work.conditions.drop("TestSuccess")
        work.conditions.set("Ready", "True", reason, message)
    yield from work.write()
    _deploy(work, entry)
    work.status["lastAttemptedReleaseAction"] = action
    yield from work.write()
    if tested:
        return (yield from _test(work, action, entry))
    return (yield from _rest(work))


def _rest(work: Work) -> Acting:
    """Report a successful action."""
    work.conditions.drop("Reconciling", "Stalled")
    work.judge_drift()
    yield from work.write()
    return True


def _test(work: Work, action: str, entry: Object_) -> Acting:
    if work.version not in work.world.failing_tests:
        message = f"Helm test succeeded for {work.describe(entry)}"
        work.conditions.set("TestSuccess", "True", "TestSucceeded", message)
        work.conditions.set("Ready", "True", "TestSucceeded", message)
        yield from work.write()
        return (yield from _rest(work))
    message = f"Helm test failed for {work.describe(entry)}: timeout waiting for: [Pod status: 'InProgress']"
    work.conditions.set("TestSuccess", "False", "TestFailed", message)
    work.conditions.set("Ready", "False", "TestFailed", message)
    yield from work.write()
    work.count_failure(action)
    yield from work.write()
    return (yield from _after_failure(work, action))


def _fail(work: Work, action: str, trouble: str) -> Acting:
    name, namespace = work.place
    chart = work.spec["chart"]["spec"]["chart"] if "chart" in work.spec else name
    message = f"Helm {action} failed for release {namespace}/{name} with chart {chart}@{work.version}: {trouble}"
    work.conditions.drop("Remediated")
    work.conditions.set("Released", "False", f"{action.capitalize()}Failed", message)
    work.conditions.set("Ready", "False", f"{action.capitalize()}Failed", message)
    yield from work.write()
    work.history.insert(0, _entry(work, action, "failed"))
    work.status["lastAttemptedReleaseAction"] = action
    work.count_failure(action)
    yield from work.write()
    return (yield from _after_failure(work, action))


def _after_failure(work: Work, action: str) -> Acting:
    strategy = work.strategy(action)
    if (strategy.get("strategy") or {}).get("name") == "RetryOnFailure":
        interval = strategy["strategy"].get("retryInterval", "5m")
        work.conditions.set("Reconciling", "True", "ProgressingWithRetry", f"retrying after {interval}")
        yield from work.write()
        yield from work.finish()
        yield Retry(_seconds(interval))
        return False
    remediation = strategy.get("remediation") or {}
    exhausted = work.exhausted(action)
    if not exhausted or remediation.get("remediateLastFailure", remediation.get("retries", 0) > 0):
        yield from _remediate(work, action, exhausted=exhausted)
        return False
    work.conditions.set("Stalled", "True", "RetriesExceeded", _gave_up(work, action))
    yield from work.write()
    return True


def _seconds(text: str) -> float:
    """Parse a duration with a single unit, as tests write it: `6s`, `5m`."""
    return float(text[:-1]) * {"s": 1, "m": 60, "h": 3600}[text[-1]]


def _gave_up(work: Work, action: str) -> str:
    return f"Failed to {action} after {work.status.get(f'{action}Failures', 0)} attempt(s)"


def _remediate(work: Work, action: str, *, exhausted: bool) -> Effects:
    """Undo a failed action: an upgrade is rolled back, an install uninstalled."""
    before = work.copied()
    shorten(work.history)
    yield from work.write_if(before)
    good = next((entry for entry in work.history if entry["status"] == "deployed"), None)
    if action == "upgrade" and good is not None:
        reason, message = "RollbackSucceeded", f"Helm rollback to previous {work.describe(good)} succeeded"
    else:
        reason, message = (
            "UninstallSucceeded",
            f"Helm uninstall remediation for {work.describe(work.history[0])} succeeded",
        )
    work.conditions.set("Remediated", "True", reason, message)
    work.conditions.set("Ready", "False", reason, message)
    if exhausted:
        work.conditions.set("Stalled", "True", "RetriesExceeded", _gave_up(work, action))
    else:
        work.conditions.set("Reconciling", "True", "ProgressingWithRetry", message)
    yield from work.write()
    if good is not None:
        number = work.history[0]["version"] + 1
        _deploy(work, {**good, "version": number, "status": "deployed", "action": "rollback"})
    else:
        work.history[0]["status"] = "uninstalled"
        work.world.installed.pop(work.key, None)
    if exhausted:
        work.status["observedGeneration"] = work.generation
    yield from work.write()
    if not exhausted:
        yield Retry(RETRY)


def correct_drift(work: Work) -> Effects:
    """Report the drift, correct it, and check again."""
    text = f"Running 'correct cluster drift' action with timeout of {work.spec.get('timeout', '5m0s')}"
    work.conditions.set("Reconciling", "True", "Progressing", text)
    work.judge_drift()
    yield from work.write()
    work.conditions.set("Ready", "Unknown", "Progressing", "correcting cluster drift")
    yield from work.write()
    work.world.drifted.discard(work.key)
    yield from work.handled()
    yield Retry(0)


def uninstall(work: Work) -> Effects:
    """End a release under deletion. A suspended release is removed without an uninstall: its objects stay."""
    if work.spec.get("suspend"):
        yield Finalizer(False)
        return
    latest = work.latest
    if latest is not None and work.key in work.world.stuck:
        message = f"Helm uninstall failed for {work.describe(latest)}: {work.world.stuck[work.key]}"
        _say_uninstalled(work, "UninstallFailed", message)
        yield from work.write()
        latest |= {"status": "uninstalling", "action": "uninstall"}
        work.status["failures"] = work.status.get("failures", 0) + 1
        yield from work.write()
        yield Retry(RETRY)
        return
    work.world.installed.pop(work.key, None)
    if "helmChart" in work.status:
        namespace, _, name = work.status["helmChart"].partition("/")
        yield Delete("HelmChart", namespace, name)
    if latest is not None:
        _say_uninstalled(work, "UninstallSucceeded", f"Helm uninstall succeeded for {work.describe(latest)}")
        yield from work.write()
    yield Finalizer(False)


def _say_uninstalled(work: Work, reason: str, message: str) -> None:
    work.conditions.set("Ready", "False", reason, message)
    work.conditions.set("Released", "False", reason, message)


def uninstall_renamed(work: Work) -> Effects:
    """End the release of the old name; the next reconcile installs a release of the new name."""
    latest = work.latest
    assert latest is not None
    _say_uninstalled(work, "UninstallSucceeded", f"Helm uninstall succeeded for {work.describe(latest)}")
    work.world.installed.pop(f"{latest['namespace']}/{latest['name']}", None)
    yield from work.write()
    work.history.clear()
    yield from work.write()
    yield Retry(0)
