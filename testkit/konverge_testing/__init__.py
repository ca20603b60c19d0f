"""The test kit that ships with konverge (`pip install konverge[testing]`).

Importing it costs nothing: every name is loaded on its first use, because the pytest plugin imports this package in every test
run of every project that has konverge installed.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from konverge_testing.admission import Admitted, admit
    from konverge_testing.config import ControlPlaneConfig
    from konverge_testing.control_plane import ControlPlane
    from konverge_testing.failures import BinariesMissing, ControlPlaneError
    from konverge_testing.lab import Lab, install_crds
    from konverge_testing.lab.ready import Workloads
    from konverge_testing.loop import VirtualTimeLoop
    from konverge_testing.memory_server import ApiServer
    from konverge_testing.proxy import FaultProxy
    from konverge_testing.round_trips import check_round_trips
    from konverge_testing.wire import SilentWire

__all__ = [
    "Admitted",
    "ApiServer",
    "BinariesMissing",
    "ControlPlane",
    "ControlPlaneConfig",
    "ControlPlaneError",
    "FaultProxy",
    "Lab",
    "SilentWire",
    "VirtualTimeLoop",
    "Workloads",
    "admit",
    "check_round_trips",
    "install_crds",
]

_HOMES = {
    "Admitted": "konverge_testing.admission",
    "ApiServer": "konverge_testing.memory_server",
    "BinariesMissing": "konverge_testing.failures",
    "ControlPlane": "konverge_testing.control_plane",
    "ControlPlaneConfig": "konverge_testing.config",
    "ControlPlaneError": "konverge_testing.failures",
    "FaultProxy": "konverge_testing.proxy",
    "Lab": "konverge_testing.lab",
    "SilentWire": "konverge_testing.wire",
    "VirtualTimeLoop": "konverge_testing.loop",
    "Workloads": "konverge_testing.lab.ready",
    "admit": "konverge_testing.admission",
    "check_round_trips": "konverge_testing.round_trips",
    "install_crds": "konverge_testing.lab",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
