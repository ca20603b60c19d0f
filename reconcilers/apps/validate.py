"""What an ApplicationInstance must satisfy before anything is made for it.

The CEL rules of the CRD hold much of this at admission; it is checked again here, because the CRD in the cluster may be older than this
program, because CEL cannot see everything, and because policies are settings (docs/reference/apps.md#api). What the patterns and
enums of the schema hold is in the model: an object that breaks them does not decode, and the runtime marks it ValidationFailed.

Promises: pure; `CHECKS` is the policy, in the order in which it is told. A message names the field and says what to do, and never repeats
a value that may be a secret. While there is a problem nothing is applied and nothing is deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from konverge.crds.apps_v1alpha1 import MAX_NAME, ApplicationInstance
from konverge.objects import Object
from konverge.reconcilers.apps.secrets import nulls, secrets
from konverge.reconcilers.apps.settings import Settings
from konverge.reconcilers.apps.versions import Range, parse
from konverge.reconcilers.apps.words import Annotation, Blocked, Label

__all__ = ["AT_ADMISSION", "CHECKS", "Problem", "Subject", "problem_of", "refusals"]

_SCHEMES: Final = {"helm": ("https", "http"), "oci": ("oci",)}


@dataclass(frozen=True, slots=True)
class Problem:
    """Why an instance cannot go on: the reason of Blocked and Ready, and what to do."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What is checked: the instance, the settings, its present release (None where it has none), and its namespace's labels.

    `release_unknown` tells that nobody can say whether there is a release.
    """

    instance: ApplicationInstance
    settings: Settings
    release: Object | None = None
    release_unknown: bool = False
    namespace_labels: Mapping[str, str] | None = None

    @property
    def managed(self) -> bool:
        """Whether the instance asks for a release at all."""
        return self.instance.spec.mode == "managed"


Check: TypeAlias = Callable[[Subject], Iterator[str]]


def needs_its_parts(subject: Subject) -> Iterator[str]:
    """A managed instance needs chart, release and values; a placeholder has neither chart nor values."""
    spec = subject.instance.spec
    for name, part in (("chart", spec.chart), ("release", spec.release), ("values", spec.values)):
        if subject.managed and part is None:
            yield f"spec.{name} is missing; mode managed needs it"
        if not subject.managed and part is not None and name != "release":
            yield f"spec.{name} is not allowed with mode placeholder; remove it, or set mode managed"


def name_fits_labels(subject: Subject) -> Iterator[str]:
    """helm-controller writes the name into labels of the HelmChart and of everything that the chart makes."""
    name = subject.instance.name
    if subject.managed and len(name) > MAX_NAME:
        yield (
            f"metadata.name has {len(name)} characters; Flux writes it into labels, which take {MAX_NAME}: "
            "delete the instance and create it with a shorter name"
        )


def keeps_its_release(subject: Subject) -> Iterator[str]:
    """A release is not forgotten by turning the instance into a placeholder."""
    if subject.managed:
        return
    if subject.release is not None:
        yield "spec.mode cannot become placeholder while the instance has a HelmRelease; delete the instance to uninstall it"
    elif subject.release_unknown and subject.instance.status.helm_release_ref is not None:
        yield "spec.mode cannot become placeholder while it is unknown whether its HelmRelease still exists"


def url_fits_the_source(subject: Subject) -> Iterator[str]:
    """Flux refuses OCI registries as HelmRepository, and a path that climbs would get around an allow-list."""
    chart = subject.instance.spec.chart
    if chart is None:
        return
    scheme, _, rest = chart.url.partition("://")
    allowed = _SCHEMES[chart.source_type]
    if scheme not in allowed:
        other = "; use sourceType oci for it" if scheme == "oci" else ""
        yield f"spec.chart.url must begin with {' or '.join(f'{scheme}://' for scheme in allowed)}{other}"
    if ".." in rest.split("/"):
        yield "spec.chart.url must not contain '..'"


def release_stays_at_home(subject: Subject) -> Iterator[str]:
    """Owner references and `valuesFrom` do not cross namespaces, and neither may a tenant."""
    release, home = subject.instance.spec.release, subject.instance.namespace
    if release is not None and release.namespace != home:
        yield f"spec.release.namespace is {release.namespace!r}; it must be the instance's own namespace, {home!r}"


def release_is_fixed(subject: Subject) -> Iterator[str]:
    """Flux uninstalls and installs again where release or chart get another name: with data, that is a loss."""
    release, chart, live = subject.instance.spec.release, subject.instance.spec.chart, subject.release
    if live is None or release is None or chart is None:
        return
    if live.metadata.annotation(Annotation.APPLIED_GENERATION) == str(subject.instance.generation):
        return  # this spec runs already: somebody edited the HelmRelease, and that is a conflict to hold
    pairs = (
        ("spec.release.name", live.get("spec", "releaseName"), release.name),
        ("spec.release.namespace", live.get("spec", "targetNamespace"), release.namespace),
        ("spec.chart.name", live.get("spec", "chart", "spec", "chart"), chart.name),
    )
    for field, present, asked in pairs:
        if present is not None and present != asked:
            yield f"{field} cannot change from {present!r} to {asked!r}: Flux would uninstall the release; make a new instance"


def one_source_of_values(subject: Subject) -> Iterator[str]:
    """Exactly the source that is named is given."""
    values = subject.instance.spec.values
    if values is None:
        return
    given = {"inline": values.inline, "secretRef": values.secret_ref, "configMapRef": values.config_map_ref}
    if given[values.source] is None:
        yield f"spec.values.{values.source} is missing; spec.values.source names it"
    for name, value in given.items():
        if name != values.source and value is not None:
            yield f"spec.values.{name} is not allowed beside source {values.source}; remove one of them"


def no_secrets_inline(subject: Subject) -> Iterator[str]:
    """What is inline can be read by everybody who can read the instance, and stands in the HelmRelease too."""
    values = subject.instance.spec.values
    found = secrets(values.inline or {}, "spec.values.inline") if values is not None else []
    if found:
        yield f"{', '.join(found)} look like secrets; put them into a Secret and refer to it with spec.values.secretRef"


def no_nulls_inline(subject: Subject) -> Iterator[str]:
    """Server-side apply carries no nulls: the chart's default would stay although the spec removes it."""
    values = subject.instance.spec.values
    found = nulls(values.inline or {}, "spec.values.inline") if values is not None else []
    if found:
        yield (
            f"{', '.join(found)}: a null in inline values cannot be passed on; leave the key out, or put the values into a "
            "ConfigMap or Secret and refer to it"
        )


def url_is_allowed(subject: Subject) -> Iterator[str]:
    """The setting `url_allow_list`."""
    chart, allowed = subject.instance.spec.chart, subject.settings.url_allow_list
    if chart is None or not allowed:
        return
    if not any(f"{chart.url.rstrip('/')}/".startswith(f"{prefix.rstrip('/')}/") for prefix in allowed):
        yield f"spec.chart.url is not among the sources that this cluster allows: {', '.join(allowed)}"


def version_is_not_forbidden(subject: Subject) -> Iterator[str]:
    """The setting `forbidden_versions`, unless the instance's annotation overrides it."""
    chart = subject.instance.spec.chart
    override = subject.instance.annotations.get(Annotation.OVERRIDE_FORBIDDEN, "")
    if chart is None or override in {"true", chart.version}:
        return
    version = parse(chart.version)
    for entry in subject.settings.forbidden_versions:
        if entry.chart in {"*", chart.name} and Range.parse(entry.versions).holds(version):
            yield (
                f"version {chart.version} of chart {chart.name} is forbidden ({entry.chart} {entry.versions}); choose another, "
                f"or annotate the instance with {Annotation.OVERRIDE_FORBIDDEN}={chart.version}"
            )


def account_is_allowed(subject: Subject) -> Iterator[str]:
    """The settings `service_account` and `allowed_service_accounts`: a chart is installed with that account's rights."""
    named, settings = subject.instance.spec.service_account_name, subject.settings
    if named is None or named == settings.service_account or {named, "*"} & set(settings.allowed_service_accounts):
        return
    allowed = sorted({settings.service_account, *settings.allowed_service_accounts} - {""})
    yield (
        f"spec.serviceAccountName {named} is not allowed; "
        + (f"choose {' or '.join(allowed)}, or leave it out" if allowed else "leave it out")
        + " (the setting apps.allowed_service_accounts names more)"
    )


def secret_is_watched(subject: Subject) -> Iterator[str]:
    """The setting `secret_namespaces`: where it names namespaces, values come from Secrets of these alone."""
    values, namespace, settings = subject.instance.spec.values, subject.instance.namespace, subject.settings
    if values is None or values.source != "secretRef" or not settings.secret_namespaces:
        return
    if not settings.watches_secrets_in(namespace):
        yield (
            f"spec.values.secretRef: Secrets of namespace {namespace} are not read here; add {namespace} to the setting "
            "apps.secret_namespaces and grant what konverge rbac prints then, or take the values from a ConfigMap or inline"
        )


def belongs_to_this_cluster(subject: Subject) -> Iterator[str]:
    """The gate `require_cluster_id`."""
    label = subject.instance.labels.get(Label.CLUSTER_ID, "")
    if subject.settings.require_cluster_id and label and label != subject.settings.cluster_id:
        yield f"label {Label.CLUSTER_ID} is {label!r}, and this cluster is {subject.settings.cluster_id!r}"


def namespace_is_opened(subject: Subject) -> Iterator[str]:
    """The gate `require_namespace_label`."""
    if not subject.settings.require_namespace_label:
        return
    if (subject.namespace_labels or {}).get(Label.NAMESPACE_GATE) != Label.VWORKSPACE:
        yield (
            f"namespace {subject.instance.namespace} has no label {Label.NAMESPACE_GATE}={Label.VWORKSPACE}; "
            "label it to let instances in"
        )


CHECKS: Final[tuple[tuple[str, tuple[Check, ...]], ...]] = (
    (
        Blocked.VALIDATION_FAILED,
        (
            needs_its_parts,
            name_fits_labels,
            keeps_its_release,
            url_fits_the_source,
            release_stays_at_home,
            release_is_fixed,
            one_source_of_values,
            no_secrets_inline,
            no_nulls_inline,
        ),
    ),
    (
        Blocked.POLICY_DENIED,
        (
            belongs_to_this_cluster,
            namespace_is_opened,
            url_is_allowed,
            version_is_not_forbidden,
            account_is_allowed,
            secret_is_watched,
        ),
    ),
)


AT_ADMISSION: Final[tuple[Check, ...]] = (
    url_fits_the_source,
    release_stays_at_home,
    no_secrets_inline,
    no_nulls_inline,
    account_is_allowed,
)
"""What the object alone shows and CEL does not."""

_MOST_REFUSED = 1500


def refusals(subject: Subject) -> str:
    """Return what a writer is told who may not write this object; "" if it may be stored."""
    told = "; ".join(message for check in AT_ADMISSION for message in check(subject))
    return told if len(told) <= _MOST_REFUSED else f"{told[:_MOST_REFUSED]}..."


def problem_of(subject: Subject) -> Problem | None:
    """Return everything that is wrong, under the first reason that applies; None where nothing is."""
    for reason, checks in CHECKS:
        found = [message for check in checks for message in check(subject)]
        if found:
            return Problem(reason, "; ".join(found))
    return None
