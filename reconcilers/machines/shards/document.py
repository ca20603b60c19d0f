"""The document of shards: their names, and the addresses of their servers.

Guarantees: an invalid document is refused whole, with the shard and the mistake, so that the shards in use stay as they are.

Two forms are read, in a ConfigMap's keys or in one document of it (a key with a dot, YAML or JSON): shard to operator address, and the
original's file with `cluster_id`, `tenant` and both addresses of each shard below `shards`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import yaml

from konverge.errors import ConfigError
from konverge.reconcilers.machines.shards.addresses import Address, is_identifier

__all__ = ["ShardAddresses", "ShardChanges", "ShardMap", "changes", "parse_shard_map"]

REGISTRATION_PORT: Final = 8992
"""The port of registrations if a document only has operator addresses."""


@dataclass(frozen=True, slots=True)
class ShardAddresses:
    """The two ports of a shard's server."""

    operator: Address
    registration: Address


@dataclass(frozen=True, slots=True)
class ShardMap:
    """The shards by name, and the cluster and tenant if the document names them."""

    shards: Mapping[str, ShardAddresses] = field(default_factory=dict)
    cluster_id: str = ""
    tenant: str = ""


@dataclass(frozen=True, slots=True)
class ShardChanges:
    """The difference between two documents, each sorted."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    moved: tuple[str, ...] = ()


def changes(old: ShardMap, new: ShardMap) -> ShardChanges:
    """Return the difference of two documents."""
    return ShardChanges(
        added=tuple(sorted(new.shards.keys() - old.shards.keys())),
        removed=tuple(sorted(old.shards.keys() - new.shards.keys())),
        moved=tuple(
            sorted(name for name in new.shards.keys() & old.shards.keys() if new.shards[name] != old.shards[name])
        ),
    )


def parse_shard_map(data: Mapping[str, str]) -> ShardMap:
    """Read the data of a ConfigMap; raises ConfigError.

    >>> parse_shard_map({"us-west-2a": "10.0.0.1:8993"}).shards["us-west-2a"].registration
    Address(host='10.0.0.1', port=8992)
    """
    documents = sorted(key for key in data if "." in key)
    if not documents:
        return _shard_map(data)
    if len(data) > 1:
        raise ConfigError(
            f"the keys {sorted(data)} hold a document and other things: keep the document {documents[0]} alone"
        )
    try:
        read = yaml.load(data[documents[0]], _Loader)  # noqa: S506  # a safe loader
    except yaml.YAMLError as error:
        raise ConfigError(f"{documents[0]} is neither YAML nor JSON: {error}") from error
    except ConfigError as error:
        raise ConfigError(f"{documents[0]}: {error}") from error
    if not isinstance(read, Mapping):
        raise ConfigError(f"{documents[0]} is not a mapping of shards to addresses")
    return _shard_map(read)


class _Loader(yaml.SafeLoader):
    """The safe loader, which refuses a repeated key in a mapping: the last value would win silently."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        """Return a mapping; raises ConfigError."""
        keys = Counter(key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode) and key.value != "<<")
        for key, number in keys.items():
            if number > 1:
                raise ConfigError(f"the key {key!r} stands {number} times: keep one of them")
        return super().construct_mapping(node, deep)


def _shard_map(read: Mapping[str, Any]) -> ShardMap:
    listed = read.get("shards")
    if not isinstance(listed, Mapping):
        return ShardMap(_shards(read))
    names = {name: str(read.get(name) or "") for name in ("cluster_id", "tenant")}
    for name, value in names.items():
        if value and not is_identifier(value):
            raise ConfigError(f"{name} {value!r} is not an identifier: {_RULE}")
    return ShardMap(_shards(listed), **names)


_RULE: Final = "use at most 32 lower-case letters and digits, with single hyphens inside"


def _shards(listed: Mapping[Any, Any]) -> dict[str, ShardAddresses]:
    if not listed:
        raise ConfigError("there are no shards: name at least one with its address")
    shards: dict[str, ShardAddresses] = {}
    for name, value in listed.items():
        if not isinstance(name, str) or not is_identifier(name):
            raise ConfigError(f"the shard {name!r} is not an identifier: {_RULE}")
        try:
            shards[name] = _addresses(value)
        except ConfigError as error:
            raise ConfigError(f"shard {name}: {error}") from error
    _check_distinct(shards)
    return shards


def _check_distinct(shards: Mapping[str, ShardAddresses]) -> None:
    """Raise ConfigError if two shards have one operator address: on one server the two shards would overwrite each other's groups."""
    holders: dict[Address, str] = {}
    for name, addresses in sorted(shards.items()):
        other = holders.setdefault(addresses.operator.plain, name)
        if other != name:
            raise ConfigError(
                f"the shards {other} and {name} have one address, {addresses.operator}: each shard has a server of its own"
            )


def _addresses(value: object) -> ShardAddresses:
    if isinstance(value, str):
        operator = Address.parse(value)
        return ShardAddresses(operator, Address(operator.host, REGISTRATION_PORT))
    if not isinstance(value, Mapping):
        raise ConfigError("its address is not a text: write host:port or [IPv6]:port")
    texts = {name: value.get(name) for name in ("operator_addr", "registration_addr")}
    missing = sorted(name for name, text in texts.items() if not isinstance(text, str) or not text)
    if missing:
        raise ConfigError(f"it has no {' and '.join(missing)}: write host:port or [IPv6]:port")
    return ShardAddresses(Address.parse(str(texts["operator_addr"])), Address.parse(str(texts["registration_addr"])))
