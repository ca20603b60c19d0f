"""Write deploy/requirements.txt and deploy/requirements-build.txt, the image's lock with hashes: `make lock` runs it.

The versions are those of constraints.txt; pip resolves them for the image's Python on each architecture, and its report has the hashes.
Wheels only: an image is built without a compiler.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
MACHINES = ("x86_64", "aarch64")
RUNTIME, BUILD = "deploy/requirements.txt", "deploy/requirements-build.txt"

_PYTHON = re.compile(r"^ARG PYTHON=python:(?P<version>\d+\.\d+)", re.MULTILINE)
_GLIBC = (("2_34", "2_28", "2_17"), ("2_28", "2_17"))
"""The versions of wheels that a base may take, the preferred first: those of Debian 12 and later, and of older bases."""


def python_version(root: Path = ROOT) -> str:
    """Return the version of the image's Python, as the Containerfile has it."""
    match = _PYTHON.search((root / "deploy/Containerfile").read_text())
    assert match is not None, "deploy/Containerfile begins with ARG PYTHON=python:X.Y..."
    return match["version"]


def report(
    requirements: Iterable[str], machine: str, glibc: Sequence[str], version: str, constraints: Path
) -> dict[str, Any]:
    """Return pip's report of installing requirements on an architecture with wheels for these versions of glibc."""
    abi = f"cp{version.replace('.', '')}"
    platforms = [f"--platform=manylinux_{item}_{machine}" for item in glibc]
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            [
                *(sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed"),
                *("--only-binary=:all:", f"--python-version={version}", "--implementation=cp"),
                *(f"--abi={abi}", "--abi=abi3", "--abi=none", *platforms, f"--platform=manylinux2014_{machine}"),
                *(f"--target={folder}/nowhere", f"--report={folder}/report", f"--constraint={constraints}"),
                *requirements,
            ],
            check=True,
            env={**os.environ, "PIP_FIND_LINKS": ""},
        )
        document: dict[str, Any] = json.loads(Path(folder, "report").read_text())
        return document


def lock(reports: Iterable[Mapping[str, Any]]) -> str:
    """Return the text of a lock: each distribution with the hashes that the reports have of it."""
    hashes: defaultdict[str, set[str]] = defaultdict(set)
    for entry in reports:
        for item in entry["install"]:
            name = re.sub(r"[-_.]+", "-", item["metadata"]["name"]).lower()
            hashes[f"{name}=={item['metadata']['version']}"].add(
                item["download_info"]["archive_info"]["hashes"]["sha256"]
            )
    lines = [
        f"{pinned} \\\n" + " \\\n".join(f"    --hash=sha256:{digest}" for digest in sorted(result))
        for pinned, result in sorted(hashes.items())
    ]
    return "\n".join(("# What the image installs; written by: make lock", *lines)) + "\n"


def main(root: Path = ROOT) -> int:
    """Write both files."""
    project = tomllib.loads((root / "pyproject.toml").read_text())
    version = python_version(root)
    # The image hosts every family, exports spans, and runs on uvloop: these extras are in it too.
    extras = project["project"]["optional-dependencies"]
    runtime = [
        *project["project"]["dependencies"],
        *extras["machines"],
        *extras["otel"],
        *extras["pools"],
        *extras["speed"],
    ]
    for name, wanted in ((RUNTIME, runtime), (BUILD, project["build-system"]["requires"])):
        results = [
            report(wanted, machine, glibc, version, root / "constraints.txt")
            for machine in MACHINES
            for glibc in _GLIBC
        ]
        (root / name).write_text(lock(results))
        print(f"{name}: {len(results[0]['install'])} distributions for Python {version} on {' and '.join(MACHINES)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
