"""A recorded reconcile as the text of a lab test, which fails while the reconcile ends as recorded. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final

import yaml

from konverge.client.discovery import read_resources
from konverge.client.targets import target_of
from konverge.planning.documents import Document
from konverge.recording import RecordedReconcile, Recording
from konverge_testing.replay.restored import SERVERS
from konverge_testing.replay.story import Change, Story, story_of

__all__ = ["scenario_of"]

_WIDTH: Final = 116
_KEPT: Final = frozenset({"uid", "deletionTimestamp"})
"""The server's metadata that a test needs: owners by uid, and which objects are under deletion."""


def scenario_of(recording: Recording, reconcile: RecordedReconcile, module: str, build: str) -> str:
    """Return the text of the test; `build` is the function of the module that adds the controllers."""
    story, key = story_of(recording, reconcile), reconcile.key
    ending = f"{reconcile.outcome}{f': {reconcile.error}' if reconcile.error else ''}"
    place = f'"{reconcile.controller}", "{key.namespace}", "{key.name}"'
    constants, assertion = _assertion(recording, reconcile, place)
    steps = "".join(f"    {_step(change)}\n" for change in story.changes)
    about = "_".join(re.findall(r"[a-z0-9]+", f"{key.kind} {key.name} {_snake(reconcile.outcome)}".lower()))
    return (
        f"{_quoted(_title(recording, reconcile, ending))}\n\nfrom {module} import {build}\n\n"
        "from konverge_testing import Lab\nfrom konverge_testing.replay import Restored\n\n"
        f"KINDS = {_literal(_kinds(recording, story, reconcile))}\n\n"
        f"BEFORE = {_quoted(_yaml(story.before))}\n\n{constants}\n"
        f"async def test_{about}_is_not_repeated(lab: Lab) -> None:\n"
        f"    restored = await Restored.begin(\n        lab, {build}, operator={_literal(recording.header.operator)}, "
        f"namespace={_literal(recording.header.namespace)}, began={_literal(story.first.began)}, kinds=KINDS\n    )\n"
        f"    await restored.create(BEFORE)\n    await restored.start()\n{steps}    {assertion}\n"
    )


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name)


def _title(recording: Recording, reconcile: RecordedReconcile, ending: str) -> str:
    header = recording.header
    return (
        f"Reconcile {reconcile.number} of {reconcile.key} by {reconcile.controller} ended in {ending}\n\n"
        f"Recorded {reconcile.began} by {header.operator} (konverge {header.konverge}), written by konverge replay --as-test.\n"
        "The test fails while the reconcile ends as recorded. Replace its last line by the state that you expect.\n"
    )


def _assertion(recording: Recording, reconcile: RecordedReconcile, place: str) -> tuple[str, str]:
    """Return the constants of the assertion, and the assertion."""
    if reconcile.failed:
        return "", f'assert "{reconcile.outcome}" not in restored.outcomes({place}), "it ends as recorded"'
    written = list(_bodies(recording, reconcile))
    if not written:
        return "", f'assert restored.writes({place}), "nothing is written, as recorded"'
    constant = f"WRITTEN = {_quoted(_yaml(written))}\n\n"
    return constant, 'assert not await restored.holds(WRITTEN), "the recorded writes are repeated"'


def _bodies(recording: Recording, reconcile: RecordedReconcile) -> Iterator[Document]:
    for exchange in reconcile.exchanges:
        body = recording.data(exchange.body)
        if exchange.method == "PATCH" and exchange.writes and isinstance(body, dict) and "kind" in body:
            silent = SERVERS | {"ownerReferences"}
            metadata = {name: part for name, part in body["metadata"].items() if name not in silent}
            yield {**body, "metadata": metadata}


def _kinds(recording: Recording, story: Story, reconcile: RecordedReconcile) -> dict[tuple[str, str], tuple[str, bool]]:
    """Return plural and scope of each kind that the story names."""
    names = {(each["apiVersion"], each["kind"]) for each in story.before}
    names |= {(change.document["apiVersion"], change.document["kind"]) for change in story.changes}
    names |= {(read.api_version, read.kind) for read in reconcile.reads}
    groups = {target.api_version for each in reconcile.exchanges if (target := target_of(each.path)) is not None}
    kinds: dict[tuple[str, str], tuple[str, bool]] = {}
    for api_version in sorted(groups | {name for name, _ in names}):
        path = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
        infos = read_resources(api_version, recording.served.get(path, b"{}"))
        kinds |= {
            (api_version, kind): (info.plural, info.namespaced)
            for kind, info in sorted(infos.items())
            if (api_version, kind) in names
        }
    return kinds


def _step(change: Change) -> str:
    document = change.document
    metadata = document["metadata"]
    place = ", ".join(
        _literal(part)
        for part in (document["apiVersion"], document["kind"], metadata.get("namespace", ""), metadata["name"])
    )
    match change.verb:
        case "create":
            return f"await restored.create({_quoted(_yaml([document]))})"
        case "delete":
            return f"await restored.delete({place})"
    subresource = f", subresource={_literal(change.subresource)}" if change.subresource else ""
    return f"await restored.patch({place}, {_literal(change.patch)}{subresource})"


def _literal(value: Any) -> str:
    """Return a value as a Python literal with double quotes."""
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_literal(name)}: {_literal(member)}' for name, member in value.items())}}}"
    if isinstance(value, tuple):
        return f"({', '.join(map(_literal, value))})"
    if isinstance(value, list):
        return f"[{', '.join(map(_literal, value))}]"
    return json.dumps(value) if isinstance(value, str) else repr(value)


def _yaml(documents: Any) -> str:
    return yaml.safe_dump_all([_shown(each) for each in documents], sort_keys=False, allow_unicode=False, width=_WIDTH)


def _shown(document: Document) -> Document:
    """Return an object without the metadata that the server sets again."""
    head: Document = {name: document[name] for name in ("apiVersion", "kind") if name in document}
    metadata = {name: part for name, part in document["metadata"].items() if name not in SERVERS or name in _KEPT}
    rest = {name: part for name, part in document.items() if name not in {*head, "metadata"}}
    return {**head, "metadata": metadata, **rest}


def _quoted(text: str) -> str:
    """Return a text as a Python literal of several lines."""
    escaped = text.replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
    return f'"""{escaped}"""' if text.startswith("Reconcile") else f'"""\\\n{escaped}"""'
