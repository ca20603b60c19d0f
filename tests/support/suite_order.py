"""How the processes of a test run share the tests: which go together, which kind a process prefers, and which begin first. Pure.

Tests on a control plane wait most of the time, the others compute. So all processes except the last begin with tests that wait. The last
process has a lower priority (`FILLER_NICENESS`) and uses the CPU while the others wait. Long units begin first, so that no long unit is
left for the end, when the other processes are idle.
"""

from collections.abc import Iterable
from typing import Final

FILLER_NICENESS: Final = 5
"""The niceness of the process that begins with tests that compute: the others have time limits of their own."""
_TOGETHER: Final = ("testkit/tests/conformance/",)
"""Folders whose tests share what is dear to set up: the cases and their two servers."""
_WAIT: Final = ("testkit/tests/conformance/", "testkit/tests/e2e/", "tests/e2e/")
_RERUN: Final = "[every fault]"
"""Ends the name of a scenario's rerun under faults, which takes many times as long as its file otherwise and shares nothing with it."""

LONG: Final = (
    "testkit/tests/conformance/",
    "tests/e2e/sharding/test_processes.py",
    "tests/e2e/faults/test_kill_at_any_write.py",
    "tests/e2e/test_daemon.py",
    "testkit/tests/e2e/test_demo.py",
    "testkit/tests/e2e/test_control_plane.py",
    "testkit/tests/e2e/apiserver/test_kubectl.py",
    "tests/e2e/test_informers.py",
    "tests/e2e/election/test_processes.py",
    "testkit/tests/e2e/apiserver/test_helm.py",
    "tests/e2e/test_admission.py",
    "testkit/tests/e2e/apiserver/test_kopf.py",
    "tests/e2e/test_prometheus.py",
    "tests/e2e/faults/test_many_objects.py",
    "tests/e2e/faults/test_api_server.py",
    "tests/e2e/test_image.py",
    "tests/e2e/test_quota_manual_edits.py",
    "tests/e2e/test_daemon_flood.py",
    "testkit/tests/e2e/test_apiserver_command.py",
    "tests/e2e/examples/test_embedding.py",
    "tests/e2e/faults/test_at_rest.py",
    "tests/e2e/faults/test_kinds.py",
    "tests/e2e/pools/",
    "tests/e2e/test_crds.py",
    "testkit/tests/e2e/apiserver/test_chart.py",
    "testkit/tests/e2e/apiserver/test_chart_of_an_operator.py",
    "tests/guard/test_guard.py",
    "testkit/tests/scenarios/lab/test_cronjob.py::",
    "tests/scenarios/operations/test_lab_engines.py::",
    "tests/scenarios/apps/test_truth.py::",
    "tests/scenarios/apps/test_lab.py::",
    "testkit/tests/scenarios/lab/test_branching.py",
    "tests/scenarios/quota/test_lab.py",
    "tests/scenarios/operations/test_lab.py::",
    "tests/scenarios/clusters/test_pull_lab.py::",
    "tests/scenarios/",
    "testkit/tests/scenarios/",
    "testkit/tests/unit/kit/test_plugin.py",
    "tests/property/",
    "tests/meta/",
)
"""The beginnings of the names of units that take long, the longest first among those that wait and among those that compute. A name that ends
in `::` means the reruns of a file's scenarios.
"""


def unit_of(nodeid: str) -> str:
    """Return the name of a unit that a process runs as a whole: a folder, the rerun of a scenario, or else a file."""
    if nodeid.endswith(_RERUN):
        return nodeid
    return next((folder for folder in _TOGETHER if nodeid.startswith(folder)), nodeid.partition("::")[0])


def is_filler(worker: str, workers: int) -> bool:
    """Tell whether a process, by its name (`gw3`) and the number of processes, begins with tests that compute: the last of several."""
    return workers > 1 and worker == f"gw{workers - 1}"


def waits(nodeid: str) -> bool:
    """Tell whether a test or a unit uses a control plane and waits for it."""
    return nodeid.startswith(_WAIT)


def chosen(units: Iterable[str], *, filler: bool) -> str:
    """Return the next unit of a process: a preferred unit if there are any, and a long one among these."""
    return min(units, key=lambda unit: (waits(unit) == filler, _place(unit)))


def _place(unit: str) -> int:
    return next((place for place, start in enumerate(LONG) if unit.startswith(start)), len(LONG))
