"""Replays the recorded results of patches on a real API server (`tools/record/patch.py`).

The server fills in defaults after patching; this file lists the fields that it may have added. Refusals after patching (validation,
decoding) do not concern the patch: in these cases only the merge is compared.
"""

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from konverge_testing.apiserver.catalog import definition_of, schema_node
from konverge_testing.apiserver.nodes import Node
from konverge_testing.apiserver.patch import decode_patch, json_patch, merge_patch, strategic_merge
from konverge_testing.apiserver.statuses import StatusError

RECORDED = json.loads((Path(__file__).parent / "recorded.json").read_text())
DEFAULTS = frozenset(
    [
        "protocol",
        "imagePullPolicy",
        "resources",
        "terminationMessagePath",
        "terminationMessagePolicy",
        "targetPort",
        "maxSurge",
        "maxUnavailable",
        "rollingUpdate",
        "replicas",
        "defaultMode",
        "strategy",
        "apiVersion",
        "kind",
    ]
)
JSON, MERGE = "application/json-patch+json", "application/merge-patch+json"


def node_of(kind: str) -> Node:
    """Return the schema of a kind."""
    return schema_node(definition_of("apps" if kind == "Deployment" else "", "v1", kind))


def patched(entry: dict[str, Any], document: dict[str, Any]) -> dict[str, Any]:
    """Apply the patch of a recording, from its bytes on."""
    patch = entry["patch"]
    if isinstance(patch, dict) and "times" in patch:
        patch = [patch["of"]] * patch["times"]
    decoded = decode_patch(json.dumps(patch).encode(), entry["type"])
    before = copy.deepcopy((document, decoded))
    try:
        if entry["type"] == JSON:
            return json_patch(document, decoded)
        if entry["type"] == MERGE:
            return merge_patch(document, decoded)
        return strategic_merge(document, decoded, node_of(entry["kind"]))
    finally:
        assert (document, decoded) == before


def settled(value: Any, real: Any) -> Any:
    """Return our result with the fields that the server has defaulted, and without the fields that Go leaves out."""
    if value is None and real == "":
        return ""  # what Go decodes null to
    if isinstance(value, dict) and isinstance(real, dict):
        made = {
            name: settled(one, real.get(name))
            for name, one in value.items()
            if one not in (None, {}, []) or name in real
        }
        return {**{name: real[name] for name in real if name in DEFAULTS}, **made}
    if isinstance(value, list) and isinstance(real, list):
        return [settled(one, real[at] if at < len(real) else None) for at, one in enumerate(value)]
    return value


def told(entry: dict[str, Any]) -> str:
    """Return the name of a test."""
    return f"{entry['kind']}-{entry['type'].split('/')[1].split('-')[0]}-{json.dumps(entry['patch'])[:60]}"


TAKEN = [entry for entry in RECORDED["cases"] if entry["code"] == 200]
LATER = ("is invalid:", "was undeterminable")


@pytest.mark.parametrize("entry", TAKEN, ids=told)
def test_patch_result_equals_the_recording_of_a_real_server(entry: dict[str, Any]) -> None:
    found = patched(entry, RECORDED["objects"][entry["kind"]])
    assert settled(found, entry["answer"]) == entry["answer"]


@pytest.mark.parametrize("entry", [entry for entry in RECORDED["cases"] if entry["code"] != 200], ids=told)
def test_a_patch_is_refused_in_the_words_of_a_real_server(entry: dict[str, Any]) -> None:
    document = RECORDED["objects"][entry["kind"]]
    if any(words in entry["answer"]["message"] for words in LATER):
        patched(entry, document)
        return
    with pytest.raises(StatusError) as refusal:
        patched(entry, document)
    assert refusal.value.body() == entry["answer"]
