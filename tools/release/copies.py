"""Copies of the version and of the public addresses: `python -m release.copies [--check]`; `make generate` writes, `make lint` checks.

pyproject.toml is the only source: `version` of `[project]`, and the addresses of `[tool.release]`. Everything else that names them has a
row here. Files under deploy/ are rendered by helm from the chart; writing the version into them gives the text that helm would render, so
a release needs no helm. Empty addresses leave no link in the metadata and the image without a registry.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import render_deploy

from release.versions import chart_version

ROOT = Path(__file__).resolve().parent.parent.parent
PROJECT, KIT = "pyproject.toml", "testkit/pyproject.toml"
CHART, CLUSTER_API = "charts/konverge/Chart.yaml", "deploy/cluster-api/values.yaml"
_RENDERED = ("deploy/*.yaml", render_deploy.COMPONENTS)


@dataclass(frozen=True)
class Facts:
    """The version, and the addresses as `[tool.release]` has them: "" if the project has none."""

    version: str
    repository: str
    registry: str

    @property
    def image(self) -> str:
        """The name of the image without its tag."""
        return f"{self.registry}/konverge" if self.registry else "konverge"


@dataclass(frozen=True)
class Copy:
    """Lines of files, each with a value after the group that the pattern begins with."""

    files: str
    pattern: str
    value: Callable[[Facts], str]


COPIES = (
    Copy(PROJECT, r'^(testing = \["konverge-testing==)[^"]+', lambda facts: facts.version),
    Copy(KIT, r'^(version = ")[^"]+', lambda facts: facts.version),
    Copy(KIT, r'^(  "konverge==)[^"]+', lambda facts: facts.version),
    Copy(CHART, r"^(version: ).+", lambda facts: chart_version(facts.version)),
    Copy(CHART, r"^(appVersion: ).+", lambda facts: facts.version),
    Copy("charts/konverge/values.yaml", r'^(  registry: )".*"', lambda facts: f'"{facts.registry}"'),
    Copy("charts/konverge/README.md", r'^(\| `image\.registry` \| )`".*?"`', lambda facts: f'`"{facts.registry}"`'),
    # clusterctl reads no image without a host, so the components name a placeholder as long as the project has no registry.
    Copy(CLUSTER_API, r"^(  repository: ).+", lambda facts: f"{facts.registry or 'registry.example.com'}/konverge"),
    Copy("deploy/kustomization.yaml", r"^(  - name: ).+", lambda facts: facts.image),
    Copy("deploy/kustomization.yaml", r"^(    newName: ).+", lambda facts: facts.image),
    Copy("deploy/kustomization.yaml", r"^(    newTag: ).+", lambda facts: facts.version),
    Copy("deploy/deployment.yaml", r"^( +image: ).+", lambda facts: f'"{facts.image}:{facts.version}"'),
    Copy(
        render_deploy.COMPONENTS,
        r"^( +image: ).+",
        lambda facts: f'"{facts.registry or "registry.example.com"}/konverge:{facts.version}"',
    ),
    *(Copy(name, r"^( +app\.kubernetes\.io/version: ).+", lambda facts: f'"{facts.version}"') for name in _RENDERED),
)

_URLS = re.compile(r"^\[project\.urls\]\n(?:.+\n)*\n", re.MULTILINE)
_HOME = re.compile(r"^(?:home|sources): .+\n", re.MULTILINE)


def facts_of(root: Path = ROOT) -> Facts:
    """Return the facts that pyproject.toml has."""
    project = tomllib.loads((root / PROJECT).read_text())
    release = project["tool"]["release"]
    return Facts(project["project"]["version"], release["repository"], release["registry"])


def urls(facts: Facts) -> dict[str, str]:
    """Return the addresses of `[project.urls]`; none for a project without a repository."""
    if not facts.repository:
        return {}
    return {
        "Homepage": facts.repository,
        "Documentation": f"{facts.repository}/blob/main/docs/README.md",
        "Changelog": f"{facts.repository}/blob/main/CHANGELOG.md",
        "Issues": f"{facts.repository}/issues",
        "Source": facts.repository,
    }


def _with_urls(text: str, facts: Facts) -> str:
    lines = "".join(f'{name} = "{address}"\n' for name, address in urls(facts).items())
    block = f"[project.urls]\n{lines}\n" if lines else ""
    return re.sub(r"^(?=\[project\.)", block, _URLS.sub("", text), count=1, flags=re.MULTILINE)


def _with_home(text: str, facts: Facts) -> str:
    lines = f"home: {facts.repository}\nsources: [{facts.repository}]\n" if facts.repository else ""
    return _HOME.sub("", text) + lines


_SPECIAL: Mapping[str, Callable[[str, Facts], str]] = {PROJECT: _with_urls, KIT: _with_urls, CHART: _with_home}


def with_version(text: str, version: str) -> str:
    """Return the text of pyproject.toml with another version."""
    return re.sub(r'^version = ".+"$', f'version = "{version}"', text, count=1, flags=re.MULTILINE)


def wanted(root: Path = ROOT) -> dict[str, str]:
    """Return each file that has a copy, with the text that it should have; raises LookupError for a row without a line."""
    facts = facts_of(root)
    texts: dict[str, str] = {}
    for copy in COPIES:
        count = 0
        for path in sorted(root.glob(copy.files)):
            name = path.relative_to(root).as_posix()
            text = texts.get(name) or path.read_text()
            text, replaced = re.subn(copy.pattern, rf"\g<1>{copy.value(facts)}", text, flags=re.MULTILINE)
            count += replaced
            if replaced:
                texts[name] = text
        if not count:
            raise LookupError(f"{copy.files} has no line {copy.pattern}: mend the row in tools/release/copies.py")
    for name, rewritten in _SPECIAL.items():
        texts[name] = rewritten(texts[name], facts)
    return texts


def check(root: Path = ROOT) -> dict[str, str]:
    """Return the files whose copies differ from pyproject.toml, with the text that they should have."""
    return {name: text for name, text in wanted(root).items() if (root / name).read_text() != text}


def stamp(root: Path = ROOT) -> list[str]:
    """Write the copies, and the digests of deploy/ if it is fresh; return the names of the changed files."""
    fresh = render_deploy.is_fresh(root)
    changed = check(root)
    for name, text in changed.items():
        (root / name).write_text(text)
    if fresh and changed:
        (root / render_deploy.DIGESTS).write_text(render_deploy.present_digests(root))
    return list(changed)


def main(arguments: Sequence[str], root: Path = ROOT) -> int:
    """Write the copies, or with `--check` only compare them; return the exit code."""
    if arguments not in ([], ["--check"]):
        print("usage: python -m release.copies [--check]", file=sys.stderr)
        return 2
    names = list(check(root)) if arguments else stamp(root)
    for name in names:
        print(f"{name} has another version or address than {PROJECT}: run make generate" if arguments else name)
    return int(bool(arguments and names))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
