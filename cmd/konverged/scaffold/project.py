"""The project in a folder: its table in pyproject.toml, its kinds, and the text of its `build`.

Errors: UsageError names what is missing, and the remedy.
"""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from konverge.daemon.scaffold.names import KindNames
from konverge.daemon.scaffold.registry import BuildPart, with_part
from konverge.errors import UsageError

__all__ = ["Project", "find_project"]


@dataclass(frozen=True, slots=True)
class Project:
    """A project that `konverge init` wrote, as it is now."""

    folder: Path
    package: str
    group: str
    """The group of a further kind."""

    @property
    def registry(self) -> Path:
        """The module with `build`."""
        return self.folder / self.package / "__init__.py"

    def kinds(self) -> dict[str, KindNames]:
        """Return the kinds that a module `<plural>/model.py` declares for its folder, by name."""
        found = (_declared(path) for path in sorted((self.folder / self.package).glob("*/model.py")))
        return {names.kind: names for names in found if names is not None}

    def kind(self, name: str) -> KindNames:
        """Return a kind of the project."""
        kinds = self.kinds()
        if name not in kinds:
            near = get_close_matches(name, kinds, n=1)
            hint = f"did you mean {near[0]}?" if near else f"the kinds are {', '.join(kinds) or 'none'}"
            raise UsageError(f"no module {self.package}/*/model.py declares the kind {name}: {hint}")
        return kinds[name]

    def register(self, parts: Iterable[BuildPart]) -> list[BuildPart]:
        """Add parts to `build`, and return the parts that its author has to add."""
        left: list[BuildPart] = []
        for part in parts:
            text = with_part(self.registry.read_text(encoding="utf-8"), part) if self.registry.is_file() else None
            if text is None:
                left.append(part)
            else:
                self.registry.write_text(text, encoding="utf-8")
        return left


def find_project(folder: Path) -> Project:
    """Return the project whose pyproject.toml is in a folder."""
    path = folder / "pyproject.toml"
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8")).get("tool", {}).get("konverge", {})
    except FileNotFoundError:
        raise UsageError(
            f"{folder} has no pyproject.toml: run konverge add in the folder that konverge init wrote"
        ) from None
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{path}: {error}") from error
    build, group = table.get("build"), table.get("group")
    if not isinstance(build, str) or not isinstance(group, str):
        raise UsageError(
            f'{path} has no table for konverge: add [tool.konverge] with build = "PACKAGE:build" and group = "GROUP"'
        )
    return Project(folder, build.partition(":")[0], group)


def _declared(path: Path) -> KindNames | None:
    """Return the kind that a model.py declares by `@kv.resource("group/version", ...)`, if its folder has the plural of its name."""
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except SyntaxError as error:
        raise UsageError(f"{path}: line {error.lineno}: {error.msg}") from error
    for node in tree.body:
        if not isinstance(node, ast.ClassDef):
            continue
        for decorator in node.decorator_list:
            version = _api_version(decorator)
            if version:
                group, _, name = version.partition("/")
                names = KindNames(node.name, group, name)
                if names.plural == path.parent.name:
                    return names
    return None


def _api_version(decorator: ast.expr) -> str:
    """Return the first argument of a decorator `resource(...)` or `kv.resource(...)`, "" for another decorator."""
    if not isinstance(decorator, ast.Call) or not decorator.args:
        return ""
    function, argument = decorator.func, decorator.args[0]
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    literal = isinstance(argument, ast.Constant) and isinstance(argument.value, str)
    return str(argument.value) if name == "resource" and literal and isinstance(argument, ast.Constant) else ""
