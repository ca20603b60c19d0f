"""Redacts texts of other programs for a status and its Events: passes on the cause, never a quoted value.

More people read a status and an Event than a Secret, and both appear in logs and dashboards. An API server's refusal quotes the
refused value, a chart's `fail` contains free text, a schema error shows the value that breaks it, a policy's denial may show the object.
So for every reason except the reasons of `_PLAIN`, only known forms are extracted from the text: the action and its object, the refused
field and the kind of refusal, the object that was waited for. The full text stays in the HelmRelease, and the message refers to it.

Guarantees: pure; the output consists of constants of this module and of matches of patterns for names, paths and counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from konverge.conditions import Condition

__all__ = ["redacted", "without_queries", "without_values"]

_PLAIN: Final = frozenset(
    {
        *("InstallSucceeded", "UpgradeSucceeded", "RollbackSucceeded", "UninstallSucceeded", "TestSucceeded"),
        *("RetriesExceeded", "MissingRollbackTarget", "Progressing", "ProgressingWithRetry", "AwaitingTests"),
        *("DependencyNotReady", "SourceNotReady", "ArtifactFailed", "AccessDenied", "HealthCheckCanceled"),
    }
)
"""Reasons whose texts only contain names and counts."""

_NAME = r"[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?"
_KIND = r"[A-Z][A-Za-z0-9]{0,62}"
_PART = r"[A-Za-z][A-Za-z0-9]*(?:\[[^\]\s]*\])*"
_ROOT = r"(?:metadata|spec|data|stringData|binaryData|type|rules|roleRef|subjects|webhooks|parameters)(?:\[[^\]\s]*\])*"
_PATH = rf"{_ROOT}(?:\.{_PART})*"
_REFUSALS = (
    "Required value|Invalid value|Unsupported value|Duplicate value|Forbidden|Not found|Too long|Too many|Too few"
)

_HEAD: Final = re.compile(
    rf"^Helm (?:install|upgrade|rollback|uninstall|uninstall remediation|test) failed for release {_NAME}/{_NAME}(?:\.v\d+)?"
    r"(?: with chart [A-Za-z0-9][\w.-]*@v?\d[\w.+-]*)?"
)
_FREE: Final = re.compile(
    r"(?:execution error at|error calling|template:|parse error|YAML parse error on) ?"
    r"\(?(?P<where>[\w./-]+\.(?:yaml|yml|tpl|txt|json)(?::\d+)*)?"
    rf'|admission webhook "(?P<hook>{_NAME})" denied the request'
    r"|values don't meet the specifications of the schema"
)
"""The beginning of free text: nothing after it is read."""

_FORMS: Final = re.compile(
    rf'(?P<object>{_KIND}(?:\.{_NAME})? "{_NAME}" is invalid)'
    rf"|(?P<path>(?<![\w.\]])(?:{_PATH})): (?P<refusal>{_REFUSALS})\b"
    rf"|(?P<waiting>timeout waiting for: \[)"
    rf"|(?P<status>{_KIND}(?:/{_NAME}){{0,2}} status: '(?:InProgress|Failed|Unknown|NotFound|Terminating|Current)')"
    rf"|(?P<ending>{_KIND}(?:/{_NAME}){{1,2}} termination timeout)"
    rf"|(?P<hooks>(?:pre|post)-(?:install|upgrade|rollback|delete)(?: hooks? failed)?)"
    r"|(?P<job>job failed: (?:BackoffLimitExceeded|DeadlineExceeded))"
    rf'|(?P<right>User "[\w.:@-]+" cannot [a-z]+ resource "[a-z.]+" in API group "[a-z0-9.]*"(?: in the namespace "{_NAME}")?)'
    rf"|(?P<quota>exceeded quota: {_NAME})"
    rf'|(?P<unserved>no matches for kind "{_KIND}" in version "[\w./]+")'
    rf"|(?P<undecodable>{_KIND} in version \"v[\w./]+\" cannot be handled as a {_KIND})"
    r"|(?P<known>another operation \(install/upgrade/rollback\) is in progress|cannot re-use a name that is still in use"
    r"|invalid ownership metadata|has no deployed releases|missing target release for rollback|field is immutable"
    r"|context deadline exceeded|context canceled|would exceed context deadline|timed out waiting for the condition"
    r"|connection refused|connection reset by peer|no such host|i/o timeout|TLS handshake timeout"
    r"|certificate signed by unknown authority|certificate has expired|Unauthorized|etcdserver: request timed out)"
)
_MOST: Final = 6
"""The number of causes that are passed on, at most."""

_QUOTED: Final = re.compile(
    r'\b(Invalid value|Unsupported value|Duplicate value): (?:"(?:[^"\\]|\\.)*"|-?[\d.]+\b|true\b|false\b|null\b)'
)
_LOOSE: Final = re.compile(r"\b(Invalid value|Unsupported value|Duplicate value): &?[\w.]*[{\[(].*", re.DOTALL)
"""A value that is not a scalar: its end is unknown, so the rest of the text is removed with it."""
_URL: Final = re.compile(
    r"(?P<scheme>(?<![a-z0-9+.-])[a-z0-9+.-]*://)(?P<user>[^\s/\"'@]*@)?(?P<path>[^\s\"'?#]*)(?P<query>[?#][^\s\"']*)?"
)


def redacted(condition: Condition) -> str:
    """Return the part of a condition's message that is safe to publish: all of it, or the cause and a reference to the rest."""
    if condition.reason in _PLAIN or not condition.message:
        return without_queries(condition.message)
    head = _HEAD.match(condition.message)
    parts = [head[0]] if head is not None else []
    causes = "; ".join(_causes(condition.message[head.end() if head is not None else 0 :]))
    if causes:
        parts.append(causes)
    rest = f"Flux's own words, which may quote values, are in the condition {condition.type} of the HelmRelease"
    return f"{': '.join(parts)} ({rest})" if parts else rest


def _causes(text: str) -> Iterator[str]:
    text = _QUOTED.sub(r"\1", text)
    free = _FREE.search(text)
    known: set[str] = set()
    for form in _FORMS.finditer(text if free is None else text[: free.start()]):
        cause = _cause(form)
        if cause not in known and len(known) < _MOST:
            known.add(cause)
            yield cause
    if free is not None:
        yield _cause_of_free_text(free)


def _cause(form: re.Match[str]) -> str:
    if form["path"] is not None:
        return f"{_without_map_keys(form['path'])}: {form['refusal']}"
    return "timeout waiting for" if form["waiting"] is not None else form[0]


def _without_map_keys(path: str) -> str:
    """Keep the numbers of list items, and drop keys of maps, which can be any text."""
    return re.sub(r"\[(?!\d+\])[^\]]*\]", "[...]", path)


def _cause_of_free_text(free: re.Match[str]) -> str:
    if free["hook"] is not None:
        return f'admission webhook "{free["hook"]}" denied the request'
    if free[0].startswith("values"):
        return "the values do not fit the chart's schema"
    where = free["where"]
    return f"the chart's template {where} failed" if where else "a template of the chart failed"


def without_values(text: str) -> str:
    """Return a refusal of the API server without the values that it quotes.

    >>> without_values('spec.url: Invalid value: "hunter2": spec.url in body should match ^oci://')
    'spec.url: Invalid value: spec.url in body should match ^oci://'
    """
    return _LOOSE.sub(r"\1", _QUOTED.sub(r"\1", text))


def without_queries(text: str) -> str:
    """Return a text without the users and queries of its URLs: they carry the signatures of object stores, and tokens.

    >>> without_queries('Get "https://bot:hunter2@store.example.com/a.tgz?X-Signature=ab": EOF')
    'Get "https://store.example.com/a.tgz": EOF'
    """
    return _URL.sub(lambda url: f"{url['scheme']}{url['path']}", text)
