"""Writes a report into a document: between two marks, with its plots and runs in a folder named like the document.

The folder has all figures of each run, except the single latencies: these are many, and stay in the folder of the campaign.
"""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

RUNS = "runs.jsonl"
SAMPLES = "samples_ms"

BEGIN, END = "<!-- figures -->", "<!-- end figures -->"


def replaced(document: str, text: str) -> str:
    """The document with another text between the marks; raises ValueError if it has none."""
    pattern = re.compile(f"{re.escape(BEGIN)}.*?{re.escape(END)}", re.DOTALL)
    if not pattern.search(document):
        raise ValueError(f"no {BEGIN} ... {END}")
    return pattern.sub(lambda _: f"{BEGIN}\n\n{text.strip()}\n\n{END}", document, count=1)


def publish(document: Path, text: str, plots: Mapping[str, str], records: Sequence[Mapping[str, Any]]) -> None:
    """Write the report into the document, with its plots and its runs, and replace an earlier report's."""
    folder = document.with_suffix("")
    folder.mkdir(exist_ok=True)
    for old in folder.glob("*.svg"):
        if not old.name.startswith("scale-"):  # another benchmark's
            old.unlink()
    for name, svg in plots.items():
        (folder / name).write_text(svg)
    (folder / RUNS).write_text("".join(json.dumps(_figures(record)) + "\n" for record in records))
    pictures = "\n".join(f"![{name.removesuffix('.svg')}]({folder.name}/{name})" for name in plots)
    runs = f"Every run that counts, a line each: [{RUNS}]({folder.name}/{RUNS})."
    document.write_text(replaced(document.read_text(), f"{text.strip()}\n\n{runs}\n\n### Plots\n\n{pictures}"))


def published(document: Path) -> dict[tuple[str, str, int], list[dict[str, Any]]]:
    """The runs in the document's folder by session, contestant and number; empty if there are none."""
    path = document.with_suffix("") / RUNS
    lines = path.read_text().splitlines() if path.exists() else []
    records = [json.loads(line) for line in lines]
    return {(record["session"], record["contestant"], record["run"]): [record] for record in records}


def _figures(record: Mapping[str, Any]) -> dict[str, Any]:
    phases = {
        part: {name: _short(value) for name, value in figures.items() if name != SAMPLES}
        for part, figures in record.get("phases", {}).items()
    }
    return {**record, "phases": phases}


def _short(value: Any) -> Any:
    return round(value, 4) if isinstance(value, float) else value
