"""The string formats of CRDs, checked as by the server's kube-openapi.

Guarantees: pure. Names are normalised (dashes do not count). Formats that the server does not know are ignored (`effective`). Sources:
k8s.io/kube-openapi `pkg/validation/strfmt`, `pkg/internal/third_party/govalidator`, apiextensions `pkg/apiserver/validation/formats.go`.
"""

from __future__ import annotations

import ipaddress
import re
import unicodedata
from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from types import MappingProxyType
from typing import Any, Final

from konverge_testing.apiserver.schemas.times import is_date, is_go_duration

__all__ = ["FORMATS", "effective", "matches", "unrecognized"]


def effective(schema: Mapping[str, Any]) -> str:
    """Return the format of a schema that the server enforces, or "" if it has none, or a format that is unknown for its type."""
    found: str = schema.get("format") or ""
    return "" if unrecognized(schema) else found


def unrecognized(schema: Mapping[str, Any]) -> str:
    """Return the format of a schema if the server does not know it, or "" if it is known or absent."""
    found: str = schema.get("format") or ""
    if not found:
        return ""
    kind = "" if schema.get("x-kubernetes-int-or-string") else schema.get("type") or ""
    if kind in ("", "string"):
        return "" if found.replace("-", "") in FORMATS else found
    allowed = {"integer": ("int32", "int64"), "number": ("float", "double")}.get(kind, ())
    return "" if found in allowed else found


def matches(name: str, text: str) -> bool:
    """Tell whether a text matches a format; unknown formats accept any text."""
    check = FORMATS.get(name.replace("-", ""))
    return check is None or check(text)


@cache
def _compiled(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """Compile a pattern at its first use: most formats are never used, and some are slow to compile."""
    return re.compile(pattern, flags)


def _full(pattern: str, flags: int = 0) -> Callable[[str], bool]:
    return lambda text: _compiled(pattern, flags | re.ASCII).fullmatch(text) is not None


_HOSTNAME: Final = re.compile(r"[a1](-?[a1]{0,62})?|([a1]([a1-]{0,61}[a1])?\.)+a{2,63}")


def _hostname(text: str) -> bool:
    """Check by kinds of characters: letters, digits and symbols (Unicode's too), dashes and dots."""
    kinds = "".join(map(_host_char, text))
    return (
        _HOSTNAME.fullmatch(kinds) is not None
        and len(text.encode()) <= 255
        and all(len(part.encode()) <= 63 for part in text.split("."))
    )


def _host_char(char: str) -> str:
    if char in "-.":
        return char
    if char.isascii() and char.isdigit():
        return "1"
    category = unicodedata.category(char)
    return "a" if category[0] == "L" else "1" if category[0] == "S" else "!"


def _sloppy(text: str) -> str:
    """Drop leading zeros of an IPv4 address, as the server's lenient parser does."""
    return re.sub(r"(^|\.)0+(?=[0-9])", r"\1", text) if ":" not in text else text


def _ip(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return "%" not in text


def _cidr(text: str) -> bool:
    address, slash, size = text.partition("/")
    if not slash or not re.fullmatch(r"[0-9]{1,3}", size) or not _ip(_sloppy(address)):
        return False
    return int(size) <= (128 if ":" in address else 32)


def _mac(text: str) -> bool:
    pairs = re.fullmatch(r"[0-9a-fA-F]{2}(([:-])[0-9a-fA-F]{2}(\2[0-9a-fA-F]{2})*)", text)
    if pairs:
        return len(text) in (17, 23, 59)
    return len(text) in (14, 19, 49) and re.fullmatch(r"[0-9a-fA-F]{4}(\.[0-9a-fA-F]{4})+", text) is not None


def _uri(text: str) -> bool:
    """Check as `url.ParseRequestURI` does: absolute, or a path from the root."""
    if not text or any(char < " " or char == "\x7f" for char in text):
        return False
    if text == "*":
        return True
    scheme = re.match(r"([a-zA-Z][a-zA-Z0-9+.-]*):", text)
    rest = text[scheme.end() :] if scheme else text
    if not rest.startswith("/"):
        return scheme is not None and _escapes(rest.partition("?")[0], opaque=True)
    rest, _, _ = rest.partition("?")
    if rest.startswith("//") and (scheme or not rest.startswith("///")):
        host, _, path = rest[2:].partition("/")
        if scheme and not _authority(host):
            return False
        return _escapes(path)
    return _escapes(rest)


def _escapes(text: str, *, opaque: bool = False) -> bool:
    return opaque or re.search(r"%(?![0-9A-Fa-f]{2})", text) is None


def _authority(text: str) -> bool:
    user, at, host = text.rpartition("@")
    if at and not re.fullmatch(r"[A-Za-z0-9\-._:~!$&'()*+,;=%@]*", user):
        return False
    if host.startswith("["):
        inside, bracket, port = host[1:].rpartition("]")
        return bool(bracket) and bool(inside) and re.fullmatch(r"(:[0-9]*)?", port) is not None
    name, colon, port = host.rpartition(":")
    if colon and not re.fullmatch(r"[0-9]*", port):
        return False
    return re.search(r'[\s"<>\\^`{|}\[\]]|%(?!25)', (name if colon else host)) is None


_ATEXT: Final = r"[A-Za-z0-9!#$%&'*+\-/=?^_`{|}~\u0080-\U0010ffff]+"
_ADDRESS: Final = rf'(?:{_ATEXT}(?:\.{_ATEXT})*|"(?:[^"\\\r\n]|\\.)+")@(?:{_ATEXT}(?:\.{_ATEXT})*|\[[^\]\\\s]*\])'
_EMAIL: Final = rf'\s*(?:{_ADDRESS}|(?:(?:{_ATEXT}|"(?:[^"\\]|\\.)*"|\.)\s*)*<\s*{_ADDRESS}\s*>)\s*(?:\([^()]*\)\s*)?'


def _email(text: str) -> bool:
    return _compiled(_EMAIL).fullmatch(text) is not None


_CARD: Final = (
    r"(?:4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|6(?:011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}|3(?:0[0-5]|[68][0-9])[0-9]{11}"
    r"|(?:2131|1800|35[0-9]{3})[0-9]{11})"
)


def _credit_card(text: str) -> bool:
    digits = re.sub("[^0-9]+", "", text)
    if not _compiled(_CARD).fullmatch(digits):
        return False
    doubled = [int(digit) * (1 + index % 2) for index, digit in enumerate(reversed(digits))]
    return sum(number - 9 if number > 9 else number for number in doubled) % 10 == 0


def _isbn10(text: str) -> bool:
    digits = re.sub(r"[\s-]+", "", text)
    if not re.fullmatch("[0-9]{9}[0-9X]", digits):
        return False
    return sum((index + 1) * (10 if digit == "X" else int(digit)) for index, digit in enumerate(digits)) % 11 == 0


def _isbn13(text: str) -> bool:
    digits = re.sub(r"[\s-]+", "", text)
    if not re.fullmatch("[0-9]{13}", digits):
        return False
    total = sum(int(digit) * (3 if index % 2 else 1) for index, digit in enumerate(digits[:12]))
    return int(digits[12]) == (10 - total % 10) % 10


_UNITS: Final = ("ns", "us", "µs", "ms", "s", "m", "h", "hr", "d", "w", "wk")
_UNIT_STARTS: Final = ("nano", "micro", "milli", "sec", "min", "hour", "day", "week")


def _duration(text: str) -> bool:
    if is_go_duration(text):
        return True
    units = [unit.lower() for _, unit in re.findall(r"([0-9]+)\s*([A-Za-zµ]+)", text)]
    return any(unit in _UNITS or unit.startswith(_UNIT_STARTS) for unit in units)


_CLOCK: Final = re.compile(r"([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))")


@lru_cache(maxsize=8192)
def _date_time(text: str) -> bool:
    parts = text.lower().split("t")
    if len(text) < 4 or len(parts) < 2 or not is_date(parts[0]):
        return False
    found = _CLOCK.fullmatch(parts[1])
    return found is not None and found[1] <= "23" and found[2] <= "59" and found[3] <= "59"


def _short_name(text: str) -> bool:
    return len(text.encode()) <= 63 and re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", text) is not None


def _long_name(text: str) -> bool:
    return (
        len(text.encode()) <= 253
        and re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", text) is not None
    )


_HEX4: Final = "[0-9a-f]{4}"
_BYTE: Final = r"\s*(0|[1-9][0-9]?|1[0-9][0-9]?|2[0-4][0-9]|25[0-5])\s*"

FORMATS: Final[Mapping[str, Callable[[str], bool]]] = MappingProxyType(
    {
        "bsonobjectid": _full("[0-9a-fA-F]{24}"),
        "uri": _uri,
        "email": _email,
        "hostname": _hostname,
        "ipv4": lambda text: "." in text and _ip(_sloppy(text)),
        "ipv6": lambda text: ":" in text and _ip(text),
        "cidr": _cidr,
        "mac": _mac,
        "uuid": _full(f"[0-9a-f]{{8}}-?{_HEX4}-?{_HEX4}-?{_HEX4}-?[0-9a-f]{{12}}", re.IGNORECASE),
        "uuid3": _full(f"[0-9a-f]{{8}}-?{_HEX4}-?3[0-9a-f]{{3}}-?{_HEX4}-?[0-9a-f]{{12}}", re.IGNORECASE),
        "uuid4": _full(f"[0-9a-f]{{8}}-?{_HEX4}-?4[0-9a-f]{{3}}-?[89ab][0-9a-f]{{3}}-?[0-9a-f]{{12}}", re.IGNORECASE),
        "uuid5": _full(f"[0-9a-f]{{8}}-?{_HEX4}-?5[0-9a-f]{{3}}-?[89ab][0-9a-f]{{3}}-?[0-9a-f]{{12}}", re.IGNORECASE),
        "isbn": lambda text: _isbn10(text) or _isbn13(text),
        "isbn10": _isbn10,
        "isbn13": _isbn13,
        "creditcard": _credit_card,
        "ssn": lambda text: len(text) == 11 and re.fullmatch(r"[0-9]{3}[- ]?[0-9]{2}[- ]?[0-9]{4}", text) is not None,
        "hexcolor": _full("#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})"),
        "rgbcolor": _full(rf"rgb\({_BYTE},{_BYTE},{_BYTE}\)"),
        "byte": _full("(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})"),
        "password": lambda _: True,
        "date": is_date,
        "duration": _duration,
        "datetime": _date_time,
        "k8sshortname": _short_name,
        "k8slongname": _long_name,
    }
)
"""Every format of strings, by its normalised name."""
