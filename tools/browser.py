"""A Chromium of the system, for the tests of pages: `python tools/browser.py` installs it where that needs no question.

Guarantees: `browser` looks in PATH and changes nothing. `install` installs Debian's package if this process may; otherwise it raises OSError
with what to do. Nothing is downloaded from elsewhere.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_SECONDS = 600


def browser() -> Path | None:
    """Return the path of a Chromium or Chrome; None if the machine has neither."""
    return next((Path(path) for name in _NAMES if (path := shutil.which(name))), None)


def install() -> Path:
    """Return the path of a browser, installed if it is missing; raises OSError if that cannot be done here."""
    if (path := browser()) is not None:
        return path
    if not shutil.which("apt-get") or os.geteuid() != 0:
        raise OSError(
            "no browser: install Chromium or Chrome, so that its name is in PATH; this user cannot install Debian's package"
        )
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (
        ["apt-get", "update"],
        ["apt-get", "install", "--yes", "--no-install-recommends", "chromium", "fonts-dejavu-core"],
    ):
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=_SECONDS)
        if done.returncode != 0:
            raise OSError(
                f"no browser: {' '.join(command)} failed: {done.stderr.strip().splitlines()[-1:] or done.returncode}"
            )
    if (path := browser()) is None:
        raise OSError("no browser: Debian's package chromium was installed and has no chromium in PATH")
    return path


if __name__ == "__main__":
    try:
        sys.stdout.write(f"==> browser: {install()}\n")
    except (OSError, subprocess.TimeoutExpired) as error:
        sys.exit(f"==> {error}")
