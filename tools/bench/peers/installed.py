"""The interpreter of the contestants in Python: an environment with the packages that users install, and no others.

The tree's own .venv has more packages, and some are imported wherever they are installed: structlog imports rich and greenlet, which
takes 5 MiB and a tenth of the start of a small operator. The environment has what `pip install konverge[speed]` and `pip install kopf` bring, in
the versions of constraints.txt. konverge itself comes from the tree (`protocol.environment`).
"""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path

from konverge_testing.binaries import Cache, is_program

ROOT = Path(__file__).resolve().parents[3]
INSTALL_SECONDS = 600


def packages(pyproject: str) -> list[str]:
    """The requirements of konverge[speed] and of kopf, as pyproject.toml has them."""
    project = tomllib.loads(pyproject)["project"]
    extras = project["optional-dependencies"]
    return [*project["dependencies"], *extras["speed"], *(each for each in extras["dev"] if each.startswith("kopf"))]


def interpreter(environment: Mapping[str, str], tell: Callable[[str], None]) -> Path:
    """Return the environment's interpreter, which is created once for these packages and versions; raises SubprocessError if it cannot be."""
    root = Cache.of(environment).root
    wanted, constraints = packages((ROOT / "pyproject.toml").read_text()), ROOT / "constraints.txt"
    state = repr((sys.version, sys.base_prefix, wanted)).encode() + constraints.read_bytes()
    home = root / "peers" / f"python-{hashlib.sha256(state).hexdigest()[:16]}"
    python = home / "bin" / "python"
    if is_program(python):
        return python
    home.parent.mkdir(parents=True, exist_ok=True)
    with (home.parent / "python.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not is_program(python):
            tell(f"installing the packages of the contestants in Python into {home} (once for this machine)")
            partial = home.with_name(f"{home.name}.part")
            shutil.rmtree(partial, ignore_errors=True)
            _run(sys.executable, "-m", "venv", str(partial))
            wheels = root / "wheels" / str(sys.implementation.cache_tag)
            pip = [str(partial / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
            pip += ["--find-links", str(wheels), "--constraint", str(constraints), *wanted]
            try:
                _run(*pip, "--no-index")  # `make venv` keeps the wheels: no network is needed
            except subprocess.SubprocessError:
                _run(*pip)
            partial.rename(home)
    return python


def _run(*command: str) -> None:
    ended = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_SECONDS, check=False)
    if ended.returncode:
        last = (ended.stderr.strip().splitlines() or ["no word"])[-1]
        raise subprocess.SubprocessError(f"{' '.join(command[:3])} failed: {last}")
