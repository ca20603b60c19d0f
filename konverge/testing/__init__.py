"""The test kit that ships with konverge (`pip install konverge[testing]`).

Importing it costs nothing: every name is loaded when it is first used, because the pytest plugin passes here in every test
run of every project that has konverge installed.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from konverge.testing.admission import Admitted, admit
    from konverge.testing.apiserver import ApiServer
    from konverge.testing.config import ControlPlaneConfig
    from konverge.testing.control_plane import ControlPlane
    from konverge.testing.failures import BinariesMissing, ControlPlaneError
    from konverge.testing.lab import Lab, install_crds
    from konverge.testing.loop import VirtualTimeLoop
    from konverge.testing.proxy import FaultProxy
    from konverge.testing.wire import SilentWire

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
    "admit",
    "install_crds",
]

_HOMES = {
    "Admitted": "konverge.testing.admission",
    "ApiServer": "konverge.testing.apiserver",
    "BinariesMissing": "konverge.testing.failures",
    "ControlPlane": "konverge.testing.control_plane",
    "ControlPlaneConfig": "konverge.testing.config",
    "ControlPlaneError": "konverge.testing.failures",
    "FaultProxy": "konverge.testing.proxy",
    "Lab": "konverge.testing.lab",
    "SilentWire": "konverge.testing.wire",
    "VirtualTimeLoop": "konverge.testing.loop",
    "admit": "konverge.testing.admission",
    "install_crds": "konverge.testing.lab",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
