"""The state of both servers before the first case: the custom kinds that the cases share, established.

Guarantees: the same requests to both; returns when the kinds are served.
"""

from __future__ import annotations

from pathlib import Path

import yaml
from conformance.cases import step_of
from conformance.running import Runner
from conformance.targets import Target

__all__ = ["prepare"]

_SETUP = Path(__file__).parents[2] / "conformance" / "setup.yaml"


async def prepare(target: Target) -> None:
    """Create the shared kinds that are missing."""
    runner = Runner(target, "default")
    there = await target.send("GET", "/apis/conformance.example.com/v1", {"Accept": "application/json"}, b"")
    if there.status == 200:
        return
    for given in yaml.safe_load(_SETUP.read_text()):
        record = await runner.run(step_of(given))
        assert "unexpected" not in record, f"{target.name}: {record}"
