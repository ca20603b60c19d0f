"""`konverge apiserver run` before it serves: the definitions that it finds, and the mistakes that it rejects."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from konverge.daemon.main import program
from konverge_testing.apiserver_command import definitions_of

CRD = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: %s}\n"


def run(*words: str | Path) -> Result:
    return CliRunner().invoke(program, ["apiserver", "run", *map(str, words)], terminal_width=300)


def names(*paths: Path) -> list[str]:
    return [definition["metadata"]["name"] for definition in definitions_of(paths)]


def test_definitions_come_from_files_and_folders_and_other_documents_are_passed_over(tmp_path: Path) -> None:
    folder = tmp_path / "config" / "crd"
    (folder / "bases").mkdir(parents=True)
    (folder / "kustomization.yaml").write_text("kind: Kustomization\nresources: [bases/a.yaml]\n")
    (folder / "bases" / "a.yaml").write_text(f"---\n{CRD % 'a'}---\n{CRD % 'b'}---\nkind: Namespace\n")
    (folder / "bases" / "notes.txt").write_text(CRD % "no")
    (tmp_path / "one").write_text(CRD % "c")
    items = [{"kind": "CustomResourceDefinition", "metadata": {"name": "d"}}]
    (tmp_path / "list.json").write_text(json.dumps({"kind": "List", "items": items}))
    assert names(folder, tmp_path / "one", tmp_path / "list.json") == ["a", "b", "c", "d"]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ([], 2, "Missing option '--kubeconfig'"),
        (["--kubeconfig", "taken"], 1, "taken exists, and this command replaces no file: name another one"),
        (["--kubeconfig", "missing/new"], 1, "missing/new: No such file or directory"),
        (["--kubeconfig", "new", "--port", "65536"], 2, "65536 is not in the range"),
        (["--kubeconfig", "new", "--crds", "missing"], 2, "'missing' does not exist"),
        (["--kubeconfig", "new", "--crds", "taken"], 1, "taken has no CustomResourceDefinition: --crds takes files"),
        (["--kubeconfig", "new", "--crds", "broken"], 1, "cannot read broken: "),
    ],
)
def test_a_mistake_is_refused_in_one_line_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], code: int, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "taken").write_text("mine")
    (tmp_path / "broken").write_text("a: [")
    result = run(*words)
    assert (result.exit_code, "Traceback" in result.output) == (code, False)
    assert said in result.output
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"taken": "mine", "broken": "a: ["}
