"""Putting a report into a document: between two marks, with its plots in a folder named like the document."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

__all__ = ["BEGIN", "END", "publish", "replaced"]

BEGIN, END = "<!-- figures -->", "<!-- end figures -->"


def replaced(document: str, text: str) -> str:
    """The document with another text between the marks; raises ValueError where it has none."""
    pattern = re.compile(f"{re.escape(BEGIN)}.*?{re.escape(END)}", re.DOTALL)
    if not pattern.search(document):
        raise ValueError(f"no {BEGIN} ... {END}")
    return pattern.sub(lambda _: f"{BEGIN}\n\n{text.strip()}\n\n{END}", document, count=1)


def publish(document: Path, text: str, plots: Mapping[str, str]) -> None:
    """Write the report into the document, and its plots, in place of those of an earlier report."""
    folder = document.with_suffix("")
    folder.mkdir(exist_ok=True)
    for old in folder.glob("*.svg"):
        old.unlink()
    for name, svg in plots.items():
        (folder / name).write_text(svg)
    pictures = "\n".join(f"![{name.removesuffix('.svg')}]({folder.name}/{name})" for name in plots)
    document.write_text(replaced(document.read_text(), f"{text.strip()}\n\n### Plots\n\n{pictures}"))
