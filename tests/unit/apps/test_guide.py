"""docs/guide/apps.md is accurate: its examples are accepted, and it names exactly the existing fields, reasons and settings."""

import json
import re
from pathlib import Path
from typing import Any

import yaml

from konverge.crds import crd
from konverge.crds.apps_v1alpha1 import MAX_NAME, ApplicationInstance
from konverge.crds.durations import format_duration
from konverge.reconcilers import apps
from konverge.reconcilers.apps import words
from konverge.reconcilers.apps.kinds import HELM_RELEASE
from konverge_testing import Lab, install_crds
from konverge_testing.flux import flux_crds

ROOT = Path(__file__).parents[3]
TEXT = (ROOT / "docs" / "guide" / "apps.md").read_text()
EXAMPLES: list[dict[str, Any]] = [
    document
    for block in re.findall(r"^```yaml\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
    for document in yaml.safe_load_all(block)
]


def section(title: str) -> str:
    return TEXT.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def quoted(pattern: str, text: str = TEXT) -> set[str]:
    """Return everything in code quotes, outside of blocks, that matches a pattern."""
    prose = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    return {found for found in re.findall(r"`([^`]+)`", prose) if re.fullmatch(pattern, found)}


def test_page_begins_with_the_rights_of_charts_and_both_readmes_link_it() -> None:
    first = TEXT.split("\n\n")[1]
    assert first.startswith(
        "**Without further settings, every author of an ApplicationInstance can become cluster-admin.**"
    )
    warned = "apps.service_account", "apps.url_allow_list"
    assert all(f"`{name}`" in TEXT.partition("## Install")[0] for name in warned)
    assert "(guide/apps.md)" in (ROOT / "docs" / "README.md").read_text()
    assert "(docs/guide/apps.md)" in (ROOT / "README.md").read_text()


def test_every_setting_that_is_named_exists_and_every_policy_is_named() -> None:
    known = {f"apps.{name}" for name in apps.Settings.model_fields}
    named = {found.partition("=")[0] for found in quoted(r"apps\.[a-z_]+(=.*)?")}
    assert named <= known
    assert known - named == {"apps.drift_detection"} - named


def test_the_numbers_are_those_of_the_settings_and_of_the_schema() -> None:
    settings = apps.Settings()
    assert f"`apps.source_grace` ({format_duration(settings.source_grace).replace('s', ' s')})" in TEXT
    assert f"after {settings.uninstall_patience.total_seconds() / 60:g} minutes\n(`apps.uninstall_patience`)" in TEXT
    assert f"| `metadata.name` of a managed instance | {MAX_NAME} characters |" in section("Names")
    [version] = crd(ApplicationInstance)["spec"]["versions"]
    release = version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["release"]["properties"]["name"]
    assert f"| `spec.release.name` | {release['maxLength']} characters |" in section("Names")


def test_the_fields_are_those_of_the_definition() -> None:
    [version] = crd(ApplicationInstance)["spec"]["versions"]
    schema = version["schema"]["openAPIV3Schema"]["properties"]
    fields = {f"{part}.{name}" for part in ("spec", "status") for name in schema[part]["properties"]}
    rows = [line.split("|")[1] for line in section("An instance").splitlines() if line.startswith("| `")]
    assert quoted(r"(spec|status)\.\w+", " ".join(rows)) == fields


def test_the_guide_lists_every_reason_beside_its_condition() -> None:
    redacted: dict[str, set[str]] = {}
    type_ = ""
    for line in section("Conditions").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("|") and len(cells) == 3:
            type_ = next(iter(quoted(r"\w+", cells[0])), type_)
            redacted.setdefault(type_, set()).update(quoted(r"[A-Z]\w+", cells[1]))
    for name in vars(words.Type).values():
        if isinstance(name, str) and name[0].isupper() and hasattr(words, name):
            reasons = vars(getattr(words, name))
            known = {value for key, value in reasons.items() if key.isupper() and isinstance(value, str)}
            assert redacted[name] == known, name


async def test_the_examples_are_accepted_and_become_helm_releases(lab: Lab) -> None:
    await install_crds(lab.client, flux_crds())
    await lab.start(lambda manager: apps.install(manager, apps.Settings(service_account="tenant")))
    instances = [one for one in EXAMPLES if one["kind"] == "ApplicationInstance"]
    account, binding = (one for one in EXAMPLES if one["kind"] != "ApplicationInstance")
    assert binding["subjects"] == [{"kind": "ServiceAccount", **account["metadata"]}]
    assert account["metadata"]["name"] == "tenant"
    for one in instances:
        here = json.loads(json.dumps(one).replace('"namespace": "web"', f'"namespace": "{lab.namespace}"'))
        await lab.create(ApplicationInstance.decode(here))
    await lab.settled()
    for one in instances:
        release = await lab.get(HELM_RELEASE, one["metadata"]["name"])
        assert release.spec["serviceAccountName"] == "tenant"
