"""Prometheus' promtool, for the tests of alert rules and dashboards: `python tools/promtool.py` puts it into the cache.

Guarantees: `promtool` looks in PATH and in the cache of `konverge control-plane install`, and changes nothing. `fetch` takes the program out
of Debian's package, without installing the package; it appears in the cache whole or not at all. If neither source has it, tests that need
it are skipped with that reason; all other checks run.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from konverge_testing.binaries import Cache, is_program

PROMTOOL = "promtool"
_PACKAGE = "prometheus"
_SECONDS = 120
_RUN_SECONDS = 280
"""The limit of one run, below the limit of a test: the cases of the alerts take 25 s alone and more than 120 s on a busy machine."""


def promtool(environment: Mapping[str, str] = os.environ) -> Path | None:
    """Return the path of the program; None if it is missing."""
    result = shutil.which(PROMTOOL, path=environment.get("PATH"))
    cached = _cached(environment)
    return Path(result) if result else cached if is_program(cached) else None


def _cached(environment: Mapping[str, str]) -> Path:
    return Cache.of(environment).root / PROMTOOL / PROMTOOL


def fetch(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the path of the program, taken out of Debian's package if it is missing; raises OSError if that fails."""
    if (result := promtool(environment)) is not None:
        return result
    if not (shutil.which("apt-get") and shutil.which("dpkg-deb")):
        raise OSError("no promtool: it comes with Debian's package prometheus, and this is no Debian")
    home = _cached(environment)
    home.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=home.parent) as folder:
        if _ran(["apt-get", "download", _PACKAGE], folder):
            _ran(["apt-get", "update"], folder)
            if why := _ran(["apt-get", "download", _PACKAGE], folder):
                raise OSError(f"no promtool: {why}")
        [package] = Path(folder).glob("*.deb")
        if why := _ran(["dpkg-deb", "--extract", str(package), folder], folder):
            raise OSError(f"no promtool: {why}")
        (Path(folder) / "usr" / "bin" / PROMTOOL).rename(home)
    return home


def _ran(command: list[str], folder: str) -> str:
    """Run a command; returns the reason of a failure with the last line of its errors, "" if it succeeded."""
    words = " ".join(command[:3])
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return f"{words} took longer than {_SECONDS} s and was ended; the package archive may not answer, so run it again later"
    return "" if done.returncode == 0 else ": ".join((f"{words} failed", *done.stderr.strip().splitlines()[-1:]))


def run_promtool(*words: str | Path) -> subprocess.CompletedProcess[str]:
    """Run the program; raises FileNotFoundError if it is missing."""
    program = promtool()
    if program is None:
        raise FileNotFoundError(PROMTOOL)
    command = [str(program), *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=_RUN_SECONDS, check=False)


if __name__ == "__main__":
    try:
        print(fetch())
    except OSError as error:
        sys.exit(str(error))
