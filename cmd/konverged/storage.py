"""The migration of stored objects: each is written again, so that the API server stores it in the version that the definition names now.

    read the definition -> list metadata, a page at a time -> an empty patch of each object -> trim status.storedVersions

Guarantees
- An empty merge patch changes nothing but the stored form, and is based on whatever is stored when it arrives: it undoes no other write
  and needs no version. An object that is stored in the right version already is not written.
- The migration may be interrupted at any moment and started again: objects that are done cost a request and no write.
- `status.storedVersions` is trimmed only after every object was rewritten, and only if neither it nor the stored version has changed
  since.

Caveats: an API server that has not read the definition yet still writes the former version. With several API servers, begin some seconds
after the definition was applied. Admission webhooks see each patch as an update.

Source: Kubernetes, Versions in CustomResourceDefinitions, "Upgrade existing objects to a new stored version"; k8s.io/apiserver
`pkg/registry/generic/registry/store.go` and `pkg/storage/etcd3/store.go` (a write whose bytes equal the stored bytes is skipped).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import click

from konverge.daemon.options import print_json
from konverge.errors import ApiError, Conflict, Expired, Invalid, KonvergeError, NotFound
from konverge.kinds import Kind, kind

if TYPE_CHECKING:
    from konverge.client import Client, ResourceInfo
    from konverge.daemon.settings import Settings
    from konverge.objects import Metadata, Object
    from konverge.rbac import Rule

__all__ = ["Migrated", "StoragePlan", "migrate", "migrate_kind", "plan_of", "rights_of"]

_PAGE: Final = 500
_AT_ONCE: Final = 8
_TRIES: Final = 5
_SHOWN: Final = 10
DEFINITION: Final = kind(
    "apiextensions.k8s.io/v1", "CustomResourceDefinition", namespaced=False, plural="customresourcedefinitions"
)


@dataclass(frozen=True, slots=True)
class StoragePlan:
    """The work on one definition: objects of `kind` may be stored in the versions `before`, and are to be stored in `storage`."""

    name: str
    kind: Kind[Object]
    storage: str
    index: int
    """The position of the stored version in `spec.versions`."""
    before: tuple[str, ...]

    @property
    def done(self) -> bool:
        """Whether no object is stored in another version."""
        return self.before == (self.storage,)

    def trim(self) -> list[dict[str, Any]]:
        """Return the JSON patch of the status: it fails if the stored version or `status.storedVersions` has changed."""
        place = f"/spec/versions/{self.index}"
        return [
            {"op": "test", "path": f"{place}/name", "value": self.storage},
            {"op": "test", "path": f"{place}/storage", "value": True},
            {"op": "test", "path": "/status/storedVersions", "value": list(self.before)},
            {"op": "replace", "path": "/status/storedVersions", "value": [self.storage]},
        ]


@dataclass(slots=True)
class Migrated:
    """The result for one definition."""

    name: str
    storage: str
    before: tuple[str, ...]
    objects: int = 0
    failures: list[str] = field(default_factory=list)

    def line(self) -> str:
        """Return the result as a line of text."""
        if self.before == (self.storage,):
            return f"{self.name}: every object is stored in {self.storage}"
        if self.failures:
            shown = "".join(f"\n  {failure}" for failure in self.failures[:_SHOWN])
            more = f"\n  and {len(self.failures) - _SHOWN} more" if len(self.failures) > _SHOWN else ""
            return (
                f"{self.name}: {len(self.failures)} of {self.objects} objects are not rewritten, and storedVersions is still "
                f"{', '.join(self.before)}:{shown}{more}"
            )
        return f"{self.name}: {self.objects} objects rewritten in {self.storage}; storedVersions was {', '.join(self.before)}"

    def data(self) -> dict[str, Any]:
        """Return the result for a script."""
        return {
            "name": self.name,
            "storage": self.storage,
            "storedVersions": list(self.before) if self.failures else [self.storage],
            "objects": self.objects,
            "failures": self.failures,
        }


def plan_of(definition: Mapping[str, Any]) -> StoragePlan:
    """Return the work on a definition as the cluster has it; raises KonvergeError if no version is served."""
    name, spec = definition["metadata"]["name"], definition["spec"]
    versions = spec["versions"]
    index = next(index for index, version in enumerate(versions) if version["storage"])
    storage = versions[index]["name"]
    served = [version["name"] for version in versions if version["served"]]
    if not served:
        raise KonvergeError(f"{name} serves no version; serve {storage}, and start again")
    # In the stored version no object has to be converted twice.
    version = storage if storage in served else served[0]
    names = spec["names"]
    plain = kind(
        f"{spec['group']}/{version}",
        names["kind"],
        namespaced=spec["scope"] == "Namespaced",
        plural=names["plural"],
    )
    before = tuple((definition.get("status") or {}).get("storedVersions") or ())
    return StoragePlan(name, plain, storage, index, before)


def rights_of(definitions: Sequence[Mapping[str, Any]]) -> tuple[Rule, ...]:
    """Return the rights that the migration of these definitions needs."""
    from konverge.rbac import Rule, merged

    names = tuple(sorted(definition["metadata"]["name"] for definition in definitions))
    resource = "customresourcedefinitions"
    rules = [
        Rule("apiextensions.k8s.io", (resource,), ("get",), names, cluster_wide=True),
        Rule("apiextensions.k8s.io", (f"{resource}/status",), ("patch",), names, cluster_wide=True),
    ]
    for definition in definitions:
        spec = definition["spec"]
        rules.append(Rule(spec["group"], (spec["names"]["plural"],), ("list", "patch")))
    return merged(rules)


def migrate(
    manifests: Sequence[Mapping[str, Any]], settings: Settings, operator: str, output: str, *, rights: bool
) -> None:
    """Run `konverge crds --migrate-storage` for these definitions, or print the rights that it needs."""
    if rights:
        from konverge.crds import to_yaml
        from konverge.rbac import cluster_role

        role = cluster_role(f"{operator}-storage", rights_of(manifests))
        if output == "json":
            print_json(role)
        else:
            click.echo(to_yaml(role), nl=False)
        return
    results = asyncio.run(_migrate([manifest["metadata"]["name"] for manifest in manifests], settings))
    if output == "json":
        print_json([result.data() for result in results])
    else:
        for result in results:
            click.echo(result.line())
    if any(result.failures for result in results):
        raise click.ClickException("some objects are not rewritten; correct them, and start again")


async def _migrate(names: Sequence[str], settings: Settings) -> list[Migrated]:
    from konverge.client import Client
    from konverge.daemon.engine import client_config

    def progress(words: str) -> None:
        click.echo(words, err=True)

    async with Client(await client_config(settings), name="konverge-crds") as client:
        return [await migrate_kind(client, name, progress) for name in names]


async def migrate_kind(client: Client, name: str, progress: Callable[[str], None] = lambda _: None) -> Migrated:
    """Rewrite every object of one definition and trim its `status.storedVersions`; `progress` gets a line after each page.

    Errors: KonvergeError if the definition changes during the migration, NotFound if it is not installed.
    """
    plan = plan_of((await client.get(DEFINITION, name)).data)
    result = Migrated(name, plan.storage, plan.before)
    if plan.done:
        return result
    info = await client.resource(plan.kind)
    rewritten = set[str]()
    while True:
        try:
            await _rewrite_all(client, info, plan, result, rewritten, progress)
        except Expired:  # a list may be continued for some minutes only
            continue
        break
    if not result.failures:
        await _trim(client, plan)
    return result


async def _rewrite_all(
    client: Client,
    info: ResourceInfo,
    plan: StoragePlan,
    result: Migrated,
    rewritten: set[str],
    progress: Callable[[str], None],
) -> None:
    from konverge.client import ListQuery

    token, gate = "", asyncio.Semaphore(_AT_ONCE)
    while True:
        page = await client.list_page(info, ListQuery(limit=_PAGE, continue_=token, metadata_only=True))
        objects = [each for each in map(_metadata, page.items) if each.uid not in rewritten]
        failures = await asyncio.gather(*(_rewrite(client, plan.kind, each, gate) for each in objects))
        rewritten.update(each.uid for each in objects)
        result.objects += len(objects)
        result.failures += [failure for failure in failures if failure]
        token = page.continue_
        if not token:
            return
        progress(f"{plan.name}: {result.objects} objects, about {page.remaining or 0} remain")


def _metadata(item: Any) -> Metadata:
    from konverge.client import decode_object
    from konverge.objects import Object

    return Object(decode_object(bytes(item))).metadata


async def _rewrite(client: Client, what: Kind[Object], metadata: Metadata, gate: asyncio.Semaphore) -> str:
    """Write one object again; returns the reason why it is not written, else ""."""
    async with gate:
        for left in reversed(range(_TRIES)):
            try:
                await client.patch(what, metadata.name, metadata.namespace, patch={}, style="merge")
            except NotFound:
                return ""  # deleted since the list
            except Conflict as error:
                if not left:
                    return f"{metadata.path}: {error.message}"
            except ApiError as error:
                return f"{metadata.path}: {error.message}"
            else:
                return ""
    raise AssertionError("every try returns or is followed by another")


async def _trim(client: Client, plan: StoragePlan) -> None:
    try:
        await client.patch(DEFINITION, plan.name, patch=plan.trim(), style="json", subresource="status")
    except (Conflict, Invalid) as error:
        raise KonvergeError(
            f"the definition {plan.name} changed during the migration, so its status.storedVersions is not trimmed; start again "
            f"({error.message})"
        ) from error
