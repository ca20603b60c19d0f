"""The sources of settings: flags before variables before the file before defaults.

Guarantees: each value is traced to its source. An unknown setting (flag, file, the part of a variable below a group) is an error that
names the nearest one; an unknown variable that begins with KONVERGE_ is a warning, since other programs may use the prefix. A bad value is
an error that names the setting, its source, and the problem. Nothing is read at import.

The file is YAML or TOML, by its ending; `--config` or KONVERGE_CONFIG names it, and no default path is tried.
"""

from __future__ import annotations

import ast
import dataclasses
import difflib
import inspect
import itertools
import re
import textwrap
import tomllib
import typing
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_settings import EnvSettingsSource

from konverge.crds.decoding import misfits, problem_words
from konverge.daemon.settings import PREFIX, Settings
from konverge.daemon.version import BUILD_VARIABLE, COMMIT_VARIABLE
from konverge.errors import ConfigError, UsageError

__all__ = [
    "FILE_VARIABLE",
    "Leaf",
    "Loaded",
    "Origin",
    "leaves",
    "load",
    "nested",
    "parse_assignment",
    "plain",
    "read_file",
]

S = TypeVar("S", bound=Settings)

FILE_VARIABLE = f"{PREFIX}CONFIG"
OTHERS = frozenset(
    {
        FILE_VARIABLE,
        BUILD_VARIABLE,
        COMMIT_VARIABLE,
        f"{PREFIX}CACHE",
        f"{PREFIX}ENVTEST_MIRROR",
        f"{PREFIX}NO_CONTROL_PLANE",
        f"{PREFIX}REQUIRE_CONTROL_PLANE",
        f"{PREFIX}URL",
    }
)
"""Variables with our prefix that are not settings: of the test kit, and of single commands."""

# Variables that the kubelet sets for a Service named konverge or konverge-*.
_SERVICE_LINK = re.compile(r"_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)$")


@dataclass(frozen=True, slots=True)
class Origin:
    """The source of a value: `kind` is default, file, variable or flag; `where` names it."""

    kind: str
    where: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.where}".strip()


DEFAULT = Origin("default")


@dataclass(frozen=True, slots=True)
class Leaf:
    """One setting: its path (`informers.page_size`), type, default and meaning."""

    path: str
    annotation: Any
    default: Any
    doc: str

    @property
    def variable(self) -> str:
        """The environment variable that sets it."""
        return PREFIX + self.path.upper().replace(".", "__")

    @property
    def flag(self) -> str:
        """The flag that sets it."""
        return f"--set {self.path}=" if "." in self.path else "--" + self.path.replace("_", "-")


@dataclass(frozen=True, slots=True)
class Loaded(Generic[S]):
    """Settings, the source of each that is not a default, and warnings about the sources."""

    settings: S
    origins: Mapping[str, Origin]
    warnings: tuple[str, ...] = ()

    def origin(self, path: str) -> Origin:
        """Return the source of a setting, or of the part of it that was set."""
        parts = path.split(".")
        for length in range(len(parts), 0, -1):
            origin = self.origins.get(".".join(parts[:length]))
            if origin is not None:
                return origin
        return DEFAULT

    def value(self, path: str) -> Any:
        """Return a setting's value."""
        value: Any = self.settings
        for part in path.split("."):
            value = getattr(value, part)
        return value


# --- what can be set ----------------------------------------------------------------------------------------------------------


def _is_group(annotation: Any) -> bool:
    return inspect.isclass(annotation) and (issubclass(annotation, BaseModel) or dataclasses.is_dataclass(annotation))


def _fields(cls: type[Any]) -> Iterator[tuple[str, Any, Any]]:
    """Yield name, type and default of the fields of a model or dataclass."""
    if issubclass(cls, BaseModel):
        for name, info in cls.model_fields.items():
            yield name, info.annotation, info.get_default(call_default_factory=True, validated_data={})
        return
    hints = typing.get_type_hints(cls)
    for member in dataclasses.fields(cls):
        factory = member.default_factory
        yield member.name, hints[member.name], member.default if factory is dataclasses.MISSING else factory()


def leaves(cls: type[Any], prefix: str = "", *, documented: bool = True) -> tuple[Leaf, ...]:
    """Return every setting of a class, its groups included.

    Their meanings are parsed from the source code, which is half of the work of loading settings: a start leaves them out.
    """
    docs = attribute_docs(cls) if documented else {}
    settings: list[Leaf] = []
    for name, annotation, default in _fields(cls):
        path = f"{prefix}{name}"
        if _is_group(annotation):
            settings += leaves(annotation, f"{path}.", documented=documented)
        else:
            settings.append(Leaf(path, annotation, default, docs.get(name, "")))
    return tuple(settings)


def attribute_docs(cls: type[Any]) -> dict[str, str]:
    """Return the docstrings of the attributes of a class and its bases, one line each; {} without source code."""
    docs: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        if base.__module__.partition(".")[0] in {"builtins", "pydantic", "pydantic_settings", "typing"}:
            continue
        try:
            tree = ast.parse(textwrap.dedent(inspect.getsource(base)))
        except (OSError, TypeError):
            continue
        body = tree.body[0].body if isinstance(tree.body[0], ast.ClassDef) else []
        for field, below in itertools.pairwise(body):
            if (
                isinstance(field, ast.AnnAssign)
                and isinstance(field.target, ast.Name)
                and isinstance(below, ast.Expr)
                and isinstance(below.value, ast.Constant)
                and isinstance(below.value.value, str)
            ):
                docs[field.target.id] = " ".join(below.value.value.split())
    return docs


def plain(value: Any) -> Any:
    """Return a value as written in a settings file."""
    if isinstance(value, timedelta):
        return f"{value.total_seconds():g}s"
    if isinstance(value, frozenset):
        return sorted(plain(member) for member in value)
    if isinstance(value, tuple):
        return [plain(member) for member in value]
    return TypeAdapter(Any).dump_python(value, mode="json", exclude_none=True)


# --- sources ------------------------------------------------------------------------------------------------------------------


class _Variables(EnvSettingsSource):
    """pydantic's source of variables, with lists that may also be written `a,b`."""

    def decode_complex_value(self, field_name: str, field: Any, value: Any) -> Any:
        if isinstance(value, str) and not value.lstrip().startswith(("[", "{")):
            return [part.strip() for part in value.split(",") if part.strip()]
        return super().decode_complex_value(field_name, field, value)


def read_file(path: Path) -> dict[str, Any]:
    """Read a settings file, YAML or TOML by its ending; raises ConfigError."""
    try:
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".toml":
            data: Any = tomllib.loads(text)
        elif path.suffix in {".yaml", ".yml", ".json"}:
            import yaml

            data = yaml.safe_load(text)
        else:
            raise ConfigError(f"settings file {path}: its name must end in .yaml, .yml, .json or .toml")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"settings file {path} cannot be read: {getattr(error, 'strerror', None) or error}"
        ) from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"settings file {path} is not TOML: {error}") from error
    except ConfigError:
        raise
    except Exception as error:  # yaml's errors share no base with anything else; the import stays lazy
        raise ConfigError(f"settings file {path} is not YAML: {' '.join(str(error).split())}") from error
    if data is None:
        return {}
    if not isinstance(data, dict):
        raise ConfigError(f"settings file {path}: it must be a mapping of settings, not a {type(data).__name__}")
    return data


def parse_assignment(text: str) -> tuple[str, str]:
    """Split `path=value` of a `--set` flag; raises UsageError.

    >>> parse_assignment("informers.page_size=100")
    ('informers.page_size', '100')
    """
    path, equals, value = text.partition("=")
    if not equals or not path.strip():
        raise UsageError(f"--set {text}: write path=value, for instance --set reconcile.timeout=60")
    return path.strip(), value


def _flatten(data: Mapping[str, Any], known: Mapping[str, Leaf], prefix: str = "") -> dict[str, Any]:
    """Return nested values by path, down to known settings; an unknown value keeps its path."""
    flat: dict[str, Any] = {}
    for key, value in data.items():
        path = f"{prefix}{key}"
        group = any(name.startswith(f"{path}.") for name in known)
        if group and isinstance(value, Mapping):
            flat |= _flatten(value, known, f"{path}.")
        else:
            flat[path] = value
    return flat


def nested(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Return values by path as nested mappings, as in a settings file."""
    tree: dict[str, Any] = {}
    for path, value in flat.items():
        *groups, last = path.split(".")
        branch = tree
        for group in groups:
            branch = branch.setdefault(group, {})
        branch[last] = value
    return tree


def _unknown(path: str, known: Iterable[str], source: str) -> ConfigError:
    near = difflib.get_close_matches(path, list(known), n=1)
    every = "; see konverge config for all of them, and install the distribution of a family before its settings"
    hint = f"; did you mean {near[0]}?" if near else every
    return ConfigError(f"{source}: there is no setting {path}{hint}")


def _from_flag(value: Any, leaf: Leaf) -> Any:
    """Parse the text of a `--set` as a variable would be parsed."""
    origin = typing.get_origin(leaf.annotation)
    if isinstance(value, str) and origin in {tuple, list, frozenset, set, dict}:
        if value.lstrip().startswith(("[", "{")):
            import json

            try:
                return json.loads(value)
            except ValueError as error:
                raise ConfigError(
                    f"{leaf.path}={value} is not JSON ({error}): quote its texts, or write a list without brackets, a,b"
                ) from error
        return [part.strip() for part in value.split(",") if part.strip()]
    return value


def _stray_variables(environ: Mapping[str, str], known: Mapping[str, Leaf]) -> tuple[str, ...]:
    variables = [leaf.variable for leaf in known.values()]
    groups = {variable.rpartition("__")[0] for variable in variables if "__" in variable}
    groups |= {leaf.variable for leaf in known.values() if typing.get_origin(leaf.annotation) is dict}
    warnings = []
    for name in sorted(environ):
        if not name.startswith(PREFIX) or name in OTHERS or name in variables or name in groups:
            continue
        if _SERVICE_LINK.search(name) or any(name.startswith(f"{group}__") for group in groups):
            continue  # a part of a group was read, and raises if it is unknown
        near = difflib.get_close_matches(name, variables, n=1)
        warnings.append(
            f"{name} is set and is not a setting of konverge" + (f"; did you mean {near[0]}?" if near else "")
        )
    return tuple(warnings)


def load(
    cls: type[S], *, flags: Mapping[str, Any], environ: Mapping[str, str], file: str | Path | None = None
) -> Loaded[S]:
    """Read all sources and return the settings, each traced to its source. `flags` are by path; None is "not given".

    Errors: ConfigError for an unreadable source, an unknown setting or a bad value.
    """
    known = {leaf.path: leaf for leaf in leaves(cls, documented=False)}
    values: dict[str, Any] = {}
    origins: dict[str, Origin] = {}

    def take(flat: Mapping[str, Any], kind: str, where: Mapping[str, str]) -> None:
        for path, value in flat.items():
            origin = Origin(kind, where.get(path, where.get("", "")))
            if path not in known:
                raise _unknown(path, known, str(origin))
            values[path] = value
            origins[path] = origin

    chosen = file or environ.get(FILE_VARIABLE) or None
    if chosen is not None:
        take(_flatten(read_file(Path(chosen)), known), "file", {"": str(chosen)})
    # pydantic decodes the lists of models; lists in groups that are dataclasses are still texts here.
    variables = _flatten(_variables(cls, environ), known)
    take(
        {path: _from_flag(value, known[path]) if path in known else value for path, value in variables.items()},
        "variable",
        {leaf.path: leaf.variable for leaf in known.values()},
    )
    given = {path: value for path, value in flags.items() if value is not None}
    take(
        {path: _from_flag(value, known[path]) if path in known else value for path, value in given.items()},
        "flag",
        {leaf.path: leaf.flag.rstrip("=") for leaf in known.values()},
    )
    try:
        settings = cls(**nested(values))
    except ValidationError as error:
        raise ConfigError(_message_of(error, origins)) from error
    except UsageError as error:  # from a group that validates itself
        raise ConfigError(str(error)) from error
    return Loaded(settings, origins, _stray_variables(environ, known))


def _variables(cls: type[Settings], environ: Mapping[str, str]) -> dict[str, Any]:
    source = _Variables(cls)
    source.env_vars = {name.lower(): value for name, value in environ.items()}
    try:
        values: dict[str, Any] = source()
    except ValueError as error:
        raise ConfigError(f"variables {PREFIX}*: {error}") from error
    return values


def _message_of(error: ValidationError, origins: Mapping[str, Origin]) -> str:
    lines = []
    for details in misfits(error):
        path = ".".join(str(part) for part in details["loc"])
        origin = next((origins[known] for known in origins if path == known or path.startswith(f"{known}.")), None)
        message = problem_words(details, quoting=True)
        lines.append(f"{path or 'settings'} ({origin or 'sources'}): {message}; it is {details['input']!r}")
    return "\n".join(lines)
