"""Selected fields: paths in the API's spelling, as a tree.

A path passes through lists and maps without a mark: `spec.template.spec.containers.image` selects the image of every container. A path that
begins with the name of a kind applies to that kind only.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, NamedTuple, TypeAlias

from konverge.errors import UsageError

__all__ = ["FieldPath", "Selection", "field_paths", "tree_of"]

Selection: TypeAlias = dict[str, Any]
"""Selected fields by name, each with the selection below it. An empty selection is everything."""


class FieldPath(NamedTuple):
    """A selected field, of one kind or (with "") of each kind that has it."""

    kind: str
    steps: tuple[str, ...]

    def __str__(self) -> str:
        return ".".join(self.steps)


def field_paths(texts: Iterable[str], kinds: Collection[str]) -> list[FieldPath]:
    """Return the paths in texts that may hold several, with commas; `kinds` are the names that a path may begin with.

    Raises UsageError for a path with an empty step.

    >>> [tuple(path) for path in field_paths(["spec.suspend,Job.status"], ["Job"])]
    [('', ('spec', 'suspend')), ('Job', ('status',))]
    """
    paths = []
    for text in (path.strip() for several in texts for path in several.split(",")):
        steps = text.removeprefix(".").split(".")
        kind = steps.pop(0) if steps[0] in kinds else ""
        if not steps or not all(steps):
            raise UsageError(
                f"--fields {text!r}: write paths such as spec.template.spec.containers.image, with commas between"
            )
        paths.append(FieldPath(kind, tuple(steps)))
    return paths


def tree_of(paths: Iterable[FieldPath]) -> Selection:
    """Return paths as a tree; a path that is the beginning of others selects everything below it.

    >>> tree_of([FieldPath("", ("spec", "a", "b")), FieldPath("", ("spec", "a")), FieldPath("", ("status",))])
    {'status': {}, 'spec': {'a': {}}}
    """
    tree: Selection = {}
    for path in sorted(dict.fromkeys(paths), key=lambda path: len(path.steps)):
        below, is_selected = tree, False
        for step in path.steps:
            is_selected = is_selected or (step in below and not below[step])
            if is_selected:
                break
            below = below.setdefault(step, {})
    return tree
