"""`konverge models`: modules from a cluster and from files, written again by their own first lines, and compared with the API."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from konverge.crds import to_yaml
from konverge.crds.foreign.documents import find_kind, kinds_in
from konverge.crds.foreign.drift import differences
from konverge.crds.foreign.rendering import generated
from konverge.daemon.main import program
from konverge.daemon.models import cluster_kinds
from konverge.errors import UsageError
from konverge_testing import Lab, install_crds
from konverge_testing.apiserver.catalog import definitions
from konverge_testing.flux import flux_crds

DEFINITIONS = to_yaml(*flux_crds())
RELEASE = ("helm.toolkit.fluxcd.io/v2", "HelmRelease")


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("flux.yaml").write_text(DEFINITIONS)


def models(*words: str, input_: str | None = None) -> Result:
    return CliRunner().invoke(program, ["models", *words], input=input_, prog_name="konverge")


async def test_the_models_of_a_cluster_have_scope_and_plural(lab: Lab) -> None:
    await install_crds(lab.client, flux_crds())
    kinds = await cluster_kinds(lab.client, ["batch/v1", "v1", RELEASE[0]])
    facts = {each.kind: (each.namespaced, each.plural) for each in kinds}
    assert [facts[name] for name in ("Job", "Namespace", "HelmRelease")] == [
        (True, "jobs"),
        (False, "namespaces"),
        (True, "helmreleases"),
    ]
    release = find_kind(kinds, *RELEASE, "the cluster")
    former = list(kinds_in(json.loads(await lab.client.raw("GET", "/openapi/v2")), "OpenAPI v2"))
    assert find_kind(former, "batch/v1", "Job", "OpenAPI v2").plural == "jobs"
    of_file = models(*RELEASE, "--from", "flux.yaml").output
    assert differences(of_file, generated([release])) == []


async def test_a_version_that_the_cluster_does_not_serve_is_an_error(lab: Lab) -> None:
    with pytest.raises(UsageError, match=r"^the cluster does not serve batch/v2; did you mean batch/v1"):
        await cluster_kinds(lab.client, ["batch/v2"])


def test_a_module_is_written_again_by_its_first_lines_and_checked() -> None:
    written = models(*RELEASE, "--from", "flux.yaml", "--fields", "spec.interval", "-o", "flux.py")
    text = Path("flux.py").read_text()
    assert (written.exit_code, written.output) == (0, f"flux.py: {text.count('class ')} classes\n")
    checked = models("-o", "flux.py", "--check")
    assert (checked.exit_code, checked.output) == (0, "flux.py: as in the API\n")
    Path("flux.py").write_text(text.replace("interval: str", "interval: int"))
    drifted = models("-o", "flux.py", "--check")
    assert drifted.exit_code == 1
    assert drifted.output.splitlines() == [
        "Error: flux.py differs from the API; konverge models -o flux.py writes it again",
        "  HelmReleaseSpec.interval: int is now str",
    ]
    assert models("-o", "flux.py").exit_code == 0
    assert Path("flux.py").read_text() == text


def test_a_field_that_the_api_lost_fails_the_check() -> None:
    assert models("--from", "flux.yaml", "--fields", "HelmRelease.spec.interval", "-o", "flux.py").exit_code == 0
    Path("flux.yaml").write_text(DEFINITIONS.replace("interval:", "intervall:"))
    result = models("-o", "flux.py", "--check")
    assert result.exit_code == 1
    assert result.output.startswith(
        "Error: flux.py differs from the API: helm.toolkit.fluxcd.io/v2 HelmRelease has no field spec.interval; "
    )


def test_without_kinds_every_definition_is_written_in_its_stored_version() -> None:
    result = models("--crd", "-", input_=DEFINITIONS)
    names = [definition["spec"]["names"]["kind"] for definition in flux_crds()]
    assert result.exit_code == 0
    assert [name for name in names if f"class {name}(PartialResource):" not in result.output] == []


def test_a_module_of_many_classes_names_the_option_that_selects_fields() -> None:
    Path("api.json").write_text(json.dumps({"openapi": "3.0.0", "components": {"schemas": dict(definitions())}}))
    result = models("batch/v1", "Job", "--from", "api.json", "-o", "job.py")
    assert (result.exit_code, result.output) == (0, "job.py: 121 classes; --fields selects some of them\n")


@pytest.mark.parametrize(
    ("words", "code", "problem"),
    [
        ("Job", 2, "Job: write the API version before the kind, as in: konverge models batch/v1 Job"),
        ("Job batch/v1", 2, "Job: write the API version before the kind, as in: konverge models batch/v1 Job"),
        ("batch/v1", 2, "batch/v1: write a kind after the API version, as in: konverge models batch/v1 Job"),
        ("", 2, "name the kinds, as in: konverge models batch/v1 Job"),
        ("-o new.py", 2, "new.py does not exist, so name the kinds, as in: konverge models batch/v1 Job"),
        ("-o new.py --check --from flux.yaml", 1, "new.py does not exist; write it without --check"),
        ("-o mine.py", 2, "mine.py was not written by konverge models: name the kinds"),
        ("-o mine.py --from flux.yaml", 2, "mine.py was not written by konverge models; choose another file, or remove it"),
        ("--check", 2, "--check goes with --output FILE, the module to compare"),
        ("--from absent.yaml", 2, "--from absent.yaml: No such file or directory"),
        ("--from api.json", 2, "name the kinds; api.json has example.com/v1 Tank"),
        ("example.com/v1 tanks --from api.json", 2, "api.json has no example.com/v1 tanks; write the kind: Tank"),
        ("-o folder/new.py --from flux.yaml", 1, "folder/new.py: No such file or directory"),
        ("helm.toolkit.fluxcd.io/v2 HelmRelease --from flux.yaml --fields spec.chrt", 2, "helm.toolkit.fluxcd.io/v2 HelmRelease has no field spec.chrt; spec: did you mean chart"),
    ],
)  # fmt: skip
def test_a_mistake_is_a_message_that_names_the_remedy(words: str, code: int, problem: str) -> None:
    Path("mine.py").write_text("import this\n")
    tank = {"group": "example.com", "version": "v1", "kind": "Tank"}
    broken = {"type": "object", "properties": {"metadata": {}}, "x-kubernetes-group-version-kind": [tank]}
    paths = {"/apis/example.com/v1/tanks": {"get": {"x-kubernetes-group-version-kind": tank}}}
    Path("api.json").write_text(
        json.dumps({"openapi": "3.0.0", "paths": paths, "components": {"schemas": {"T": broken}}})
    )
    result = models(*words.split())
    assert (result.exit_code, "Error: " + problem in result.output) == (code, True), result.output
    assert Path("mine.py").read_text() == "import this\n"
