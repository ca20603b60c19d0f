"""The document of shards: its valid and invalid forms, the errors, and the changes by a new document."""

import json

import pytest

from konverge.errors import ConfigError
from konverge.reconcilers.machines.shards.addresses import Address
from konverge.reconcilers.machines.shards.document import (
    ShardAddresses,
    ShardChanges,
    ShardMap,
    changes,
    parse_shard_map,
)


def shard(operator: str, registration: str) -> ShardAddresses:
    return ShardAddresses(Address.parse(operator), Address.parse(registration))


ORIGINAL = {
    "cluster_id": "acme",
    "tenant": "blue",
    "shards": {"a": {"operator_addr": "10.0.0.1:18993", "registration_addr": "10.0.0.1:18992"}},
}


def both(operator: str, registration: str) -> dict[str, str]:
    return {"operator_addr": operator, "registration_addr": registration}


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ({"a": "10.0.0.1:8993"}, ShardMap({"a": shard("10.0.0.1:8993", "10.0.0.1:8992")})),
        (
            {"us-east-1a": "[2600:1f18:1234:5678::a]:8993", "b": "nstance.b.internal:443"},
            ShardMap(
                {
                    "us-east-1a": shard("[2600:1f18:1234:5678::a]:8993", "[2600:1f18:1234:5678::a]:8992"),
                    "b": shard("nstance.b.internal:443", "nstance.b.internal:8992"),
                }
            ),
        ),
        ({"shards.json": '{"a": "10.0.0.1:8993"}'}, ShardMap({"a": shard("10.0.0.1:8993", "10.0.0.1:8992")})),
        ({"shards.yaml": "a: 10.0.0.1:8993"}, ShardMap({"a": shard("10.0.0.1:8993", "10.0.0.1:8992")})),
        (
            {"config.json": json.dumps(ORIGINAL)},
            ShardMap({"a": shard("10.0.0.1:18993", "10.0.0.1:18992")}, "acme", "blue"),
        ),
        ({"c.json": '{"shards": {"a": "h:1"}}'}, ShardMap({"a": shard("h:1", "h:8992")})),
        ({"shards": "h:1"}, ShardMap({"shards": shard("h:1", "h:8992")})),
    ],
)
def test_both_forms_of_the_document_are_read(data: dict[str, str], expected: ShardMap) -> None:
    assert parse_shard_map(data) == expected


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({}, "there are no shards"),
        ({"shards.json": "{"}, "shards.json is neither YAML nor JSON"),
        ({"shards.json": "[]"}, "shards.json is not a mapping"),
        ({"shards.json": ""}, "shards.json is not a mapping"),
        ({"a.json": "{}", "b": "h:1"}, "keep the document a.json alone"),
        ({"A": "h:1"}, "the shard 'A' is not an identifier"),
        ({"a--b": "h:1"}, "the shard 'a--b' is not an identifier"),
        ({"s.json": '{"cluster_id": "No", "shards": {"a": "h:1"}}'}, "cluster_id 'No' is not an identifier"),
        ({"s.yaml": "1: h:1"}, "the shard 1 is not an identifier"),
        ({"a": "h"}, "shard a: 'h' has no port"),
        ({"a": "h:0"}, "has no port"),
        ({"a": "h:65536"}, "has no port"),
        ({"a": "h:http"}, "has no port"),
        ({"a": ":8993"}, "has no host name"),
        ({"a": "2600::a:8993"}, "has no host name"),
        ({"a": "[10.0.0.1]:8993"}, "write \\[IPv6\\]:port"),
        ({"s.json": '{"a": 8993}'}, "shard a: its address is not a text"),
        ({"s.json": '{"shards": {"a": {"operator_addr": "h:1"}}}'}, "shard a: it has no registration_addr"),
        ({"a": "h:1", "b": "g:1", "c": "h:1"}, "the shards a and c have one address, h:1"),
        ({"a": "Host.test:8993", "b": "host.test:8993"}, "the shards a and b have one address"),
        ({"a": "10.0.0.1:8993", "b": "[::ffff:10.0.0.1]:8993"}, "the shards a and b have one address"),
        ({"a": "[2600:0::a]:8993", "b": "[2600::000a]:8993"}, "the shards a and b have one address"),
        (
            {"s.json": json.dumps({"shards": {name: both("h:1", f"{name}:2") for name in ("a", "b")}})},
            "the shards a and b have one address, h:1",
        ),
        ({"s.json": '{"a": "h:1", "a": "h:2"}'}, ": the key 'a' stands 2 times: keep one"),
        ({"s.yaml": "shards:\n  a: h:1\n  b: h:2\n  a: h:3"}, ": the key 'a' stands 2 times: keep one"),
    ],
)
def test_a_document_with_a_mistake_is_refused_whole_and_names_it(data: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        parse_shard_map(data)


def test_shards_may_share_a_host_and_the_address_of_registrations() -> None:
    shared = {name: both(f"h:{port}", "h:9") for name, port in (("a", 1), ("b", 2))}
    assert set(parse_shard_map({"s.json": json.dumps(shared)}).shards) == {"a", "b"}
    assert set(parse_shard_map({"a": "h:1", "b": "h:2"}).shards) == {"a", "b"}


def test_the_changes_of_a_document_are_its_added_removed_and_moved_shards() -> None:
    old = parse_shard_map({"same": "h:1", "gone": "h:2", "moved": "h:3"})
    new = parse_shard_map({"same": "h:1", "new": "h:2", "moved": "h:4"})
    assert changes(old, new) == ShardChanges(added=("new",), removed=("gone",), moved=("moved",))
    assert changes(new, new) == ShardChanges()
