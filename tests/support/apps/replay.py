"""Recordings of Flux, replayed through the translation with a status fold, as the reconciler would translate them.

Each HelmRelease, HelmChart and repository event leads to one reconcile: the newest objects are translated, and the result is merged over
the previous conditions. The desired version is the recorded spec's version at that time (for oci, the tag). The annotations that the
reconciler writes on a rolled-out release are simulated, because konverge did not run during the recording.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from recordings import lines

from konverge.conditions import Condition, find_condition, truth, with_condition
from konverge.fields import digest
from konverge.objects import Object
from konverge.reconcilers.apps.report import report, with_missing_values
from konverge.reconcilers.shared.helm_release.facts import ReleaseFacts, Translation
from konverge.reconcilers.shared.helm_release.freshness import DesiredRelease, FluxRelease, FluxSource
from konverge.reconcilers.shared.helm_release.sources import FluxSources
from konverge.reconcilers.shared.helm_release.translate import translate
from konverge.reconcilers.shared.helm_release.values import ValuesFrom
from konverge.runtime.reconcile.status import transitions

GRACE = timedelta(seconds=30)
STUCK = timedelta(minutes=15)


@dataclass(frozen=True)
class Entry:
    at: float
    step: str = ""
    type: str = ""
    object: Object | None = None


def read(name: str) -> list[Entry]:
    return [
        Entry(line.at, line.step, line.type, Object(line.object) if line.object else None)
        for line in lines("flux", name)
    ]


@dataclass(frozen=True)
class Said:
    """The conditions of the instance after one reconcile."""

    at: float
    row: str
    conditions: tuple[Condition, ...]

    def __getitem__(self, type_: str) -> str:
        found = find_condition(self.conditions, type_)
        return "" if found is None else f"{found.status}/{found.reason}"

    def message(self, type_: str) -> str:
        found = find_condition(self.conditions, type_)
        return "" if found is None else found.message


class Replay:
    """A recording, fed step by step."""

    def __init__(self, name: str, *, token: Callable[[float], str] = lambda _: "steady") -> None:
        self.entries = read(name)
        self.said: list[Said] = []
        self.transitions: list[tuple[float, str]] = []
        self.translations: list[Translation] = []
        self._token = token
        self._objects: dict[str, Object] = {}
        self._position = 0
        self._settled = self._settled_source = ""
        self._first = True
        self._conditions: tuple[Condition, ...] = ()
        start = next(entry for entry in self.entries if entry.object is not None)
        assert start.object is not None
        created = start.object.metadata.created
        assert created is not None
        self._epoch = created - timedelta(seconds=start.at)

    def feed(self, *, before: str = "", only: Callable[[Object], bool] = lambda _: True) -> Replay:
        """Feed events, to the end or up to the step whose text begins with `before`."""
        while self._position < len(self.entries):
            entry = self.entries[self._position]
            if before and entry.step.startswith(before):
                return self
            self._position += 1
            if entry.object is not None and only(entry.object):
                self._take(entry)
        assert not before, f"no step {before!r}"
        return self

    def graft(self, other: Replay, desired: Callable[[Object], bool], *, after: float) -> Replay:
        """Feed some events of another recording, `after` seconds after the start of this recording."""
        for entry in other.entries:
            if entry.object is not None and desired(entry.object):
                self._take(Entry(after + entry.at, type=entry.type, object=entry.object))
        return self

    def wait_until(self, at: float) -> Replay:
        """Reconcile at a later time without an event: a requeue."""
        self._reconcile(at)
        return self

    def _take(self, entry: Entry) -> None:
        assert entry.object is not None
        name = f"{entry.object.kind_name}/{entry.object.name}"
        if entry.type == "DELETED":
            self._objects.pop(name, None)
        else:
            self._objects[name] = entry.object
        if name in {"HelmRelease/shop", "HelmRepository/shop", "OCIRepository/shop", "HelmChart/team-shop"}:
            self._reconcile(entry.at)

    def _desired(self, release: Object | None, at: float) -> DesiredRelease:
        spec = {} if release is None else release.spec
        repository = self._objects.get("OCIRepository/shop")
        oci = repository is not None
        version = (
            repository.get("spec", "ref", "tag")
            if repository
            else (spec.get("chart") or {}).get("spec", {}).get("version", "1.0.0")
        )
        token = self._token(at) if spec.get("valuesFrom") else ""
        asked = {key: value for key, value in spec.items() if key != "suspend"}
        source = repository if repository is not None else self._objects.get("HelmRepository/shop")
        origin = digest(None if source is None else source.spec)
        return DesiredRelease(
            version=version, oci=oci, intent=digest([asked, version, origin, token]), source=origin, token=token
        )

    def _source(self, name: str) -> FluxSource | None:
        found = self._objects.get(name)
        return None if found is None else FluxSource.of(found)

    def _reconcile(self, at: float) -> None:
        release = self._objects.get("HelmRelease/shop")
        if release is None and not self.said:
            return  # the instance was not there yet
        if release is not None:
            release = Object(release.to_dict())
            annotations = release.data["metadata"].setdefault("annotations", {})
            annotations["vworkspace.io/applied-intent-hash"] = self._settled
            annotations["vworkspace.io/applied-source"] = self._settled_source
        desired = self._desired(release, at)
        values = None
        if desired.token:
            values = ValuesFrom(kind="Secret", namespace="team", name="vals", key="values.yaml", token=desired.token)
        now = self._epoch + timedelta(seconds=at)
        facts = ReleaseFacts(
            release=None if release is None else FluxRelease.of(release),
            sources=FluxSources(
                oci=desired.oci,
                chart=self._source("HelmChart/team-shop"),
                repository=self._source("OCIRepository/shop" if desired.oci else "HelmRepository/shop"),
            ),
            desired=desired,
            values=values,
            first=self._first,
            now=now,
            grace=GRACE,
            stuck_after=STUCK,
        )
        translation = with_missing_values(translate(facts), values)
        self._fold(at, now, translation, desired)
        if translation.rolled_out and facts.sources.repository is not None:
            self._settled_source = f"{desired.source}@{facts.sources.repository.fetch_id}"

    def _fold(self, at: float, now: datetime, translation: Translation, desired: DesiredRelease) -> None:
        before = self._conditions
        reported = report(translation, before)
        for type_ in reported.remove:
            self._conditions = tuple(condition for condition in self._conditions if condition.type != type_)
        for type_, value in reported.conditions.items():
            self._conditions = with_condition(
                self._conditions, type_, truth(value.status), value.reason, value.message, generation=1, now=now
            )
        if translation.rolled_out:
            self._settled, self._first = desired.intent, False
        self.transitions += [
            (at, f"{change.after.type}={change.after.status}") for change in transitions(before, self._conditions)
        ]
        self.translations.append(translation)
        shown = {condition.type for condition in self._conditions if condition.is_true}
        assert not {"Stalled", "Reconciling"} <= shown, f"{self.said and self.said[-1]}, then {translation.row}"
        self.said.append(Said(at, translation.row, self._conditions))

    @property
    def last(self) -> Said:
        return self.said[-1]

    def ever(self, type_: str, text: str) -> list[Said]:
        """Return the reconciles after which the condition was `Status/Reason`, or `Status/` with any reason."""
        return [
            said for said in self.said if said[type_] == text or (text.endswith("/") and said[type_].startswith(text))
        ]

    def between(self, start: float, end: float) -> Iterator[Said]:
        return (said for said in self.said if start <= said.at < end)

    def step(self, text: str) -> float:
        return next(entry.at for entry in self.entries if entry.step.startswith(text))

    def changes(self, type_: str) -> list[str]:
        return [what.removeprefix(f"{type_}=") for _, what in self.transitions if what.startswith(f"{type_}=")]
