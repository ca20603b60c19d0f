"""Round trips of a conversion, for every object that the schemas admit.

    def test_every_mirror_survives_both_ways() -> None:
        check_round_trips(MIRRORS)

Guarantees: hypothesis draws specs and statuses from the schema of each version, so that a new field is tested without a change of the test.
An object is converted to the other version and back by the code that serves the webhook. Two objects are equal if their models are: the
spelling of a value may change, as in `90m` and `1h30m`. The smallest failing object is shown.

Needs hypothesis, which the kit does not install.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any, Final

from konverge.crds import Conversion, CustomResource, declaration_of
from konverge.crds.defaults import filled
from konverge.crds.kept_fields import lost_fields
from konverge.crds.resource import object_defaults, plain_schema_of
from konverge.errors import InvalidObject, UsageError

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

__all__ = ["check_round_trips"]

_CONDITION: Final = {
    "type": "Ready",
    "status": "True",
    "reason": "Drawn",
    "message": "it is drawn",
    "observedGeneration": 3,
    "lastTransitionTime": "2030-01-01T00:00:00Z",
}
Data = dict[str, Any]
Model = type[CustomResource[Any, Any]]


def check_round_trips(
    conversion: Conversion[Any],
    *,
    loses: Collection[str] = (),
    only: Callable[[Any], bool] = lambda _: True,
    examples: int = 100,
) -> None:
    """Convert objects of each version to the hub and back, and of the hub to each version and back: none may lose anything.

    `loses` are the fields that may be lost, as `.spec.colour`, with the fields below them. `only` selects the objects to try, for instance
    the objects that a CEL rule admits. `examples` is the number of objects for each direction.

    Errors: AssertionError with the lost fields; what a conversion function raises; UsageError without hypothesis.
    """
    for spoke in conversion.spokes:
        for model, other in ((conversion.hub, spoke.model), (spoke.model, conversion.hub)):
            _check(conversion, model, other, loses, only, examples)


def _check(
    conversion: Conversion[Any],
    model: Model,
    other: Model,
    loses: Collection[str],
    only: Callable[[Any], bool],
    examples: int,
) -> None:
    try:
        from hypothesis import HealthCheck, Phase, assume, given, settings
    except ImportError as error:
        raise UsageError("check_round_trips draws objects with hypothesis: install it beside the tests") from error

    present, here = declaration_of(other).api_version, declaration_of(model).api_version

    # The lines that hypothesis would explain are the kit's, and tracing them takes most of the time.
    phases = [phase for phase in Phase if phase is not Phase.explain]

    @settings(
        max_examples=examples,
        deadline=None,
        phases=phases,
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,  # a group of errors would hide NotConvertible from the caller
    )
    @given(_objects(model))
    def survives(data: Data) -> None:
        object_ = _admissible(model, data)
        assume(object_ is not None and only(object_))
        back = conversion.converted(conversion.converted(data, present), here)
        entries = lost_fields(_plain(model, data), _plain(model, back), plain_schema_of(model))
        lost = {_path(entry["path"]): entry for entry in entries}
        words = [
            f"{path} was {entry.get('value', 'absent')!r} and is {entry.get('left', 'absent')!r}"
            for path, entry in lost.items()
            if not any(path == known or path.startswith((f"{known}.", f"{known}[")) for known in loses)
        ]
        assert not words, f"{here} to {present} and back: {'; '.join(words)}"

    survives()


def _objects(model: Model) -> SearchStrategy[Data]:
    """Draw objects of a version, with and without a status."""
    from hypothesis import strategies as st

    from konverge_testing.admitted_values import admitted

    declaration, parts = declaration_of(model), plain_schema_of(model)["properties"]
    metadata = {"name": "drawn", **({"namespace": "web"} if declaration.namespaced else {})}
    head: dict[str, SearchStrategy[Any]] = {
        "apiVersion": st.just(declaration.api_version),
        "kind": st.just(declaration.kind),
        "metadata": st.just(metadata),
        "spec": admitted(parts["spec"]),
    }
    fields = {name: part for name, part in parts["status"]["properties"].items() if name != "conditions"}
    status = admitted({**parts["status"], "properties": fields})
    # All versions have the same conditions, and their long patterns are slow to draw.
    with_conditions = st.builds(
        lambda drawn, conditions: {**drawn, "conditions": conditions}, status, st.lists(st.just(_CONDITION), max_size=1)
    )
    return st.fixed_dictionaries(head, optional={"status": status | with_conditions})


def _admissible(model: Model, data: Data) -> Any:
    """Return an object if its model accepts it, else None."""
    try:
        decoded = model.decode(_filled(model, data))
    except InvalidObject:
        return None
    return None if decoded.invalid_status else decoded


def _plain(model: Model, data: Data) -> Data:
    """Return an object in its model's own spelling."""
    return model.decode(_filled(model, data)).to_dict()


def _filled(model: Model, data: Data) -> Data:
    defaults = object_defaults(model)
    result: Data = dict(data) if defaults is None else filled(data, defaults)
    return result


def _path(steps: Collection[Any]) -> str:
    """Write the path of a lost field.

    >>> _path(["spec", "pumps", {"name": "p"}, "speed"])
    '.spec.pumps[name=p].speed'
    """
    return "".join(
        f"[{','.join(f'{key}={value}' for key, value in step.items())}]" if isinstance(step, dict) else f".{step}"
        for step in steps
    )
