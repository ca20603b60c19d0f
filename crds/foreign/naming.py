"""Names of the API as names of Python.

Guarantees: pure, and stable: a name depends only on names of the API, so that another selection of fields renames nothing.
"""

from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Collection

from konverge.crds.partial import PartialModel, PartialResource

__all__ = ["CLASS_NAMES_IN_USE", "attribute_name", "class_word", "constant_name", "snake_case"]

_PLURAL_ACRONYM = re.compile(r"([A-Z]{2,})s(?=[A-Z]|$)")
_ACRONYM_END = re.compile(r"([A-Z]+)([A-Z][a-z])")
_WORD_END = re.compile(r"([a-z0-9])([A-Z])")
_NO_IDENTIFIER = re.compile(r"\W", re.ASCII)

_OF_ANNOTATIONS = frozenset({"bool", "dict", "float", "int", "list", "str"})
"""A field of such a name would hide the type from the annotations of the fields after it."""
_OF_MODELS = frozenset(name for name in dir(PartialModel) if not name.startswith("_"))
_OF_RESOURCES = frozenset(name for name in dir(PartialResource) if not name.startswith("_"))

CLASS_NAMES_IN_USE = frozenset(
    {"Annotated", "Any", "AwareDatetime", "Field", "Literal", "PartialModel", "PartialResource", *dir(builtins)}
)
"""Names that a generated module uses for other things."""


def snake_case(name: str) -> str:
    """Return a name in lower case with underscores between its words; an acronym is a word, in the plural too.

    >>> [snake_case(name) for name in ("clusterIP", "podIPs", "providerIDList", "k8sVersion", "JSONPath", "nonResourceURLs")]
    ['cluster_ip', 'pod_ips', 'provider_id_list', 'k8s_version', 'json_path', 'non_resource_urls']
    """
    words = _PLURAL_ACRONYM.sub(lambda match: match[1].capitalize() + "s", name)
    return _WORD_END.sub(r"\1_\2", _ACRONYM_END.sub(r"\1_\2", words)).lower()


def attribute_name(name: str, taken: Collection[str] = (), *, of_resource: bool = False) -> str:
    """Return the attribute of a field; keywords, and names that models use themselves, get an underscore at the end.

    >>> [attribute_name(name) for name in ("hostIP", "from", "copy", "schema", "$ref", "2fa", "list")]
    ['host_ip', 'from_', 'copy_', 'schema_', 'ref', 'field_2fa', 'list_']
    """
    attribute = _NO_IDENTIFIER.sub("_", snake_case(name)).strip("_")
    if not attribute or attribute[0].isdigit():
        attribute = f"field_{attribute}"
    used = _OF_RESOURCES if of_resource else _OF_MODELS
    while keyword.iskeyword(attribute) or attribute in used or attribute in _OF_ANNOTATIONS or attribute in taken:
        attribute += "_"
    return attribute


def class_word(name: str) -> str:
    """Return a step of a path as part of a class's name.

    >>> class_word("valuesFrom"), class_word("x-kubernetes-map-type")
    ('ValuesFrom', 'XKubernetesMapType')
    """
    return "".join(word[:1].upper() + word[1:] for word in re.split(r"[^A-Za-z0-9]+", name))


def constant_name(kind: str) -> str:
    """Return the name of a kind's constant.

    >>> constant_name("CronJob"), constant_name("HTTPRoute")
    ('CRON_JOB', 'HTTP_ROUTE')
    """
    return snake_case(kind).upper()
