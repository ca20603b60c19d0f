"""The cost of one changed object does not grow with the number of its neighbours: Python calls are counted, so other load does not matter."""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import pytest

pytestmark = pytest.mark.timeout(600)

BENCH: Final = Path(__file__).resolve().parents[2] / "tools" / "bench" / "bench_neighbours.py"
FEW: Final = 10
MANY: Final = 110
PER_NEIGHBOUR: Final = {
    "quota": 0.5,
    "pools": 9,  # the list that precedes a creation decodes each member, and the status of the pool lists each member
    "operations": 0.5,
    "workspaces": 0.5,
    "applications": 2,  # periodic work falls into or out of the counted time: about a hundred calls; a scan of all instances takes 12 each
    "clusters": 0.8,  # a watch that the server ends within the counted time costs about 30 calls
    "machines": 0.5,
}
"""The most calls for each neighbour more; one call for each neighbour in one place is 1."""


def _measured(family: str, count: int) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, str(BENCH), family, str(count)],
        env={**os.environ, "PYTHONHASHSEED": "0"},
        check=True,
        capture_output=True,
        text=True,
        timeout=500,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("family", PER_NEIGHBOUR)
def test_one_changed_object_costs_no_more_among_more_neighbours(family: str) -> None:
    with ThreadPoolExecutor(2) as pool:
        few, many = pool.map(lambda count: _measured(family, count), (FEW, MANY))
    assert few["calls"] > 100
    grown = (many["calls"] - few["calls"]) / (MANY - FEW)
    assert grown <= PER_NEIGHBOUR[family], f"{grown:g} calls for each neighbour: {few} among {FEW}, {many} among {MANY}"
    assert many["writes"] <= few["writes"] + 1
