"""Print the declared lowest versions as constraints for pip: `python tools/lowest.py core machines otel testing`.

`core` are the dependencies of konverge, `testing` the dependencies of the test kit; other names are extras. The tools of the extra dev have
bounds only for contributors.
"""

import sys
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parent.parent


def requirements(name: str, root: Path = ROOT) -> list[str]:
    """Return the dependencies of this part; raises KeyError for an unknown name."""
    folder = root / "testkit" if name == "testing" else root
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    dependencies: list[str] = (
        project["dependencies"] if name in ("core", "testing") else project["optional-dependencies"][name]
    )
    return dependencies


def lowest(dependencies: Iterable[str]) -> Iterator[str]:
    """Yield `name==version` for each dependency; raises ValueError for a dependency without a lower bound."""
    for requirement in map(Requirement, dependencies):
        if requirement.name == "konverge":
            continue
        bounds = [bound.version for bound in requirement.specifier if bound.operator == ">="]
        if len(bounds) != 1:
            raise ValueError(f"{requirement} has no lowest version: write {requirement.name}>=VERSION")
        yield f"{requirement.name}=={bounds[0]}"


def main(names: Sequence[str]) -> int:
    """Print the constraints of these parts."""
    print("\n".join(sorted({constraint for name in names for constraint in lowest(requirements(name))})))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
