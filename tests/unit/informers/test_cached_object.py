"""The view of a cached child decodes its body once, when it is used."""

import copy
import pickle
from collections.abc import Callable
from unittest import mock

import pytest

import konverge as kv
from konverge.informers.store import Cached, CachedObject
from konverge.objects import Metadata, Object

SECRET = kv.kind("v1", "Secret")
BODY = b'{"metadata":{"name":"target","namespace":"web"},"data":{"url":"czM6Ly9i"}}'


def view(body: bytes = BODY) -> CachedObject:
    return CachedObject(Cached(Metadata(name="target", namespace="web", resource_version="7"), body), SECRET)


@pytest.mark.parametrize(
    ("use", "decoded"),
    [
        (lambda child: child.metadata.resource_version, 0),
        (lambda child: child.data, 1),
        (lambda child: (child.data, child.data), 1),
        (lambda child: child.get("data", "url"), 1),
        (lambda child: child.to_dict(), 1),
        (lambda child: child.name, 1),
        (lambda child: child == Object({}), 1),
        (repr, 1),
    ],
)
def test_body_is_decoded_once_if_it_is_used(use: Callable[[CachedObject], object], decoded: int) -> None:
    child = view()
    with mock.patch.object(Cached, "data", autospec=True, side_effect=Cached.data) as decode:
        use(child)
    assert decode.call_count == decoded


def test_view_equals_the_decoded_object_with_its_kind() -> None:
    document = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "target", "namespace": "web"},
        "data": {"url": "czM6Ly9i"},
    }
    assert view() == Object(document)
    assert (view().kind_name, view().api_version, view().namespace) == ("Secret", "v1", "web")


def test_a_change_of_the_view_does_not_reach_the_cache() -> None:
    cached = Cached(Metadata(name="target"), BODY)
    CachedObject(cached, SECRET).data["data"]["url"] = "spoiled"
    assert CachedObject(cached, SECRET).get("data", "url") == "czM6Ly9i"


@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda child: pickle.loads(pickle.dumps(child))]
)  # our own bytes
def test_copies_of_a_view_have_its_data(copied: Callable[[CachedObject], CachedObject]) -> None:
    assert copied(view()).get("data", "url") == "czM6Ly9i"


def test_unknown_attribute_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="'CachedObject' object has no attribute 'sepc'"):
        view().sepc  # type: ignore[attr-defined]  # noqa: B018
