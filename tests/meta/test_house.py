"""House rules that a reader would otherwise have to check by eye."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.meta.conftest import Tree

# The words are spelt in two parts, so that this file does not break its own rule.
HOSTS = tuple(
    "".join(parts)
    for parts in (
        ("pypi", ".org"),
        ("python", "hosted.org"),
        ("proxy.", "golang.org"),
        ("sum.", "golang.org"),
        ("goproxy", ".io"),
        ("registry", ".npmjs.org"),
        ("docker", ".io"),
        ("docker", ".com"),
        ("ghcr", ".io"),
        ("gcr", ".io"),
        ("quay", ".io"),
        ("registry", ".k8s.io"),
        ("mcr.", "microsoft.com"),
        ("public.ecr", ".aws"),
    )
)
"""Registries: where packages and images come from is the business of the clients and their configuration."""

MACHINE_PATH = re.compile(r"(?<![\w.~/$}-])/(?:" + "|".join(("work", "root")) + r")(?![\w-])")

SILENCED = re.compile(
    r"#\s*(?:noqa|type:\s*ignore)\b(?P<codes>:\s*[A-Z]+\d+(?:[,\s]+[A-Z]+\d+)*|\[[\w-]+(?:,\s*[\w-]+)*\])?(?P<reason>.*)"
)

UNFINISHED = re.compile(r"\b(?:TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK)\b|raise NotImpl" r"ementedError")

GENERATED_ELSEWHERE = {".sum", ".jsonl"}
"""Files with foreign content: checksums of modules, recordings."""


def test_no_file_names_a_registry_or_a_path_of_one_machine(tree: Tree) -> None:
    found = []
    for path in tree.files():
        if path.suffix in GENERATED_ELSEWHERE:
            continue
        try:
            lines = path.read_text().splitlines()
        except UnicodeDecodeError:
            continue
        for number, line in enumerate(lines, start=1):
            words = [host for host in HOSTS if host in line] + MACHINE_PATH.findall(line)
            found += [f"{path.relative_to(tree.root)}:{number}: {word}" for word in words]
    assert not found, "\n".join(found)


def test_the_pattern_for_machine_paths_knows_urls_from_folders() -> None:
    folders = [f"/{name}" for name in ("work/main/x", "root")]
    others = ["/apis/work", "/workspace", "https://h/root", "~/work", "$HOME/work", "/rootless", "a/root"]
    assert [text for text in (*folders, *others) if MACHINE_PATH.search(text)] == folders


def test_every_module_says_what_it_promises(tree: Tree) -> None:
    examples = {str(path.relative_to(tree.root)): ast.parse(path.read_text()) for path in tree.below("examples", ".py")}
    modules = {**{source.where: source.tree for source in tree.sources}, **examples}
    assert [name for name, module in modules.items() if not ast.get_docstring(module)] == []


def test_nothing_is_left_unfinished(tree: Tree) -> None:
    found = [
        f"{path.relative_to(tree.root)}:{number}: {line.strip()}"
        for path in tree.files(".py", ".sh", ".yaml", ".toml")
        for number, line in enumerate(path.read_text().splitlines(), start=1)
        if UNFINISHED.search(line)
    ]
    assert not found, "\n".join(found)


def test_a_silenced_check_has_its_code_and_its_reason_beside_it(tree: Tree) -> None:
    bare = []
    for path in tree.files(".py"):
        for number, line in enumerate(path.read_text().splitlines(), start=1):
            silenced = SILENCED.search(line)
            if silenced and not (silenced["codes"] and len(silenced["reason"].strip(" -#:()").split()) >= 2):
                bare.append(f"{path.relative_to(tree.root)}:{number}: {line.strip()}")
    assert not bare, "\n".join(bare)


def test_every_test_is_named_by_a_sentence(tree: Tree) -> None:
    short = [
        f"{path.relative_to(tree.root)}: {node.name}"
        for path in tree.below("tests", ".py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.startswith("test_")
        and len(node.name.split("_")) < 4
    ]
    assert not short, "\n".join(("a name says what holds: test_an_add_during_work_causes_one_more_run", *short))


def test_no_folder_of_tests_is_a_package(tree: Tree) -> None:
    assert [str(path) for path in tree.below("tests", ".py") if path.name == "__init__.py"] == []


def test_imports_inside_the_package_use_the_full_name(tree: Tree) -> None:
    rooms = {folder.rpartition("/")[2] for folder in tree.folders.values()} - {"konverge"}
    strays = []
    for source in tree.sources:
        for node in ast.walk(source.tree):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = ["." * node.level + (node.module or "")]
            strays += [f"{source.where}: {name}" for name in names if name.split(".")[0] in {"", *rooms}]
    assert not strays, "\n".join(strays)
