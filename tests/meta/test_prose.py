"""The counter of habits of language: which sentences it counts, and when it fails."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import prose
import pytest

if TYPE_CHECKING:
    from collections.abc import Mapping


@pytest.mark.parametrize(
    ("sentence", "faults"),
    [
        ("Nobody reads it.", {"who": 1}),
        ("Whoever writes it and somebody else, a stranger.", {"who": 3}),
        ("A strange name.", {}),
        ("What a pass concludes.", {"what": 1, "pass": 1}),
        ("What does it do?", {}),
        ("It says what it does.", {}),
        ("Whatever the server answers is kept.", {}),
        ("Return the key, None where there is none.", {"where": 1}),
        ("The object, or None where it is gone.", {"where": 1}),
        ("The folder where the programs are.", {}),
        ("Where nothing changed, nothing is written.", {"where": 1}),
        ("The text is no quantity.", {"is no": 1}),
        ("The controller is no longer the leader.", {}),
        ("An age is no less than zero.", {}),
        ("The handler is told of a change.", {"is told": 1}),
        ("Two pools are told apart by their names.", {}),
        ("One pass of one object.", {"pass": 1}),
        ("Taken back by the last passes of the key.", {"pass": 1}),
        ("The pass's outcome.", {"pass": 1}),
        ("The test passes on both servers.", {}),
        ("They pass it on to the queue.", {}),
        ("The reconcile loop passes the key to the queue.", {}),
        ("Return the requests for an object.", {}),
    ],
)
def test_each_fault_of_language_is_found_in_a_sentence_that_has_it(sentence: str, faults: Mapping[str, int]) -> None:
    assert prose.faults_of(sentence) == faults


@pytest.mark.parametrize(
    ("sentence", "words"),
    [
        ("One that is deleted, or another one.", {"one": 2}),
        ("One entry of a key.", {}),
        ("The version is that of the copy.", {"that of": 1}),
        ("That is true of the copy.", {}),
        ("The status says why, and the server said no.", {"says": 2}),
        ("The lease tells which replica leads.", {"tells": 1}),
        ("The API server is asked again.", {"asks": 1}),
        ("A request is answered with 409.", {"answers": 1}),
        ("It is made anew.", {"is made": 1, "anew": 1}),
        ("The chart makes a Role.", {"is made": 1}),
        ("The object is gone.", {"is gone": 1}),
        ("An entry that was added meanwhile.", {"anew": 1}),
        ("The time at which it ends.", {"of which": 1}),
        ("The event comes late, and the process stands by.", {"comes": 2}),
        ("A stand-in plays Flux.", {}),
        ("The time has come.", {"turn": 1, "comes": 1}),
        ("Only the metadata alone is cached.", {"alone": 1}),
        ("It looks at the bytes.", {"looks at": 1}),
        ("The cached copy's resourceVersion, repeated by its noun.", {}),
    ],
)
def test_each_word_of_the_dialect_is_found(sentence: str, words: Mapping[str, int]) -> None:
    assert prose.dialect_of(sentence) == words


def test_indented_blocks_are_read_for_the_dialect_and_doctests_never() -> None:
    module = '''"""A table.

    client    the room that answers
    errors    one that is gone

>>> asked
'answered'
"""
'''
    sentences = [(sentence.text, sentence.block) for sentence in prose.sentences_of_python(module)]
    assert sentences == [("A table.", False), ("client the room that answers", True), ("errors one that is gone", True)]


def test_comments_docstrings_and_bare_strings_are_read_and_code_is_not() -> None:
    module = '''"""First sentence.  Second one
goes on.

    >>> code.is_not_read()

    code = "neither"
"""
x = "a string is not"  # a comment beside code
"""Of an attribute."""

# A comment over
# two lines. And more.
# pragma: no cover
'''
    sentences = sorted(
        (sentence.line, sentence.text) for sentence in prose.sentences_of_python(module) if not sentence.block
    )
    assert sentences == [
        (1, "First sentence."),
        (1, "Second one goes on."),
        (8, "a comment beside code"),
        (9, "Of an attribute."),
        (11, "A comment over two lines."),
        (12, "And more."),
    ]


def test_headings_items_and_cells_are_sentences_and_fenced_code_is_not() -> None:
    document = """# A heading
A paragraph with `what code` and
a [link](https://host/what). Another **one**.

- item one
  goes on
- item two

| a cell | another |
|---|---|

```python
nobody = 1
```
<!-- a comment
of nobody -->
"""
    assert [(sentence.line, sentence.text) for sentence in prose.sentences_of_markdown(document)] == [
        (1, "A heading"),
        (2, "A paragraph with `x` and a link."),
        (3, "Another one."),
        (5, "item one goes on"),
        (7, "item two"),
        (9, "a cell"),
        (9, "another"),
        (10, "---"),
        (10, "---"),
    ]


@pytest.mark.parametrize(
    ("text", "references"),
    [
        ("https://github.com/kubernetes/kubernetes/issues/132805", 1),
        ("kubernetes/kubernetes#132805 and KEP-5647", 2),
        ("https://example.org/x, https://127.0.0.1:6443, http://localhost, https://hooks.team.svc/x", 0),
    ],
)
def test_reference_is_a_link_an_issue_or_a_kep_to_follow(text: str, references: int) -> None:
    assert len(prose.UPSTREAM.findall(text)) == references


@pytest.mark.parametrize(
    ("path", "room"),
    [
        ("konverge/keys.py", "ground floor"),
        ("konverge/runtime/manager/run.py", "runtime"),
        ("testkit/konverge_testing/lab/plans.py", "testing kit"),
        ("cmd/konverged/main.py", "daemon"),
        ("tests/bench/README.md", "docs"),
        ("setup.py", None),
    ],
)
def test_every_file_is_counted_for_one_room(path: str, room: str | None) -> None:
    assert prose.room_of(Path(path)) == room


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name, text in {"docs/a.md": "Nobody. Nobody.", "crds/a.py": '"""Nobody."""', "tools/x.py": ""}.items():
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text(text)
    assert prose.main(["--write"], tmp_path) == 0
    return tmp_path


def test_the_check_fails_only_if_a_count_of_a_room_grows(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert prose.main(["--check"], root) == 0
    (root / "docs" / "a.md").write_text("Nobody.")
    assert prose.main(["--check"], root) == 0
    (root / "crds" / "a.py").write_text('"""Nobody. Nobody."""')
    assert prose.main(["--check"], root) == 1
    assert "crds: 'who' grew from 1 to 2; reword" in capsys.readouterr().err


def test_writing_takes_a_move_between_rooms_and_refuses_a_larger_total(root: Path) -> None:
    (root / "docs" / "a.md").write_text("Nobody.")
    (root / "crds" / "a.py").write_text('"""Nobody. Nobody."""')
    assert prose.main(["--write"], root) == 0
    written = json.loads((root / prose.FIGURES).read_text())
    assert (written["docs"]["who"], written["crds"]["who"]) == (1, 2)
    (root / "docs" / "a.md").write_text("Nobody. Nobody.")
    assert prose.main(["--write"], root) == 1
    assert json.loads((root / prose.FIGURES).read_text()) == written


def test_rate_above_the_room_limit_fails_the_check_and_stays_unwritten(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written = json.loads((root / prose.FIGURES).read_text())
    assert written["tools"][prose.RATE] == 0
    (root / "tools" / "x.py").write_text(f'"""One that is gone.{" Word." * 996}"""')
    assert prose.main(["--check"], root) == 1
    assert "tools: 'dialect' grew from 0 to 20; reword" in capsys.readouterr().err
    assert prose.main(["--write"], root) == 1
    assert "tools: dialect 20, at most 0" in capsys.readouterr().err
    assert json.loads((root / prose.FIGURES).read_text()) == written


def test_a_room_without_a_limit_gets_its_present_rate_rounded_up(root: Path) -> None:
    written = json.loads((root / prose.FIGURES).read_text())
    del written["tools"][prose.RATE]
    (root / prose.FIGURES).write_text(json.dumps(written))
    (root / "tools" / "x.py").write_text(f'"""One that is gone.{" Word." * 2995}"""')
    assert prose.main(["--check"], root) == 0
    assert prose.main(["--write"], root) == 0
    assert json.loads((root / prose.FIGURES).read_text())["tools"][prose.RATE] == 7
    (root / "tools" / "x.py").write_text(f'"""One that is gone.{" Word." * 4996}"""')
    assert prose.main(["--write"], root) == 0
    assert json.loads((root / prose.FIGURES).read_text())["tools"][prose.RATE] == 4


def test_the_places_of_a_fault_are_listed_with_file_and_line(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert prose.main(["--list", "who", "crds"], root) == 0
    assert capsys.readouterr().out == "crds/a.py:1: Nobody.\n"
    (root / "crds" / "a.py").write_text('"""One that waits.\n\n    a block    that says so\n"""')
    assert prose.main(["--list", "dialect", "crds"], root) == 0
    assert prose.main(["--list", "one", "crds"], root) == 0
    assert capsys.readouterr().out.splitlines() == [
        "crds/a.py:1: One that waits.",
        "crds/a.py:3: a block that says so",
        "crds/a.py:1: One that waits.",
    ]


def test_table_has_a_row_for_each_room_the_product_and_all(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert prose.main([], root) == 0
    rows = {line[:12].strip(): line.split()[1:] for line in capsys.readouterr().out.splitlines()[1:]}
    assert rows["crds"] == rows["product"]
    assert "10000.0" in rows["crds"]
    assert list(rows)[-2:] == ["docs", "all"]


def test_names_of_tests_and_descriptions_of_mutants_are_read_as_sentences() -> None:
    text = 'def test_what_somebody_wrote_is_kept() -> None: ...\n\n\nMutant("name", "a pass visits nobody", "module")\n'
    faults = [prose.faults_of(sentence.text) for sentence in prose.sentences_of_python(text)]
    assert faults == [{"who": 1, "what": 1}, {"who": 1, "pass": 1}]
