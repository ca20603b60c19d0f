"""The guard: what a thousand objects cost now, against what they cost when somebody last looked (`tests/guard/baseline.json`).

    python tools/guard/count.py            count, and say what grew
    python tools/guard/count.py --write    take what is counted as the new figures (`make guard`)

Figures are of one minor version of Python, since calls differ between them.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

__all__ = ["BASELINE", "VERSION", "count", "flat", "grown"]

BASELINE: Final = Path(__file__).resolve().parents[2] / "tests" / "guard" / "baseline.json"
PROGRAM: Final = Path(__file__).with_name("program.py")
VERSION: Final = f"{sys.version_info.major}.{sys.version_info.minor}"
ALLOWED: Final = 0.10
"""The growth that passes, as a share."""
SLACK: Final = 500
"""The growth that passes in any case, half a call for each object: what a file does once for all of them is nobody's hot path."""

Figures = Mapping[str, int]


def count(*arguments: str) -> dict[str, Any]:
    """Run the program once and return what it counted."""
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    done = subprocess.run(
        [sys.executable, str(PROGRAM), *arguments], env=environment, check=True, capture_output=True, text=True
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def flat(*counted: Mapping[str, Any]) -> dict[str, int]:
    """Return figures by name: `requests`, `bytes`, `calls`, `calls in FILE`, `calls for children`."""
    figures: dict[str, int] = {}
    for one in counted:
        if "requests" in one:
            figures["requests"] = sum(one["requests"].values())
        if "children" in one:
            figures["calls for children"] = one["children"]
        if "bytes" in one:
            figures["bytes"] = one["bytes"]
        for name, number in one.get("calls", {}).items():
            figures[f"calls in {name}"] = number
            figures["calls"] = figures.get("calls", 0) + number
    return figures


def grown(before: Figures, now: Figures) -> list[str]:
    """Say what costs over a tenth more than before; requests must not grow at all."""
    found = []
    for name, number in sorted(now.items()):
        known = before.get(name, 0)
        more = number - known
        allowed = 0.0 if name == "requests" else max(known * ALLOWED, SLACK)
        if more > allowed:
            share = f" (+{more / known:.0%})" if known else ""
            found.append(f"{name}: {number:,}, and {known:,} before{share}")
    return found


def main() -> int:
    """Count, compare or write."""
    parser = argparse.ArgumentParser(description="Count what a thousand objects cost.")
    parser.add_argument("--write", action="store_true", help="take what is counted as the new figures")
    options = parser.parse_args()
    with ThreadPoolExecutor() as pool:
        figures = flat(*pool.map(lambda arguments: count(*arguments), [(), ("--bytes",), ("--children",)]))
    known: dict[str, dict[str, int]] = json.loads(BASELINE.read_text()) if BASELINE.exists() else {}
    before = known.get(VERSION, {})
    for name in ("requests", "calls", "bytes", "calls for children"):
        print(f"{name:20} {figures[name]:>12,}   before: {before.get(name, 0):,}")
    if options.write:
        BASELINE.write_text(json.dumps({**known, VERSION: dict(sorted(figures.items()))}, indent=1) + "\n")
        return 0
    found = grown(before, figures)
    print("\n".join(found) if found else "nothing grew by over a tenth")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
