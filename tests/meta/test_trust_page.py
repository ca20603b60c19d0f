"""docs/reference/trust.md has a row for each field that a tenant may write, and no row without a field."""

import re
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import pytest
from hosted import NAMES
from pydantic import BaseModel
from trust.tenants import tenant_models

from konverge.crds import crd
from konverge.crds.catalogue import own_resources
from konverge.crds.resource import CustomResource
from konverge.reconcilers.apps.operations.engines import helm, helm_hook, job
from konverge.reconcilers.apps.operations.engines.velero.parameters import BackupParameters, RestoreParameters
from konverge.reconcilers.apps.operations.engines.volsync import VolSyncParameters
from konverge.reconcilers.apps.operations.engines.workflow import WorkflowParameters

PAGE: Final = Path(__file__).parents[2] / "docs" / "reference" / "trust.md"
EVERY: Final = "Every kind of a tenant"
METADATA: Final = (
    *("metadata.name", "metadata.generateName", "metadata.namespace", "metadata.labels", "metadata.annotations"),
    *("metadata.finalizers", "metadata.ownerReferences", "metadata.managedFields", "status.*"),
)
WORDS: Final = (
    "konverge.words",
    "konverge.reconcilers.apps.operations.words",
    *(f"konverge.reconcilers.{name}.words" for name in NAMES),
)
_CELL: Final = re.compile(r"(?<!\\)\|")
_CODE: Final = re.compile(r"`([^`]+)`")
_WORD: Final = re.compile(r"[a-z0-9.-]+\.[a-z]+/[A-Za-z0-9.-]*")


def rows(section: str) -> list[list[str]]:
    """Return the rows of the first table of a section of the page, without its head, as cells."""
    text = PAGE.read_text()
    _, found, rest = text.partition(f"# {section}\n")
    assert found, f"the page has no section {section}"
    part = re.split(r"^#+ ", rest, maxsplit=1, flags=re.MULTILINE)[0]
    lines = [line for line in part.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in _CELL.split(line)[1:-1]] for line in lines[2:]]


def names(section: str) -> list[str]:
    """Return the code in the first cells of a section."""
    return [name for row in rows(section) for name in _CODE.findall(row[0])]


def leaves(schema: Mapping[str, Any], path: str) -> Iterator[str]:
    """Yield the paths of all fields below a schema."""
    if schema.get("properties"):
        for name, inner in schema["properties"].items():
            yield from leaves(inner, f"{path}.{name}")
    elif schema.get("type") == "array":
        yield from leaves(schema.get("items", {}), f"{path}[]")
    elif isinstance(schema.get("additionalProperties"), Mapping):
        yield from leaves(schema["additionalProperties"], f"{path}.*")
    else:
        yield path


def fields(model: type[CustomResource[Any, Any]]) -> list[str]:
    """Return the paths of the spec that a user may write."""
    version = crd(model)["spec"]["versions"][0]
    return list(leaves(version["schema"]["openAPIV3Schema"]["properties"]["spec"], "spec"))


def covering(path: str, table: list[str]) -> str:
    """Return the most specific row of a field, "" if none covers it."""
    found = [row for row in table if row == path or (row.endswith(("*",)) and path.startswith(row[:-1]))]
    return max(found, key=len, default="")


@pytest.mark.parametrize("model", list(tenant_models()), ids=lambda model: model.__name__)
def test_each_field_of_a_tenant_has_a_row(model: type[CustomResource[Any, Any]]) -> None:
    table = names(model.__name__)
    assert [path for path in fields(model) if not covering(path, table)] == []


@pytest.mark.parametrize("model", list(tenant_models()), ids=lambda model: model.__name__)
def test_each_row_of_a_kind_names_a_field(model: type[CustomResource[Any, Any]]) -> None:
    table = names(model.__name__)
    used = {covering(path, table) for path in fields(model)}
    assert [row for row in table if row not in used] == []
    assert len(table) == len(set(table))


def test_the_metadata_and_the_status_have_rows() -> None:
    assert tuple(names(EVERY)) == METADATA


def test_every_row_says_what_it_does_with_whose_rights_within_which_bound() -> None:
    kinds = (EVERY, "Parameters of Operations", *(model.__name__ for model in tenant_models()))
    rights = {row[0] for row in rows("Trust: what a tenant may write")}
    for kind in kinds:
        for row in rows(kind):
            assert len(row) == 4, row
            assert all(row), row
            assert row[2] in rights, row


def test_the_page_has_a_section_for_each_kind_of_a_tenant() -> None:
    assert {model.__name__ for model in tenant_models()} == {
        "ApplicationInstance",
        "Nextcloud",
        "Operation",
        "ResourcePoolClaim",
        "WorkspaceClaim",
    }


def test_every_other_kind_has_a_row_among_those_of_administrators() -> None:
    tenants = {model.__name__ for model in tenant_models()}
    others = {model.__name__ for model in own_resources()} - tenants
    assert {row[0] for row in rows("Kinds of administrators")} == others


# --- parameters of Operations ---------------------------------------------------------------------------------------------------


def parameters() -> Iterator[str]:
    """Yield each parameter of each engine as the page names it."""
    models: tuple[tuple[str, type[BaseModel]], ...] = (
        ("velero backup", BackupParameters),
        ("velero restore", RestoreParameters),
        ("volsync", VolSyncParameters),
        ("workflow", WorkflowParameters),
    )
    for engine, model in models:
        for name, field in model.model_fields.items():
            yield "exclusive" if name == "exclusive" else f"{engine} {field.alias or name}"
    for engine, known in (("job", job._KNOWN), ("helm", helm._KNOWN), ("helmHookJob", helm_hook._KNOWN)):
        yield from ("exclusive" if name == "exclusive" else f"{engine} {name}" for name in known)


def test_each_parameter_of_an_engine_has_a_row() -> None:
    table = names("Parameters of Operations")
    used = {covering(one, table) for one in parameters()}
    assert "" not in used, [one for one in parameters() if not covering(one, table)]
    assert [row for row in table if row not in used] == []


# --- labels, annotations, finalizers --------------------------------------------------------------------------------------------


def words() -> set[str]:
    """Return every label, annotation and finalizer that a family or the library declares."""
    found: set[str] = set()
    for name in WORDS:
        module = import_module(name)
        holders = [module, *(one for one in vars(module).values() if isinstance(one, type))]
        for holder in holders:
            for text in vars(holder).values():
                texts = text if isinstance(text, tuple) else (text,)
                found |= {str(one) for one in texts if isinstance(one, str) and _WORD.fullmatch(one)}
    return found - {"k8s.io/initial-events-end"}


def test_each_word_of_a_family_has_a_row() -> None:
    assert sorted(words() - set(names("Labels, annotations and finalizers"))) == []


def test_each_row_of_a_word_names_a_word() -> None:
    written = {"apps.vworkspace.io/adopt", "ops.vworkspace.io/cancel", "managed-by"}  # declared with their kinds
    assert sorted(set(names("Labels, annotations and finalizers")) - words() - written) == []
