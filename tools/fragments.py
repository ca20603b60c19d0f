"""Check the changelog fragments in changes.d/, the input of towncrier for CHANGELOG.md: `make lint` runs `python tools/fragments.py`.

A fragment is named `NNN.kind.md` or `NNN.kind.2.md` (issue, kind, and a number from the second on) and is one paragraph.
"""

import re
import sys
from pathlib import Path

import prose

ROOT = Path(__file__).resolve().parent.parent

SENTENCES = 3
WORDS = 80

_NAME = re.compile(r"\d{3}\.(?:feature|change|fix)(?:\.(?:[2-9]|[1-9]\d))?\.md")


def mistakes(name: str, text: str) -> list[str]:
    """Return what is wrong with a fragment and how to mend it."""
    wrong = []
    if not _NAME.fullmatch(name):
        wrong.append("is not named NNN.kind.md with a kind of feature, change, fix (more of one kind: NNN.kind.2.md)")
    if re.search(r"^\s*(?:[-*#|]|```)|\n\s*\n", text.strip(), re.MULTILINE):
        wrong.append("is more than one paragraph: put each point into a fragment of its own")
    sentences = prose.sentences_of_markdown(text)
    words = len(text.split())
    if not 1 <= len(sentences) <= SENTENCES or words > WORDS:
        wrong.append(
            f"has {len(sentences)} sentences and {words} words: write 1 to {SENTENCES} sentences of at most {WORDS} words in all"
        )
    return wrong


def main(root: Path = ROOT) -> int:
    """Check every fragment; return the exit code."""
    paths = sorted(path for path in (root / "changes.d").iterdir() if path.name not in ("README.md", "template.md"))
    wrong = [f"changes.d/{path.name} {mistake}" for path in paths for mistake in mistakes(path.name, path.read_text())]
    for line in wrong:
        print(line, file=sys.stderr)
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
