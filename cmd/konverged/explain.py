"""`konverge explain`: why and when a running daemon reconciled one object, and the result."""

from __future__ import annotations

import json
import os
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping, Sequence
from typing import Any

import click

from konverge.daemon.options import output_option, print_json, print_text

__all__ = ["explain", "text_of", "urls_of"]

DEFAULT_URL = "http://127.0.0.1:8082"
_TIMEOUT = 10.0


# Not a docstring, because click wants the character \b before lines that stay as they are.
_HELP = """Explain why and when an object was reconciled, what that wrote, and what it waits for.

KIND is a kind, its plural or its short name. Reads /debug of a running daemon; for one in a cluster:

\b
    kubectl -n konverge-system port-forward deployment/konverge 8082 &
    konverge explain appinst/shop -n web
"""


@click.command(help=_HELP)
@click.argument("what", metavar="KIND/NAME")
@click.option("-n", "--namespace", default="", metavar="NAME", help="The object's namespace.")
@click.option(
    "--url",
    envvar="KONVERGE_URL",
    default="",
    help=f"Where the daemon serves /debug; without it the addresses in KONVERGE_DEBUG and KONVERGE_HEALTH, else {DEFAULT_URL}.",
)
@output_option("text", "json")
def explain(what: str, namespace: str, url: str, output: str) -> None:
    """Explain why and when an object was reconciled, what that wrote, and what it waits for."""
    kind, slash, name = what.partition("/")
    if not (kind and slash and name):
        raise click.UsageError(f"{what}: write kind/name, for instance appinst/shop")
    url, explanations = _fetch_first([url] if url else urls_of(os.environ), kind, namespace, name)
    if not explanations:
        raise click.ClickException(
            f"no controller at {url} is for {kind}; curl {url.rstrip('/')}/debug/controllers lists them"
        )
    if output == "json":
        print_json(explanations)
    else:
        print_text(text_of(explanations))
    if not any(explanation.get("cached", True) for explanation in explanations):
        raise click.ClickException(_absent(explanations, kind, namespace, name))


def _absent(explanations: Sequence[Mapping[str, Any]], kind: str, namespace: str, name: str) -> str:
    """Return the error about an object that no controller's cache has."""
    if not namespace and any(explanation.get("namespaced") is not False for explanation in explanations):
        return f"no {kind}/{name} without a namespace: name it, konverge explain {kind}/{name} -n NAMESPACE"
    where, flag = (f" in namespace {namespace}", f" -n {namespace}") if namespace else ("", "")
    return (
        f"no {kind}/{name}{where}, as the daemon's cache knows it. Check the name with kubectl get {kind}{flag}; an object that is there "
        "is not selected by the controller (its labels, or --namespace), or the controller is not ready"
    )


def urls_of(environ: Mapping[str, str]) -> list[str]:
    """Return where a daemon with these variables may serve /debug. The listener of health serves it too if both have one address.

    >>> urls_of({"KONVERGE_DEBUG": "127.0.0.1:9082"}), urls_of({"KONVERGE_DEBUG": "0", "KONVERGE_HEALTH": ":9081"})
    (['http://127.0.0.1:9082'], ['http://127.0.0.1:9081'])
    >>> urls_of({"KONVERGE_HEALTH": "[::1]:9081"})
    ['http://127.0.0.1:8082', 'http://[::1]:9081']
    """
    from konverge.runtime.http.listener import parse_address

    urls = []
    for variable, default in (("KONVERGE_DEBUG", DEFAULT_URL), ("KONVERGE_HEALTH", "")):
        if variable not in environ:
            urls.append(default)
        elif (address := parse_address(environ[variable])) is not None:
            host, port = address[0].replace("0.0.0.0", "") or "127.0.0.1", address[1]  # noqa: S104  # any interface is reached by loopback
            urls.append(f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}")
    return list(dict.fromkeys(url for url in urls if url)) or [DEFAULT_URL]


def _fetch_first(urls: Sequence[str], kind: str, namespace: str, name: str) -> tuple[str, list[dict[str, Any]]]:
    """Return the first URL that serves /debug, and its response; raises the first error if none does."""
    errors = []
    for url in urls:
        try:
            return url, _fetch(url, kind, namespace, name)
        except click.ClickException as error:
            errors.append(error)
    raise errors[0]


def _fetch(url: str, kind: str, namespace: str, name: str) -> list[dict[str, Any]]:
    if urllib.parse.urlsplit(url).scheme not in {"http", "https"}:
        raise click.UsageError(f"--url {url}: it begins with http:// or https://")
    query = urllib.parse.urlencode({"kind": kind, "namespace": namespace, "name": name})
    address = f"{url.rstrip('/')}/debug/explain?{query}"
    try:
        with urllib.request.urlopen(address, timeout=_TIMEOUT) as response:  # noqa: S310  # the scheme was checked
            explanations: list[dict[str, Any]] = json.load(response)
    except urllib.error.HTTPError as error:
        with error:
            text = error.read(500).decode("utf-8", "replace").strip()
        raise click.ClickException(f"{address}: {error.code} {text}") from error
    except (urllib.error.URLError, OSError, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        raise click.ClickException(
            f"no daemon responds at {url}: {reason}; name it with --url, or forward a port: "
            "kubectl port-forward deploy/konverge 8082"
        ) from error
    return explanations


def text_of(explanations: Sequence[Mapping[str, Any]]) -> str:
    """Return the explanations of an object's controllers as text."""
    return "\n\n".join("\n".join(_lines(explanation)) for explanation in explanations)


def _lines(explanation: Mapping[str, Any]) -> list[str]:
    lines = [f"{explanation['key']}, controller {explanation['controller']}"]
    if not explanation.get("ready", True):
        lines.append(f"  The controller is not ready: {_indented(explanation.get('why', ''))}")
    if not explanation.get("cached", True):
        lines.append("  The controller's cache has no such object: it does not exist, or is not selected.")
    if explanation.get("paused"):
        lines.append(f"  It is paused: {explanation['paused']}")
    lines += _conditions(explanation)
    reconciles = explanation.get("reconciles") or []
    if not reconciles:
        lines.append("  It has not run since the daemon started, or longer ago than the daemon remembers.")
    for number, record in enumerate(reconciles):
        lines += _reconcile(record, "Last ran" if number == 0 else "Before that")
    return lines + _next(explanation.get("waits"), reconciles)


def _conditions(explanation: Mapping[str, Any]) -> list[str]:
    """Return the lines about the conditions, unready conditions first."""
    conditions = list(explanation.get("conditions") or [])
    unready = (entry for entry in conditions if entry.get("type") == "Ready" and entry.get("status") != "True")
    lines = [f"  It waits for: {_reason_and_message(condition)}" for condition in unready]
    for condition in conditions:
        since = condition.get("lastTransitionTime")
        lines.append(
            f"  {condition.get('type')}={condition.get('status')} {_reason_and_message(condition)}"
            + (f" (since {since})" if since else "")
        )
        seen, now = condition.get("observedGeneration"), explanation.get("generation")
        if seen is not None and now is not None and seen < now:
            lines.append("    This is of an earlier spec; the present one has not been judged yet.")
    return lines


def _reason_and_message(condition: Mapping[str, Any]) -> str:
    reason, message = condition.get("reason") or "", condition.get("message") or ""
    return _indented(f"{reason}: {message}" if reason and message else reason or message)


def _reconcile(record: Mapping[str, Any], when: str) -> list[str]:
    lines = [
        f"  {when} {record['started']}, for {1000 * record['duration']:.0f} ms (reconcile id {record['reconcileID']})",
        f"    because of: {'; '.join(record['reasons']) or 'no recorded reason'}",
    ]
    writes = list(record.get("writes") or [])
    skipped = record.get("skipped", 0)
    unchanged = f", and left {skipped} as {'it was' if skipped == 1 else 'they were'}" if skipped else ""
    lines.append(f"    wrote: {', '.join(writes) if writes else 'nothing'}{unchanged}")
    error = record.get("error")
    lines.append(f"    failed: {_indented(error, '      ')}" if error else f"    ended: {record['outcome']}")
    return lines


def _next(waits: Mapping[str, Any] | None, reconciles: Sequence[Mapping[str, Any]]) -> list[str]:
    if waits is None:
        return ["  It runs next when something changes."] if reconciles else []
    because = "; ".join(waits.get("reasons") or ())
    seconds = waits.get("inSeconds") or 0.0
    when = "as soon as a worker is free" if seconds <= 0 else f"in {seconds:.3g} s"
    failures = waits.get("failures") or 0
    lines = [f"  It runs next {when} (waits for {waits.get('wait')}), because of: {because}"]
    if failures:
        lines.append(f"  It failed {failures} {'time' if failures == 1 else 'times'} in a row.")
    return lines


def _indented(text: str, by: str = "    ") -> str:
    return text.replace("\n", f"\n{by}")
