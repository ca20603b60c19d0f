"""Build the site into `build/site`, or serve it: `python -m pages.build [--serve]`.

Exit code 1 if the generator warns: of a link or an anchor that does not exist, for example.
"""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from pages.assemble import ROOT, assemble

_GENERATOR: Final = Path(sys.executable).with_name("zensical")


def generate(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the generator over a folder with `mkdocs.yml`; its exit code is 1 if it warns."""
    command = [str(_GENERATOR), "build", "--clean", "--strict", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def main(arguments: Sequence[str], root: Path = ROOT) -> int:
    """Assemble the pages, then build or serve the site."""
    assemble(root, root / "build" / "pages")
    if "--serve" in arguments:
        return subprocess.run([str(_GENERATOR), "serve"], cwd=root, check=False).returncode
    done = generate(root)
    sys.stdout.write(done.stdout + done.stderr)
    return done.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
