"""The state of both servers before the first case: the custom kinds that the cases share, and our Operation, established.

Guarantees: the same requests to both; returns when the kinds are served.
"""

from pathlib import Path

from conformance.cases import step_of
from conformance.running import Runner
from conformance.targets import Target
from yaml_files import load_yaml

from konverge.crds import crd
from konverge.crds.ops_v1alpha1 import Operation

_SETUP = Path(__file__).parents[2] / "conformance" / "setup.yaml"


async def prepare(target: Target) -> None:
    """Create the shared kinds that are missing."""
    runner = Runner(target, "default")
    there = await target.send("GET", "/apis/conformance.example.com/v1", {"Accept": "application/json"}, b"")
    if there.status == 200:
        return
    operation = crd(Operation)
    ours = (
        {"POST crd": operation},
        {
            f"GET crd/{operation['metadata']['name']}": None,
            "until": {"status.conditions.[type=Established].status": "True"},
        },
        {"GET op": None, "until": 200},
    )
    for given in (*load_yaml(_SETUP), *ours):
        record = await runner.run(step_of(given))
        assert "unexpected" not in record, f"{target.name}: {record}"
