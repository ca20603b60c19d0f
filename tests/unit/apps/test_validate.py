"""Validation: each rule by itself, and that no message repeats a secret."""

from typing import Any

import pytest

from konverge.errors import InvalidObject
from konverge.reconcilers.apps import ForbiddenVersions, Settings
from konverge.reconcilers.apps.validate import CheckInput, SpecProblem, problem_of


def check(
    make: Any, spec: dict[str, Any] | None = None, *, settings: Settings | None = None, **changes: Any
) -> SpecProblem | None:
    facts = {name: changes.pop(name) for name in ("release", "release_unknown", "namespace_labels") if name in changes}
    return problem_of(
        CheckInput(instance=make.instance(spec=spec or {}, **changes), settings=settings or Settings(), **facts)
    )


def test_a_good_instance_has_no_problem(make: Any) -> None:
    assert check(make) is None


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ({"chart": None}, "spec.chart is missing"),
        ({"release": None}, "spec.release is missing"),
        ({"values": None}, "spec.values is missing"),
        ({"mode": "placeholder", "release": None, "values": None}, "spec.chart is not allowed with mode placeholder"),
        ({"chart": {"url": "oci://registry.example.com/charts"}}, "use sourceType oci"),
        ({"chart": {"sourceType": "oci"}}, "spec.chart.url must begin with oci://"),
        ({"chart": {"url": "https://charts.example.com/good/../evil"}}, "must not contain '..'"),
        ({"release": {"namespace": "other"}}, "it must be the instance's own namespace, 'team'"),
        ({"values": {"source": "inline"}}, "spec.values.inline is missing"),
        ({"values": {"source": "secretRef", "inline": {}}}, "spec.values.secretRef is missing"),
        (
            {"values": {"source": "inline", "inline": {}, "configMapRef": {"name": "a", "key": "b"}}},
            "spec.values.configMapRef is not allowed beside source inline",
        ),
        (
            {"values": {"source": "inline", "inline": {"db": {"password": "hunter2"}}}},
            "spec.values.inline.db.password look like secrets",
        ),
        (
            {"values": {"source": "inline", "inline": {"list": [[]] * 5_001, "password": "hunter2"}}},
            "spec.values.inline has more than 5,000 values; put them into a ConfigMap or Secret and refer to it",
        ),
    ],
)
def test_a_spec_that_the_schema_cannot_check_is_refused_with_the_remedy(
    make: Any, spec: dict[str, Any], says: str
) -> None:
    problem = check(make, spec)
    assert problem is not None
    assert problem.reason == "ValidationFailed"
    assert says in problem.message
    assert "hunter2" not in problem.message


@pytest.mark.parametrize("levels", [100, 101, 200, 900])
def test_values_have_at_most_a_hundred_levels(make: Any, levels: int) -> None:
    """900 levels are about the most that the API server stores and this program still decodes."""
    values: Any = 1
    for number in range(levels):
        values = {"a": values} if number % 2 else [values]
    problem = check(make, {"values": {"source": "inline", "inline": values if levels % 2 == 0 else {"b": values}}})
    if levels == 100:
        assert problem is None
    else:
        assert problem is not None
        assert problem == SpecProblem(
            "ValidationFailed", "spec.values.inline has more than 100 levels; make it flatter"
        )


def test_all_problems_of_a_spec_are_reported_in_one_message(make: Any) -> None:
    problem = check(make, {"release": {"namespace": "other"}, "values": {"source": "secretRef"}})
    assert problem is not None
    assert "spec.release.namespace" in problem.message
    assert "spec.values.secretRef" in problem.message


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"chart": {"version": "^1.2"}}, ".spec.chart.version"),
        ({"chart": {"version": "latest"}}, ".spec.chart.version"),
        ({"chart": {"sourceType": "git"}}, ".spec.chart.sourceType"),
        ({"chart": {"url": "https://user:hunter2@charts.example.com"}}, ".spec.chart.url"),
        ({"chart": {"name": "charts/shop"}}, ".spec.chart.name"),
        ({"release": {"name": "a" * 54}}, ".spec.release.name"),
        ({"mode": "both"}, ".spec.mode"),
        ({"appRef": None}, ".spec.appRef"),
        ({"values": {"source": "secretRef", "secretRef": {"name": "vals"}}}, ".spec.values.secretRef.key"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_spec_against_a_pattern_does_not_decode_even_under_an_older_crd(
    make: Any, spec: dict[str, Any], field: str
) -> None:
    with pytest.raises(InvalidObject) as refused:
        make.instance(spec=spec)
    assert refused.value.field == field
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    ("length", "spec", "refused"),
    [
        (63, {}, False),
        (64, {}, True),
        (253, {"chart": {"sourceType": "oci", "url": "oci://registry.example.com/charts"}}, True),
        (253, {"mode": "placeholder", "chart": None, "release": None, "values": None}, False),
    ],
)
def test_name_too_long_for_flux_labels_is_refused_with_the_limit(
    make: Any, length: int, spec: dict[str, Any], refused: bool
) -> None:
    problem = check(make, spec, name="a" * length)
    assert (problem is not None) is refused
    if problem is not None:
        assert problem.reason == "ValidationFailed"
        assert f"metadata.name has {length} characters; Flux writes it into labels, which take 63" in problem.message


def test_a_placeholder_may_name_a_release_of_its_own_namespace(make: Any) -> None:
    """The original's TestApplicationInstanceWebhookAdmitsPlaceholderReleaseSameNamespace, and its counterpart."""
    assert check(make, {"mode": "placeholder", "chart": None, "values": None}) is None
    elsewhere = {"mode": "placeholder", "chart": None, "values": None, "release": {"namespace": "other"}}
    problem = check(make, elsewhere)
    assert problem is not None
    assert "spec.release.namespace is 'other'; it must be the instance's own namespace, 'team'" in problem.message


def test_a_placeholder_needs_neither_chart_nor_release_nor_values(make: Any) -> None:
    assert check(make, {"mode": "placeholder", "chart": None, "release": None, "values": None}) is None


PLACEHOLDER = {"mode": "placeholder", "chart": None, "release": None, "values": None}


def test_an_instance_with_a_release_does_not_become_a_placeholder(make: Any) -> None:
    problem = check(make, PLACEHOLDER, release=make.release())
    assert problem is not None
    assert "spec.mode cannot become placeholder" in problem.message


@pytest.mark.parametrize(("known", "refused"), [(True, True), (False, False)])
def test_an_instance_that_may_own_a_release_does_not_become_a_placeholder(
    make: Any, known: bool, refused: bool
) -> None:
    status = {"helmReleaseRef": {"name": "shop", "namespace": "team"}} if known else {}
    assert (check(make, PLACEHOLDER, status=status, release_unknown=True) is not None) is refused


def test_a_placeholder_whose_release_is_gone_is_accepted(make: Any) -> None:
    assert check(make, PLACEHOLDER, status={"helmReleaseRef": {"name": "shop", "namespace": "team"}}) is None


RUNNING = {"releaseName": "shop", "targetNamespace": "team", "chart": {"spec": {"chart": "shop"}}}


@pytest.mark.parametrize(
    ("spec", "field"),
    [({"release": {"name": "other"}}, "spec.release.name"), ({"chart": {"name": "other"}}, "spec.chart.name")],
)
def test_a_running_release_is_not_renamed(make: Any, spec: dict[str, Any], field: str) -> None:
    problem = check(make, spec, release=make.release(spec=RUNNING), generation=2)
    assert problem is not None
    assert f"{field} cannot change" in problem.message


def test_edited_release_name_on_the_helm_release_is_a_conflict(make: Any) -> None:
    release = make.release(
        spec={**RUNNING, "releaseName": "edited"}, annotations={"vworkspace.io/last-applied-generation": "1"}
    )
    assert check(make, release=release, generation=1) is None


# --- policies --------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "allowed"),
    [
        ("https://charts.example.com", True),
        ("https://charts.example.com/stable", True),
        ("https://charts.example.com.evil.org", False),
        ("https://charts.example.comx", False),
        ("http://charts.example.com", False),
        ("https://other.example.com", False),
    ],
)
def test_allow_list_prefix_does_not_match_a_longer_host_name(make: Any, url: str, allowed: bool) -> None:
    problem = check(make, {"chart": {"url": url}}, settings=Settings(url_allow_list=("https://charts.example.com",)))
    assert (problem is None) is allowed
    if problem is not None:
        assert problem.reason == "PolicyDenied"


@pytest.mark.parametrize(
    ("chart", "version", "annotations", "refused"),
    [
        ("shop", "1.2.1", {}, True),
        ("shop", "1.2.3", {}, False),
        ("other", "1.2.1", {}, False),
        ("other", "0.1.0", {}, True),
        ("shop", "1.2.1", {"apps.vworkspace.io/override-forbidden": "true"}, False),
        ("shop", "1.2.1", {"apps.vworkspace.io/override-forbidden": "1.2.1"}, False),
        ("shop", "1.2.1", {"apps.vworkspace.io/override-forbidden": "1.2.0"}, True),
    ],
)
def test_forbidden_versions_are_denied_unless_overridden(
    make: Any, chart: str, version: str, annotations: dict[str, str], refused: bool
) -> None:
    settings = Settings(
        forbidden_versions=(
            ForbiddenVersions(chart="shop", versions=">=1.2.0 <1.2.3"),
            ForbiddenVersions(chart="*", versions="0.1.0"),
        )
    )
    problem = check(make, {"chart": {"name": chart, "version": version}}, settings=settings, annotations=annotations)
    assert (problem is not None) is refused
    if problem is not None:
        assert problem.reason == "PolicyDenied"


@pytest.mark.parametrize(
    ("gate", "label", "refused"),
    [(True, "eu-1", False), (True, "eu-2", True), (True, "", False), (False, "eu-2", False)],
)
def test_the_cluster_gate_refuses_another_clusters_instances(make: Any, gate: bool, label: str, refused: bool) -> None:
    labels = {"app.vworkspace.io/cluster-id": label} if label else {}
    settings = Settings(cluster_id="eu-1", require_cluster_id=gate)
    assert (check(make, settings=settings, labels=labels) is not None) is refused


@pytest.mark.parametrize(
    ("gate", "labels", "refused"),
    [
        (True, {"managed-by": "vworkspace"}, False),
        (True, {}, True),
        (True, None, True),
        (True, {"managed-by": "x"}, True),
        (False, {}, False),
    ],
)
def test_the_namespace_gate_refuses_a_namespace_without_the_label(
    make: Any, gate: bool, labels: Any, refused: bool
) -> None:
    assert (
        check(make, settings=Settings(require_namespace_label=gate), namespace_labels=labels) is not None
    ) is refused


def test_validation_problems_are_reported_before_policy_problems(make: Any) -> None:
    problem = check(make, {"release": {"namespace": "other"}}, settings=Settings(url_allow_list=("https://other",)))
    assert problem is not None
    assert problem.reason == "ValidationFailed"


@pytest.mark.parametrize(
    ("named", "settings", "refused"),
    [
        (None, Settings(), ""),
        (None, Settings(service_account="tenant"), ""),
        ("tenant", Settings(service_account="tenant"), ""),
        ("robot", Settings(allowed_service_accounts=("robot",)), ""),
        ("anyone", Settings(allowed_service_accounts=("*",)), ""),
        ("root", Settings(), "spec.serviceAccountName root is not allowed; leave it out"),
        ("root", Settings(service_account="tenant"), "choose tenant, or leave it out"),
        ("root", Settings(allowed_service_accounts=("robot",)), "choose robot, or leave it out"),
    ],
)
def test_only_allowed_service_accounts_install_a_chart(
    make: Any, named: str | None, settings: Settings, refused: str
) -> None:
    problem = check(make, {"serviceAccountName": named}, settings=settings)
    assert (problem is not None) is bool(refused)
    if problem is not None:
        assert problem.reason == "PolicyDenied"
        assert refused in problem.message
