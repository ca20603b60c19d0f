"""The templates, the files of each feature, and a write that replaces no file.

Guarantees: rendering is pure. A field without a value is an error. `write` creates all files of a command or none, and replaces no file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from konverge.daemon.scaffold.names import KindNames, ProjectNames
from konverge.daemon.scaffold.registry import BuildPart
from konverge.errors import UsageError

__all__ = [
    "FEATURES",
    "chosen_features",
    "conversion_files",
    "kind_files",
    "parts_of",
    "project_files",
    "version_files",
    "webhook_files",
    "write",
]

FEATURES: Final = ("webhook", "finalizer", "conversion")
"""The parts that `--with` adds to a kind."""
FIRST_VERSION: Final = "v1alpha1"
"""The second version of a kind with a conversion."""

_TEMPLATES: Final = Path(__file__).parent / "templates"
_FIELD: Final = re.compile(r"\{\{(\w+)\}\}")
_KIND: Final = "{{package}}/{{plural}}"
_PROJECT_FILES: Final = {
    "project/pyproject.toml": "pyproject.toml",
    "project/Makefile": "Makefile",
    "project/README.md": "README.md",
    "project/Containerfile": "Containerfile",
    "project/dockerignore": ".dockerignore",
    "project/gitignore": ".gitignore",
    "project/github.yaml": ".github/workflows/check.yaml",
    "project/gitlab.yaml": ".gitlab-ci.yml",
    "project/pre-commit.yaml": ".pre-commit-config.yaml",
    "project/settings.yaml": "settings.yaml",
    "project/init.py": "{{package}}/__init__.py",
}
_KIND_FILES: Final = {
    "kind/init.py": f"{_KIND}/__init__.py",
    "kind/model.py": f"{_KIND}/model.py",
    "kind/render.py": f"{_KIND}/render.py",
    "kind/decide.py": f"{_KIND}/decide.py",
    "kind/reconciler.py": f"{_KIND}/reconciler.py",
    "kind/sample.yaml": "samples/{{plural}}.yaml",
    "kind/test_decide.py": "tests/test_{{plural}}_decide.py",
    "kind/test_scenario.py": "tests/test_{{plural}}.py",
}
_FINALIZER_FILES: Final = {
    "finalizer/deletion.py": f"{_KIND}/deletion.py",
    "finalizer/reconciler.py": f"{_KIND}/reconciler.py",
    "finalizer/test_deletion.py": "tests/test_{{plural}}_deletion.py",
}
_WEBHOOK_FILES: Final = {
    "webhook/webhook.py": f"{_KIND}/webhook.py",
    "webhook/test_webhook.py": "tests/test_{{plural}}_webhook.py",
}
_CONVERSION_FILES: Final = {
    "conversion/conversion.py": f"{_KIND}/conversion.py",
    "conversion/test_conversion.py": "tests/test_{{plural}}_conversion.py",
}


def chosen_features(text: str) -> frozenset[str]:
    """Return the features of a list with commas; raises UsageError for an unknown feature."""
    chosen = frozenset(part.strip() for part in text.split(",") if part.strip())
    for unknown in sorted(chosen - set(FEATURES)):
        raise UsageError(f"--with {unknown}: the features are {', '.join(FEATURES)}")
    return chosen


def project_files(project: ProjectNames, kind: KindNames, bounds: str) -> dict[str, str]:
    """Return the files of a project that belong to no kind, by path; `bounds` are the versions of konverge that it works with."""
    return _rendered(_PROJECT_FILES, {**_values(project.package, kind), "name": project.name, "bounds": bounds})


def kind_files(package: str, kind: KindNames, features: Iterable[str] = ()) -> dict[str, str]:
    """Return the files of a new kind with some of FEATURES."""
    chosen = frozenset(features)
    files = _rendered(_KIND_FILES, _values(package, kind))
    if "finalizer" in chosen:
        files |= _rendered(_FINALIZER_FILES, _values(package, kind))
    if "webhook" in chosen:
        files |= webhook_files(package, kind)
    if "conversion" in chosen:
        files |= conversion_files(package, kind, FIRST_VERSION)
        files |= _version(package, kind, FIRST_VERSION, "conversion/version.py")
    return files


def webhook_files(package: str, kind: KindNames) -> dict[str, str]:
    """Return the files of a webhook, which fit any model of the kind."""
    return _rendered(_WEBHOOK_FILES, _values(package, kind))


def conversion_files(package: str, kind: KindNames, version: str) -> dict[str, str]:
    """Return the files of a kind's first conversion, to and from a version."""
    return _rendered(_CONVERSION_FILES, {**_values(package, kind), "version": version})


def version_files(package: str, kind: KindNames, version: str) -> dict[str, str]:
    """Return the module of a version, which fits any model of the kind."""
    return _version(package, kind, version, "version/version.py")


def parts_of(package: str, kind: KindNames, names: Iterable[str]) -> tuple[BuildPart, ...]:
    """Return the parts of a kind that `build` adds, of these names: "controller", and features; a finalizer is a part of the controller."""
    module, alias = f"{package}.{kind.plural}", kind.plural.upper()
    parts = {
        "controller": BuildPart(f"{module}.reconciler", "CONTROLLER", alias),
        "webhook": BuildPart(f"{module}.webhook", "WEBHOOK", f"{alias}_WEBHOOK"),
        "conversion": BuildPart(f"{module}.conversion", "CONVERSION", f"{alias}_CONVERSION"),
    }
    chosen = frozenset(names)
    return tuple(part for name, part in parts.items() if name in chosen)


def _version(package: str, kind: KindNames, version: str, template: str) -> dict[str, str]:
    return _rendered({template: f"{_KIND}/{version}.py"}, {**_values(package, kind), "version": version})


def _values(package: str, kind: KindNames) -> dict[str, str]:
    names = ("kind", "group", "plural", "singular", "variable")
    return {"package": package, **{name: getattr(kind, name) for name in names}}


def _rendered(files: Mapping[str, str], values: Mapping[str, str]) -> dict[str, str]:
    """Return the rendered templates by their paths in the project. GitHub's `${{ x }}` has spaces and stays."""
    texts = {path: (_TEMPLATES / f"{name}.in").read_text(encoding="utf-8") for name, path in files.items()}
    return {_filled(path, values): _filled(text, values) for path, text in texts.items()}


def _filled(text: str, values: Mapping[str, str]) -> str:
    return _FIELD.sub(lambda field: values[field[1]], text)


def write(folder: Path, files: Mapping[str, str]) -> None:
    """Create files below a folder. Raises UsageError, before any is written, if one of them exists."""
    present = sorted(path for path in files if (folder / path).exists())
    if present:
        raise UsageError(f"{folder / present[0]} exists, and nothing was written: move it away, or choose another name")
    for path, text in files.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
