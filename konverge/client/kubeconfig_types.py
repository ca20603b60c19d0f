"""The types of a kubeconfig's fields. Pure.

kubectl decodes a kubeconfig into typed fields and refuses a file whose field has another type. kubernetes_asyncio takes any value: by
Python's rules the text "false" is true, so `insecure-skip-tls-verify: "false"` would disable the verification of certificates.

Source: k8s.io/client-go/tools/clientcmd/api/v1/types.go, and validateAuthInfo in clientcmd/validation.go.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, TypeVar

import msgspec

from konverge.errors import ConfigError

__all__ = ["check_cluster", "check_context", "check_user"]


_Part = TypeVar("_Part", bound=msgspec.Struct)


class _Context(msgspec.Struct):
    cluster: str | None = None
    user: str | None = None
    namespace: str | None = None


class _Extension(msgspec.Struct):
    name: str | None = None


class _Cluster(msgspec.Struct, rename="kebab"):
    server: str | None = None
    tls_server_name: str | None = None
    insecure_skip_tls_verify: bool | None = None
    certificate_authority: str | None = None
    certificate_authority_data: str | None = None
    proxy_url: str | None = None
    disable_compression: bool | None = None
    extensions: list[_Extension] | None = None


class _Variable(msgspec.Struct):
    name: str | None = None
    value: str | None = None


class _Exec(msgspec.Struct, rename="camel"):
    api_version: str | None = None
    command: str | None = None
    args: list[str] | None = None
    env: list[_Variable] | None = None
    install_hint: str | None = None
    interactive_mode: str | None = None
    provide_cluster_info: bool | None = None


class _User(msgspec.Struct, rename="kebab"):
    client_certificate: str | None = None
    client_certificate_data: str | None = None
    client_key: str | None = None
    client_key_data: str | None = None
    token: str | None = None
    token_file: str | None = msgspec.field(default=None, name="tokenFile")
    as_: str | None = msgspec.field(default=None, name="as")
    as_uid: str | None = None
    as_groups: list[str] | None = None
    as_user_extra: dict[str, list[str]] | None = None
    username: str | None = None
    password: str | None = None
    auth_provider: dict[str, Any] | None = None
    exec: _Exec | None = None


_WORDS: Final = {
    "str": "a text",
    "bool": "true or false",
    "array": "a list",
    "object": "a mapping",
    "int": "a number",
    "float": "a number",
    "datetime": "a date",
    "date": "a date",
    "null": "null",
}
"""msgspec's names of types, as an error text writes them."""
_MISTAKE: Final = re.compile(
    r"Expected `(?P<wanted>\w+)(?: \| null)?`, got `(?P<value>\w+)`(?: - at `\$\.?(?P<path>.*)`)?"
)


def check_context(name: str, context: Mapping[str, Any]) -> None:
    """Check the types of a context; raises ConfigError that names the field."""
    _check(f"context {name!r}", context, _Context)


def check_cluster(name: str, cluster: Mapping[str, Any]) -> None:
    """Check the types of a cluster; raises ConfigError that names the field."""
    _check(f"cluster {name!r}", cluster, _Cluster)


def check_user(name: str, user: Mapping[str, Any]) -> None:
    """Check the types of a user, its impersonation, and the environment of its plugin; raises ConfigError that names the field."""
    checked = _check(f"user {name!r}", user, _User)
    if not checked.as_ and (checked.as_uid or checked.as_groups or checked.as_user_extra):
        raise ConfigError(f"user {name!r}: as-uid, as-groups and as-user-extra need `as`, the user to impersonate")
    for index, variable in enumerate((checked.exec and checked.exec.env) or ()):
        if not variable.name:
            raise ConfigError(f"user {name!r}: exec.env[{index}] has no name")
        if not variable.value:
            raise ConfigError(f"user {name!r}: the variable {variable.name!r} in exec.env has no value")


def _check(what: str, part: Mapping[str, Any], model: type[_Part]) -> _Part:
    """Decode a part of a kubeconfig; the error names the field and never shows the value, which may be a credential."""
    try:
        return msgspec.convert(part, type=model)
    except msgspec.ValidationError as error:
        mistake = _MISTAKE.match(str(error))
        if mistake is None:
            raise ConfigError(f"{what}: {error}") from None
        path, wanted, value = (mistake[group] or "" for group in ("path", "wanted", "value"))
        hint = "; remove its quotes" if (wanted, value) == ("bool", "str") else ""
        hint = "; put it in quotes" if wanted == "str" and value in ("int", "float", "bool") else hint
        field = path or "the entry"
        raise ConfigError(
            f"{what}: {field} has to be {_WORDS.get(wanted, wanted)}, and is {_WORDS.get(value, value)}{hint}"
        ) from None
