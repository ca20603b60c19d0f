"""A public class name means one thing in the product: a reader who greps for it finds one class."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.meta.conftest import Tree

ALLOWED: Mapping[str, str] = {
    "Annotation": "the vocabulary of a room: each words.py has one",
    "Endpoint": "the server of a URL, and an address in the status of an ApplicationInstance",
    "Label": "the vocabulary of a room: each words.py has one",
    "LabelSelector": "Kubernetes' own name, of the parsed text and of the field of a ResourcePool",
    "ObservedInstance": "what a family observed of its own kind: no family knows another",
    "Settings": "the settings of the daemon and of a family, each named by its module",
    "Stalled": "a message of an informer, and the reasons of the condition Stalled of an ApplicationInstance",
}
"""Names that stand in several modules, and why they may."""


def duplicates(tree: Tree) -> dict[str, list[str]]:
    """Return the public class names at the top of several product modules, with those modules."""
    found: dict[str, list[str]] = defaultdict(list)
    for source in tree.sources:
        if source.of_kit:
            continue
        for node in source.tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(source.module)
    return {name: modules for name, modules in sorted(found.items()) if len(modules) > 1}


def test_no_public_class_name_stands_in_two_product_modules_without_a_reason(tree: Tree) -> None:
    wrong = {name: modules for name, modules in duplicates(tree).items() if name not in ALLOWED}
    assert not wrong, f"rename all but one of each, or give the reason in ALLOWED: {wrong}"


def test_every_reason_for_a_shared_class_name_is_still_needed(tree: Tree) -> None:
    assert not ALLOWED.keys() - duplicates(tree).keys()
