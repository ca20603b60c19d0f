"""Write the Python of the .proto files: `python tools/protos.py [--check]`; `make generate` writes, a test checks.

protoc (in grpcio-tools) writes the messages and their types, and the plugin of grpclib the stubs and the bases of services. With --check
nothing is written, and the exit code is 1 if a file differs.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = "konverge/reconcilers/machines/wire"
"""By the import name, since protoc generates the imports of modules from it."""

_DOCSTRING = '"""Generated stubs and bases of gRPC services."""\n'
"""The docstring for modules that grpclib's plugin writes without a docstring."""


def _mended(name: str, text: str) -> str:
    """Return a generated file with the docstring that the tree requires, and with types that strict mypy accepts."""
    if name.endswith("_grpc.py"):
        return text.replace("import abc\n", f"{_DOCSTRING}import abc\n", 1)
    return text.replace("_Mapping]", "_Mapping[str, object]]") if name.endswith(".pyi") else text


def expected(root: Path = ROOT) -> dict[str, str]:
    """Return the generated files: name in the folder, and content."""
    sources = sorted(f"{FOLDER}/{path.name}" for path in (root / FOLDER).glob("*.proto"))
    with tempfile.TemporaryDirectory() as scratch:
        subprocess.run(
            [
                *(sys.executable, "-m", "grpc_tools.protoc", "--proto_path=."),
                *(f"--python_out={scratch}", f"--pyi_out={scratch}", f"--grpclib_python_out={scratch}"),
                *sources,
            ],
            cwd=root,
            check=True,
            env={**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"},
        )
        result = {path.name: path.read_text() for path in sorted(Path(scratch, FOLDER).iterdir())}
    return {name: _mended(name, text) for name, text in result.items()}


def outdated(root: Path = ROOT) -> list[str]:
    """Return the names of generated files that are missing, differ, or have no .proto file."""
    folder, wanted = root / FOLDER, expected(root)
    present = {path.name for pattern in ("*_pb2.py", "*_pb2.pyi", "*_grpc.py") for path in folder.glob(pattern)}
    return sorted(
        name
        for name in {*wanted, *present}
        if name not in wanted or name not in present or (folder / name).read_text() != wanted[name]
    )


def main(arguments: Sequence[str], root: Path = ROOT) -> int:
    """Write the files, or with `--check` only compare them; return the exit code."""
    if arguments not in ([], ["--check"]):
        print("usage: python tools/protos.py [--check]", file=sys.stderr)
        return 2
    if arguments:
        stale = outdated(root)
        for name in stale:
            print(f"{FOLDER}/{name} is not what protoc writes: run make generate", file=sys.stderr)
        return 1 if stale else 0
    for name, text in expected(root).items():
        (root / FOLDER / name).write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
