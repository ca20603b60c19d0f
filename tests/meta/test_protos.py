"""The generated code of gRPC equals protoc's output, and protoc reads our vectors like our code."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
import yaml

if TYPE_CHECKING:
    from tests.meta.conftest import Tree


@pytest.fixture
def vectors(tree: Tree) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = yaml.safe_load((tree.root / "tests/unit/machines/wire_vectors.yaml").read_text())
    return found


def protoc(*arguments: str, data: bytes = b"") -> str:
    done = subprocess.run(
        [sys.executable, "-m", "grpc_tools.protoc", *arguments], input=data, capture_output=True, check=True
    )
    return done.stdout.decode()


def length_of(data: bytes) -> bytes:
    assert len(data) < 0x4000
    return bytes([len(data)]) if len(data) < 0x80 else bytes([len(data) & 0x7F | 0x80, len(data) >> 7])


def test_protoc_reads_the_same_numbers_from_the_bytes_without_a_schema(vectors: list[dict[str, Any]]) -> None:
    """All vectors in an outer message, each in a field of its own, for a single process."""
    outer = b""
    for number, vector in enumerate(vectors, start=1):
        data = bytes.fromhex(vector["hex"])
        tag = number << 3 | 2
        outer += (bytes([tag]) if tag < 0x80 else bytes([tag & 0x7F | 0x80, tag >> 7])) + length_of(data) + data
    blocks = re.split(r"^(?=\d+ \{|\d+: \")", protoc("--decode_raw", data=outer), flags=re.MULTILINE)[1:]
    found = [re.sub(r"\s+", " ", block).strip().partition(" ")[2] for block in blocks]
    assert found == [vector["raw"] for vector in vectors]


def test_generating_the_code_again_changes_nothing(tree: Tree) -> None:
    done = subprocess.run(
        [sys.executable, "tools/protos.py", "--check"], cwd=tree.root, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
