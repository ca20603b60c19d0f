"""Pages of the site and the files of the repository that they show.

Documents link to each other, to examples, to tests and to folders by their paths in the repository. On the site, a document outside of `docs/`
and each linked file or folder is a page too: every link of a document can be followed, without a network and without a forge.
"""

import posixpath
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

DOCUMENTS: Final[Mapping[str, str]] = {
    "README.md": "index.md",
    "docs/README.md": "contents.md",
    "ARCHITECTURE.md": "contributors/architecture.md",
    "CONTRIBUTING.md": "contributors/contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
    "changes.d/README.md": "contributors/changelog-fragments.md",
    "charts/konverge/README.md": "reference/chart.md",
    "testkit/README.md": "testing/README.md",
    "testkit/docs/apiserver.md": "testing/apiserver.md",
    "testkit/docs/conformance.md": "testing/conformance.md",
    "testkit/docs/lab.md": "testing/lab.md",
    "testkit/docs/testing.md": "testing/testing.md",
    "tools/bench/README.md": "contributors/benchmarks.md",
}
"""The pages of documents whose place on the site is not their path below `docs/`."""

SOURCES: Final = "sources"
"""The folder of the pages that show a linked file or folder."""

_LINK = re.compile(r"(?P<open>\]\()(?P<target>[^)\s#]*)(?P<anchor>#[^)\s]*)?(?P<close>\))")
_FENCE = re.compile(r"^\s*(```|~~~)")
_LANGUAGES: Final = {".py": "python", ".yaml": "yaml", ".yml": "yaml", ".toml": "toml", ".sh": "sh", ".json": "json"}


def page_of(path: str, root: Path) -> str:
    """Return the page of a file or folder of the repository; raises FileNotFoundError if it is neither."""
    if path in DOCUMENTS:
        return DOCUMENTS[path]
    result = root / path
    if path.startswith("docs/") and result.is_file():
        return path.removeprefix("docs/")
    if f"{path}/README.md" in DOCUMENTS:
        return DOCUMENTS[f"{path}/README.md"]
    if path.startswith("docs/") and (result / "README.md").is_file():
        return f"{path.removeprefix('docs/')}/README.md"
    if not result.exists():
        raise FileNotFoundError(f"{path} is linked, and is no file of the repository")
    return f"{SOURCES}/{path}.md"


def _parts(text: str) -> Iterator[tuple[str, bool]]:
    """Yield each line of a document with whether it may contain links: a line of a fenced block may not."""
    fenced = False
    for line in text.splitlines(keepends=True):
        if _FENCE.match(line):
            fenced = not fenced
            yield line, False
        else:
            yield line, not fenced


def _resolved(path: str, target: str) -> str | None:
    """Return the path of a target in the repository; None for an address, an anchor in the same document, or nothing."""
    if not target or re.match(r"[a-z]+:", target):
        return None
    return posixpath.normpath(posixpath.join(posixpath.dirname(path), target)).rstrip("/")


def targets(path: str, text: str) -> set[str]:
    """Return the files and folders of the repository that the document at a path links to."""
    lines = (line for line, open_ in _parts(text) if open_)
    matches = (_resolved(path, match["target"]) for line in lines for match in _LINK.finditer(line))
    return {target for target in matches if target is not None}


def relinked(path: str, text: str, address: Callable[[str], str]) -> str:
    """Return the text of the document at a path with each link to a file or folder of the repository replaced by its address."""

    def link(match: re.Match[str]) -> str:
        target = _resolved(path, match["target"])
        return (
            match[0] if target is None else f"{match['open']}{address(target)}{match['anchor'] or ''}{match['close']}"
        )

    return "".join(_LINK.sub(link, line) if open_ else line for line, open_ in _parts(text))


def rewritten(path: str, text: str, root: Path) -> str:
    """Return the text of the document at a path with each link replaced by the link between the pages."""
    here = posixpath.dirname(page_of(path, root)) or "."
    return relinked(path, text, lambda target: posixpath.relpath(page_of(target, root), here))


def shown(path: str, root: Path) -> str:
    """Return the page of a source: the text of a file, or the files of a folder."""
    result = root / path
    if result.is_dir():
        files = "\n".join(
            f"- `{file.name}{'/' if file.is_dir() else ''}`"
            for file in sorted(result.iterdir())
            if file.name[0] not in "._"
        )
        return f"# {path}\n\nA folder of the repository:\n\n{files}\n"
    text = result.read_text()
    ticks = "`" * max(3, *(len(run) + 1 for run in re.findall(r"`+", text)), 3)
    return f"# {path}\n\n{ticks}{_LANGUAGES.get(result.suffix, 'text')}\n{text.rstrip()}\n{ticks}\n"
