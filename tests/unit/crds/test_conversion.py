"""Objects in the other versions of their kind: values, metadata, defaults, unknown fields, and refusals."""

import copy
from typing import Any

import pytest
from tanks import (
    ALPHA,
    BETA,
    KEEPING,
    TANKS,
    V1,
    BetaSpec,
    BetaTank,
    Tank,
    TankSpec,
    TankStatus,
    Volume,
    from_beta,
    tank,
    to_beta,
)

import konverge as kv
from konverge.crds.kept_fields import LARGEST
from konverge.errors import UsageError
from konverge.words import Annotation


@pytest.mark.parametrize(
    ("given", "wanted", "spec"),
    [
        (
            tank(BETA, {"litres": 3, "lid": "shut", "pumps": [{"name": "p"}]}),
            V1,
            {"volume": {"millilitres": 3000}, "lid": "shut", "pumps": [{"name": "p", "speed": 1}]},
        ),
        (tank(V1, {"volume": {"millilitres": 3500}, "colour": "red"}), BETA, {"litres": 3, "lid": "open"}),
        (tank(BETA, {"litres": 3, "lid": "shut"}), ALPHA, {"litres": 3}),
        (tank(BETA, {"litres": 3}), BETA, {"litres": 3}),
    ],
    ids=["to the hub", "from the hub", "by the hub", "in the wanted version"],
)
def test_a_spec_is_converted_between_versions(given: dict[str, Any], wanted: str, spec: dict[str, Any]) -> None:
    before = copy.deepcopy(given)
    result = TANKS.converted(given, wanted)
    assert {name: value for name, value in result["spec"].items() if name != "pumps" or value} == spec
    assert (result["apiVersion"], result["kind"], result["metadata"]) == (wanted, "Tank", given["metadata"])
    assert given == before


def test_defaults_of_the_wanted_version_are_filled_in() -> None:
    result = TANKS.converted(tank(ALPHA, {"litres": 2}), V1)
    assert result["spec"] == {"volume": {"millilitres": 2000}, "lid": "open"}


def test_a_status_passes_and_an_absent_status_stays_absent() -> None:
    status = {"level": 4, "conditions": []}
    assert TANKS.converted(tank(BETA, {"litres": 2}, status=status), V1)["status"] == status
    assert "status" not in TANKS.converted(tank(BETA, {"litres": 2}), V1)


@pytest.mark.parametrize("conversion", [TANKS, KEEPING])
def test_a_part_of_an_object_without_metadata_is_converted(conversion: kv.Conversion[Tank]) -> None:
    part = {"apiVersion": V1, "kind": "Tank", "spec": {"volume": {"millilitres": 1500}}}
    old = conversion.converted(part, BETA)
    assert old == {"apiVersion": BETA, "kind": "Tank", "spec": {"litres": 1, "lid": "open", "pumps": []}}
    assert "metadata" not in conversion.converted(old, V1)


def test_a_field_that_only_the_installed_definition_has_keeps_its_place() -> None:
    given = tank(BETA, {"litres": 2, "material": "steel", "colour": 7})
    spec = TANKS.converted(given, V1)["spec"]
    assert spec["material"] == "steel"
    assert "colour" not in spec, "v1 has a field of that name, which is of another type"


def test_object_that_does_not_fit_its_model_is_named_without_its_value() -> None:
    with pytest.raises(kv.InvalidObject, match=r"Tank web/a does not decode: \.spec\.litres") as refused:
        TANKS.converted(tank(BETA, {"litres": "s3cret"}), V1)
    assert "s3cret" not in str(refused.value)


def negative(old: BetaTank) -> Tank:
    return Tank(spec=TankSpec(volume=Volume(millilitres=-4444 * old.spec.litres)))


def test_result_that_does_not_fit_its_model_is_refused_without_its_value() -> None:
    conversion = kv.Conversion.of(Tank).version(BetaTank, up=negative, down=to_beta)
    with pytest.raises(kv.NotConvertible, match=r"^\.millilitres: write 0 or more$"):
        conversion.converted(tank(BETA, {"litres": 1}), V1)


def test_a_version_that_the_operator_lacks_is_named() -> None:
    with pytest.raises(kv.NotConvertible, match=r"and not tanks\.example\.com/v2; the installed definition"):
        TANKS.converted(tank(BETA, {"litres": 4}), "tanks.example.com/v2")


def unchanged(old: Any) -> Any:
    return old


def test_a_function_that_returns_another_class_is_a_mistake() -> None:
    with pytest.raises(UsageError, match="returned BetaTank; it converts BetaTank into Tank"):
        kv.Conversion.of(Tank).version(BetaTank, up=unchanged, down=to_beta).converted(tank(BETA, {"litres": 1}), V1)


async def _later(old: BetaTank) -> Tank:
    return from_beta(old)


@pytest.mark.parametrize("function", [_later, None, Tank], ids=["coroutine function", "nothing", "class"])
def test_only_a_plain_function_converts(function: Any) -> None:
    with pytest.raises(UsageError, match="write a plain function"):
        kv.Conversion.of(Tank).version(BetaTank, up=function, down=to_beta)


@kv.resource("tanks.example.com/v1beta1", storage=False)
class Barrel(kv.CustomResource[BetaSpec, TankStatus]):
    """Another kind."""


def test_a_class_of_another_kind_is_refused_as_a_version() -> None:
    wrong: Any = Barrel
    with pytest.raises(UsageError, match="no version of Tank"):
        kv.Conversion.of(Tank).version(wrong, up=from_beta, down=to_beta)


def test_a_version_is_given_once() -> None:
    with pytest.raises(UsageError, match="has v1beta1 already"):
        TANKS.version(BetaTank, up=from_beta, down=to_beta)
    assert [model.__name__ for model in TANKS.models] == ["Tank", "BetaTank", "AlphaTank"]


FULL = {
    "volume": {"millilitres": 3500},
    "colour": "red",
    "lid": "open",
    "pumps": [{"name": "p", "speed": 4}, {"name": "q", "speed": 1}],
}


def through(change: Any, given: dict[str, Any], wanted: str = BETA) -> dict[str, Any]:
    """Return an object after a client of an older version has changed it."""
    old = KEEPING.converted(given, wanted)
    change(old)
    return KEEPING.converted(old, V1)


def nothing(_: dict[str, Any]) -> None:
    pass


def lid(old: dict[str, Any]) -> None:
    old["spec"]["lid"] = "shut"


def litres(old: dict[str, Any]) -> None:
    old["spec"]["litres"] = 9


def pumps(old: dict[str, Any]) -> None:
    old["spec"]["pumps"] = [{"name": "q"}, {"name": "new"}, {"name": "p"}]


def no_pumps(old: dict[str, Any]) -> None:
    old["spec"]["pumps"] = []


@pytest.mark.parametrize(
    ("change", "changes"),
    [
        (nothing, {}),
        (lid, {"lid": "shut"}),
        (litres, {"volume": {"millilitres": 9000}}),
        (pumps, {"pumps": [{"name": "q", "speed": 1}, {"name": "new", "speed": 1}, {"name": "p", "speed": 4}]}),
        (no_pumps, {"pumps": []}),
    ],
)
def test_kept_fields_survive_a_change_in_an_older_version(change: Any, changes: dict[str, Any]) -> None:
    given = tank(V1, copy.deepcopy(FULL), metadata={"annotations": {"team": "a"}})
    result = through(change, given)
    assert result["spec"] == {**FULL, **changes}
    assert result["metadata"] == given["metadata"]


def test_an_object_that_loses_nothing_has_no_annotation() -> None:
    old = KEEPING.converted(tank(V1, {"volume": {"millilitres": 3000}}), BETA)
    assert "annotations" not in old["metadata"]


def test_kept_fields_pass_from_version_to_version() -> None:
    given = tank(V1, copy.deepcopy(FULL))
    alpha = KEEPING.converted(KEEPING.converted(given, BETA), ALPHA)
    assert KEEPING.converted(alpha, V1)["spec"] == FULL


def test_fields_too_large_to_keep_can_be_read_and_not_written() -> None:
    old = KEEPING.converted(tank(V1, {**FULL, "colour": "r" * LARGEST}), BETA)
    assert old["spec"]["litres"] == 3
    assert len(str(old["metadata"]["annotations"])) < 100
    with pytest.raises(kv.NotConvertible, match="too large for an annotation; write the object in a newer version"):
        KEEPING.converted(old, V1)


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[1]",
        '[{"path": []}]',
        '[{"path": ["metadata", "finalizers"], "value": []}]',
        '[{"path": ["spec", {"a": 1}], "value": 1}]',
        '[{"path": ["spec", "colour"], "value": 7}]',
    ],
)
def test_a_forged_annotation_stores_nothing_that_the_model_refuses(text: str) -> None:
    forged = tank(BETA, {"litres": 1}, metadata={"annotations": {Annotation.KEPT_FIELDS: text}})
    with pytest.raises(kv.NotConvertible, match="remove the annotation"):
        KEEPING.converted(forged, V1)


@kv.resource(V1, kind="Tank", storage=False)
class NewTank(kv.CustomResource[TankSpec, TankStatus]):
    """A tank, in the version that is not stored yet."""


@kv.resource(BETA, kind="Tank")
class StoredBeta(kv.CustomResource[BetaSpec, TankStatus]):
    """A tank in the version that is still stored."""


def new_of(old: StoredBeta) -> NewTank:
    return NewTank(spec=TankSpec(volume=Volume(millilitres=old.spec.litres * 1000), lid=old.spec.lid))


def stored_of(new: NewTank) -> StoredBeta:
    return StoredBeta(spec=BetaSpec(litres=new.spec.volume.millilitres // 1000, lid=new.spec.lid))


STORED_IN_BETA = kv.Conversion.of(NewTank).version(StoredBeta, up=new_of, down=stored_of).keeping_lost_fields()


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "[1]", '[{"path": []}]', "null", "7", "9" * 400, '"\\ud800"', "\x00", "too large"),
        '[{"path": ["metadata", "finalizers"], "value": []}]',
        '[{"path": [["spec"]], "value": 1}]',
        '[{"path": {"spec": 1}, "value": 1}]',
        '[{"path": ["spec", "volume", "millilitres"], "value": 1e999, "left": 1000}]',
        '[{"path": ["spec", "colour"], "value": ' + "9" * 400 + "}]",
        "[" * 5000 + "]" * 5000,
        '[{"path": ["spec", "colour"], "value": ' + "[" * 5000 + "]" * 5000 + "}]",
    ],
    ids=lambda text: f"{text[:30]!r} of {len(text)}",
)
def test_a_forged_annotation_of_the_stored_version_fails_no_list(text: str) -> None:
    """A list in the newer version converts every stored object: one tenant's annotation must not hide the objects of all."""
    forged = tank(BETA, {"litres": 1}, metadata={"annotations": {Annotation.KEPT_FIELDS: text, "team": "a"}})
    plain = tank(BETA, {"litres": 1}, metadata={"annotations": {"team": "a"}})
    assert STORED_IN_BETA.converted(forged, V1) == STORED_IN_BETA.converted(plain, V1)


def test_fields_too_large_to_be_stored_refuse_the_write() -> None:
    with pytest.raises(kv.NotConvertible, match="too large to be stored in that version"):
        STORED_IN_BETA.converted(tank(V1, {**FULL, "colour": "r" * LARGEST}), BETA)


def test_a_kept_field_whose_place_has_changed_is_dropped() -> None:
    text = '[{"path": ["spec", "lid"], "value": "shut", "left": "ajar"}, {"path": ["spec", "a", "b"], "value": 1}]'
    given = tank(BETA, {"litres": 1}, metadata={"annotations": {Annotation.KEPT_FIELDS: text}})
    assert KEEPING.converted(given, V1) == KEEPING.converted(tank(BETA, {"litres": 1}), V1)
