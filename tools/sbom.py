"""Write what the image installs into a folder, as a CycloneDX SBOM and a list of licences: `python tools/sbom.py dist`; `make dist` runs it.

Names, versions and hashes are read from deploy/requirements.txt, licences from the metadata of the installed distributions. The same lock
gives the same bytes.
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from email.message import Message
from importlib import metadata
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
LOCK = "deploy/requirements.txt"
SBOM, LICENCES = "konverge.cdx.json", "LICENCES.md"

_LOCKED = re.compile(
    r"^(?P<name>\S+)==(?P<version>\S+) \\\n(?P<hashes>(?:    --hash=sha256:\w+(?: \\)?\n)+)", re.MULTILINE
)
_DIGEST = re.compile(r"sha256:(\w+)")
_CLASSIFIER = "License :: OSI Approved :: "
_LONGEST_NAME = 60  # some distributions put the whole text of their licence into the field


@dataclass(frozen=True)
class Component:
    """One distribution of the lock."""

    name: str
    version: str
    hashes: tuple[str, ...]
    licence: str

    def to_dict(self) -> dict[str, Any]:
        """Return it as CycloneDX has it."""
        purl = f"pkg:pypi/{self.name}@{self.version}"
        return {
            "type": "library",
            "bom-ref": purl,
            "name": self.name,
            "version": self.version,
            "purl": purl,
            "licenses": [{"license": {"name": self.licence}}],
            "properties": [{"name": "konverge:wheel:sha256", "value": digest} for digest in self.hashes],
        }


def licence_of(described: Message) -> str:
    """Return the licence that a distribution declares: its expression, a short name, or a classifier; raises LookupError for none."""
    declared = [described.get("License-Expression"), described.get("License")]
    declared += [
        item.removeprefix(_CLASSIFIER) for item in described.get_all("Classifier", []) if item.startswith(_CLASSIFIER)
    ]
    for item in declared:
        if item and item != "UNKNOWN" and "\n" not in item and len(item) <= _LONGEST_NAME:
            return str(item)
    raise LookupError(f"{described['Name']} declares no licence that fits a line; look at its files, and decide")


def components(lock: str, describe: Callable[[str], Message]) -> list[Component]:
    """Return the distributions of a lock."""
    results = []
    for match in _LOCKED.finditer(lock):
        described = describe(match["name"])
        if described["Version"] != match["version"]:
            raise LookupError(
                f"{match['name']} {described['Version']} is installed, the lock has {match['version']}: make venv"
            )
        results.append(
            Component(match["name"], match["version"], tuple(_DIGEST.findall(match["hashes"])), licence_of(described))
        )
    return results


def sbom(name: str, version: str, licence: str, parts: Sequence[Component]) -> str:
    """Return the SBOM as JSON."""
    root = f"pkg:pypi/{name}@{version}"
    own = {"type": "application", "bom-ref": root, "name": name, "version": version, "purl": root}
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": {**own, "licenses": [{"license": {"id": licence}}]}},
        "components": [part.to_dict() for part in parts],
        "dependencies": [{"ref": root, "dependsOn": [part.to_dict()["bom-ref"] for part in parts]}],
    }
    return json.dumps(document, indent=2) + "\n"


def licences(name: str, licence: str, parts: Sequence[Component]) -> str:
    """Return the list of licences as Markdown."""
    rows = [f"| {part.name} | {part.version} | {part.licence} |" for part in parts]
    head = [
        f"# Licences\n\n{name} is {licence}. Its image installs:\n",
        "| Distribution | Version | Licence |",
        "|---|---|---|",
    ]
    return "\n".join((*head, *rows)) + "\n"


def main(arguments: Sequence[str], root: Path = ROOT) -> int:
    """Write both files; return the exit code."""
    if len(arguments) != 1:
        print("usage: python tools/sbom.py FOLDER", file=sys.stderr)
        return 2
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    try:
        parts = components((root / LOCK).read_text(), metadata.metadata)  # type: ignore[arg-type]  # its protocol lacks get
    except (LookupError, metadata.PackageNotFoundError) as error:
        print(f"no SBOM: {error}", file=sys.stderr)
        return 1
    folder = Path(arguments[0])
    (folder / SBOM).write_text(sbom(project["name"], project["version"], project["license"], parts))
    (folder / LICENCES).write_text(licences(project["name"], project["license"], parts))
    print(f"--> {folder / SBOM} and {folder / LICENCES} name {len(parts)} distributions")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
