"""`konverge chart`: which files it writes, and which it does not touch."""

from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from konverge.charts import FOLDER, own_chart
from konverge.daemon.main import program

EXAMPLE = str(Path(__file__).parents[3] / "examples" / "backup_admission.py")


pytestmark = pytest.mark.usefixtures("untouched_imports")


def chart(*words: str) -> Result:
    return CliRunner().invoke(program, ["chart", *words], prog_name="konverge")


def files_of(folder: Path) -> dict[str, str]:
    return {path.relative_to(folder).as_posix(): path.read_text() for path in folder.rglob("*") if path.is_file()}


def test_without_an_operator_our_own_chart_is_written(tmp_path: Path) -> None:
    answer = chart("-o", str(tmp_path / "new"))
    assert answer.exit_code == 0, answer.output
    assert files_of(tmp_path / "new") == own_chart() == files_of(FOLDER)


def test_the_chart_of_an_operator_says_whose_it_is_in_every_file(tmp_path: Path) -> None:
    answer = chart(
        f"{EXAMPLE}:build", "-o", str(tmp_path), "--name", "backup", "--version", "2.1.0", "--app-version", "7"
    )
    assert answer.exit_code == 0, answer.output
    files = files_of(tmp_path)
    described = yaml.safe_load(files["Chart.yaml"])
    assert [described[key] for key in ("name", "version", "appVersion")] == ["backup", "2.1.0", "7"]
    values = yaml.safe_load(files["values.yaml"])
    assert values["image"]["repository"] == "backup"
    assert values["args"] == ["run", f"{EXAMPLE}:build"]
    assert values["webhooks"]["enabled"], "its webhooks are served unless a value says otherwise"
    assert "families" not in values
    assert not [name for name, text in files.items() if name.startswith("templates/") and '"konverge.name' in text]
    assert {name for name in files if name.startswith("files/")} == {
        "files/daemon/alerts.yaml",
        "files/daemon/dashboard.json",
        "files/operator.yaml",
        "files/operator/crd-backups.example.com.yaml",
        "files/operator/rules-certificates.yaml",
        "files/operator/rules-election.yaml",
        "files/operator/rules-members.yaml",
        "files/operator/rules-metrics.yaml",
        "files/operator/rules-ordinals.yaml",
        "files/operator/rules.yaml",
        "files/operator/users.yaml",
        "files/operator/webhooks.yaml",
    }


def test_regenerated_chart_drops_obsolete_parts_and_keeps_foreign_additions(tmp_path: Path) -> None:
    chart(f"{EXAMPLE}:build", "-o", str(tmp_path))
    (tmp_path / "templates" / "mine.yaml").write_text("{}")
    for path in ("files/operator/crd-gone.example.com.yaml", "templates/cluster-api.yaml"):
        (tmp_path / path).write_text("{}")
    chart(f"{EXAMPLE}:build", "-o", str(tmp_path))
    assert "templates/mine.yaml" in files_of(tmp_path)
    assert "files/operator/crd-gone.example.com.yaml" not in files_of(tmp_path)
    assert "templates/cluster-api.yaml" not in files_of(tmp_path), "only the daemon's chart has it"


def test_a_folder_that_holds_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "letters").write_text("dear")
    answer = chart("-o", str(tmp_path))
    assert answer.exit_code == 1
    assert "the folder is not empty and holds no chart; name another one with -o" in answer.output
    assert files_of(tmp_path) == {"letters": "dear"}


def test_an_operator_that_does_not_exist_is_wrong_usage(tmp_path: Path) -> None:
    answer = chart("no_such_module:build", "-o", str(tmp_path / "new"))
    assert answer.exit_code == 2
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("--name", "Shop"), "write lower case letters"),
        (("--name", "my_shop"), "write lower case letters"),
        (("--name", "a/b"), "write lower case letters"),
        (("--name", "2shop"), "write lower case letters"),
        (("--name", "shop-"), "write lower case letters"),
        (("--name", "s" * 54), "at most 53 characters"),
        (("--name", ""), "write lower case letters"),
        (("--version", "latest"), "SemVer 2"),
        (("--version", "1.2"), "SemVer 2"),
        (("--version", "v1.2.3"), "SemVer 2"),
        (("--version", "1.2.3-01"), "SemVer 2"),
        (("--version", "1.02.3"), "SemVer 2"),
        (("--version", "1.2.3\n"), "SemVer 2"),
        (("--version", "1.2.3+build"), "add --app-version"),
        (("--app-version", "a b"), "tag of an image"),
    ],
    ids=str,
)
def test_a_name_or_version_that_helm_refuses_is_wrong_usage(
    tmp_path: Path, words: tuple[str, ...], problem: str
) -> None:
    answer = chart(f"{EXAMPLE}:build", "-o", str(tmp_path / "new"), *words)
    assert answer.exit_code == 2
    assert problem in answer.output
    assert not (tmp_path / "new").exists()


def test_a_version_with_metadata_takes_a_tag_of_its_own(tmp_path: Path) -> None:
    given = ("--name", "shop", "--version", "1.2.3-rc.1+build.7", "--app-version", "1.2.3_b7")
    answer = chart(f"{EXAMPLE}:build", "-o", str(tmp_path / "new"), *given)
    assert answer.exit_code == 0, answer.output
    assert 'version: "1.2.3-rc.1+build.7"' in (tmp_path / "new" / "Chart.yaml").read_text()
