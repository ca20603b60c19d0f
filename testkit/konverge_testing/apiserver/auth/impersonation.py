"""User impersonation: the Impersonate-* headers and the rights that they need.

Guarantees: pure apart from authorization checks. A server of 1.36 has constrained impersonation: a mode that applies to the wanted user is
tried with its own verbs (`impersonate-on:user-info:list`, `impersonate:user-info`) before the plain verb `impersonate`, and the first
mode's refusal is returned to the client. The rules are those of k8s.io/apiserver `pkg/endpoints/filters/impersonation`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from dataclasses import replace
from typing import Final
from urllib.parse import unquote

from konverge_testing.apiserver.auth.attributes import Attributes, refusal
from konverge_testing.apiserver.auth.rbac import MASTERS, Rbac
from konverge_testing.apiserver.golang import quoted
from konverge_testing.apiserver.requests import User
from konverge_testing.apiserver.statuses import StatusError, bad_request

__all__ = ["impersonated", "wanted_user"]

_USER: Final = "impersonate-user"
_GROUP: Final = "impersonate-group"
_UID: Final = "impersonate-uid"
_EXTRA: Final = "impersonate-extra-"
_AUTHENTICATION: Final = "authentication.k8s.io"
_ANONYMOUS: Final = "system:anonymous"
_NODE: Final = "system:node:"
_NODE_NAME: Final = "authentication.kubernetes.io/node-name"
_MANY: Final = 4
_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN: Final = re.compile(rf"{_LABEL}(\.{_LABEL})*")
_PREFIXED: Final = re.compile(rf"{_LABEL}(\.{_LABEL})*/[A-Za-z0-9._~%!$&'()*+,;=:/-]+")


def wanted_user(headers: Mapping[str, str]) -> User | None:
    """Return the user that the headers name, or None without such headers; raises 400 for groups, uid or extra without a name."""
    extra: dict[str, tuple[str, ...]] = {}
    for header in sorted(headers):
        if header.startswith(_EXTRA):
            key = unquote(header.removeprefix(_EXTRA))
            extra[key] = extra.get(key, ()) + _values(headers[header])
    groups = _values(headers[_GROUP]) if _GROUP in headers else ()
    name, uid = headers.get(_USER, ""), headers.get(_UID, "")
    if name:
        return User(name, groups, uid, extra)
    if groups or uid or extra:
        raise bad_request(f"requested {_go_user(groups, uid, extra)} without impersonating a user name")
    return None


def _values(header: str) -> tuple[str, ...]:
    """Return the values of a header that was sent more than once, joined by commas or line feeds."""
    return tuple(re.split(r"[\n,]", header))


def _go_user(groups: Sequence[str], uid: str, extra: Mapping[str, Sequence[str]]) -> str:
    """Format a user as Go's `%#v` formats a pointer to it."""

    def listed(values: Sequence[str]) -> str:
        return "[]string{" + ", ".join(quoted(value) for value in values) + "}"

    shown_groups = listed(groups) if groups else "[]string(nil)"
    pairs = ", ".join(f"{quoted(key)}:{listed(values)}" for key, values in sorted(extra.items()))
    shown_extra = f"map[string][]string{{{pairs}}}" if extra else "map[string][]string(nil)"
    return f'&user.DefaultInfo{{Name:"", UID:{quoted(uid)}, Groups:{shown_groups}, Extra:{shown_extra}}}'


def impersonated(
    rbac: Rbac, requestor: User, wanted: User, attributes: Attributes, modes: MutableMapping[str, str]
) -> User:
    """Return the impersonated user; raises the server's 403 if the requestor may not impersonate it.

    `modes` keeps the last successful mode of each requestor: it is tried first, so a client reads the refusal of this mode.
    """
    first: StatusError | None = None
    fitting = [*_modes(requestor, wanted), ""]
    if (last := modes.get(requestor.name)) in fitting:
        fitting = [last, *(mode for mode in fitting if mode != last)]
    for mode in fitting:
        try:
            user = _check(rbac, requestor, wanted, attributes, mode)
        except StatusError as error:
            first = first or error
        else:
            modes[requestor.name] = mode
            return user
    raise first if first is not None else refusal(requestor, attributes)


def _modes(requestor: User, wanted: User) -> Iterator[str]:
    """Yield the constrained modes that apply, in the order of their checks."""
    bare = not (wanted.uid or wanted.groups or wanted.extra)
    node, account = _node(wanted.name), _account(wanted.name)
    if bare and node:
        if _account(requestor.name) and tuple(requestor.extra.get(_NODE_NAME, ())) == (node,):
            yield "associated-node"
        yield "arbitrary-node"
    if bare and account:
        yield "serviceaccount"
    if not node and not account:
        yield "user-info"


def _check(rbac: Rbac, requestor: User, wanted: User, attributes: Attributes, mode: str) -> User:
    if mode:
        rbac.require(requestor, replace(attributes, verb=f"impersonate-on:{mode}:{attributes.verb}"))
    for asked in _required_rights(requestor, wanted, mode):
        if isinstance(asked, tuple):
            # Upstream first checks many groups at once, and each group separately only if that check is refused.
            whole, each = asked
            if rbac.allows(requestor, whole).allowed:
                continue
            for one in each:
                rbac.require(requestor, one)
        else:
            rbac.require(requestor, asked)
    return _actual(wanted, constrained=bool(mode))


def _required_rights(
    requestor: User, wanted: User, mode: str
) -> Iterator[Attributes | tuple[Attributes, list[Attributes]]]:
    verb = f"impersonate:{mode}" if mode else "impersonate"
    group, version = (_AUTHENTICATION, "v1") if mode else ("", "v1")
    yield _who(verb, group, wanted, mode)
    if wanted.uid:
        yield Attributes(verb, _AUTHENTICATION, "v1", "uids", name=wanted.uid)
    if wanted.groups:
        groups = Attributes(verb, group, version, "groups")
        if mode:
            _check_groups(requestor, wanted, groups)
        each = [replace(groups, name=name) for name in wanted.groups]
        if mode and len(each) >= _MANY:
            yield replace(groups, name="*"), each
        else:
            yield from each
    if wanted.extra:
        extra = Attributes(verb, _AUTHENTICATION, "v1", "userextras")
        if mode and (why := _wrong_extra(wanted.extra)):
            raise refusal(requestor, extra, why)
        each = [replace(extra, subresource=key, name=value) for key, values in wanted.extra.items() for value in values]
        if mode and len(each) >= _MANY:
            yield replace(extra, subresource="*", name="*"), each
        else:
            yield from each


def _who(verb: str, group: str, wanted: User, mode: str) -> Attributes:
    """Return the right to impersonate the user, node or ServiceAccount of a name."""
    asked = Attributes(verb, group, "v1", "users", name=wanted.name)
    if mode and (node := _node(wanted.name)):
        return replace(asked, resource="nodes", name="*" if mode == "associated-node" else node)
    if account := _account(wanted.name):
        return replace(asked, resource="serviceaccounts", namespace=account[0], name=account[1])
    return asked


def _check_groups(requestor: User, wanted: User, groups: Attributes) -> None:
    if "" in wanted.groups:
        raise refusal(requestor, groups, "impersonating the empty string group is not allowed")
    if MASTERS in wanted.groups:
        why = f"impersonating the {MASTERS} group is not allowed"
        raise refusal(requestor, replace(groups, name=MASTERS), why)


def _wrong_extra(extra: Mapping[str, Sequence[str]]) -> str:
    for key, values in extra.items():
        if not key:
            return "impersonating the empty string key in extra is not allowed"
        if not _PREFIXED.fullmatch(key):
            words = 'must be a domain-prefixed path (such as "acme.io/foo")'
            return f"impersonating an invalid key in extra is not allowed: extra.key: Invalid value: {quoted(key)}: {words}"
        if "" in values:
            return "impersonating the empty string value in extra is not allowed"
    return ""


def _actual(wanted: User, *, constrained: bool) -> User:
    """Return the wanted user with the groups that belong to the name."""
    groups, account = wanted.groups, _account(wanted.name)
    if constrained and _node(wanted.name):
        groups = ("system:nodes",)
    elif account and not groups:
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{account[0]}")
    implied = "system:unauthenticated" if wanted.name == _ANONYMOUS else "system:authenticated"
    if implied not in groups and "system:unauthenticated" not in groups:
        groups = (*groups, implied)
    return replace(wanted, groups=groups)


def _node(name: str) -> str:
    node = name.removeprefix(_NODE)
    return node if node != name and len(node) <= 253 and _SUBDOMAIN.fullmatch(node) else ""


def _account(name: str) -> tuple[str, str] | None:
    parts = name.split(":")
    if len(parts) != 4 or parts[:2] != ["system", "serviceaccount"] or not all(parts[2:]):
        return None
    return parts[2], parts[3]
