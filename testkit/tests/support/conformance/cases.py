"""Conformance cases as data: kinds, steps, cases, the matrix of cells that they fill, and how the files are read.

A file of cases is a list of `{case, cell(s), steps}`. A step is a line, or a mapping whose first key is the line and whose value is the
body:

    - GET cm/a?resourceVersion=0
    - PUT cm/a: {data: {k: w}}
      is: 409

Line: a method and a target. Methods: GET, POST, PUT, DELETE; JSON, MERGE, STRATEGIC, APPLY (PATCH with that content type); WATCH. Target:
`kind[@namespace][/name[/subresource]][?query]`, where `kind` is a key of `KINDS`, no `@` means the case's own namespace and a bare `@` all
namespaces; or a path that begins with `/`. Texts may hold `$ns`, `$hook`, `$ca` (see `webhook.py`) and `$(name.uid)`, `$(name.rv)`,
`$(name.some.path)`: of the newest response with that name (or `save`).

`HOOKS mutating` and `HOOKS validating` configure webhooks, `SEEN name` reads what a webhook received (see `hooks`).

Guarantees: pure. Options of a step are `Step`'s fields.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from yaml_files import load_yaml

CASES: Final = Path(__file__).parents[2] / "conformance" / "cases"

VERBS: Final = (
    "create",
    "get",
    "list",
    "watch",
    "update",
    "json",
    "merge",
    "strategic",
    "apply",
    "delete",
    "deletecollection",
)
"""The rows of the matrix; patches by their type."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of resource, and an example of it for the generic cases."""

    alias: str
    api: str
    plural: str
    kind: str
    namespaced: bool = True
    body: Mapping[str, Any] = field(default_factory=dict)
    change: Mapping[str, Any] = field(default_factory=dict)
    """A merge patch that changes something."""
    status: Mapping[str, Any] = field(default_factory=dict)
    """A valid status; {} without the subresource."""
    scale: bool = False
    custom: bool = False
    generic: bool = True
    """Whether the cases for every kind are made for this one."""
    verbs: tuple[str, ...] = VERBS

    @property
    def root(self) -> str:
        """The path of the group and version."""
        return f"/apis/{self.api}" if "/" in self.api else f"/api/{self.api}"


def _kinds() -> dict[str, Kind]:
    document = load_yaml(CASES.parent / "kinds.yaml")
    return {
        alias: Kind(alias, **{**fields, "verbs": tuple(fields.get("verbs", VERBS))})
        for alias, fields in document.items()
    }


KINDS: Final = _kinds()


@dataclass(frozen=True, slots=True)
class Step:
    """One request or watch, and which parts of its response are compared."""

    line: str
    body: Any = None
    status: tuple[int, ...] = ()
    """The status codes that both must respond with; () is any 2xx."""
    any: bool = False
    """Whether the code is not stated here."""
    accept: str = ""
    type: str = ""
    user: str = ""
    groups: tuple[str, ...] = ()
    save: str = ""
    bare: bool = False
    """Whether the body is sent as it is: no kind, apiVersion and name are filled in. A text is sent as such in any case."""
    until: Any = None
    """Ask again until this holds: a status code, or `{path: value}`."""
    ignore: tuple[str, ...] = ()
    """Paths of the body that do not count."""
    only: tuple[str, ...] = ()
    """Paths of the body that count alone."""
    sort: bool = False
    """Whether the order of items, or of the causes of a refusal, does not count."""
    plain: bool = False
    """Whether descriptions do not count, at any depth."""
    during: tuple[Step, ...] = ()
    """WATCH: what is done once the stream is open."""
    lines: int = 0
    """WATCH: end after so many."""
    to: str = ""
    """WATCH: end after the line of the object of this name, or of this event type."""
    seconds: float = 0.0
    """WATCH: end after this time if nothing else ended it."""


@dataclass(frozen=True, slots=True)
class Case:
    """Some steps in a namespace, and the cells `verb kind feature` of the matrix that they fill."""

    name: str
    cells: tuple[str, ...]
    steps: tuple[Step, ...]
    area: str = ""
    pods: bool = False
    """Whether the namespace's default ServiceAccount has to be there first."""
    alone: bool = False
    """Whether it changes what other cases see, and runs after them."""


_OPTIONS: Final = {"is": "status", "as": "user"}


def step_of(given: Any) -> Step:
    """Read a step."""
    if isinstance(given, Step):
        return given
    if isinstance(given, str):
        return Step(given)
    rest = dict(given)
    line = next(iter(rest))
    options: dict[str, Any] = {"body": rest.pop(line)}
    for key, value in rest.items():
        name = str(_OPTIONS.get(key, key))
        if name == "status":
            if value == "any":
                options["any"] = True
                continue
            value = tuple(value) if isinstance(value, list) else (value,)
        elif name in ("groups", "ignore", "only"):
            value = tuple(value) if isinstance(value, list) else (value,)
        elif name == "during":
            value = tuple(step_of(one) for one in value)
        options[name] = value
    return Step(line, **options)


def _case(given: Mapping[str, Any], area: str) -> Case:
    cells = given["cells"] if "cells" in given else [given["cell"]]
    steps = tuple(step_of(one) for one in given["steps"])
    return Case(given["case"], tuple(cells), steps, area, _pods(steps), bool(given.get("alone")))


def _pods(steps: Iterable[Step]) -> bool:
    """Tell whether a case needs Pods, so that it waits for the service account of its namespace."""
    targets = [step.line.split(" ")[1].partition("?")[0].partition("/")[0] for step in steps]
    return any(target.partition("@")[0] == "po" for target in targets)


def load_cases() -> list[Case]:
    """Return all cases: the generic cases of every kind, then the cases of the files."""
    from conformance.generic import generic_cases

    cases = [Case(one.name, one.cells, one.steps, one.area, _pods(one.steps)) for one in generic_cases()]
    for path in sorted(CASES.glob("*.yaml")):
        cases += [_case(one, path.stem) for one in load_yaml(path) or ()]
    names = [f"{case.area}: {case.name}" for case in cases]
    twice = {name for name in names if names.count(name) > 1}
    assert not twice, f"cases of the same name: {sorted(twice)}"
    return cases
