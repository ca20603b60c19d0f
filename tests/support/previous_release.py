"""The daemon of the previous release, from the history of the repository, as a program beside this tree's.

`tests/e2e/upgrade/previous.txt` names its commit. After a release the file names the released commit.

Guarantees: a missing commit is a failure that names the remedy, since a skipped test would hide a broken upgrade.
"""

import subprocess
import sys
from pathlib import Path

_REPOSITORY = Path(__file__).parents[2]
COMMIT = (_REPOSITORY / "tests/e2e/upgrade/previous.txt").read_text().split("#")[0].strip()
_ROOMS = ("konverge", "workqueue", "informers", "crds", "charts", "reconcilers", "cmd")
_PROGRAM = """#!{python}
import sys

sys.path.insert(0, {folder!r})
from konverge.daemon.main import main

assert main.__module__ == "konverge.daemon.main"
import konverge

assert konverge.__file__.startswith({folder!r}), konverge.__file__
main()
"""


class MissingHistory(AssertionError):
    """The clone lacks the commit of the previous release."""


def unpack(folder: Path, *, commit: str = COMMIT, repository: Path = _REPOSITORY) -> Path:
    """Write the tree of a commit into a folder, and return its program `konverge`; raises MissingHistory."""
    packed = subprocess.run(
        ("git", "archive", "--format=tar", commit, *_ROOMS), cwd=repository, capture_output=True, check=False
    )
    if packed.returncode:
        raise MissingHistory(
            f"git archive {commit}: {packed.stderr.decode().strip()}; the test of a rolling update needs the commit that "
            "tests/e2e/upgrade/previous.txt names: clone with the whole history, or git fetch --unshallow"
        )
    subprocess.run(("tar", "-x", "-C", folder), input=packed.stdout, check=True)
    program = folder / "konverge-previous"
    program.write_text(_PROGRAM.format(python=sys.executable, folder=str(folder)))
    program.chmod(0o755)
    return program
