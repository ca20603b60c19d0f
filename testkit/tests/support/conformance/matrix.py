"""The matrix verb x kind x feature: which cells the cases fill, which are absent and why; and the differences of two records. Pure."""

import json
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from typing import Any, Final

from conformance.cases import CASES, KINDS, VERBS, Case
from yaml_files import load_yaml

_LINES: Final = 40
_WIDTH: Final = 600


def differences(real: Any, memory: Any) -> list[str]:
    """Return the differences of two records, a line each."""
    found = list(_differences(real, memory, ""))
    return found[:_LINES] + ([f"... and {len(found) - _LINES} more"] if len(found) > _LINES else [])


def _differences(real: Any, memory: Any, path: str) -> Iterator[str]:
    if isinstance(real, dict) and isinstance(memory, dict):
        head = f"[{real['step']}]" if path.count(".") <= 1 and "step" in real else ""
        for key in [*real, *(key for key in memory if key not in real)]:
            yield from _differences(real.get(key, "(absent)"), memory.get(key, "(absent)"), f"{path}{head}.{key}")
    elif isinstance(real, list) and isinstance(memory, list) and len(real) == len(memory):
        for number, (one, other) in enumerate(zip(real, memory, strict=True)):
            yield from _differences(one, other, f"{path}.{number}")
    elif type(real) is not type(memory) or real != memory:
        yield f"{path}: {_short(real)} | {_short(memory)}"


def _short(data: Any) -> str:
    text = data if isinstance(data, str) else json.dumps(data, sort_keys=True)
    return text if len(text) <= _WIDTH else f"{text[:_WIDTH]}..."


def expected_cells() -> set[str]:
    """Return the cells that have to be filled."""
    matrix = _matrix()
    everywhere = [alias for alias, kind in KINDS.items() if kind.generic]
    cells = {
        f"{verb} {alias} {feature}"
        for feature, row in matrix["common"].items()
        for verb in row["verbs"]
        for alias in everywhere
    }
    for feature, row in matrix["special"].items():
        cells |= {f"{verb} {alias} {feature}" for verb in VERBS if verb in row for alias in row[verb]}
    return cells


def reasons() -> dict[str, str]:
    """Return the reasons why cells are not expected, by feature or by kind."""
    matrix = _matrix()
    found = {feature: row["why"] for part in ("common", "special") for feature, row in matrix[part].items()}
    return {**found, **matrix["alone"]}


def _matrix() -> Any:
    return load_yaml(CASES.parent / "matrix.yaml")


def report(cases: Sequence[Case], failed: Collection[str]) -> str:
    """Draw the matrix as verbs by kinds with the count of features, then features by verbs, since a table per feature would be too long."""
    filled = Counter(cell for case in cases for cell in case.cells)
    lines = [f"{len(cases)} cases, {sum(len(case.steps) for case in cases)} requests, {len(filled)} cells", ""]
    lines += _table("features by kind and verb", filled, list(KINDS), 1)
    lines += ["", *_table("kinds by feature and verb", filled, sorted({cell.split()[2] for cell in filled}), 2)]
    lines += ["", "absent cells:", *(f"  {name}: {why}" for name, why in sorted(reasons().items()) if why)]
    return "\n".join([*lines, "", f"{len(failed)} cases differ", *sorted(failed)])


def _table(title: str, filled: Counter[str], rows: Sequence[str], at: int) -> list[str]:
    counts = Counter((cell.split()[at], cell.split()[0]) for cell in filled)
    lines = [f"{title:28}" + "".join(f"{verb[:9]:>10}" for verb in VERBS)]
    for row in rows:
        numbers = "".join(f"{counts[row, verb] or '.':>10}" for verb in VERBS)
        lines.append(f"{KINDS[row].plural if row in KINDS and at == 1 else row:28}{numbers}")
    return lines
