"""Families of other distributions: discovery, settings, installation, and the errors of a broken distribution."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hosted import NAMES, daemon_settings, distribution

from konverge.crds.catalogue import own_resources
from konverge.daemon.config import load
from konverge.daemon.families import (
    at_home,
    check_kinds,
    definitions_of,
    discover,
    install_families,
    installed_settings,
)
from konverge.daemon.programs import narrow
from konverge.errors import ConfigError, UsageError
from konverge.families import Family
from konverge.reconcilers.quota.family import FAMILY as QUOTA
from konverge.runtime import Manager, WebhookSettings

BEDS = """
import konverge as kv
from pydantic import BaseModel
from konverge.families import Family
from konverge.reconcilers.quota.family import FAMILY as QUOTA

class Settings(BaseModel):
    beds: int = 3

@kv.resource("{group}/v1")
class {kind}(kv.CustomResource[kv.Model, kv.Status]):
    "A kind."

class Reconciler:
    async def reconcile(self, one, ctx):
        return kv.Done()

def install(manager, settings):
    manager.add(kv.Controller.of({kind}).named("{controller}").reconciled_by(Reconciler()))
    {more}

FAMILY = Family(name="{name}", summary="Beds", settings=Settings, install=install, kinds=({kind},), cluster_wide={wide})
"""


def source(
    name: str, kind: str = "Bed", group: str = "beds.test", controller: str = "", *, wide: bool = False, more: str = ""
) -> str:
    return BEDS.format(name=name, kind=kind, group=group, controller=controller or name, wide=wide, more=more)


Install = Callable[..., None]


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Install a distribution with one family, whose module has the distribution's name."""
    modules = set(sys.modules)

    def add(name: str, entry: str, text: str | None = None) -> None:
        module = name.replace("-", "_")
        folder = distribution(tmp_path / name, name, entry, modules={} if text is None else {module: text})
        monkeypatch.syspath_prepend(str(folder))

    yield add
    for name in set(sys.modules) - modules:
        if (getattr(sys.modules[name], "__file__", None) or "").startswith(str(tmp_path)):
            del sys.modules[name]


def test_our_families_are_entry_points_and_define_every_kind_of_ours() -> None:
    kinds = [model for hosted in discover() for model in hosted.family.models()]
    assert NAMES == ("apps", "clusters", "machines", "pools", "quota", "workspaces")
    assert len(kinds) == len(set(kinds))
    assert set(kinds) == set(own_resources())


def test_documentation_of_our_families_exists() -> None:
    root = Path(__file__).parents[3]
    listed = (root / "docs/README.md").read_text()
    for page in (Path(hosted.family.documentation) for hosted in discover()):
        assert (root / page).is_file()
        assert f"({page.relative_to('docs')})" in listed


async def test_family_of_another_distribution_is_hosted_with_its_settings(installed: Install) -> None:
    installed("acme-beds", "beds = acme_beds:FAMILY", source("beds"))
    settings = load(installed_settings(), flags={}, environ={"KONVERGE_BEDS__BEDS": "5"}).settings
    (hosted,) = (hosted for hosted in settings.families if hosted.name == "beds")
    assert str(hosted) == "the family beds of acme-beds 1.0.0"
    assert settings.of(hosted.family).beds == 5
    manager = Manager("konverge")
    assert install_families(manager, settings)["beds"] == ("beds",)
    assert "beds" in [controller.name for controller in manager.controllers]


MIRRORS = """
from mirror_operator import MIRRORS, Mirror, MirrorV1, build
from pydantic import BaseModel
from konverge.families import Family

class Settings(BaseModel):
    beds: int = 3

def install(manager, settings):
    build(manager)

FAMILY = Family(name="beds", summary="Mirrors", settings=Settings, install=install, kinds=(Mirror, MirrorV1))
"""


async def test_family_with_a_kind_in_two_versions_is_hosted_with_its_conversion(installed: Install) -> None:
    installed("acme-beds", "beds = acme_beds:FAMILY", MIRRORS)
    settings = daemon_settings(webhooks=WebhookSettings(service="web/hooks"))
    (hosted,) = (hosted for hosted in settings.families if hosted.name == "beds")
    (definition,) = definitions_of(hosted.family, settings)
    path = "/convert-mirrors-example-com-mirror"
    assert definition["spec"]["conversion"]["webhook"]["clientConfig"]["service"]["path"] == path
    (plain,) = definitions_of(hosted.family, daemon_settings(), plain=True)
    assert "conversion" not in plain["spec"]
    manager = Manager("konverge")
    assert install_families(manager, settings)["beds"] == ("mirror", path)
    await narrow(manager, daemon_settings(controllers=("quota",)), {"quota": ("pool",), "beds": ("mirror", path)})
    assert manager.conversions == (), "a conversion is dropped with its family"


async def test_cluster_wide_family_of_another_distribution_needs_the_cluster(installed: Install) -> None:
    installed("acme-beds", "beds = acme_beds:FAMILY", source("beds", wide=True))
    assert "beds" not in install_families(Manager("konverge"), daemon_settings(namespace="web"))
    with pytest.raises(UsageError, match="the family 'beds' reconciles cluster-wide objects"):
        install_families(Manager("konverge"), daemon_settings(namespace="web", controllers=("beds",)))


@pytest.mark.parametrize(
    ("entry", "text", "message"),
    [
        pytest.param(
            "beds = acme_nothing:FAMILY", None, "ModuleNotFoundError: No module named 'acme_nothing'", id="no module"
        ),
        pytest.param("beds = acme_beds:FAMILY", "1 / 0", "ZeroDivisionError: division by zero", id="import fails"),
        pytest.param("beds = acme_beds:FAMLY", source("beds"), "has no attribute 'FAMLY'", id="no attribute"),
        pytest.param(
            "beds = acme_beds:install", source("beds"), "is of type function; the entry point must name", id="type"
        ),
        pytest.param("rows = acme_beds:FAMILY", source("beds"), "its object has the name beds", id="other name"),
        pytest.param("drain = acme_beds:FAMILY", source("drain"), "drain is a setting of every operator", id="setting"),
        pytest.param("of = acme_beds:FAMILY", source("of"), "of is a setting of every operator", id="method"),
        pytest.param(
            "a_b = acme_beds:FAMILY", source("a_b"), "family 'a_b': use lower case letters and digits", id="name"
        ),
        pytest.param("daemon = acme_beds:FAMILY", source("daemon"), "and none of daemon, operator", id="reserved"),
        pytest.param(
            "beds = acme_beds:FAMILY",
            source("beds").replace("beds: int = 3", "beds: int"),
            "family beds: give the settings beds a default",
            id="required setting",
        ),
        pytest.param(
            "beds = acme_beds:FAMILY",
            source("beds").replace("beds: int = 3", "model_config = {'validate_default': True}; beds: int = 'three'"),
            "the defaults of its settings are not valid; correct them: 1 validation error",
            id="invalid default",
        ),
        pytest.param(
            "beds = acme_beds:FAMILY",
            source("beds").replace('@kv.resource("beds.test/v1")', ""),
            "declare Bed with @kv.resource",
            id="undeclared kind",
        ),
    ],
)
def test_broken_family_is_one_error_with_its_distribution(
    installed: Install, entry: str, text: str | None, message: str
) -> None:
    installed("acme-beds", entry, text)
    with pytest.raises(ConfigError) as failed:
        discover()
    assert f"the family {entry.partition(' ')[0]} of acme-beds 1.0.0: " in str(failed.value)
    assert message in str(failed.value)


@pytest.mark.parametrize(
    ("kinds", "message"),
    [
        ("lambda: __import__('no_such_module')", "its kinds cannot be imported (ModuleNotFoundError: No module named"),
        ("lambda: Bed", "its kinds cannot be imported (TypeError: "),
        ("lambda: (Settings,)", "declare Settings with @kv.resource"),
    ],
    ids=["failed import", "no tuple", "undeclared kind"],
)
async def test_broken_function_of_kinds_is_one_error_with_its_distribution(
    installed: Install, kinds: str, message: str
) -> None:
    installed("acme-beds", "beds = acme_beds:FAMILY", source("beds").replace("kinds=(Bed,)", f"kinds={kinds}"))
    with pytest.raises(ConfigError) as failed:
        check_kinds(discover())
    assert "the family beds of acme-beds 1.0.0: " in str(failed.value)
    assert message in str(failed.value)


def test_two_families_of_one_name_are_an_error_with_both_distributions(installed: Install) -> None:
    installed("acme-quota", "quota = acme_quota:FAMILY", source("quota"))
    with pytest.raises(ConfigError) as failed:
        discover()
    assert "have the same name, quota: rename it in one family, or uninstall one distribution" in str(failed.value)
    assert "the family quota of acme-quota 1.0.0" in str(failed.value)
    assert "the family quota of konverge " in str(failed.value)


def test_two_families_of_one_kind_are_an_error_with_both_distributions(installed: Install) -> None:
    installed("acme-beds", "beds = acme_beds:FAMILY", source("beds"))
    installed("acme-rows", "rows = acme_rows:FAMILY", source("rows"))
    with pytest.raises(ConfigError, match=r"have the same kind, beds.beds.test: rename it in one family") as failed:
        discover()
    assert "of acme-beds 1.0.0" in str(failed.value)
    assert "of acme-rows 1.0.0" in str(failed.value)


WEBHOOK = 'manager.add(kv.Webhook.validating(kv.kind("v1", "Secret")).handled_by(lambda secret, request: kv.Allow()))'


@pytest.mark.parametrize(
    ("controller", "more", "message"),
    [
        ("bed", "", "'bed'"),
        ("", "manager.run_while_leading('water', None)", "background work 'water'"),
        ("", WEBHOOK, "webhook"),
    ],
    ids=["controller", "background work", "path of a webhook"],
)
async def test_families_that_clash_are_an_error_with_both_distributions(
    installed: Install, controller: str, more: str, message: str
) -> None:
    installed("acme-beds", "beds = acme_beds:FAMILY", source("beds", controller=controller, more=more))
    installed("acme-rows", "rows = acme_rows:FAMILY", source("rows", "Row", controller=controller, more=more))
    with pytest.raises(UsageError) as failed:
        install_families(Manager("konverge"), daemon_settings())
    assert "the family rows of acme-rows 1.0.0 cannot run beside the family beds of acme-beds 1.0.0: " in str(
        failed.value
    )
    assert message in str(failed.value)


async def test_family_that_fails_by_itself_keeps_its_error(installed: Install) -> None:
    text = source("beds", more="raise kv.KonvergeError('no water')").replace("kv.KonvergeError", "kv.errors.UsageError")
    installed(
        "acme-beds",
        "beds = acme_beds:FAMILY",
        text.replace("import konverge as kv", "import konverge as kv, konverge.errors"),
    )
    with pytest.raises(UsageError, match=r"^no water$"):
        install_families(Manager("konverge"), daemon_settings())


def test_own_namespace_is_filled_in_where_a_family_has_none() -> None:
    settings = at_home(daemon_settings(machines={"namespace": "nstance"}), "konverge")
    homes = {
        hosted.name: getattr(settings.of(hosted.family), hosted.family.home)
        for hosted in settings.families
        if hosted.family.home
    }
    assert homes == {"apps": "konverge", "clusters": "konverge", "machines": "nstance", "workspaces": "konverge"}


def test_definitions_follow_the_settings_of_the_family() -> None:
    first, second = (
        definitions_of(QUOTA, daemon_settings(quota={"semantics": semantics})) for semantics in ("v0.12", "v0.14")
    )
    assert [crd["metadata"]["name"] for crd in first] == [crd["metadata"]["name"] for crd in second]
    assert first != second


def test_settings_of_a_family_that_is_not_installed_are_a_clear_error() -> None:
    with pytest.raises(
        ConfigError,
        match=r"there is no setting beds\.beds; .* install the distribution of a family before its settings",
    ):
        load(installed_settings(), flags={"beds.beds": "5"}, environ={})


def test_without_any_entry_point_the_installation_is_incomplete(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("konverge.daemon.families.entry_points", lambda group: ())
    with pytest.raises(ConfigError, match="install konverge again"):
        discover()


def test_a_family_is_compared_by_identity() -> None:
    first, second = (Family(name="beds", summary="", settings=type(daemon_settings()), install=print) for _ in "ab")
    assert first != second
