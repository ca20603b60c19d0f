"""Health and readiness in the form that Kubernetes uses. Pure: from checks and a request to a response.

Guarantees: the forms of kube-apiserver and controller-runtime. Only `ok` if all checks pass and the request wants no details; else one
line for each check, `[+]name ok` or `[-]name failed: reason`, and a verdict; status 200 or 500. `?verbose` always lists,
`?exclude=name` leaves a check out, `/readyz/<check>` runs one check. Unlike theirs, reasons are printed: they are written for
operators and hold no secrets. With `Accept: application/json` or `?format=json` the same as data.

Source: https://github.com/kubernetes-sigs/controller-runtime/blob/main/pkg/healthz/healthz.go
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

import msgspec

from konverge.runtime.observability.readiness import Report

__all__ = ["ProbeResponse", "Check", "Checks", "Question", "answer", "checks_of"]

TEXT = "text/plain; charset=utf-8"
JSON = "application/json"


class Check(msgspec.Struct, frozen=True):
    """One check; `reason` is the problem and its remedy, "" if it passes. `note` is shown beside a successful check.

    >>> Check("ping").line(), Check("informer/OCIRepository", note="not served").line()
    ('[+]ping ok', '[+]informer/OCIRepository ok (not served)')
    """

    name: str
    reason: str = ""
    note: str = ""

    @property
    def ok(self) -> bool:
        """Whether the check passes."""
        return not self.reason

    def line(self, *, excluded: bool = False) -> str:
        """Return the check as one line; further lines of the reason are indented."""
        if excluded:
            return f"[+]{self.name} excluded: ok"
        if self.ok:
            return f"[+]{self.name} ok" + (f" ({self.note})" if self.note else "")
        return f"[-]{self.name} failed: " + self.reason.strip().replace("\n", "\n    ")


class Checks(Protocol):
    """Returns the present checks; called for each request, on the event loop, so it must be quick."""

    def __call__(self) -> Iterable[Check]:
        """Return the checks."""


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """The parameters of a request; `only` is the name of a single check, "" for all."""

    only: str = ""
    verbose: bool = False
    exclude: frozenset[str] = frozenset()
    as_json: bool = False


class ProbeResponse(msgspec.Struct, frozen=True):
    """The response to a probe."""

    status: int
    body: str
    content_type: str = TEXT


def checks_of(report: Report) -> tuple[Check, ...]:
    """Return one check for each controller of a manager, `controller/<name>`, `webhooks` if it serves any, `leader-election`, and one for
    each background work with a status line, `background/<name>`, which never fails; then the operator's own checks, `check/<name>`.
    """
    checks = [Check(f"controller/{controller.name}", controller.why) for controller in report.controllers]
    if report.webhooks is not None:
        checks.append(Check(report.webhooks.name, report.webhooks.why, note=report.webhooks.last_error))
    if report.election is not None:
        checks.append(Check(report.election.name, report.election.why, note=report.election.note))
    checks += [Check(f"background/{work.name}", note=work.note) for work in report.background]
    checks += [Check(check.name, check.why.removeprefix("check: ")) for check in report.checks]
    return tuple(checks)


def gather(checks: Checks) -> tuple[Check, ...]:
    """Return the checks, with `ping` (the process responds) first; checks that raise are one failed check, not an error."""
    try:
        gathered = tuple(checks())
    except Exception as error:  # noqa: BLE001  # a probe must respond whatever its sources do
        gathered = (Check("checks", f"the checks themselves raised {type(error).__name__}: {error}"),)
    return (Check("ping"), *gathered)


def answer(endpoint: str, checks: Sequence[Check], question: Question) -> ProbeResponse:
    """Return the response to a request for `healthz` or `readyz`."""
    if question.only:
        chosen = [check for check in checks if check.name == question.only]
        if not chosen:
            names = ", ".join(check.name for check in checks)
            return ProbeResponse(404, f"{endpoint} has no check {question.only!r}; there are: {names}\n")
        return _one(chosen[0], question)
    counted = [check for check in checks if check.name not in question.exclude]
    status = 200 if all(check.ok for check in counted) else 500
    unknown = sorted(question.exclude - {check.name for check in checks})
    if question.as_json:
        return _json(status, checks, question.exclude, unknown)
    if status == 200 and not question.verbose:
        return ProbeResponse(status, "ok")
    lines = [check.line(excluded=check.name in question.exclude) for check in checks]
    lines += [f"warn: no check is named {name!r}, so it cannot be excluded" for name in unknown]
    lines.append(f"{endpoint} check {'passed' if status == 200 else 'failed'}")
    return ProbeResponse(status, "\n".join(lines) + "\n")


def _one(check: Check, question: Question) -> ProbeResponse:
    status = 200 if check.ok else 500
    if question.as_json:
        return _json(status, [check], frozenset(), [])
    return ProbeResponse(status, "ok" if check.ok and not question.verbose else check.line() + "\n")


def _json(status: int, checks: Sequence[Check], exclude: frozenset[str], unknown: Sequence[str]) -> ProbeResponse:
    entries = []
    for check in checks:
        entry: dict[str, Any] = {"name": check.name, "status": "ok" if check.ok else "failed"}
        if check.reason or check.note:
            entry["reason"] = check.reason or check.note
        if check.name in exclude:
            entry["excluded"] = True
        entries.append(entry)
    body: dict[str, Any] = {"status": "ok" if status == 200 else "failed", "checks": entries}
    if unknown:
        body["unknownExclusions"] = list(unknown)
    return ProbeResponse(status, msgspec.json.format(msgspec.json.encode(body), indent=2).decode() + "\n", JSON)
