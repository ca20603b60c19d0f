"""The names of a project and of a kind, and the identifiers that follow from them. Pure, apart from the check for an installed module.

Errors: UsageError names the argument, the rule and a valid form.
"""

from __future__ import annotations

import builtins
import importlib.util
import keyword
import re
import sys
from dataclasses import dataclass
from typing import Final

from konverge.crds.declaration import Declaration, plural_of
from konverge.errors import UsageError

__all__ = ["KindNames", "ProjectNames", "bounds_of", "default_kind"]

_LABEL: Final = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_KIND: Final = re.compile(r"[A-Z][A-Za-z0-9]{0,62}")
_LONGEST_NAME: Final = 53
"""As for a Helm release (`konverge chart --name`)."""
_LONGEST_VARIABLE: Final = 16
"""Longer names of kinds have the variable `resource`, so that the lines of the templates stay below 120 characters."""
_LOCALS: Final = frozenset(
    {
        "condition",
        "container",
        "ctx",
        "deployment",
        "kv",
        "labels",
        "message",
        "observed",
        "plan",
        "ready",
        "spec",
        "updated",
        "wanted",
    }
)
"""Variables of the templates."""
_FOLDERS: Final = frozenset({"chart", "samples", "tests"})
"""Folders of a project beside its package."""


@dataclass(frozen=True, slots=True)
class ProjectNames:
    """The name of a project, which is a DNS label, and the name of its package.

    >>> ProjectNames("shop-operator").package
    'shop_operator'
    """

    name: str

    def __post_init__(self) -> None:
        if len(self.name) > _LONGEST_NAME or not _LABEL.fullmatch(self.name):
            raise UsageError(
                f"NAME {self.name!r}: write lower case letters, digits and dashes, beginning with a letter and at most {_LONGEST_NAME} "
                "characters, for instance shop-operator: it is the name of the folder, of the image and of objects in the cluster"
            )
        if keyword.iskeyword(self.package) or self.package in _FOLDERS or _is_installed(self.package):
            raise UsageError(
                f"NAME {self.name!r}: the package {self.package} would hide a Python module or a folder of that name; write, for "
                f"instance, {self.name}-operator"
            )

    @property
    def package(self) -> str:
        """The import name."""
        return self.name.replace("-", "_")


def _is_installed(package: str) -> bool:
    """Return whether a module of this name belongs to Python or to an installed distribution."""
    return package in sys.stdlib_module_names or importlib.util.find_spec(package) is not None


def default_kind(name: str) -> str:
    """Return the kind of a project whose kind is not given.

    >>> default_kind("guestbook"), default_kind("web-shop-operator")
    ('Guestbook', 'WebShop')
    """
    return "".join(part.capitalize() for part in name.removesuffix("-operator").split("-"))


def bounds_of(version: str) -> str:
    """Return the versions of konverge for a project that this version wrote: up to the next version that may break it.

    >>> bounds_of("0.4.2"), bounds_of("0.1.0.dev0"), bounds_of("2.3.0+linux")
    ('>=0.4.2,<0.5', '>=0.1.0.dev0,<0.2', '>=2.3.0,<3')
    """
    public = version.partition("+")[0]  # a bound has no local part
    major, minor = (int(number) for number in public.split(".")[:2])
    return f">={public},<{major + 1}" if major else f">={public},<0.{minor + 1}"


@dataclass(frozen=True, slots=True)
class KindNames:
    """A kind and its group, and the names of its module and its variable.

    >>> names = KindNames("WebShop", "example.com")
    >>> names.plural, names.singular, names.variable
    ('webshops', 'webshop', 'web_shop')
    """

    kind: str
    group: str
    version: str = "v1"

    def __post_init__(self) -> None:
        if not _KIND.fullmatch(self.kind):
            raise UsageError(
                f"the kind {self.kind!r}: write CamelCase of letters and digits, for instance Guestbook or WebShop"
            )
        if keyword.iskeyword(self.kind) or keyword.iskeyword(self.plural):
            raise UsageError(
                f"the kind {self.kind!r} or its plural {self.plural!r} is a word of Python: choose another kind"
            )
        try:
            _declare(self)
        except UsageError as error:
            raise UsageError(str(error).removeprefix(f"@resource of {self.kind}: ")) from error

    @property
    def plural(self) -> str:
        """The plural: the module of the kind, and the resource in the API."""
        return plural_of(self.kind)

    @property
    def singular(self) -> str:
        """The kind in lower case."""
        return self.kind.lower()

    @property
    def variable(self) -> str:
        """The variable that holds an object of the kind."""
        snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", self.kind).lower()
        taken = snake in _LOCALS or keyword.iskeyword(snake) or keyword.issoftkeyword(snake) or hasattr(builtins, snake)
        return "resource" if taken or len(snake) > _LONGEST_VARIABLE else snake


def _declare(names: KindNames) -> Declaration:
    """Return a declaration with these names; raises UsageError if the API server would refuse one of them."""
    return Declaration(
        group=names.group,
        version=names.version,
        kind=names.kind,
        plural=names.plural,
        singular=names.singular,
        scope="Namespaced",
        short_names=(),
        categories=(),
        labels=(),
        conditions=(),
        columns=(),
        rules=(),
        scale=None,
        served=True,
        storage=True,
        deprecated=None,
    )
