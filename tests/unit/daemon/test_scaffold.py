"""The names, the templates and the registry of `konverge init` and `konverge add`, and both commands without the programs of a project."""

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from konverge.daemon.config import load
from konverge.daemon.main import program
from konverge.daemon.scaffold import files
from konverge.daemon.scaffold.names import KindNames, ProjectNames
from konverge.daemon.scaffold.registry import BuildPart, with_part
from konverge.daemon.settings import Settings
from konverge.errors import UsageError

PAGE = Path(__file__).parents[3] / "docs" / "guide" / "start.md"
ALL = "webhook,finalizer,conversion"
PART = BuildPart("shop.carts.reconciler", "CONTROLLER", "CARTS")
FILES = frozenset(
    {
        *(
            ".dockerignore",
            ".github/workflows/check.yaml",
            ".gitignore",
            ".gitlab-ci.yml",
            ".pre-commit-config.yaml",
        ),
        *("Containerfile", "Makefile", "README.md", "pyproject.toml", "settings.yaml", "samples/guestbooks.yaml"),
        *(f"guestbook/{name}" for name in ("__init__.py", "guestbooks/__init__.py", "guestbooks/model.py")),
        *(f"guestbook/guestbooks/{name}.py" for name in ("decide", "reconciler", "render")),
        *("tests/test_guestbooks.py", "tests/test_guestbooks_decide.py"),
    }
)


def konverge(*words: str) -> Result:
    return CliRunner().invoke(program, list(words), prog_name="konverge")


def contents(folder: Path) -> dict[str, str]:
    return {path.relative_to(folder).as_posix(): path.read_text() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty present folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def shop(here: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The project shop-operator with the kind Shop, as the present folder."""
    assert konverge("init", "shop-operator", "--group", "shops.example.com").exit_code == 0
    monkeypatch.chdir(here / "shop-operator")
    return here / "shop-operator"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("Guestbook",), "write lower case letters, digits and dashes"),
        (("1st",), "beginning with a letter"),
        (("a/b",), "write lower case letters"),
        (("a" * 54,), "at most 53 characters"),
        (("json",), "would hide a Python module"),
        (("pydantic",), "write, for instance, pydantic-operator"),
        (("class",), "would hide"),
        (("tests",), "or a folder of that name"),
        (("shop", "--kind", "shop"), "the kind 'shop': write CamelCase"),
        (("shop", "--kind", "Web_Shop"), "write CamelCase"),
        (("shop", "--kind", "None"), "is a word of Python"),
        (("shop", "--kind", "A"), "its plural 'as' is a word of Python"),
        (("shop", "--group", "example"), "a domain with a dot"),
        (("shop", "--group", "Example.com"), "the group 'Example.com'"),
        (("shop", "--with", "webhook,magic"), "--with magic: the features are webhook, finalizer, conversion"),
    ],
)
def test_a_name_that_cannot_work_is_refused_before_anything_is_written(
    here: Path, words: tuple[str, ...], message: str
) -> None:
    result = konverge("init", *words)
    assert result.exit_code == 2
    assert message in result.output
    assert list(here.iterdir()) == []


def test_a_folder_with_content_is_refused_and_stays(here: Path) -> None:
    (here / "shop").mkdir()
    (here / "shop" / "notes").write_text("mine")
    result = konverge("init", "shop")
    assert result.exit_code == 2
    assert "shop exists and is not empty" in result.output
    assert contents(here) == {"shop/notes": "mine"}


def test_a_project_has_the_recommended_files_and_no_field_left(here: Path) -> None:
    result = konverge("init", "guestbook", "--kind", "Guestbook", "--group", "example.com")
    assert result.exit_code == 0, result.output
    written = contents(here / "guestbook")
    assert written.keys() == FILES
    assert f"guestbook: {len(FILES)} files" in result.output
    assert not [path for path, text in written.items() if "{{" in text.replace("${{ ", "")]
    project = tomllib.loads(written["pyproject.toml"])
    assert project["tool"]["konverge"] == {"build": "guestbook:build", "group": "example.com"}
    for path in FILES:
        if path.endswith((".yaml", ".yml")):
            yaml.safe_load(written[path])
        elif path.endswith(".py"):
            assert ast.get_docstring(ast.parse(written[path])), path


def test_the_verbs_image_and_settings_of_a_project_agree(here: Path) -> None:
    assert konverge("init", "guestbook", "--with", ALL).exit_code == 0
    written = contents(here / "guestbook")
    verbs = set(re.findall(r"^(\w+):.* ## ", written["Makefile"], re.MULTILINE))
    users = (written["README.md"], written[".gitlab-ci.yml"], written[".github/workflows/check.yaml"], PAGE.read_text())
    used = {verb for text in users for line in re.findall(r"\bmake ([a-z ]+)", text) for verb in line.split()[:1]}
    assert {"check", "demo", "test"} <= used <= verbs
    containerfile = written["Containerfile"]
    copied = re.findall(r"^COPY ([a-z.]+) ", containerfile, re.MULTILINE)
    assert copied == ["requirements.txt", "guestbook"]
    assert {f"!{name}" for name in copied} <= set(written[".dockerignore"].splitlines())
    assert "--require-hashes" in containerfile
    assert "\nUSER 65532:65532\n" in containerfile
    settings = load(Settings, flags={}, environ={}, file=str(here / "guestbook" / "settings.yaml"))
    assert not settings.warnings
    assert settings.settings.reconcile.concurrency == 4


def test_every_template_belongs_to_a_feature() -> None:
    folder = files._TEMPLATES
    templates = {path.relative_to(folder).as_posix().removesuffix(".in") for path in folder.rglob("*.in")}
    tables = (value for name, value in vars(files).items() if name.endswith("_FILES"))
    used = {template for table in tables for template in table}
    assert templates == used | {"conversion/version.py", "version/version.py"}


@pytest.mark.parametrize(
    ("name", "kind", "variable"),
    [
        ("guestbook", "Guestbook", "guestbook"),
        ("web-shop-operator", "WebShop", "web_shop"),
        ("a", "Db", "db"),
        ("types-operator", "List", "resource"),
        ("lambda-operator", "Lambda", "resource"),
        ("deployment-operator", "Deployment", "resource"),
        ("nodes", "NstanceMachineTemplate", "resource"),
    ],
)
def test_rendered_python_has_the_style_of_the_project(
    here: Path, monkeypatch: pytest.MonkeyPatch, name: str, kind: str, variable: str
) -> None:
    pytest.importorskip("ruff", reason="the environment of the wheel has no ruff")
    assert KindNames(kind, "example.com").variable == variable
    assert konverge("init", name, "--kind", kind, "--with", ALL).exit_code == 0
    monkeypatch.chdir(here / name)
    assert konverge("add", "kind", "Other").exit_code == 0
    assert konverge("add", "version", "v2", "--kind", "Other").exit_code == 0
    for command in (("check",), ("format", "--check")):
        checked = subprocess.run(
            [sys.executable, "-m", "ruff", *command, "."], capture_output=True, text=True, check=False
        )
        assert checked.returncode == 0, checked.stdout + checked.stderr


BUILD = """import konverge as kv

from shop.shops.reconciler import CONTROLLER as SHOPS


def build(manager: kv.Manager) -> None:
    manager.add(SHOPS)
"""
BUILD_WITH_CARTS = """import konverge as kv

from shop.carts.reconciler import CONTROLLER as CARTS
from shop.shops.reconciler import CONTROLLER as SHOPS


def build(manager: kv.Manager) -> None:
    manager.add(SHOPS)
    manager.add(CARTS)
"""


def test_a_part_is_imported_in_order_and_added_last() -> None:
    assert with_part(BUILD, PART) == BUILD_WITH_CARTS
    later = BuildPart("shop.users.reconciler", "CONTROLLER", "USERS")
    text = with_part(BUILD_WITH_CARTS, later)
    assert text is not None
    assert text.splitlines()[3:5] == [
        "from shop.shops.reconciler import CONTROLLER as SHOPS",
        "from shop.users.reconciler import CONTROLLER as USERS",
    ]
    assert text.endswith("    manager.add(CARTS)\n    manager.add(USERS)\n")


@pytest.mark.parametrize(
    "changed",
    [
        BUILD.replace("manager", "m"),
        BUILD.replace("def build", "async def build"),
        BUILD.replace("def build", "@traced\ndef build"),
        BUILD.replace("manager: kv.Manager", "manager: kv.Manager, debug: bool = False"),
        BUILD + "    return None\n",
        BUILD + "    if SHOPS:\n        manager.add(SHOPS)\n",
        BUILD.replace("-> None:\n    manager.add(SHOPS)", "-> None: manager.add(SHOPS)"),
        BUILD + "\n\nCARTS = 1\n",
        BUILD + BUILD,
        BUILD.replace("def build", "def other"),
        "build = shops.build\n",
        "def build(manager",
    ],
)
def test_a_build_of_another_form_is_left_to_its_author(changed: str) -> None:
    assert with_part(changed, PART) is None


def test_add_writes_new_files_and_changes_only_build(shop: Path) -> None:
    before = contents(shop)
    (shop / "shop_operator" / "shops" / "model.py").write_text(model := before["shop_operator/shops/model.py"] + "\n")
    for words in (
        ("kind", "Cart", "--with", "finalizer"),
        ("webhook", "Shop"),
        ("version", "v2", "--kind", "Shop"),
    ):
        result = konverge("add", *words)
        assert result.exit_code == 0, result.output
        assert "changed  shop_operator/__init__.py" in result.output
    after = contents(shop)
    assert after["shop_operator/shops/model.py"] == model
    assert {path for path in before if after[path] != before[path]} == {
        "shop_operator/__init__.py",
        "shop_operator/shops/model.py",
    }
    build = ast.parse(after["shop_operator/__init__.py"]).body[-1]
    calls = ["SHOPS", "CARTS", "SHOPS_WEBHOOK", "SHOPS_CONVERSION"]
    assert [ast.unparse(line) for line in getattr(build, "body", ())][1:] == [f"manager.add({name})" for name in calls]
    assert '"shops.example.com/v2"' in after["shop_operator/shops/v2.py"]


def test_add_prints_the_lines_for_a_build_of_another_form(shop: Path) -> None:
    registry = shop / "shop_operator" / "__init__.py"
    registry.write_text(own := registry.read_text() + "    return None\n")
    result = konverge("add", "kind", "Cart")
    assert result.exit_code == 0, result.output
    assert (
        "    from shop_operator.carts.reconciler import CONTROLLER as CARTS\n    manager.add(CARTS)\n" in result.output
    )
    assert registry.read_text() == own


def test_a_further_version_is_written_and_its_two_lines_are_printed(shop: Path) -> None:
    assert konverge("add", "version", "v2", "--kind", "Shop").exit_code == 0
    conversion = (shop / "shop_operator" / "shops" / "conversion.py").read_text()
    result = konverge("add", "version", "v3", "--kind", "Shop")
    assert "    .version(v3.Shop, up=v3.up, down=v3.down)\n" in result.output
    assert (shop / "shop_operator" / "shops" / "conversion.py").read_text() == conversion


def table(project: Path, text: str) -> None:
    path = project / "pyproject.toml"
    path.write_text(path.read_text().replace("[tool.konverge]", text))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("kind", "Shop"), "exists, and nothing was written"),
        (("kind", "cart"), "write CamelCase"),
        (("webhook", "Shp"), "did you mean Shop?"),
        (("webhook", "Cart"), "the kinds are Shop"),
        (("version", "v1", "--kind", "Shop"), "Shop has the version v1 in model.py"),
        (("version", "2", "--kind", "Shop"), "the version '2' is written as in v1"),
    ],
)
def test_add_refuses_with_the_remedy_and_writes_nothing(shop: Path, words: tuple[str, ...], message: str) -> None:
    before = contents(shop)
    result = konverge("add", *words)
    assert result.exit_code == 2
    assert message in result.output
    assert contents(shop) == before


def test_add_outside_of_a_project_names_the_remedy(here: Path) -> None:
    assert "run konverge add in the folder that konverge init wrote" in konverge("add", "webhook", "Shop").output
    (here / "pyproject.toml").write_text("[project]\nname = 'shop'\n")
    assert "add [tool.konverge] with build" in konverge("add", "webhook", "Shop").output
    (here / "pyproject.toml").write_text("[project\n")
    assert "pyproject.toml: " in konverge("add", "webhook", "Shop").output


def test_a_model_with_a_syntax_error_is_named(shop: Path) -> None:
    (shop / "shop_operator" / "shops" / "model.py").write_text("class Shop(\n")
    assert "model.py: line 1" in konverge("add", "webhook", "Shop").output


def test_write_creates_all_files_or_none(tmp_path: Path) -> None:
    (tmp_path / "b").write_text("mine")
    with pytest.raises(UsageError, match="b exists, and nothing was written"):
        files.write(tmp_path, {"a": "", "b": ""})
    assert contents(tmp_path) == {"b": "mine"}


def features(names: Iterable[str]) -> set[str]:
    return set(files.kind_files("shop", KindNames("Shop", "example.com"), names))


def test_each_feature_adds_its_files_and_its_test() -> None:
    plain = features(())
    assert {name: sorted(features((name,)) - plain) for name in files.FEATURES} == {
        "webhook": ["shop/shops/webhook.py", "tests/test_shops_webhook.py"],
        "finalizer": ["shop/shops/deletion.py", "tests/test_shops_deletion.py"],
        "conversion": ["shop/shops/conversion.py", "shop/shops/v1alpha1.py", "tests/test_shops_conversion.py"],
    }


def test_a_project_name_gives_the_package() -> None:
    assert ProjectNames("shop-operator").package == "shop_operator"
