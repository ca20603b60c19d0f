"""Words in our interfaces are written once: condition types, reasons, labels, annotations, log keys.

The check reads calls, not prose: if the runtime or a family names a condition, a reason or an event, the argument is a
constant of a `words.py`, never a literal; a label or annotation that a `words.py` declares is written nowhere else; log lines have a
constant message and keys that are declared.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.meta.conftest import Source, Tree

SPOKEN: dict[str, dict[int, str]] = {
    "set_condition": {0: "type", 2: "reason"},
    "ConditionUpdate": {0: "type", 2: "reason"},
    "remove_condition": {0: "type"},
    "event": {0: "reason"},
    "condition": {0: "type"},
    "find_condition": {0: "type"},
    "is_true": {0: "type"},
    "is_false": {0: "type"},
    "invalid_as": {0: "type", 1: "reason"},
    "finalizer": {0: "name"},
}
"""Call to the positions (and keywords) at which it takes a word."""

SPEAKERS = ("konverge.runtime", "konverge.reconcilers")

LOG_METHODS = frozenset({"debug", "info", "warning", "error", "critical", "exception"})
LOG_OPTIONS = frozenset({"exc_info", "stack_info"})


def called(call: ast.Call) -> str:
    """The last name in a call: `mark` for `ctx.status.set_condition(...)`."""
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def literals(call: ast.Call) -> Iterator[str]:
    """The literals in a call that should be constants of the vocabulary."""
    places = SPOKEN.get(called(call), {})
    for position, argument in enumerate(call.args):
        if position in places and isinstance(argument, ast.Constant | ast.JoinedStr):
            yield ast.unparse(argument)
    for keyword in call.keywords:
        if keyword.arg in places.values() and isinstance(keyword.value, ast.Constant | ast.JoinedStr):
            yield ast.unparse(keyword.value)


def calls(source: Source) -> Iterator[ast.Call]:
    return (node for node in ast.walk(source.tree) if isinstance(node, ast.Call))


def speaks(source: Source) -> bool:
    return any(source.module == room or source.module.startswith(f"{room}.") for room in SPEAKERS)


def is_words(source: Source) -> bool:
    return source.path.name == "words.py"


def texts(body: list[ast.stmt]) -> list[str]:
    """The texts that a block assigns to names, in order."""
    return [
        statement.value.value
        for statement in body
        if isinstance(statement, ast.Assign | ast.AnnAssign)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    ]


def vocabularies(source: Source) -> dict[str, list[str]]:
    """The texts of a words.py by class; texts outside of any class have the empty name."""
    classes = [node for node in source.tree.body if isinstance(node, ast.ClassDef)]
    return {"": texts(source.tree.body), **{node.name: texts(node.body) for node in classes}}


def docstrings(source: Source) -> set[int]:
    """The identities of the nodes that are docstrings: prose may name any word."""
    return {
        id(node.value)
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }


def is_log_call(call: ast.Call) -> bool:
    """`log.info(...)`, `self._log.warning(...)`, `ctx.log.bind(...).error(...)`."""
    if not isinstance(call.func, ast.Attribute) or call.func.attr not in LOG_METHODS:
        return False
    receiver = call.func.value
    while isinstance(receiver, ast.Call) and isinstance(receiver.func, ast.Attribute):
        receiver = receiver.func.value
    name = receiver.attr if isinstance(receiver, ast.Attribute) else getattr(receiver, "id", "")
    return name.lower().strip("_") in {"log", "logger"}


def test_no_condition_reason_or_event_is_a_literal(tree: Tree) -> None:
    strays = [
        f"{source.where}:{call.lineno}: {called(call)}({word})"
        for source in tree.sources
        if speaks(source) and not is_words(source)
        for call in calls(source)
        for word in literals(call)
    ]
    assert not strays, "\n".join(("name a constant of words.py", *strays))


def test_the_check_for_literals_sees_arguments_and_keywords() -> None:
    seen = [
        word
        for text in (
            "s.set_condition('Ready', True, 'Done', 'words')",
            "ConditionUpdate(type=f'{x}', reason=Reason.DONE)",
            "other('Ready')",
        )
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call)
        for word in literals(node)
    ]
    assert seen == ["'Ready'", "'Done'", "f'{x}'"]


def test_labels_annotations_and_finalizers_are_written_in_words_only(tree: Tree) -> None:
    strays = []
    for words in filter(is_words, tree.sources):
        said = (word for spoken in vocabularies(words).values() for word in spoken)
        declared = {word for word in said if "/" in word and " " not in word}
        room = words.module.rpartition(".")[0]
        for source in tree.sources:
            if is_words(source) or not source.module.startswith(room):
                continue
            prose = docstrings(source)
            strays += [
                f"{source.where}:{node.lineno}: {node.value}"
                for node in ast.walk(source.tree)
                if isinstance(node, ast.Constant) and node.value in declared and id(node) not in prose
            ]
    assert not strays, "\n".join(strays)


def test_no_word_is_declared_twice_in_one_vocabulary(tree: Tree) -> None:
    doubles = [
        f"{source.where}: {name} {word}"
        for source in filter(is_words, tree.sources)
        for name, said in vocabularies(source).items()
        for word in set(said)
        if said.count(word) > 1
    ]
    assert not doubles, "\n".join(doubles)


def test_log_lines_have_a_constant_message_and_declared_keys(tree: Tree) -> None:
    vocabulary = {key for source in filter(is_words, tree.sources) for key in vocabularies(source).get("LogKey", [])}
    declared = vocabulary | LOG_OPTIONS
    strays = []
    for source in tree.sources:
        for call in filter(is_log_call, calls(source)):
            where = f"{source.where}:{call.lineno}"
            if not call.args or not isinstance(call.args[0], ast.Constant):
                strays.append(f"{where}: the message is not constant")
            strays += [f"{where}: key {k.arg}" for k in call.keywords if k.arg is not None and k.arg not in declared]
    assert not strays, "\n".join(("log keys are declared in LogKey of a words.py", *strays))
