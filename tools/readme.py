"""Put the files that documents show into them: `make readme` writes, `make lint` checks.

A document shows a file of the repository between two lines, and this program writes the text between them:

    <!-- include: examples/backup_operator.py -->
    <!-- end include -->

Guarantees: README.md and all documents below docs/ and testkit/ are updated; running it again changes nothing. `--check` writes
nothing and exits with 1 if a document shows an older state of a file.
"""

import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

BLOCK = re.compile(
    r"^(?P<head><!-- include: (?P<path>\S+) -->\n)(?P<body>.*?)^(?P<tail><!-- end include -->)$",
    re.MULTILINE | re.DOTALL,
)
OPENING = re.compile(r"^<!-- include:", re.MULTILINE)
LANGUAGES = {
    ".py": "python",
    ".go": "go",
    ".rs": "rust",
    ".js": "javascript",
    ".yaml": "yaml",
    ".toml": "toml",
    ".sh": "sh",
    ".json": "json",
}


def included(document: str, read: Callable[[str], str]) -> str:
    """Return a document with the present content of the files that it shows; raises ValueError if a block is not closed."""

    def block(match: re.Match[str]) -> str:
        path = match["path"]
        fence = f"```{LANGUAGES.get(Path(path).suffix, '')}\n{read(path).rstrip()}\n```\n"
        return f"{match['head']}{fence}{match['tail']}"

    fresh, count = BLOCK.subn(block, document)
    if count != len(OPENING.findall(document)):
        raise ValueError("a block is closed by <!-- end include --> on a line of its own before the next one begins")
    return fresh


def stale(root: Path) -> dict[Path, str]:
    """Return the outdated documents below a folder, with their new content."""
    result = {}
    for path in (root / "README.md", *sorted((root / "docs").rglob("*.md")), *sorted((root / "testkit").rglob("*.md"))):
        document = path.read_text()
        fresh = included(document, lambda name: (root / name).read_text())
        if fresh != document:
            result[path] = fresh
    return result


def main(arguments: Sequence[str], root: Path = ROOT) -> int:
    """Write the documents, or with `--check` only compare them; return the exit code."""
    if arguments not in ([], ["--check"]):
        print("usage: python tools/readme.py [--check]", file=sys.stderr)
        return 2
    result = stale(root)
    for path, fresh in result.items():
        if arguments:
            print(f"{path.relative_to(root)} shows an older state of a file; run: make readme", file=sys.stderr)
        else:
            path.write_text(fresh)
            print(path.relative_to(root))
    return 1 if arguments and result else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
