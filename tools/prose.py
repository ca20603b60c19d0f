"""Count the habits of language that CONTRIBUTING.md forbids, in comments, docstrings, names of tests and Markdown documents.

    python tools/prose.py                              table: per 10,000 words, by room
    python tools/prose.py --list what docs konverge    each place as file:line: sentence
    python tools/prose.py --list dialect informers     each place of a word of the dialect
    python tools/prose.py --check                      fails if a count or a rate grew beyond tools/prose.json
    python tools/prose.py --write                      takes the present counts and rates into tools/prose.json

A fault is counted. A word of the dialect (pronouns in place of nouns, components that say and ask, stacked relative clauses) is a matter of
its rate: a room has a limit per 10,000 words for all words of the dialect together.

Guarantees: `--check` reads files only. `--write` never raises the total of a fault or the limit of a room; a fault that moved to another room
is taken over.

Caveats: the patterns are approximations. Code, doctests, fenced blocks, quoted words in backticks and error texts in code are not read; the
dialect is also counted in indented blocks of docstrings, such as tables. Of code the names of tests and the descriptions of mutants are read,
since people read both as sentences.
"""

from __future__ import annotations

import argparse
import ast
import bisect
import io
import json
import math
import os
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FIGURES = Path("tools/prose.json")

_DETERMINER = (
    r"(?:a|an|the|this|that|each|every|one|no|any|some|another|which|whose|its|their|our|own|per|of|by|in|for)"
)
_ADJECTIVE = (
    r"(?:first|second|next|last|late|later|earlier|previous|new|old|same|single|other|whole|clean|failed|running|ended|"
    r"slow|long|two|three|several|many|few|all|more|reconcile|reconciler's|controller's|pools?|own)"
)

FAULTS: Mapping[str, re.Pattern[str]] = {
    "who": re.compile(r"\b(?:nobody|somebody|whoever|everybody|strangers?)\b", re.IGNORECASE),
    "what": re.compile(r"^(?:And |But |So |Or )?What(?:'s)? (?!if\b)(?!.*\?\W*$)"),
    "where": re.compile(r"\bwhere (?:there|it|they|none|nothing|no|neither|nobody|somebody)\b", re.IGNORECASE),
    "is no": re.compile(
        r"\b(?:is|are|was|were) no (?!longer\b|more\b|less\b|fewer\b|other\b|better\b|worse\b|older\b|newer\b|larger\b|smaller\b|"
        r"different\b|greater\b|matter\b)[a-z]",
        re.IGNORECASE,
    ),
    "is told": re.compile(r"\b(?:is|are|was|were|be|been|being|gets?|got) told\b(?! apart\b)", re.IGNORECASE),
    "pass": re.compile(
        rf"\b(?:{_DETERMINER} )(?:{_ADJECTIVE} )*pass(?:es)?\b(?! (?:it|them|the|a|an|on|over|only|through|to|into)\b)"
        rf"|\b{_ADJECTIVE} passes\b|\bpass's\b|\bpasses'|\bpasses (?:of|that|which|are|were|run|ran)\b",
        re.IGNORECASE,
    ),
}
"""The patterns by the name that `--list` takes (with dashes): each match is one fault."""

DIALECT: Mapping[str, re.Pattern[str]] = {
    name: re.compile(pattern)
    for name, pattern in {
        "one": r"\bones\b|\bone (?:that|which|who|whose|without|with|of which)\b|\b(?:another|the other|the same|the last|the first|the next|"
        r"a later|a new|an old|a former|this|that|the|each|every|no|an? \w+er) one\b",
        "that of": r"\b(?:that|those) of (?:the|an?|its|this|that|each|which)\b",
        "says": r"\b(?:says|said)\b",
        "tells": r"\b(?:tells|told)\b",
        "asks": r"\b(?:asks|asked)\b",
        "answers": r"\banswer(?:s|ed)?\b",
        "is made": r"\b(?:is|are|was|were|be|been) made\b|\bmakes? (?:an?|the|one|it|them)\b|\bmade (?:anew|again|by|for|from|since|last)\b",
        "is gone": r"\b(?:is|are|was|were) (?:gone|away|there)\b",
        "anew": r"\b(?:anew|meanwhile|by then|all the same)\b",
        "of which": r"\b(?:by|of|for|in|from|with|to|at) which\b",
        "comes": r"\b(?:comes?|came|goes|went|stood|stands?(?!-)|bears?|lies|lay)\b",
        "turn": r"\b(?:has|have|had) come\b|\bits time\b|\bin turn\b|\bturns?\b",
        "alone": r"\balone\b",
        "looks at": r"\b(?:looks?|looked) (?:at|again|after)\b",
    }.items()
}
"""The words of the dialect by the name that `--list` takes: a noun that is avoided, or a component with a verb of a person."""

RATE = "dialect"
"""The name of a room's rate in the committed figures: words of the dialect per 10,000 words, rounded up."""

RECONCILE = re.compile(r"\breconcil", re.IGNORECASE)
"""The field's word for the work: it should be frequent."""

UPSTREAM = re.compile(
    r"https?://(?!localhost|127\.|\[|[\w.-]*example\b|[\w.-]*\.svc\b|[\w-]+(?:[:/]|$))[\w.-]+\.[a-z]{2,}"
    r"|\bKEP-\d+|\b[\w-]+/[\w.-]+#\d+"
)
"""A reference that a reader can follow out of the repository: a link, a KEP, an issue."""

ROOMS: Mapping[str, tuple[str, ...]] = {
    "ground floor": ("konverge/*.py",),
    "client": ("konverge/client",),
    "runtime": ("konverge/runtime",),
    "workqueue": ("workqueue",),
    "informers": ("informers",),
    "crds": ("crds",),
    "charts": ("charts",),
    "reconcilers": ("reconcilers",),
    "daemon": ("cmd", "konverge/planning"),
    "testing kit": ("testkit/konverge_testing",),
    "tests": ("tests",),
    "tools": ("tools",),
    "examples": ("examples",),
}
"""The Python files of each room. Markdown documents in any folder are the room `docs`."""

PRODUCT = ("ground floor", "client", "runtime", "workqueue", "informers", "crds", "charts", "reconcilers", "daemon")
"""Rooms that are added up as the row `product`: the shipped code without the testing kit."""

_SKIPPED = {"build", "dist", "node_modules", "__pycache__"}

_SENTENCE_END = re.compile(r"(?<=[.!?])[\"')\]*]*\s+(?=[\"'(\[*]*[A-Z`0-9])")
_QUOTED = re.compile(r"``[^`]*``|`[^`]*`")
_LINK_TARGET = re.compile(r"\]\([^)]*\)")
_URL = re.compile(r"https?://\S+")
_DIRECTIVE = re.compile(r"#\s*(?:noqa|type:\s*ignore|pragma|fmt:|pyright:|!/)")
_ITEM = re.compile(r"^\s*(?:[-*+]|\d+\.)\s+")
_WORD = re.compile(r"[A-Za-z][A-Za-z'-]*")


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence without its markup, and its place; `block` if it is in an indented block of a docstring."""

    path: str
    line: int
    text: str
    block: bool = False


@dataclass(slots=True)
class Tally:
    """Words, faults and references of some files."""

    words: int = 0
    lines: int = 0
    reconcile: int = 0
    upstream: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    dialect: Counter[str] = field(default_factory=Counter)

    @property
    def rate(self) -> float:
        """Words of the dialect per 10,000 words."""
        return _rate(self.dialect.total(), self.words)

    def add(self, other: Tally) -> None:
        """Add the figures of other files to these."""
        self.words += other.words
        self.lines += other.lines
        self.reconcile += other.reconcile
        self.upstream += other.upstream
        self.faults.update(other.faults)
        self.dialect.update(other.dialect)


def faults_of(sentence: str) -> Counter[str]:
    """Count each fault in a sentence."""
    return _matches(FAULTS, sentence)


def dialect_of(sentence: str) -> Counter[str]:
    """Count each word of the dialect in a sentence."""
    return _matches(DIALECT, sentence.lower())


def _matches(patterns: Mapping[str, re.Pattern[str]], sentence: str) -> Counter[str]:
    counts = {name: sum(1 for _ in pattern.finditer(sentence)) for name, pattern in patterns.items()}
    return Counter({name: count for name, count in counts.items() if count})


@dataclass(slots=True)
class Paragraph:
    """Lines of one paragraph with their numbers."""

    lines: list[tuple[int, str]] = field(default_factory=list)
    block: bool = False


def sentences_of_python(text: str, path: str = "") -> list[Sentence]:
    """Return the sentences of the comments, docstrings, test names and mutants of a module; any string statement is a docstring."""
    return [sentence for paragraph in _python_paragraphs(text) for sentence in _sentences(paragraph, path)]


def sentences_of_markdown(text: str, path: str = "") -> list[Sentence]:
    """Return the sentences of a document: paragraphs, headings, list items and table cells, without fenced blocks and HTML comments."""
    return [sentence for paragraph in _markdown_paragraphs(text) for sentence in _sentences(paragraph, path)]


def _python_paragraphs(text: str) -> Iterator[Paragraph]:
    comment = Paragraph()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT and not _DIRECTIVE.match(token.string):
            line, own_line = token.start[0], not token.line[: token.start[1]].strip()
            if comment.lines and not (own_line and comment.lines[-1][0] == line - 1):
                yield comment
                comment = Paragraph()
            comment.lines.append((line, token.string.lstrip("#:").strip()))
            if not own_line:
                yield comment
                comment = Paragraph()
    yield comment
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Expr(ast.Constant(str(docstring))):
                yield from _docstring_paragraphs(docstring, node.lineno)
            case ast.FunctionDef(name) | ast.AsyncFunctionDef(name) if name.startswith("test_"):
                yield Paragraph([(node.lineno, name.removeprefix("test_").replace("_", " ").capitalize())])
            case ast.Call(ast.Name("Mutant"), [_, ast.Constant(str(description)), *_]):
                yield Paragraph([(node.lineno, description.capitalize())])


def _docstring_paragraphs(text: str, first: int) -> Iterator[Paragraph]:
    """Leave out doctests, and mark blocks that are indented further than the text around them."""
    lines = text.splitlines()
    margin = min((len(line) - len(line.lstrip()) for line in lines[1:] if line.strip()), default=0)
    paragraph = Paragraph()
    doctest = False
    for number, line in enumerate(lines, start=first):
        body = line[margin:] if number > first else line
        if not body.strip():
            yield paragraph
            paragraph, doctest = Paragraph(), False
            continue
        doctest = doctest or body.lstrip().startswith((">>>", "... "))
        if doctest:
            continue
        if not paragraph.lines:
            paragraph.block = body.startswith("    ")
        if paragraph.lines and (paragraph.block or _ITEM.match(body)):
            yield paragraph
            paragraph = Paragraph(block=paragraph.block)
        paragraph.lines.append((number, _ITEM.sub("", body).strip()))
    yield paragraph


def _markdown_paragraphs(text: str) -> Iterator[Paragraph]:
    paragraph = Paragraph()
    fence, comment = "", False
    for number, line in enumerate(text.splitlines(), start=1):
        body = line.strip()
        if fence or body.startswith(("```", "~~~")):
            fence = "" if fence and body.startswith(fence) else fence or body[:3]
            yield paragraph
            paragraph = Paragraph()
            continue
        if comment or body.startswith("<!--"):
            comment = "-->" not in body
            continue
        if not body or body.startswith(("#", "|")) or _ITEM.match(line):
            yield paragraph
            paragraph = Paragraph()
        if body.startswith("|"):
            yield from (Paragraph([(number, cell.strip())]) for cell in body.strip("|").split("|"))
        elif body.startswith("#"):
            yield Paragraph([(number, body.lstrip("# "))])
        elif body:
            paragraph.lines.append((number, _ITEM.sub("", line).strip().lstrip("> ")))
    yield paragraph


def _sentences(paragraph: Paragraph, path: str) -> Iterator[Sentence]:
    starts, text = [], ""
    for _, line in paragraph.lines:
        starts.append(len(text))
        text += line + " "
    position = 0
    for piece in _SENTENCE_END.split(text):
        begin = text.index(piece, position)
        position = begin + len(piece)
        if shown := plain(piece):
            number = paragraph.lines[bisect.bisect_right(starts, begin) - 1][0]
            yield Sentence(path, number, shown, paragraph.block)


def plain(text: str) -> str:
    """Return a sentence without quoted code, link targets and emphasis."""
    text = _URL.sub("", _LINK_TARGET.sub("]", _QUOTED.sub("`x`", text)))
    return " ".join(text.replace("[", "").replace("]", "").replace("**", "").strip(" *_\"'(").split())


def files(root: Path = ROOT) -> Iterator[Path]:
    """Yield the Python and Markdown files below a folder, links and hidden folders aside, as paths relative to it."""
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(
            name
            for name in folders
            if not name.startswith(".")
            and name not in _SKIPPED
            and not name.endswith(".egg-info")
            and not Path(folder, name).is_symlink()
        )
        yield from (Path(folder, name).relative_to(root) for name in sorted(names) if name.endswith((".py", ".md")))


def room_of(path: Path) -> str | None:
    """Return the room that a file is counted for, if any."""
    if path.suffix == ".md":
        return "docs"
    for room, places in ROOMS.items():
        for place in places:
            if (path.match(place) and len(path.parts) == 2) if "*" in place else path.is_relative_to(place):
                return room
    return None


def paragraphs_of(path: Path, text: str) -> Iterator[Paragraph]:
    """Yield the paragraphs of a file with this text."""
    return _markdown_paragraphs(text) if path.suffix == ".md" else _python_paragraphs(text)


def sentences_of(path: Path, root: Path = ROOT) -> list[Sentence]:
    """Return the sentences of a file below the root."""
    paragraphs = paragraphs_of(path, (root / path).read_text())
    return [sentence for paragraph in paragraphs for sentence in _sentences(paragraph, str(path))]


def tally_of(path: Path, root: Path = ROOT) -> Tally:
    """Return the figures of one file."""
    text = (root / path).read_text()
    paragraphs = list(paragraphs_of(path, text))
    tally = Tally(lines=text.count("\n"))
    tally.upstream = sum(1 for paragraph in paragraphs for _, line in paragraph.lines for _ in UPSTREAM.finditer(line))
    for sentence in (sentence for paragraph in paragraphs for sentence in _sentences(paragraph, str(path))):
        tally.words += sum(1 for _ in _WORD.finditer(sentence.text))
        tally.dialect.update(dialect_of(sentence.text))
        if not sentence.block:
            tally.reconcile += sum(1 for _ in RECONCILE.finditer(sentence.text))
            tally.faults.update(faults_of(sentence.text))
    return tally


def tallies(root: Path = ROOT) -> dict[str, Tally]:
    """Return the figures of each room, in the order of the table."""
    rooms = {room: Tally() for room in (*ROOMS, "docs")}
    for path in files(root):
        if (room := room_of(path)) is not None:
            rooms[room].add(tally_of(path, root))
    return rooms


def summed(rows: Iterable[Tally]) -> Tally:
    """Return the figures of several rooms as one."""
    total = Tally()
    for row in rows:
        total.add(row)
    return total


def table(rooms: Mapping[str, Tally]) -> str:
    """Return the table by room: per 10,000 words, and in brackets the number of places."""
    rows = {
        **{room: rooms[room] for room in PRODUCT},
        "product": summed(rooms[room] for room in PRODUCT),
        **{room: tally for room, tally in rooms.items() if room not in PRODUCT},
        "all": summed(rooms.values()),
    }
    head = ["per 10,000 words", "words", *FAULTS, RATE, "reconcil*", "links/1,000 lines"]
    body = [
        [
            room,
            f"{tally.words:,}",
            *(f"{_rate(tally.faults[name], tally.words):.1f} ({tally.faults[name]})" for name in FAULTS),
            f"{tally.rate:.1f} ({tally.dialect.total()})",
            f"{_rate(tally.reconcile, tally.words):.1f}",
            f"{_rate(tally.upstream, tally.lines) / 10:.2f}",
        ]
        for room, tally in rows.items()
    ]
    widths = [max(len(line[column]) for line in (head, *body)) for column in range(len(head))]
    return "\n".join(
        "  ".join(
            [line[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True))]
        )
        for line in (head, *body)
    )


def _rate(count: int, words: int) -> float:
    return 10_000 * count / words if words else 0.0


Figures = Mapping[str, Mapping[str, int]]
"""The number of places by room and fault, and the rate of the dialect."""


def figures_of(rooms: Mapping[str, Tally]) -> Figures:
    """Return the committed part of the counts."""
    return {
        room: {**{name: tally.faults[name] for name in FAULTS}, RATE: math.ceil(tally.rate)}
        for room, tally in rooms.items()
    }


def grown(committed: Figures, present: Figures) -> list[str]:
    """Describe each count that is above the committed count, and each rate above its limit."""
    return [
        f"{room}: {name!r} grew from {committed.get(room, {}).get(name, 0)} to {count}; "
        f"reword, or see the places with: python tools/prose.py --list {name.replace(' ', '-')} {_places(room)}"
        for room, counts in present.items()
        for name, count in counts.items()
        if count > (_limit(committed, room) if name == RATE else committed.get(room, {}).get(name, 0))
    ]


def raised(committed: Figures, present: Figures) -> list[str]:
    """Describe each fault with more places in all than in the committed figures, and each rate above its limit."""
    totals = {name: sum(row[name] for row in present.values()) for name in FAULTS}
    before = {name: sum(row.get(name, 0) for row in committed.values()) for name in FAULTS}
    return [
        *(f"{name!r}: {totals[name]} places, {before[name]} before" for name in FAULTS if totals[name] > before[name]),
        *(
            f"{room}: {RATE} {row[RATE]}, at most {_limit(committed, room):g}"
            for room, row in present.items()
            if row[RATE] > _limit(committed, room)
        ),
    ]


def _limit(committed: Figures, room: str) -> float:
    """Return the limit of a room's rate; a room without committed figures has none yet."""
    return committed.get(room, {}).get(RATE, math.inf)


def _places(room: str) -> str:
    return " ".join(ROOMS.get(room, (".",)))


def _listed(name: str, paths: Sequence[str], root: Path) -> Iterator[str]:
    for path in files(root):
        if room_of(path) is None or not any(path.is_relative_to(place) or path.match(place) for place in paths):
            continue
        for sentence in sorted(sentences_of(path, root), key=lambda sentence: sentence.line):
            words = dialect_of(sentence.text)
            if name in words or (name == RATE and words) or (not sentence.block and name in faults_of(sentence.text)):
                yield f"{sentence.path}:{sentence.line}: {sentence.text}"


def main(arguments: Sequence[str], root: Path = ROOT) -> int:
    """Print the table or the places, or compare or write the figures; return the exit code."""
    parser = argparse.ArgumentParser(prog="tools/prose.py", description=(__doc__ or "").splitlines()[0])
    verbs = parser.add_mutually_exclusive_group()
    names = [name.replace(" ", "-") for name in (*FAULTS, *DIALECT, RATE)]
    verbs.add_argument("--list", metavar="FAULT", choices=names, help=f"print each place of one of: {', '.join(names)}")
    verbs.add_argument("--check", action="store_true", help="fail if a count or a rate grew")
    verbs.add_argument("--write", action="store_true", help="commit to the present counts and rates")
    parser.add_argument("paths", nargs="*", default=["."], help="files and folders for --list, relative to the root")
    chosen = parser.parse_args(arguments)
    if chosen.list:
        for line in _listed(chosen.list.replace("-", " "), chosen.paths, root):
            print(line)
        return 0
    rooms = tallies(root)
    if not (chosen.check or chosen.write):
        print(table(rooms))
        return 0
    file = root / FIGURES
    committed: Figures = json.loads(file.read_text()) if file.exists() else {}
    figures = figures_of(rooms)
    wrong = grown(committed, figures) if chosen.check else raised(committed, figures) if committed else []
    for line in wrong:
        print(line, file=sys.stderr)
    if chosen.write and not wrong:
        file.write_text(json.dumps(figures, indent=1) + "\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
