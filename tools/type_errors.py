"""Check programs as users write them, right and wrong, with strict pyright and mypy; `make lint` runs it.

The right programs are the includes of `[tool.pyright]` in pyproject.toml: the examples, the README's test and tests/typing. The wrong
programs are in tests/typing/wrong.py, where a comment on each line with a mistake lists the expected errors:

    BACKUPS.with_(concurency=3)  # error: mypy[call-arg] pyright[reportCallIssue]

Exits with 1 if a checker reports anything else, or does not report what is expected. mypy reads its cache, so it is quick after a run over
the tree. pyright brings its own node (the extra `dev`); without it the check reports that and runs only mypy.
"""

import importlib.util
import json
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WRONG = "tests/typing/wrong.py"

Errors = Mapping[tuple[str, int], frozenset[str]]
"""The codes of the errors by file and line."""

_EXPECTED = re.compile(r"# error: (?P<checkers>(?:\w+\[[\w,-]+\] ?)+)$")
_CHECKER = re.compile(r"(\w+)\[([\w,-]+)\]")
_MYPY = re.compile(r"^(?P<file>[^:]+):(?P<line>\d+): error: (?P<message>.*?)(?:  \[(?P<code>[\w-]+)\])?$")


def expected(text: str, checker: str, file: str = WRONG) -> Errors:
    """Return the errors that the comments of a program announce for one checker."""
    result: dict[tuple[str, int], frozenset[str]] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if announced := _EXPECTED.search(line):
            codes = dict(_CHECKER.findall(announced["checkers"])).get(checker, "")
            if codes:
                result[file, number] = frozenset(codes.split(","))
    return result


def of_mypy(output: str) -> Errors:
    """Return the errors in the output of mypy."""
    lines = (_MYPY.match(line) for line in output.splitlines())
    return _gathered((line["file"], int(line["line"]), line["code"] or line["message"]) for line in lines if line)


def of_pyright(output: str, root: Path = ROOT) -> Errors:
    """Return the errors in the JSON output of pyright."""
    reported = [
        general_diagnostic
        for general_diagnostic in json.loads(output)["generalDiagnostics"]
        if general_diagnostic["severity"] == "error"
    ]
    return _gathered(
        (
            Path(item["file"]).relative_to(root).as_posix(),
            item["range"]["start"]["line"] + 1,
            item.get("rule") or item["message"],
        )
        for item in reported
    )


def _gathered(errors: Iterable[tuple[str, int, str]]) -> Errors:
    result: dict[tuple[str, int], frozenset[str]] = {}
    for file, line, code in errors:
        result[file, line] = result.get((file, line), frozenset()) | {code}
    return result


def differences(checker: str, wanted: Errors, reported: Errors) -> list[str]:
    """Describe each line where a checker's report differs from the expected errors."""
    return [
        f"{file}:{line}: {checker} reports {_words(reported.get((file, line)))}, expected {_words(wanted.get((file, line)))}"
        for file, line in sorted({*wanted, *reported})
        if wanted.get((file, line)) != reported.get((file, line))
    ]


def _words(codes: frozenset[str] | None) -> str:
    return ", ".join(sorted(codes)) if codes else "nothing"


def main() -> int:
    """Run both checkers; return the exit code."""
    text = (ROOT / WRONG).read_text()
    output = _run("mypy", WRONG)
    result = differences("mypy", expected(text, "mypy"), of_mypy(output))
    if importlib.util.find_spec("pyright") is None:
        print("pyright is not installed, so only mypy was asked; make venv installs it (extra dev)", file=sys.stderr)
    else:
        output = _run("pyright", "--outputjson")
        try:
            reported = of_pyright(output)
        except ValueError:
            result.append(f"pyright did not run: {output.strip()[:500]}")
        else:
            result += differences("pyright", expected(text, "pyright"), reported)
    for line in result:
        print(line, file=sys.stderr)
    return 1 if result else 0


def _run(module: str, *arguments: str) -> str:
    ran = subprocess.run(
        [sys.executable, "-m", module, *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return ran.stdout or ran.stderr


if __name__ == "__main__":
    sys.exit(main())
