"""Copies of ordinary objects, of those with an unreadable status, and of those that did not decode."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import PrivateAttr

from konverge.crds import CustomResource, Model, Status, resource
from konverge.errors import InvalidObject


class VaultSpec(Model):
    size: int


class VaultStatus(Status):
    used: int = 0


@resource("example.com/v1")
class Vault(CustomResource[VaultSpec, VaultStatus]):
    """A vault."""


@resource("example.com/v1")
class Safe(CustomResource[VaultSpec, VaultStatus]):
    """A resource whose class has a private attribute of its own."""

    _opened: int = PrivateAttr(default=0)


COPIES: dict[str, Callable[[Any], Any]] = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda found: pickle.loads(pickle.dumps(found)),
    "model_copy": lambda found: found.model_copy(),
    "model_copy, deep": lambda found: found.model_copy(deep=True),
}
WAYS = pytest.mark.parametrize("again", [pytest.param(way, id=name) for name, way in COPIES.items()])
CLASSES = pytest.mark.parametrize("cls", [Vault, Safe])


def stored(**changes: Any) -> dict[str, Any]:
    return {"metadata": {"name": "a", "namespace": "web"}, "spec": {"size": 3}, "status": {"used": 1}, **changes}


def test_an_object_that_decodes_has_nothing_kept_beside_its_fields() -> None:
    assert Vault.decode(stored()).__pydantic_private__ is None
    assert Vault.new("a", spec=VaultSpec(size=3)).__pydantic_private__ is None
    assert not Vault.__private_attributes__


@CLASSES
@WAYS
def test_a_copy_of_an_object_is_equal_and_is_sent_alike(cls: Any, again: Callable[[Any], Any]) -> None:
    first = cls.decode(stored())
    second = again(first)
    assert (second, second.to_dict(), second.invalid_status) == (first, first.to_dict(), None)
    second.spec = VaultSpec(size=4)
    assert first.spec.size == 3
    assert second != first


@CLASSES
@WAYS
def test_a_copy_knows_why_the_status_did_not_decode(cls: Any, again: Callable[[Any], Any]) -> None:
    first = cls.decode(stored(status={"used": "much"}))
    second = again(first)
    assert second.invalid_status is not None
    assert second.invalid_status.field == ".status.used"
    assert second.to_dict() == first.to_dict()
    second.status.used = 2
    second.spec = VaultSpec(size=4)
    assert second.invalid_status.field == ".status.used"


@CLASSES
@WAYS
def test_the_copy_of_an_undecoded_object_is_undecoded_too(cls: Any, again: Callable[[Any], Any]) -> None:
    data = stored(spec={"size": "large"})
    error = InvalidObject("Vault web/a", ".spec.size", "not a number")
    second = again(cls.undecoded(data, error))
    assert second.to_dict() == data
    with pytest.raises(InvalidObject, match=r"spec\.size"):
        _ = second.spec


def test_objects_that_differ_only_in_what_did_not_decode_are_not_equal() -> None:
    error = InvalidObject("Vault web/a", ".spec.size", "not a number")
    first, second = (Vault.undecoded(stored(spec={"size": size}), error) for size in ("large", "huge"))
    assert first != second
    assert first == Vault.undecoded(stored(spec={"size": "large"}), error)
    assert Vault.decode(stored(status={"used": "much"})) != Vault.decode(stored(status={}))


def test_private_attributes_of_a_class_live_beside_what_is_kept() -> None:
    found = Safe.decode(stored(status={"used": "much"}))
    assert found._opened == 0
    found._opened = 2
    assert (copy.deepcopy(found)._opened, found.invalid_status is None) == (2, False)
    assert Safe.undecoded(stored(), InvalidObject("Safe web/a", ".spec", "wrong"))._opened == 0
