"""Resources of our own: a class per kind and version, built from a model of the spec and a model of the status.

Guarantees
- `@resource` binds a class to its API version and checks the model as soon as pydantic can: at once, or, if a forward reference is still
  open, when it is resolved. A model that a structural schema cannot express raises SchemaError at this check.
- `to_dict`, and so the body of a write, holds exactly the fields that were set; the server fills in its defaults. A field set
  to None is sent as null if it is marked `Nullable`, and is left out otherwise. A `Nullable` field that was not set is left out.
- `decode` raises InvalidObject with the path of the mistake and never its value. A status that does not decode never raises: its
  readable part is kept, because the next reconcile writes the status again.
- `undecoded` returns an object with readable metadata and status, whose `spec` raises that InvalidObject.

Caveats: fields that the model does not have are lost. The API server has pruned them anyway; for foreign kinds use
`konverge.crds.PartialResource`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar, cast

import msgspec
from pydantic import Field, ValidationError
from pydantic.errors import PydanticUndefinedAnnotation

from konverge.conditions import Condition, find_condition
from konverge.crds.aside import keep, kept
from konverge.crds.declaration import Column, Declaration, Scale, Scope, Writer, plural_of
from konverge.crds.decoding import misfit, misfits, name_of
from konverge.crds.defaults import Defaults, defaults_in
from konverge.crds.markers import Cel
from konverge.crds.metadata import MetadataField, MetadataProperties, write_metadata
from konverge.crds.root import root_schema, status_model, without_plain_nulls
from konverge.crds.status import Status, readable
from konverge.errors import InvalidObject, UsageError
from konverge.kinds import Kind
from konverge.model import Model
from konverge.objects import Metadata, read_metadata

__all__ = [
    "CustomResource",
    "declaration_of",
    "object_defaults",
    "plain_schema_of",
    "resource",
    "schema_of",
    "status_defaults",
    "status_maps",
]

_DECLARATION = "__konverge_declaration__"
_KIND = "__konverge_kind__"
_SCHEMA = "__konverge_schema__"
_SHAPE = "__konverge_shape__"
_OWN_MODELS = __name__.rpartition(".")[0] + "."
_DEFAULTS = "__konverge_defaults__"

SpecT = TypeVar("SpecT", bound=Model)
StatusT = TypeVar("StatusT", bound=Status)


def _nothing() -> Any:
    """The default of spec and status, which pydantic validates into their model."""
    return {}


class CustomResource(MetadataProperties, Model, Generic[SpecT, StatusT]):
    """The base of resources: subclass it with a spec and a status model, and decorate with `@resource`.

    `spec` and `status` are never absent; a status that was never written is empty. `metadata` is read-only.

    >>> class BackupSpec(Model):
    ...     schedule: str
    >>> @resource("example.com/v1")
    ... class Backup(CustomResource[BackupSpec, Status]):
    ...     '''Nightly copies of a volume.'''
    >>> Backup.new("nightly", spec=BackupSpec(schedule="0 3 * * *")).to_dict()["spec"]
    {'schedule': '0 3 * * *'}
    """

    __konverge_declaration__: ClassVar[Declaration]

    metadata: MetadataField = Field(default_factory=Metadata, frozen=True)
    spec: SpecT = Field(default_factory=_nothing, validate_default=True)
    status: StatusT = Field(default_factory=_nothing, validate_default=True)

    @classmethod
    def __pydantic_on_complete__(cls) -> None:
        """Check a declared resource as soon as every forward reference in it is resolved."""
        super().__pydantic_on_complete__()
        if _DECLARATION in cls.__dict__:
            _shape_of(cls)

    @classmethod
    def new(
        cls,
        name: str,
        namespace: str = "",
        *,
        spec: SpecT | None = None,
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
    ) -> Self:
        """Create an object, without sending it; `spec` may be omitted if none of its fields is required.

        Raises UsageError for a namespace of a cluster-scoped resource and for a spec that is missing.
        """
        declaration = declaration_of(cls)
        if namespace and not declaration.namespaced:
            raise UsageError(
                f"{cls.__name__}.new({name!r}, {namespace!r}): {declaration.kind} is cluster-scoped; leave out the namespace"
            )
        required = _shape_of(cls)["properties"]["spec"].get("required", ())
        if spec is None and required:
            raise UsageError(
                f"{cls.__name__}.new({name!r}): give it a spec; these fields have no default: {', '.join(required)}"
            )
        metadata = Metadata(
            name=name,
            namespace=namespace,
            labels=dict(labels) if labels else None,
            annotations=dict(annotations) if annotations else None,
        )
        return cls.model_validate({"metadata": metadata} if spec is None else {"metadata": metadata, "spec": spec})

    @classmethod
    def decode(cls, data: dict[str, Any]) -> Self:
        """Convert a decoded JSON object into an object of this class; the dict becomes the object's own.

        Raises InvalidObject, with the path of the first misfit, for anything but the status.
        """
        try:
            return cls.model_validate(data)
        except ValidationError as error:
            faults = misfits(error)
        what = name_of(cls._kind_name(), data)
        elsewhere = next((details for details in faults if details["loc"][:1] != ("status",)), None)
        if elsewhere is not None:
            raise misfit(what, elsewhere)
        decoded = cls.model_validate({key: value for key, value in data.items() if key != "status"})
        decoded.__dict__["status"] = readable(status_model(cls), data.get("status"))
        decoded.model_fields_set.add("status")
        keep(decoded, invalid_status=misfit(what, faults[0]))
        return decoded

    @classmethod
    def without_plain_nulls(cls, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return an object in the API's spelling without the nulls that the schema of this class does not allow."""
        settled: dict[str, Any] = without_plain_nulls(body, _shape_of(cls))
        return settled

    @classmethod
    def undecoded(cls, data: dict[str, Any], error: InvalidObject) -> Self:
        """Return an object with readable metadata and status; reading anything else raises `error`.

        If not even the metadata decodes, which the API server would not store, it raises `error` itself.
        """
        partial = cast(Self, cls.model_construct())
        partial.__dict__.clear()
        try:
            partial.__dict__["metadata"] = read_metadata(data.get("metadata"))
        except ValueError:
            raise error from None
        partial.__dict__["status"] = readable(status_model(cls), data.get("status"))
        keep(partial, raw=data, invalid=error)
        return partial

    @classmethod
    def kind_of_resource(cls) -> Kind[Self]:
        """Return the kind; raises UsageError for a class without `@resource`."""
        declaration_of(cls)
        kind: Kind[Self] = cls.__dict__[_KIND]
        return kind

    @classmethod
    def _kind_name(cls) -> str:
        declaration: Declaration | None = cls.__dict__.get(_DECLARATION)
        return cls.__name__ if declaration is None else declaration.kind

    @property
    def generation(self) -> int:
        """`metadata.generation`: how often the spec was changed; 0 for an object that was never stored."""
        return self.metadata.generation

    @property
    def deleting(self) -> bool:
        """Whether a deletionTimestamp is set."""
        return self.metadata.deleting

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """`status.conditions`."""
        return self.status.conditions

    def find_condition(self, type_: str) -> Condition | None:
        """Return the condition of that type, None if absent."""
        return find_condition(self.conditions, type_)

    def condition(self, type_: str) -> Condition:
        """Return the condition of that type; if it is absent, raises LookupError, which names the present conditions."""
        entry = self.find_condition(type_)
        if entry is None:
            present = ", ".join(condition.type for condition in self.conditions) or "none"
            raise LookupError(
                f"{self._kind_name()} {self.metadata.path} has no condition {type_} (conditions: {present})"
            )
        return entry

    @property
    def invalid_status(self) -> InvalidObject | None:
        """The error of a stored status that did not decode, else None."""
        error: InvalidObject | None = kept(self, "invalid_status")
        return error

    def to_dict(self) -> dict[str, Any]:
        """Return the object in the API's spelling: apiVersion, kind, metadata, and the fields that were set."""
        declaration = declaration_of(type(self))
        raw = kept(self, "raw")
        if raw is not None:
            copied: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(raw))
            return copied
        head = {
            "apiVersion": declaration.api_version,
            "kind": declaration.kind,
            "metadata": write_metadata(self.metadata),
        }
        body = without_plain_nulls(self.wire(), _shape_of(type(self)))
        return {**head, **{key: value for key, value in body.items() if key not in head}}

    def __repr_args__(self) -> list[tuple[str | None, Any]]:
        return [("namespace", self.namespace), ("name", self.name)] if self.namespace else [("name", self.name)]

    def __str__(self) -> str:
        return repr(self)

    if not TYPE_CHECKING:  # seen by a type checker, it would let every misspelt attribute pass

        def __getattr__(self, name: str) -> Any:
            if name in type(self).model_fields and (invalid := kept(self, "invalid")) is not None:
                raise invalid.with_traceback(None)
            return super().__getattr__(name)


C = TypeVar("C", bound="CustomResource[Any, Any]")


def resource(
    api_version: str,
    /,
    *,
    kind: str | None = None,
    plural: str | None = None,
    singular: str | None = None,
    short_names: tuple[str, ...] = (),
    categories: tuple[str, ...] = (),
    labels: Mapping[str, str] | None = None,
    scope: Scope = "Namespaced",
    conditions: tuple[str, ...] = (),
    columns: tuple[Column, ...] = (),
    rules: tuple[Cel, ...] = (),
    scale: Scale | None = None,
    served: bool = True,
    storage: bool = True,
    deprecated: str | None = None,
    written_by: Writer = "administrators",
    viewable: bool = True,
    selectable: tuple[str, ...] = (),
) -> Callable[[type[C]], type[C]]:
    """Declare a class to be a custom resource of this API version; the decorator returns the class itself.

    The kind is the name of the class, its plural the English plural. `conditions` are the types that controllers may mark. Age is the last
    column unless a column of that name is given. `labels` are the labels of the CustomResourceDefinition. `rules` are CEL about the whole
    object (`self.spec`, `self.metadata.name`). Several versions of one kind are several classes with the same `kind=`, one of them with
    `storage=True`; `deprecated` is the warning that users of an old version see. `written_by="tenants"` puts the kind into the role `edit`
    of the operator's chart, which a platform team gives to tenants; every other kind is in the role `admin`. `viewable=False` leaves a kind
    whose spec may hold a secret out of the role `view`. `selectable` are the paths of at most eight fields, of type string, integer or
    boolean, that field selectors may name: `selectable=(".spec.node",)` allows `.watches(..., fields="spec.node=a")` and
    `kubectl get --field-selector` (Kubernetes 1.31 and later).

    Raises UsageError for names that the API server would refuse, SchemaError for a model that no structural schema can express.

    >>> class BackupSpec(Model):
    ...     schedule: str
    >>> @resource("example.com/v1", short_names=("bk",), columns=(Column("Schedule", ".spec.schedule"),))
    ... class Backup(CustomResource[BackupSpec, Status]):
    ...     '''Nightly copies of a volume.'''
    >>> declaration_of(Backup).crd_name
    'backups.example.com'
    """

    def declare(cls: type[C]) -> type[C]:
        group, _, version = api_version.rpartition("/")
        name = kind or cls.__name__
        declaration = Declaration(
            group=group,
            version=version,
            kind=name,
            plural=plural or plural_of(name),
            singular=singular or name.lower(),
            scope=scope,
            short_names=short_names,
            categories=categories,
            labels=tuple(sorted((labels or {}).items())),
            conditions=conditions,
            columns=columns,
            rules=rules,
            scale=scale,
            served=served,
            storage=storage,
            deprecated=deprecated,
            written_by=written_by,
            viewable=viewable,
            selectable=selectable,
        )
        _bind(cls, declaration)
        return cls

    return declare


def _bind(cls: type[CustomResource[Any, Any]], declaration: Declaration) -> None:
    parameters = getattr(cls, "__pydantic_generic_metadata__", {}).get("parameters")
    if not _is_resource(cls) or parameters:
        raise UsageError(
            f"@resource of {declaration.kind}: decorate a class with both models, as in "
            f"class {declaration.kind}(CustomResource[{declaration.kind}Spec, {declaration.kind}Status])"
        )
    kind: Kind[Any] = Kind(
        declaration.api_version,
        declaration.kind,
        cls.decode,
        namespaced=declaration.namespaced,
        plural=declaration.plural,
    )
    setattr(cls, _DECLARATION, declaration)
    setattr(cls, _KIND, kind)
    # A mistake in a model is an error of its declaration. Our own models are tested: the schema waits until a controller needs it.
    if cls.__pydantic_complete__ and not cls.__module__.startswith(_OWN_MODELS):
        _shape_of(cls)


def _is_resource(what: object) -> bool:
    return isinstance(what, type) and issubclass(what, CustomResource)


def declaration_of(cls: type[CustomResource[Any, Any]]) -> Declaration:
    """Return the declaration of a class; raises UsageError if the class itself is not decorated with `@resource`."""
    declaration: Declaration | None = cls.__dict__.get(_DECLARATION)
    if declaration is None:
        raise UsageError(f"{cls.__name__} declares no resource; decorate it with @resource('group/version')")
    return declaration


def schema_of(cls: type[CustomResource[Any, Any]]) -> dict[str, Any]:
    """Return the structural schema of a resource, with descriptions; the dict is shared, so it must not be changed.

    Raises UsageError if a forward reference is still open, SchemaError if the model cannot be expressed.
    """
    _shape_of(cls)
    known: dict[str, Any] | None = cls.__dict__.get(_SCHEMA)
    if known is None:
        known = root_schema(cls, declaration_of(cls), described=True)
        setattr(cls, _SCHEMA, known)
    return known


def plain_schema_of(cls: type[CustomResource[Any, Any]]) -> dict[str, Any]:
    """Return the structural schema without the docstrings of fields; the dict is shared, so it must not be changed.

    Raises UsageError if a forward reference is still open, SchemaError if the model cannot be expressed.
    """
    return _shape_of(cls)


def object_defaults(cls: type[CustomResource[Any, Any]]) -> Defaults | None:
    """Return the defaults that the API server fills into a whole object; None if it has none."""
    if _DEFAULTS not in cls.__dict__:
        setattr(cls, _DEFAULTS, defaults_in(_shape_of(cls)))
    known: Defaults | None = cls.__dict__[_DEFAULTS]
    return known


def status_defaults(cls: type[CustomResource[Any, Any]]) -> Defaults | None:
    """Return the defaults that the API server fills into a status; None if it has none.

    Conditions are excepted, and fields of a type whose attribute `complete` declares that its values leave nothing to defaults.
    """
    fields = status_model(cls).model_fields.items()
    complete = [field.alias or name for name, field in fields if getattr(field.annotation, "complete", False)]
    return defaults_in(_shape_of(cls)["properties"]["status"], without=("conditions", *complete))


def status_maps(cls: type[CustomResource[Any, Any]]) -> frozenset[str]:
    """Return the fields of a status that are maps: an empty map is left out of a status, since an apply cannot empty a map."""
    fields = _shape_of(cls)["properties"]["status"].get("properties", {})
    return frozenset(name for name, part in fields.items() if "additionalProperties" in part)


def _shape_of(cls: type[CustomResource[Any, Any]]) -> dict[str, Any]:
    """Return the schema without the docstrings of fields, which every program needs; it is generated without reading sources."""
    known: dict[str, Any] | None = cls.__dict__.get(_SHAPE)
    if known is not None:
        return known
    declaration = declaration_of(cls)
    if not cls.__pydantic_complete__:
        try:
            cls.model_rebuild()
        except PydanticUndefinedAnnotation as error:
            raise UsageError(f"{cls.__name__} refers to {error.name}, which is not defined yet") from None
    shape = root_schema(cls, declaration)
    setattr(cls, _SHAPE, shape)
    return shape
