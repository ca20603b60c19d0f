"""Classes -> the text of a module, formatted as ruff does with lines of 88 characters.

Guarantees: pure. A class follows the classes of its fields, unless they are recursive. Descriptions are cut to their first sentence.
The comment at the beginning is the command that writes the file again; `command_in` reads it.
"""

from __future__ import annotations

import re
import shlex
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from itertools import takewhile

from konverge.crds.foreign.collecting import Classes, ModelKey, Node, collected
from konverge.crds.foreign.documents import ForeignKind
from konverge.crds.foreign.fields import ModelField, fields_of, quoted
from konverge.crds.foreign.naming import constant_name
from konverge.crds.foreign.schemas import resolved
from konverge.crds.foreign.selection import field_paths
from konverge.kinds import kind

__all__ = ["command_in", "generated"]

_WIDTH = 88
_COMMAND = "konverge models"
_NOTE = "# Written by this command. With --check it compares the file with the API."
_SENTENCE = re.compile(r"(?<!e\.g)(?<!i\.e)(?<!etc)\.\s+(?=[A-Z`\[*-])")
_LONGEST = 200
_LISTED = 2
_IMPORTED = re.compile(r"\b(?:Annotated|Any|AwareDatetime|Field|Literal)\b")
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]|]|[^"\[\]|]+')
_VALUE = re.compile(r'"(?:[^"\\]|\\.)*"')


def generated(kinds: Sequence[ForeignKind], fields: Sequence[str] = (), command: Sequence[str] = ()) -> str:
    """Return the module of kinds with the selected fields; `command` are the arguments that write it again.

    Raises UsageError for a path of a field that no kind has, and for a malformed name of a kind.
    """
    for each in kinds:
        kind(each.api_version, each.kind)
    classes = collected(kinds, field_paths(fields, {each.kind for each in kinds}))
    names, parts = set[str](), list[str]()
    for key in _in_order(classes):
        node, members = classes.nodes[key], fields_of(classes, key)
        names |= {"PartialResource" if node.is_root else "PartialModel", *_names_in(members)}
        parts.append("\n".join(_class_lines(node, members)))
        if node.is_root:
            parts.append(_constant(node))
    head = [
        *_comment(command),
        f'"""Typed models of {_listed(kinds)}."""',
        "",
        "from __future__ import annotations",
        "",
    ]
    return "\n".join([*head, *_imports(names), "", ""]) + "\n" + "\n\n\n".join(parts) + "\n"


def command_in(text: str) -> list[str] | None:
    """Return the arguments of the command that wrote a module, None if no command did."""
    _, note, rest = text.partition(f"{_NOTE}\n")
    if not note:
        return None
    comment = takewhile(lambda line: line.startswith("#"), rest.splitlines())
    return shlex.split(" ".join(line.removeprefix("#").removesuffix("\\") for line in comment))[2:]


def _comment(command: Sequence[str]) -> Iterator[str]:
    """Write the command in lines that end between its arguments, and never between an option and its value."""
    yield _NOTE
    lines, words = [_COMMAND], iter(command)
    for word in words:
        part = f"{word} {shlex.quote(next(words, ''))}" if word.startswith("--") else shlex.quote(word)
        if len(lines[-1]) + len(part) > _WIDTH - 6:
            lines.append(f"    {part}")
        else:
            lines[-1] += f" {part}"
    yield from (f"# {line}" + (" \\" if number < len(lines) else "") for number, line in enumerate(lines, 1))


def _listed(kinds: Sequence[ForeignKind]) -> str:
    """Return the names of kinds for the first line of a module, or the number of kinds if they are many."""
    *others, last = [f"{each.api_version} {each.kind}" for each in kinds]
    if len(others) > _LISTED:
        return f"{len(kinds)} kinds"
    return f"{', '.join(others)} and {last}" if others else last


def _names_in(fields: Iterable[ModelField]) -> Iterator[str]:
    """Yield the imported names in the annotations and defaults of fields."""
    for field in fields:
        source = _VALUE.sub("", " ".join([*field.members, field.default]))
        yield from _IMPORTED.findall(source)
        yield from ("Annotated", "Field") if field.alias else ()


def _imports(names: set[str]) -> Iterator[str]:
    for module, of_module in (
        ("typing", ("Annotated", "Any", "Literal")),
        ("", ()),
        ("konverge.crds", ("PartialModel", "PartialResource")),
        ("pydantic", ("AwareDatetime", "Field")),
    ):
        chosen = [name for name in of_module if name in names]
        if not module:
            if names & {"Annotated", "Any", "Literal"}:
                yield ""
            yield "import konverge as kv"
        elif chosen:
            yield f"from {module} import {', '.join(chosen)}"


def _in_order(classes: Classes) -> list[ModelKey]:
    """Return the keys so that a class follows the classes of its fields."""
    order: dict[ModelKey, None] = {}
    seen = set[ModelKey]()

    def visit(key: ModelKey) -> None:
        if key in seen:
            return
        seen.add(key)
        node = classes.nodes[key]
        for name, schema in node.properties():
            for below in classes.models_in(schema, (*key, name), node.kind):
                visit(below)
        order[key] = None

    for root in classes.roots:
        visit(root)
    return list(order)


def _class_lines(node: Node, fields: Sequence[ModelField]) -> Iterator[str]:
    base = "PartialResource" if node.is_root else "PartialModel"
    yield f"class {node.name}({base}):"
    _, schema = resolved(node.schema, node.kind.definitions)
    docstring = list(_docstring(schema.get("description", "")))
    yield from docstring
    if docstring and fields:
        yield ""
    for field in fields:
        yield from _field_lines(field)
        yield from _docstring(field.description)
    if not docstring and not fields:
        yield "    pass"


def _field_lines(field: ModelField) -> Iterator[str]:
    union, default = " | ".join(field.members), f" = {field.default}" if field.default else ""
    alias = f"Field(alias={quoted(field.alias)})" if field.alias else ""
    line = f"    {field.name}: {f'Annotated[{union}, {alias}]' if alias else union}{default}"
    call = re.fullmatch(r" = Field\((.*)\)", default)
    if len(line) <= _WIDTH:
        yield line
    elif alias:
        yield f"    {field.name}: Annotated["
        yield from _union_lines(field.members, "        ", end=",")
        yield f"        {alias},"
        yield f"    ]{default}"
    elif call and len(f"    {field.name}: {union} = Field(") <= _WIDTH:
        yield f"    {field.name}: {union} = Field("
        yield f"        {call[1]}"
        yield "    )"
    elif default and len(f"    {field.name}: {union} = (") <= _WIDTH:
        yield f"    {field.name}: {union} = ("
        yield f"        {field.default}"
        yield "    )"
    else:
        yield f"    {field.name}: ("
        yield from _union_lines(field.members, "        ")
        yield f"    ){default}"


def _union_lines(members: Sequence[str], indent: str, end: str = "") -> Iterator[str]:
    """Write a union in one line if it fits, else each member in a line, and the inside of long members in lines of its own."""
    line = f"{indent}{' | '.join(members)}{end}"
    if len(line) <= _WIDTH:
        yield line
        return
    for number, member in enumerate(members):
        start = indent + ("| " if number else "")
        last = end if number == len(members) - 1 else ""
        name, bracket, inside = member.removesuffix("]").partition("[")
        if len(f"{start}{member}{last}") <= _WIDTH or not bracket:
            yield f"{start}{member}{last}"
            continue
        yield f"{start}{name}["
        if name == "Literal":
            yield from (f"{indent}    {value}," for value in _VALUE.findall(inside))
        elif name == "dict":
            yield f"{indent}    str,"
            yield from _union_lines(_members_in(inside.removeprefix("str, ")), f"{indent}    ", end=",")
        else:
            yield from _union_lines(_members_in(inside), f"{indent}    ")
        yield f"{indent}]{last}"


def _members_in(union: str) -> list[str]:
    """Return the members of a union, whose brackets and texts may hold bars.

    >>> _members_in('list[int | str] | Literal["a | b"] | None')
    ['list[int | str]', 'Literal["a | b"]', 'None']
    """
    members, depth = [""], 0
    for part in _TOKEN.findall(union):
        depth += (part == "[") - (part == "]")
        if part == "|" and depth == 0:
            members.append("")
        else:
            members[-1] += part
    return [member.strip() for member in members]


def _constant(node: Node) -> str:
    foreign = node.kind
    arguments = [quoted(foreign.api_version), quoted(foreign.kind), f"model={node.name}"]
    if foreign.namespaced is not None and foreign.plural is not None:
        arguments += [f"namespaced={foreign.namespaced}", f"plural={quoted(foreign.plural)}"]
    name = constant_name(node.name)
    line = f"{name} = kv.kind({', '.join(arguments)})"
    if len(line) <= _WIDTH:
        return line
    return "\n".join([f"{name} = kv.kind(", *(f"    {argument}," for argument in arguments), ")"])


def _docstring(description: str) -> Iterator[str]:
    """Write the first sentence of a description as a docstring."""
    text = "".join(character for character in " ".join(description.split()) if character.isprintable())
    match = _SENTENCE.search(text)
    text = (text[: match.start()] if match else text).rstrip(".:")
    if not text:
        return
    text = f"{textwrap.shorten(text, _LONGEST, placeholder=' ...')}."
    text = text.replace("\\", "\\\\").replace('"""', "'''")
    if len(text) + 10 <= _WIDTH:
        yield f'    """{text}"""'
        return
    first, *rest = textwrap.wrap(text, _WIDTH - 7, break_long_words=False, break_on_hyphens=False)
    yield f'    """{first}'
    yield from (f"    {line}" for line in rest)
    yield '    """'
