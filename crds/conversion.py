"""The conversion between the versions of one kind: functions from each version to the hub and back.

    BACKUPS = Conversion.of(Backup).version(OldBackup, up=to_v1, down=to_v1beta1)

Every version converts to the hub and from it, as in controller-runtime, so that n versions need 2(n - 1) functions. The hub is the version
that the controllers know, usually the newest; any version may be stored.

Guarantees
- Pure. `converted` keeps the metadata as it is, except the annotation of `keeping_lost_fields`.
- The defaults of the wanted version are filled in, because the API server fills in the defaults of the stored version only.
- An unchanged value keeps its spelling. A field that neither version of this program knows keeps its place, so that an operator that is
  older than the installed definition removes nothing (`carrying.py`).

Errors: `converted` raises InvalidObject for an object that does not fit its version's model, NotConvertible if a function refuses it or
its result does not fit the other model, and UsageError for a mistake of the program. No message quotes a value.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import msgspec
from msgspec.structs import replace
from pydantic import ValidationError

from konverge.crds.carrying import carried
from konverge.crds.declaration import Declaration
from konverge.crds.decoding import misfits, path_of, problem_words
from konverge.crds.defaults import filled
from konverge.crds.kept_fields import is_mark, kept_text, lost_fields, restored
from konverge.crds.resource import CustomResource, declaration_of, object_defaults, plain_schema_of
from konverge.errors import InvalidObject, NotConvertible, UsageError
from konverge.words import Annotation

__all__ = ["Conversion", "Spoke"]

H = TypeVar("H", bound="CustomResource[Any, Any]")
S = TypeVar("S", bound="CustomResource[Any, Any]")
Data = dict[str, Any]


class Spoke(msgspec.Struct, frozen=True):
    """A version beside the hub, and the functions between the two."""

    model: type[CustomResource[Any, Any]]
    up: Callable[[Any], CustomResource[Any, Any]]
    down: Callable[[Any], CustomResource[Any, Any]]


class Conversion(msgspec.Struct, Generic[H], frozen=True):
    """The versions of one kind and the functions between them; `Manager.add` serves the conversion webhook.

    A function takes a whole object and returns a whole object of the other version: spec and status. The metadata of its result is ignored.

    >>> from konverge.crds import Model, Status, resource
    >>> class OldSpec(Model):
    ...     minutes: int
    >>> class NewSpec(Model):
    ...     seconds: int
    >>> @resource("example.com/v1beta1", kind="Nap", storage=False)
    ... class OldNap(CustomResource[OldSpec, Status]):
    ...     '''A nap, in minutes.'''
    >>> @resource("example.com/v1")
    ... class Nap(CustomResource[NewSpec, Status]):
    ...     '''A nap.'''
    >>> naps = Conversion.of(Nap).version(
    ...     OldNap,
    ...     up=lambda old: Nap(spec=NewSpec(seconds=old.spec.minutes * 60), status=old.status),
    ...     down=lambda new: OldNap(spec=OldSpec(minutes=new.spec.seconds // 60), status=new.status),
    ... )
    >>> old = {"apiVersion": "example.com/v1beta1", "kind": "Nap", "metadata": {"name": "a"}, "spec": {"minutes": 2}}
    >>> naps.converted(old, "example.com/v1")["spec"]
    {'seconds': 120}
    """

    hub: type[H]
    spokes: tuple[Spoke, ...] = ()
    keeps: bool = False

    @staticmethod
    def of(hub: type[S]) -> Conversion[S]:
        """Begin with the hub, the version that the controllers know."""
        declaration_of(hub)
        return Conversion(hub)

    def version(self, spoke: type[S], *, up: Callable[[S], H], down: Callable[[H], S]) -> Conversion[H]:
        """Add a version: `up` converts its objects into the hub, `down` converts back.

        The functions are plain functions without effects, and both must accept every object: one object that cannot be converted
        keeps every client from listing the kind in the other version. Raises UsageError for a class of another kind, and for a version that
        is given twice.
        """
        own, other = declaration_of(self.hub), declaration_of(spoke)
        if own.crd_name != other.crd_name or own.kind != other.kind:
            raise UsageError(
                f"{spoke.__name__} is {other.kind} ({other.crd_name}) and no version of {own.kind} ({own.crd_name}); "
                "give both classes the same group and kind="
            )
        if other.version in {declaration.version for declaration in self._declarations()}:
            raise UsageError(f"the conversion of {own.kind} has {other.version} already; each version is given once")
        functions: dict[str, Any] = {"up": up, "down": down}
        for name, function in functions.items():
            if not callable(function) or inspect.isclass(function) or inspect.iscoroutinefunction(function):
                raise UsageError(
                    f"{name}={function!r} of {other.kind} {other.version}: write a plain function that takes and returns an object"
                )
        return replace(self, spokes=(*self.spokes, Spoke(spoke, up, down)))

    def keeping_lost_fields(self) -> Conversion[H]:
        """Keep fields that an older version cannot hold in the annotation `konverge.dev/kept-fields` of that version's objects.

        Guarantees: a client that reads an object in an older version, changes it and writes it back (also by a patch or an apply), with its
        annotations, loses none of them. A change of the client wins over a kept field in the same place.

        An annotation that cannot be read refuses a write through the older version. If the older version is the stored version, the
        annotation is ignored: a list converts every stored object, and one tenant's annotation must not fail the list. Fields that are too
        large to be kept then refuse the write of the newer version.

        Caveats: a client that replaces an object by a file without the annotation loses them. Between a change of the stored version and
        the end of the migration, an object of the former stored version whose annotation was forged before fails the lists: the migration
        names it.
        """
        return replace(self, keeps=True)

    @property
    def models(self) -> tuple[type[CustomResource[Any, Any]], ...]:
        """The classes of all versions, the hub first."""
        return (self.hub, *(spoke.model for spoke in self.spokes))

    @property
    def crd_name(self) -> str:
        """The name of the CustomResourceDefinition."""
        return declaration_of(self.hub).crd_name

    @property
    def path(self) -> str:
        """The URL path of the webhook, and its name in metrics: `/convert-example-com-backup`."""
        declaration = declaration_of(self.hub)
        return f"/convert-{declaration.group.replace('.', '-')}-{declaration.kind.lower()}"

    def converted(self, given: Data, wanted: str) -> Data:
        """Return an object in the version `wanted`, such as `example.com/v1`; the given object is not changed.

        The errors are in the docstring of the module; an exception of a conversion function passes.
        """
        if given.get("apiVersion") == wanted:
            return given
        if wanted == declaration_of(self.hub).api_version:
            return self._up(given)
        target = self._spoke(wanted)
        hub = given if given.get("apiVersion") == declaration_of(self.hub).api_version else self._up(given)
        return self._down(hub, target)

    def _declarations(self) -> list[Declaration]:
        return [declaration_of(model) for model in self.models]

    def _spoke(self, api_version: object) -> Spoke:
        for spoke in self.spokes:
            if declaration_of(spoke.model).api_version == api_version:
                return spoke
        versions = ", ".join(declaration.api_version for declaration in self._declarations())
        raise NotConvertible(
            ".apiVersion",
            f"this operator converts {versions}, and not {api_version}; the installed definition is of another version of the operator: "
            "install both of the same version",
        )

    def _up(self, given: Data) -> Data:
        spoke = self._spoke(given.get("apiVersion"))
        annotations = dict((given.get("metadata") or {}).get("annotations") or {})
        result = _call(spoke.up, given, spoke.model, self.hub)
        if not self.keeps or Annotation.KEPT_FIELDS not in annotations:
            return result
        try:
            result = self._restored(result, annotations.pop(Annotation.KEPT_FIELDS))
        except (NotConvertible, RecursionError):
            if not declaration_of(spoke.model).storage:
                raise
        return _annotated(result, annotations)

    def _restored(self, plain: Data, text: str) -> Data:
        """Return an object of the hub with its kept fields; raises NotConvertible if the annotation holds nothing that the hub admits."""
        result = restored(plain, text, Annotation.KEPT_FIELDS)
        try:
            self.hub.decode(_copied(result))
        except InvalidObject as error:
            place = f'.metadata.annotations["{Annotation.KEPT_FIELDS}"]'
            raise NotConvertible(
                place, f"it holds a wrong {error.field} ({error.problem}); remove the annotation"
            ) from None
        return result

    def _down(self, given: Data, spoke: Spoke) -> Data:
        result = _call(spoke.down, given, self.hub, spoke.model)
        if not self.keeps:
            return result
        annotations = dict((given.get("metadata") or {}).get("annotations") or {})
        annotations.pop(Annotation.KEPT_FIELDS, None)
        back = _call(spoke.up, result, spoke.model, self.hub)
        defaults = object_defaults(self.hub)
        whole = given if defaults is None else filled(given, defaults)
        if text := kept_text(lost_fields(whole, back, plain_schema_of(self.hub))):
            if is_mark(text) and declaration_of(spoke.model).storage:
                raise NotConvertible(
                    ".",
                    f"the fields that {spoke.model.__name__} lacks are too large to be stored in that version: make them smaller",
                )
            annotations[Annotation.KEPT_FIELDS] = text
        return _annotated(result, annotations)


def _call(
    function: Callable[[Any], Any],
    given: Data,
    source: type[CustomResource[Any, Any]],
    target: type[CustomResource[Any, Any]],
) -> Data:
    """Return an object in the target's version, by one conversion function."""
    decoded = source.decode(_copied(given))
    before = decoded.to_dict()
    try:
        result = function(decoded)
    except ValidationError as error:
        first = misfits(error)[0]
        raise NotConvertible(path_of(first["loc"]) or ".", problem_words(first)) from None
    if type(result) is not target:
        name = getattr(function, "__name__", function)
        raise UsageError(
            f"{name} returned {type(result).__name__}; it converts {source.__name__} into {target.__name__}"
        )
    after = result.to_dict()
    # A status that was never written stays absent.
    after = {name: value for name, value in after.items() if value or name in given}
    schema = plain_schema_of(target)
    body = carried(given, before, after, schema)
    head = {"apiVersion": declaration_of(target).api_version, "kind": given.get("kind")}
    if "metadata" in given:
        head["metadata"] = given["metadata"]
    defaults = object_defaults(target)
    return {**body, **head} if defaults is None else filled({**body, **head}, defaults)


def _annotated(data: Data, annotations: dict[str, str]) -> Data:
    if "metadata" not in data:  # a part of an object, while the server merges an apply
        return data
    metadata = {name: value for name, value in data["metadata"].items() if name != "annotations"}
    return {**data, "metadata": {**metadata, "annotations": annotations} if annotations else metadata}


def _copied(data: Data) -> Data:
    copied: Data = msgspec.json.decode(msgspec.json.encode(data))
    return copied
