"""The page of `/debug/ui`: the data of `/debug` as HTML, by functions without I/O.

Guarantees: every text is escaped, unless it is `Html`, which only this module creates. Control characters and characters that reorder
text become U+FFFD. A page has no script and no other asset: its style is in it, and `POLICY` lets a browser apply that style only.

Caveats: names of objects and the messages of conditions and errors are shown as they are. A reconciler must not write a secret into them.
"""

from __future__ import annotations

import base64
import hashlib
import html
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final
from urllib.parse import urlencode

from konverge.clock import from_rfc3339, rfc3339
from konverge.runtime.http.page_style import STYLE

__all__ = ["POLICY", "Html", "object_page", "overview_page", "text"]

POLICY: Final = (
    "default-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; "
    f"style-src 'sha256-{base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()}'"
)
"""The Content-Security-Policy of the pages."""
_ODD: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_CUT: Final = 400
"""Characters of a message on the overview; the page of the object has the whole."""

Data = Mapping[str, Any]


class Html(str):
    """Text that is HTML already."""

    __slots__ = ()


def text(value: object) -> Html:
    """Return a value as HTML, escaped unless it is HTML already.

    >>> text('<b title="x">')
    '&lt;b title=&quot;x&quot;&gt;'
    """
    return value if isinstance(value, Html) else Html(html.escape(_ODD.sub("\ufffd", str(value))))


def _element(name: str, *children: object, **attributes: object) -> Html:
    shown = "".join(f' {word.strip("_").replace("_", "-")}="{text(value)}"' for word, value in attributes.items())
    return Html(f"<{name}{shown}>{''.join(map(text, children))}</{name}>")


def _table(caption: str, head: Sequence[str], rows: Iterable[Sequence[object]], *, empty: str) -> Html:
    """Return a table; the first cell of a row is its heading. The roles keep it a table if a narrow screen stacks its cells."""
    body = [
        _element(
            "tr",
            _element("th", row[0], scope="row", role="rowheader"),
            *(
                _element("td", cell, role="cell", data_label=label)
                for label, cell in zip(head[1:], row[1:], strict=True)
            ),
            role="row",
        )
        for row in rows
    ]
    if not body:
        return _element("section", _element("h2", caption), _element("p", empty))
    columns = (_element("th", label, scope="col", role="columnheader") for label in head)
    return _element(
        "section",
        _element("h2", caption),
        _element(
            "table",
            _element("thead", _element("tr", *columns, role="row"), role="rowgroup"),
            _element("tbody", *body, role="rowgroup"),
            role="table",
            aria_label=caption,
        ),
    )


def _page(title: str, *content: Html) -> str:
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"{_element('title', title)}<style>{STYLE}</style></head>"
        f"<body>{_element('main', *content)}</body></html>\n"
    )


def _link(address: str, label: object) -> Html:
    return _element("a", label, href=address)


def _lines(*lines: object) -> Html:
    """Return the lines that are not empty, each in a block of its own."""
    return Html("".join(_element("div", line) for line in lines if line != ""))


def _seconds(seconds: float) -> str:
    """Return a duration in its two greatest units.

    >>> [_seconds(value) for value in (0.0123, 4.2, 61, 7260, 200000)]
    ['12 ms', '4.2 s', '1 min 1 s', '2 h 1 min', '2 d 7 h']
    """
    if seconds < 1:
        return f"{1000 * seconds:.0f} ms"
    if seconds < 60:
        return f"{seconds:.2g} s"
    whole = int(seconds)
    for size, unit, smaller, below in ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= size:
            rest = whole % size // smaller
            return f"{whole // size} {unit}" + (f" {rest} {below}" if rest else "")
    raise AssertionError(seconds)


def _moment(value: str) -> datetime | None:
    try:
        return from_rfc3339(value)
    except ValueError:
        return None


def _since(value: str, now: datetime) -> object:
    """Return a time with its age; an unreadable value is returned unchanged."""
    moment = _moment(value)
    if moment is None:
        return value or "unknown"
    age = int(max(timedelta(0), now - moment).total_seconds())
    return _element("time", f"{_seconds(age)} ago" if age else "now", datetime=value, title=value)


def _at(moment: datetime, now: datetime) -> Html:
    whole = rfc3339(moment)
    return _lines(_since(whole, now), _element("small", whole))


def _cut(message: str) -> str:
    return message if len(message) <= _CUT else f"{message[:_CUT]}…"


# --- the overview -------------------------------------------------------------------------------------------------------------


def overview_page(overview: Data, controllers: Mapping[str, Data], queues: Mapping[str, Data]) -> str:
    """Return the page of a manager: its controllers, its objects that are not ready, its parts, the owners of shared objects."""
    now = from_rfc3339(overview["now"])
    name = overview["name"]
    leads = "leads" if overview["leads"] else "stands by"
    owners = _table(
        "Shared objects by owner",
        ("Controller", "Owner", "Objects"),
        [(entry["controller"], entry["owner"] or "no owner", entry["objects"]) for entry in overview["owners"]],
        empty="",
    )
    return _page(
        name,
        _element("h1", name),
        _element("p", f"Process {overview['instance']} {leads}, at {overview['now']}. ", _link("/debug/ui", "Reload")),
        _table(
            "Controllers",
            ("Controller", "State", "Queue", "Reconciles", "Errors", "Last error"),
            [_controller(name, data, queues.get(name, {}), now) for name, data in sorted(controllers.items())],
            empty="No controller runs.",
        ),
        _table(
            "Objects that are not ready",
            ("Object", "Why", "Since", "Next"),
            [_unready(entry, now) for entry in overview["unready"]],
            empty="Every object is ready, or has no condition Ready and did not fail.",
        ),
        _element("p", f"{overview['leftOut']} more are not listed.") if overview["leftOut"] else Html(""),
        _search(),
        _table(
            "Leader, shards and other parts",
            ("Part", "State", "Note"),
            [(part["name"], _state(part["ready"]), part["note"]) for part in overview["parts"]],
            empty="This process has no leader election, no sharding and no webhooks.",
        ),
        owners if overview["owners"] else Html(""),
        _element("footer", "The same data as JSON: ", _link("/debug", "/debug")),
    )


def _state(ready: bool, state: str = "ready") -> Html:
    return _element("span", state if ready else "not ready", class_="good" if ready else "bad")


def _controller(name: str, data: Data, queue: Data, now: datetime) -> Sequence[object]:
    numbers = queue.get("statistics", {})
    depth = numbers.get("ready", 0) + numbers.get("held", 0)
    problems = [f"{problem['kind']}: {problem['message']}" for problem in data["problems"]]
    return (
        name,
        _lines(_state(data["ready"], data["state"]), *problems) if data["ready"] or problems else data["state"],
        _lines(f"{depth} ready", f"{numbers.get('delayed', 0)} delayed", f"{numbers.get('working', 0)} in work"),
        _rate(data["lastPasses"], now),
        _errors(data["lastPasses"], numbers),
        _cut(data["lastError"]),
    )


def _rate(passes: Sequence[Data], now: datetime) -> object:
    """Return the rate and the mean duration of the last reconciles, newest first."""
    if not passes:
        return "none yet"
    span = max(1.0, (now - from_rfc3339(passes[-1]["started"])).total_seconds())
    mean = sum(entry["duration"] for entry in passes) / len(passes)
    return _lines(f"{60 * len(passes) / span:.3g} a minute", f"mean {_seconds(mean)}")


def _errors(passes: Sequence[Data], numbers: Data) -> object:
    failed = sum(1 for entry in passes if entry["error"])
    failing = numbers.get("failing", 0)
    return _lines(f"{failed} of the last {len(passes)}", f"{failing} failing now" if failing else "")


def _unready(entry: Data, now: datetime) -> Sequence[object]:
    where = f"{entry['namespace']}/{entry['name']}" if entry["namespace"] else entry["name"]
    address = "/debug/ui/object?" + urlencode(
        {"kind": entry["kind"], "namespace": entry["namespace"], "name": entry["name"]}, errors="replace"
    )
    return (
        _lines(_link(address, where), _element("small", entry["kind"])),
        _why(entry),
        _since(entry["since"], now),
        _next(entry["waits"]),
    )


def _why(entry: Data) -> Html:
    status = f"Ready is {entry['status']}" if entry["status"] not in ("", "True") else ""
    reason = ": ".join(part for part in (status, entry["reason"] if status else "") if part)
    message = _cut(entry["message"]) if status else ""
    error = entry["error"]
    return _lines(
        _element("strong", reason) if reason else "",
        message,
        f"The last reconcile failed: {_cut(error)}" if error and error != entry["message"] else "",
    )


def _next(waits: Data | None) -> object:
    if waits is None:
        return "if something changes"
    seconds, failures = waits.get("inSeconds") or 0.0, waits.get("failures") or 0
    return _lines(
        "as soon as a worker is free" if seconds <= 0 else f"in {_seconds(seconds)}",
        _element("small", f"waits for {waits.get('wait')}" + (f", {failures} failures in a row" if failures else "")),
    )


def _search() -> Html:
    fields = (
        _element("label", f"{word.capitalize()} ", Html(f'<input name="{word}"{required}>'))
        for word, required in (("kind", " required"), ("namespace", ""), ("name", " required"))
    )
    return _element(
        "section",
        _element("h2", "The timeline of an object"),
        _element("form", *fields, _element("button", "Show"), action="/debug/ui/object", method="get"),
    )


# --- one object ---------------------------------------------------------------------------------------------------------------


def object_page(kind: str, namespace: str, name: str, explanations: Sequence[Data], now: datetime) -> str:
    """Return the page of one object: for each of its controllers the conditions and the timeline."""
    where = f"{namespace}/{name}" if namespace else name
    title = f"{kind} {where}"
    if not explanations:
        content = [_element("p", f"No controller of this process reconciles the kind {kind}.")]
    else:
        content = [part for explanation in explanations for part in _explained(explanation, now)]
    back = _element("p", _link("/debug/ui", "All controllers"))
    return _page(title, back, _element("h1", title), *content)


def _explained(explanation: Data, now: datetime) -> list[Html]:
    notes = [
        "" if explanation["ready"] else f"The controller is not ready: {explanation['why']}",
        "" if explanation["cached"] else "The cache has no such object: it does not exist, or is not selected.",
        f"It is paused: {explanation['paused']}" if explanation["paused"] else "",
    ]
    name = explanation["controller"]
    return [
        _lines(*notes),
        _table(
            f"Conditions ({name})",
            ("Condition", "Status", "Reason", "Message", "Since"),
            [_condition(entry, explanation["generation"], now) for entry in explanation["conditions"]],
            empty="It has no conditions.",
        ),
        _table(
            f"Timeline ({name})",
            ("When", "What", "Because of", "Result"),
            _timeline(explanation, now),
            empty="It has not been reconciled since the start, or longer ago than the process remembers.",
        ),
    ]


def _condition(entry: Data, generation: int | None, now: datetime) -> Sequence[object]:
    seen = entry.get("observedGeneration")
    old = seen is not None and generation is not None and seen < generation
    return (
        entry.get("type", ""),
        entry.get("status", ""),
        entry.get("reason", ""),
        _lines(entry.get("message", ""), _element("small", "of an earlier spec") if old else ""),
        _since(str(entry.get("lastTransitionTime", "")), now),
    )


def _timeline(explanation: Data, now: datetime) -> list[Sequence[object]]:
    """Return the next run, then reconciles and transitions of conditions, newest first."""
    rows: list[Sequence[object]] = []
    if (waits := explanation["waits"]) is not None:
        rows.append((_next(waits), "next reconcile", "; ".join(waits["reasons"]), ""))
    past: list[tuple[datetime, Sequence[object]]] = []
    for entry in explanation["conditions"]:
        if (moment := _moment(str(entry.get("lastTransitionTime", "")))) is not None:
            change = f"{entry.get('type')} became {entry.get('status')}"
            past.append((moment, (_at(moment, now), change, entry.get("reason", ""), entry.get("message", ""))))
    for record in explanation["reconciles"]:
        started = from_rfc3339(record["started"])
        past.append((started, (_at(started, now), *_reconcile(record))))
    # Conditions have whole seconds. The sort is stable: a condition follows the reconcile of the same second, which set it.
    past.sort(key=lambda entry: entry[0].replace(microsecond=0), reverse=True)
    return rows + [row for _, row in past]


def _reconcile(record: Data) -> Sequence[object]:
    writes = ", ".join(record["writes"]) or "nothing"
    skipped = f", left {record['skipped']} as before" if record["skipped"] else ""
    return (
        f"reconcile, {_seconds(record['duration'])}",
        "; ".join(record["reasons"]) or "no recorded reason",
        _lines(
            f"failed: {record['error']}" if record["error"] else record["outcome"],
            f"wrote {writes}{skipped}",
            _element("small", f"id {record['reconcileID']}"),
        ),
    )
