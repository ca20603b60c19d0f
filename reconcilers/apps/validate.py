"""The checks that an ApplicationInstance must pass before its children are applied.

The CEL rules of the CRD enforce much of this at admission; it is checked again here, because the CRD in the cluster may be older than
this program, because CEL cannot see everything, and because policies are settings (docs/reference/apps.md#api). Patterns and enums of the
schema are in the model: an object that breaks them does not decode, and the runtime sets ValidationFailed.

Guarantees: pure; `CHECKS` is the policy, in the order of the message. A message names the field and the remedy, and never repeats a
value that may be a secret. While a check fails nothing is applied and nothing is deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from konverge.crds.apps_v1alpha1 import MAX_NAME, ApplicationInstance
from konverge.objects import Object
from konverge.reconcilers.apps.secrets import has_more_levels, has_more_values, secrets
from konverge.reconcilers.apps.settings import Settings
from konverge.reconcilers.apps.words import Annotation, Blocked, Label
from konverge.reconcilers.shared.helm_release.versions import VersionRange, parse

__all__ = [
    "AT_ADMISSION",
    "AT_EDIT",
    "CHECKS",
    "MOST_LEVELS",
    "CheckInput",
    "SpecProblem",
    "edit_problems",
    "problem_of",
    "refusals",
]

MOST_VALUES: Final = 5_000
"""The most inline values, so that one instance blocks the event loop for less than 100 ms; charts have a few hundred."""
MOST_LEVELS: Final = 100
"""The most levels of inline values: JSON of some 900 levels is more than this program, and others that read it, can encode."""
_SCHEMES: Final = {"helm": ("https", "http"), "oci": ("oci",)}


@dataclass(frozen=True, slots=True)
class SpecProblem:
    """Why an instance is blocked: the reason of Blocked and Ready, and the message with the remedy."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckInput:
    """The input of a check: the instance, the settings, its present release if any, and its namespace's labels.

    `release_unknown` is True while the cluster does not serve HelmReleases, so that their existence is unknown.
    """

    instance: ApplicationInstance
    settings: Settings
    release: Object | None = None
    release_unknown: bool = False
    namespace_labels: Mapping[str, str] | None = None

    @property
    def managed(self) -> bool:
        """Whether the instance is to have a release."""
        return self.instance.spec.mode == "managed"


Check: TypeAlias = Callable[[CheckInput], Iterator[str]]


def mode_has_its_parts(given: CheckInput) -> Iterator[str]:
    """A managed instance needs chart, release and values; a placeholder has neither chart nor values."""
    spec = given.instance.spec
    for name, part in (("chart", spec.chart), ("release", spec.release), ("values", spec.values)):
        if given.managed and part is None:
            yield f"spec.{name} is missing; mode managed needs it"
        if not given.managed and part is not None and name != "release":
            yield f"spec.{name} is not allowed with mode placeholder; remove it, or set mode managed"


def name_fits_labels(given: CheckInput) -> Iterator[str]:
    """helm-controller writes the name into labels of the HelmChart and of everything that the chart creates."""
    name = given.instance.name
    if given.managed and len(name) > MAX_NAME:
        yield (
            f"metadata.name has {len(name)} characters; Flux writes it into labels, which take {MAX_NAME}: "
            "delete the instance and create it with a shorter name"
        )


def placeholder_has_no_release(given: CheckInput) -> Iterator[str]:
    """An instance with a release cannot become a placeholder, which would orphan the release."""
    if given.managed:
        return
    if given.release is not None:
        yield "spec.mode cannot become placeholder while the instance has a HelmRelease; delete the instance to uninstall it"
    elif given.release_unknown and given.instance.status.helm_release_ref is not None:
        yield "spec.mode cannot become placeholder while it is unknown whether its HelmRelease still exists"


def url_fits_the_source(given: CheckInput) -> Iterator[str]:
    """Flux refuses OCI registries as HelmRepository, and `..` in a path would circumvent an allow-list."""
    chart = given.instance.spec.chart
    if chart is None:
        return
    scheme, _, rest = chart.url.partition("://")
    allowed = _SCHEMES[chart.source_type]
    if scheme not in allowed:
        other = "; use sourceType oci for it" if scheme == "oci" else ""
        yield f"spec.chart.url must begin with {' or '.join(f'{scheme}://' for scheme in allowed)}{other}"
    if ".." in rest.split("/"):
        yield "spec.chart.url must not contain '..'"


def release_namespace_is_own(given: CheckInput) -> Iterator[str]:
    """Owner references and `valuesFrom` do not cross namespaces, and a tenant must not either."""
    release, home = given.instance.spec.release, given.instance.namespace
    if release is not None and release.namespace != home:
        yield f"spec.release.namespace is {release.namespace!r}; it must be the instance's own namespace, {home!r}"


def release_identity_is_immutable(given: CheckInput) -> Iterator[str]:
    """Flux uninstalls and reinstalls a release whose own or whose chart's name changes, which loses its data."""
    release, chart, live = given.instance.spec.release, given.instance.spec.chart, given.release
    if live is None or release is None or chart is None:
        return
    if live.metadata.annotation(Annotation.APPLIED_GENERATION) == str(given.instance.generation):
        return  # this spec runs already, so the HelmRelease was edited, and the conflict is held
    pairs = (
        ("spec.release.name", live.get("spec", "releaseName"), release.name),
        ("spec.release.namespace", live.get("spec", "targetNamespace"), release.namespace),
        ("spec.chart.name", live.get("spec", "chart", "spec", "chart"), chart.name),
    )
    for field, present, asked in pairs:
        if present is not None and present != asked:
            yield f"{field} cannot change from {present!r} to {asked!r}: Flux would uninstall the release; make a new instance"


def one_source_of_values(given: CheckInput) -> Iterator[str]:
    """Exactly the source of values that `source` names is given."""
    values = given.instance.spec.values
    if values is None:
        return
    sources = {"inline": values.inline, "secretRef": values.secret_ref, "configMapRef": values.config_map_ref}
    if sources[values.source] is None:
        yield f"spec.values.{values.source} is missing; spec.values.source names it"
    for name, value in sources.items():
        if name != values.source and value is not None:
            yield f"spec.values.{name} is not allowed beside source {values.source}; remove one of them"


def inline_values_are_few(given: CheckInput) -> Iterator[str]:
    """Each reconcile walks through all inline values."""
    values = given.instance.spec.values
    if values is not None and has_more_values(values.inline or {}, MOST_VALUES):
        yield f"spec.values.inline has more than {MOST_VALUES:,} values; put them into a ConfigMap or Secret and refer to it"


def inline_values_are_shallow(given: CheckInput) -> Iterator[str]:
    """Values are encoded and compared by functions that call themselves for each level."""
    values = given.instance.spec.values
    if values is not None and has_more_levels(values.inline or {}, MOST_LEVELS):
        yield f"spec.values.inline has more than {MOST_LEVELS} levels; make it flatter"


def _inline(given: CheckInput) -> Mapping[str, Any]:
    """Return the inline values, {} if they are too many to be walked through."""
    values = given.instance.spec.values
    inline = (values.inline if values is not None else None) or {}
    return {} if has_more_values(inline, MOST_VALUES) else inline


def no_secrets_inline(given: CheckInput) -> Iterator[str]:
    """Every reader of the instance or the HelmRelease can read inline values."""
    paths = secrets(_inline(given), "spec.values.inline")
    if paths:
        yield f"{', '.join(paths)} look like secrets; put them into a Secret and refer to it with spec.values.secretRef"


def url_is_allowed(given: CheckInput) -> Iterator[str]:
    """The setting `url_allow_list`."""
    chart, allowed = given.instance.spec.chart, given.settings.url_allow_list
    if chart is None or not allowed:
        return
    if not any(f"{chart.url.rstrip('/')}/".startswith(f"{prefix.rstrip('/')}/") for prefix in allowed):
        yield f"spec.chart.url is not among the sources that this cluster allows: {', '.join(allowed)}"


def version_is_not_forbidden(given: CheckInput) -> Iterator[str]:
    """The setting `forbidden_versions`, unless the instance's annotation overrides it."""
    chart = given.instance.spec.chart
    override = given.instance.annotations.get(Annotation.OVERRIDE_FORBIDDEN, "")
    if chart is None or override in {"true", chart.version}:
        return
    version = parse(chart.version)
    for entry in given.settings.forbidden_versions:
        if entry.chart in {"*", chart.name} and VersionRange.parse(entry.versions).holds(version):
            yield (
                f"version {chart.version} of chart {chart.name} is forbidden ({entry.chart} {entry.versions}); choose another, "
                f"or annotate the instance with {Annotation.OVERRIDE_FORBIDDEN}={chart.version}"
            )


def account_is_allowed(given: CheckInput) -> Iterator[str]:
    """The settings `service_account` and `allowed_service_accounts`: a chart is installed with that account's rights."""
    named, settings = given.instance.spec.service_account_name, given.settings
    if named is None or named == settings.service_account or {named, "*"} & set(settings.allowed_service_accounts):
        return
    allowed = sorted({settings.service_account, *settings.allowed_service_accounts} - {""})
    yield (
        f"spec.serviceAccountName {named} is not allowed; "
        + (f"choose {' or '.join(allowed)}, or leave it out" if allowed else "leave it out")
        + " (the setting apps.allowed_service_accounts names more)"
    )


def secret_is_watched(given: CheckInput) -> Iterator[str]:
    """The setting `secret_namespaces`: if set, values come only from Secrets of these namespaces."""
    values, namespace, settings = given.instance.spec.values, given.instance.namespace, given.settings
    if values is None or values.source != "secretRef" or not settings.secret_namespaces:
        return
    if not settings.watches_secrets_in(namespace):
        yield (
            f"spec.values.secretRef: Secrets of namespace {namespace} are not read here; add {namespace} to the setting "
            "apps.secret_namespaces and grant what konverge rbac prints then, or take the values from a ConfigMap or inline"
        )


def belongs_to_this_cluster(given: CheckInput) -> Iterator[str]:
    """The gate `require_cluster_id`."""
    label = given.instance.labels.get(Label.CLUSTER_ID, "")
    if given.settings.require_cluster_id and label and label != given.settings.cluster_id:
        yield f"label {Label.CLUSTER_ID} is {label!r}, and this cluster is {given.settings.cluster_id!r}"


def namespace_is_labelled(given: CheckInput) -> Iterator[str]:
    """The gate `require_namespace_label`."""
    if not given.settings.require_namespace_label:
        return
    if (given.namespace_labels or {}).get(Label.NAMESPACE_GATE) != Label.VWORKSPACE:
        yield (
            f"namespace {given.instance.namespace} has no label {Label.NAMESPACE_GATE}={Label.VWORKSPACE}; "
            "label it to let instances in"
        )


CHECKS: Final[tuple[tuple[str, tuple[Check, ...]], ...]] = (
    (
        Blocked.VALIDATION_FAILED,
        (
            mode_has_its_parts,
            name_fits_labels,
            placeholder_has_no_release,
            url_fits_the_source,
            release_namespace_is_own,
            release_identity_is_immutable,
            one_source_of_values,
            inline_values_are_few,
            inline_values_are_shallow,
            no_secrets_inline,
        ),
    ),
    (
        Blocked.POLICY_DENIED,
        (
            belongs_to_this_cluster,
            namespace_is_labelled,
            url_is_allowed,
            version_is_not_forbidden,
            account_is_allowed,
            secret_is_watched,
        ),
    ),
)


AT_ADMISSION: Final[tuple[Check, ...]] = (
    url_fits_the_source,
    release_namespace_is_own,
    inline_values_are_few,
    inline_values_are_shallow,
    no_secrets_inline,
    account_is_allowed,
)
"""Checks that need only the object, and that CEL cannot express."""

_OF_SURROUNDINGS: Final = frozenset(
    {placeholder_has_no_release, release_identity_is_immutable, belongs_to_this_cluster, namespace_is_labelled}
)
AT_EDIT: Final[tuple[Check, ...]] = tuple(
    check for _, checks in CHECKS for check in checks if check not in _OF_SURROUNDINGS
)
"""Checks of a spec that an Operation is about to write: the checks that need neither the release nor the namespace, nor labels."""

_MOST_REFUSED = 1500


def refusals(given: CheckInput) -> str:
    """Return the message of the refusal of this object; "" if it may be stored."""
    text = "; ".join(message for check in AT_ADMISSION for message in check(given))
    return text if len(text) <= _MOST_REFUSED else f"{text[:_MOST_REFUSED]}..."


def edit_problems(given: CheckInput) -> list[str]:
    """Return all problems of a spec that an Operation is about to write."""
    return [message for check in AT_EDIT for message in check(given)]


def problem_of(given: CheckInput) -> SpecProblem | None:
    """Return all problems of the first reason that applies; None for a valid instance."""
    for reason, checks in CHECKS:
        problems = [message for check in checks for message in check(given)]
        if problems:
            return SpecProblem(reason, "; ".join(problems))
    return None
