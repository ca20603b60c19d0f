"""The SBOM and the list of licences name exactly what the image installs."""

from __future__ import annotations

import json
from email.message import Message
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.meta.conftest import Tree

LOCK = "# a comment\na-b==1.0 \\\n    --hash=sha256:01 \\\n    --hash=sha256:02\nc==2 \\\n    --hash=sha256:03\n"


@pytest.fixture
def tool(tree: Tree) -> Any:
    return tree.load("tools/sbom.py")


def described(**fields: str) -> Message:
    message = Message()
    for name, value in {"Name": "a", "Version": "1.0", **fields}.items():
        message[name.replace("_", "-")] = value
    return message


def test_it_names_every_distribution_of_the_lock_with_its_hashes_and_licence(
    tool: Any, tree: Tree, tmp_path: Path
) -> None:
    assert tool.main([str(tmp_path)]) == 0
    document = json.loads((tmp_path / tool.SBOM).read_text())
    lock = (tree.root / tool.LOCK).read_text()
    assert len(document["components"]) == lock.count("==") > 20
    hashes = [one["value"] for part in document["components"] for one in part["properties"]]
    assert len(hashes) == lock.count("--hash")
    assert set(document["dependencies"][0]["dependsOn"]) == {part["bom-ref"] for part in document["components"]}
    rows = (tmp_path / tool.LICENCES).read_text().count("\n| ") - 1
    assert rows == len(document["components"])


def test_the_same_lock_gives_the_same_bytes(tool: Any) -> None:
    def describe(name: str) -> Message:
        return described(Version={"a-b": "1.0", "c": "2"}[name], License="MIT")

    parts = tool.components(LOCK, describe)
    assert [(part.name, part.version, part.hashes) for part in parts] == [
        ("a-b", "1.0", ("01", "02")),
        ("c", "2", ("03",)),
    ]
    assert tool.sbom("k", "1", "MIT", parts) == tool.sbom("k", "1", "MIT", tool.components(LOCK, describe))


@pytest.mark.parametrize(
    ("fields", "licence"),
    [
        ({"License_Expression": "MIT", "License": "other"}, "MIT"),
        ({"License": "BSD"}, "BSD"),
        ({"License": "UNKNOWN", "Classifier": "License :: OSI Approved :: MIT License"}, "MIT License"),
        ({"License": "Permission is hereby granted\nto any person", "Classifier": "License :: OSI Approved :: X"}, "X"),
    ],
)
def test_a_licence_is_the_most_exact_one_that_is_declared(tool: Any, fields: dict[str, str], licence: str) -> None:
    assert tool.licence_of(described(**fields)) == licence


def test_a_distribution_without_a_licence_or_of_another_version_is_refused(tool: Any) -> None:
    with pytest.raises(LookupError, match="declares no licence"):
        tool.licence_of(described(Classifier="Typing :: Typed"))
    with pytest.raises(LookupError, match=r"c 1\.0 is installed, the lock has 2: make venv"):
        tool.components(LOCK.partition("02\n")[2], lambda name: described(License="MIT"))
