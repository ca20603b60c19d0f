"""The installed families, the daemon's settings with them, and distributions of the tests with a family."""

from pathlib import Path
from typing import Any, Final

from konverge.daemon.families import DaemonSettings, discover, installed_settings

NAMES: Final = tuple(hosted.name for hosted in discover())
"""The names of the installed families."""


def daemon_settings(**values: Any) -> DaemonSettings:
    """Return the daemon's settings with these values."""
    return installed_settings()(**values)


def distribution(folder: Path, name: str, *entries: str, modules: dict[str, str] | None = None) -> Path:
    """Write an installed distribution with these entry points of families into a folder for `sys.path`; return the folder."""
    info = folder / f"{name.replace('-', '_')}-1.0.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0.0\n")
    (info / "entry_points.txt").write_text("\n".join(["[konverge.families]", *entries, ""]))
    for module, text in (modules or {}).items():
        (folder / f"{module}.py").write_text(text)
    return folder
