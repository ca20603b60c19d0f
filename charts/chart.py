"""All files of a chart: of our own chart, and of another operator's chart from the same pieces. Reads only the package's own data."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from konverge.charts.parts import OperatorChart, files_of
from konverge.charts.schema import schema_text
from konverge.charts.values import table, with_families, with_value, without

__all__ = ["FOLDER", "chart_files", "daemon_files", "generated_files", "own_chart", "readme"]

FOLDER = Path(__file__).parent / "konverge"
"""The chart of our own daemon."""

_OWN = "konverge"
_SHARED = "files/daemon/"
_HELPER = re.compile(rf'(include|define) "{_OWN}\.')
_OF_FAMILIES = re.compile(
    r"^ *\{\{- /\* families \*/\}\}\n.*?^ *\{\{- /\* end of families \*/\}\}\n", re.MULTILINE | re.DOTALL
)
"""Text between two comments that the chart of an operator without families leaves out."""
_HOME = re.compile(r"^(?:home|sources): .*\n", re.MULTILINE)
"""Addresses of konverge itself."""
_OF_REPOSITORY = re.compile(r"^(?:#| *runbook_url: docs/).*\n", re.MULTILINE)
"""Lines of alerts that name files of konverge's repository."""
_CASES = "values/"
"""Values files for common cases."""
_README = """# {name}

{description}. Values are checked against `values.schema.json`: an unknown or malformed one stops `helm` with its path.

```
helm install {name} {where} --namespace {name}-system --create-namespace
helm test {name} --namespace {name}-system
```

{more}## Values files

| File | Case |
|---|---|
{cases}
## Values

<!-- Generated from values.yaml{by}. -->
{table}"""


def own_chart() -> dict[str, str]:
    """Return the files of our own daemon's chart as they are in the package: path and content."""
    paths = sorted(path for path in FOLDER.rglob("*") if path.is_file())
    return {path.relative_to(FOLDER).as_posix(): path.read_text(encoding="utf-8") for path in paths}


def readme(chart: OperatorChart, files: Mapping[str, str], *, where: str, by: str = "", more: str = "") -> str:
    """Return the README of a chart with these files: how it is installed, its values files, and its values."""
    cases = "".join(
        f"| `{path}` | {text.splitlines()[0].removeprefix('# ')} |\n"
        for path, text in sorted(files.items())
        if path.startswith(_CASES)
    )
    return _README.format(
        name=chart.name,
        description=chart.description,
        table=table(files["values.yaml"]),
        cases=cases,
        where=where,
        by=by,
        more=more,
    )


def generated_files(chart: OperatorChart, pieces: dict[str, str]) -> dict[str, str]:
    """Return those files of our own chart that are generated, given all of its files."""
    values = with_families(pieces["values.yaml"], {part.name: part.values for part in chart.parts})
    more = f"[Deploying](../../docs/guide/deploy.md) explains each step.\n\n{_families(chart)}"
    return {
        **files_of(chart),
        "values.yaml": values,
        "README.md": readme(
            chart, {**pieces, "values.yaml": values}, where="charts/konverge", by=" by: make generate", more=more
        ),
        "values.schema.json": schema_text(pieces["values.schema.json"], chart, values, families=True),
    }


def _families(chart: OperatorChart) -> str:
    """Return the table of families for the README."""
    rows = ["## Families", "", "| Family | Content |", "|---|---|"]
    for part in chart.parts:
        page = part.documentation
        target = page if "://" in page or not page else f"../../{page}"
        rows.append(f"| `{part.name}` | {f'[{part.summary}]({target})' if target else part.summary} |")
    return "\n".join([*rows, "", ""])


def daemon_files(chart: OperatorChart, pieces: dict[str, str]) -> dict[str, str]:
    """Return the files of the daemon's chart with the families of `chart`, given the files in the package, which hold our families."""
    return {**pieces, **generated_files(chart, pieces)}


def chart_files(chart: OperatorChart, pieces: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the files of the chart of an operator without families, from the files in the package."""
    pieces = own_chart() if pieces is None else pieces
    values = without(pieces["values.yaml"], "families")
    values = with_value(values, "image.repository", chart.name)
    values = with_value(values, "image.registry", "")
    values = with_value(values, "args", list(chart.arguments))
    if any(part.has_webhooks for part in chart.parts):
        values = with_value(values, "webhooks.enabled", True)
    templates = {
        path: _HELPER.sub(rf'\1 "{chart.name}.', general)
        for path, text in pieces.items()
        if path.startswith("templates/") and (general := _OF_FAMILIES.sub("", text))
    }
    cases = {path: text for path, text in pieces.items() if path.startswith(_CASES) and "families:" not in text}
    return {
        ".helmignore": pieces[".helmignore"],
        "Chart.yaml": _chart_yaml(chart, pieces["Chart.yaml"]),
        "values.yaml": values,
        "values.schema.json": schema_text(pieces["values.schema.json"], chart, values, families=False),
        "README.md": readme(chart, {**cases, "values.yaml": values}, where="."),
        **templates,
        **cases,
        **{path: _OF_REPOSITORY.sub("", text) for path, text in pieces.items() if path.startswith(_SHARED)},
        **files_of(chart),
    }


def _chart_yaml(chart: OperatorChart, text: str) -> str:
    for key, value in (
        ("name", chart.name),
        ("description", chart.description),
        ("version", chart.version),
        ("appVersion", chart.app_version),
    ):
        text = with_value(text, key, value)
    return _HOME.sub("", without(text, "keywords"))
