"""Quantities (`500m`, `1.5Gi`) as Go's `resource.Quantity` reads, adds, compares and writes them; exact, never a float.

Guarantees: pure. A value is a whole number of billionths, as upstream keeps it: finer input is rounded away from zero. A text that is
canonical already is kept as it was written until the value is used in arithmetic; the server stores and prints it so. The rules are
those of k8s.io/apimachinery `pkg/api/resource` (quantity.go, suffix.go).

Used by the quota family and by the API server of the tests.

Caveats: as upstream's, the DecimalSI text of a multiple of 10^21 lacks its factor, because no suffix exists beyond E: 1000E is printed as
1. Write such an amount as DecimalExponent.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Final, Literal, TypeAlias

import msgspec

__all__ = [
    "COUNTED",
    "ONE",
    "PRECISE",
    "THOUSANDTH",
    "WHOLE",
    "ZERO",
    "Amounts",
    "Format",
    "Quantity",
    "added",
    "beyond",
    "equal",
    "masked",
    "non_zero",
    "read",
    "subtracted",
    "written",
]

Format: TypeAlias = Literal["BinarySI", "DecimalExponent", "DecimalSI"]
"""The notation of an amount: 2Gi, 2e9, or 2G."""

_BILLION: Final = 10**9
WHOLE: Final = _BILLION
THOUSANDTH: Final = 10**6
PRECISE: Final = (2**63 - 1) // 1000
"""Upstream's arithmetic on plain numbers uses thousandths up to this whole amount, and whole numbers beyond it."""
_LARGEST: Final = (2**63 - 1) * _BILLION
_DIGITS: Final = 18
_EXPONENT_LIMIT: Final = 1000
_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_NAMES: Final = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_BINARY_NAMES: Final = {exponent: suffix for suffix, exponent in _BINARY.items()} | {0: ""}
_TEXT: Final = re.compile(r"([+-]?)0*([0-9]*)(?:\.([0-9]*))?([eEinumkKMGTP]*[-+]?[0-9]*)")

WRONG_FORMAT: Final = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
WRONG_SUFFIX: Final = "unable to parse quantity's suffix"


class Quantity(msgspec.Struct, frozen=True, eq=False):
    """An amount and its notation.

    >>> str(Quantity.parse("0.5") + Quantity.parse("700m"))
    '1200m'
    >>> str(Quantity.parse("1.5Gi")), str(Quantity.parse("2048Mi"))
    ('1536Mi', '2Gi')
    """

    billionths: int
    format: Format = "DecimalSI"
    text: str = ""
    """The text as it was read if that is canonical, "" otherwise."""

    @classmethod
    def parse(cls, value: Any) -> Quantity:
        """Read a quantity from JSON, a string or a number; raises ValueError with the server's words."""
        return _parse(str(value))

    @classmethod
    def of(cls, count: int) -> Quantity:
        """Return a plain number."""
        return cls(count * _BILLION)

    def __add__(self, other: Quantity) -> Quantity:
        return Quantity(self.billionths + other.billionths, self.format if self.billionths else other.format)

    def __sub__(self, other: Quantity) -> Quantity:
        return Quantity(self.billionths - other.billionths, self.format if self.billionths else other.format)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Quantity) and self.billionths == other.billionths

    def __lt__(self, other: Quantity) -> bool:
        return self.billionths < other.billionths

    def __hash__(self) -> int:
        return hash(self.billionths)

    def __bool__(self) -> bool:
        return self.billionths != 0

    def count(self, unit: int) -> int:
        """Return the amount in units (`WHOLE`, `THOUSANDTH`), rounded away from zero."""
        units = -(-abs(self.billionths) // unit)
        return units if self.billionths >= 0 else -units

    def like(self, other: Quantity) -> Quantity:
        """Return this amount, written in the format of the other.

        >>> str(Quantity.parse("134217728").like(Quantity.parse("2Gi"))), str(Quantity.parse("0.5").like(ONE))
        ('128Mi', '500m')
        """
        return Quantity(self.billionths, other.format)

    def __float__(self) -> float:
        """Return the amount as a number, for gauges: the only place where precision may be lost.

        >>> float(Quantity.parse("375m")), float(Quantity.parse("384Mi"))
        (0.375, 402653184.0)
        """
        return self.billionths / _BILLION

    def rounded_up(self) -> Quantity:
        """Return the next whole number at or above it."""
        whole = -(-self.billionths // _BILLION)
        return self if whole * _BILLION == self.billionths else Quantity(whole * _BILLION, self.format)

    def __str__(self) -> str:
        if self.text:
            return self.text
        if not self.billionths:
            return "0"
        whole, rest = divmod(abs(self.billionths), _BILLION)
        sign = "-" if self.billionths < 0 else ""
        if self.format == "BinarySI" and not rest and whole >= 1024:
            return sign + _binary(whole)
        return sign + _decimal(abs(self.billionths), exponential=self.format == "DecimalExponent")


COUNTED: Final = frozenset(
    {
        "configmaps",
        "persistentvolumeclaims",
        "pods",
        "replicationcontrollers",
        "resourcequotas",
        "secrets",
        "services",
        "services.loadbalancers",
        "services.nodeports",
    }
)
"""Objects that a ResourceQuota counts by a name of its own, in whole pieces (kubernetes `pkg/apis/core/helper`)."""
ZERO: Final = Quantity(0)
ONE: Final = Quantity.of(1)

Amounts: TypeAlias = Mapping[str, Quantity]
"""Quantities by the name of what they count: a ResourceList."""


def _binary(whole: int) -> str:
    exponent = 0
    while whole % 1024 == 0 and exponent < 60:
        whole //= 1024
        exponent += 10
    return f"{whole}{_BINARY_NAMES[exponent]}"


def _decimal(billionths: int, *, exponential: bool) -> str:
    exponent = -9
    while billionths % 1000 == 0:
        billionths //= 1000
        exponent += 3
    if exponential:
        return f"{billionths}e{exponent}" if exponent else str(billionths)
    return f"{billionths}{_DECIMAL_NAMES.get(exponent, '')}"


@lru_cache(maxsize=4096)
def _parse(text: str) -> Quantity:
    match = _TEXT.fullmatch(text)
    if match is None or not text:
        raise ValueError(WRONG_FORMAT)
    # A missing number is a zero: upstream reads even "Ki" so.
    sign, number, fraction = match[1], match[2] or "0", match[3] or ""
    format_, base, exponent = _suffix(match[4])
    digits = number + fraction
    mantissa = int(digits)
    amount, places = mantissa * _BILLION, len(fraction)
    if base == 2:
        amount = -(-(amount << exponent) // 10**places)
        amount = min(amount, _LARGEST)
        if 0 < amount < _BILLION:
            format_ = "DecimalSI"
    else:
        power = exponent - places
        amount = amount * 10**power if power >= 0 else -(-amount // 10**-power)
    kept = _is_canonical(text, digits, mantissa, format_, exponent, fraction)
    return Quantity(-amount if sign == "-" else amount, format_, text if kept else "")


def _suffix(suffix: str) -> tuple[Format, int, int]:
    if suffix in _DECIMAL:
        return "DecimalSI", 10, _DECIMAL[suffix]
    if suffix in _BINARY:
        return "BinarySI", 2, _BINARY[suffix]
    if re.fullmatch(r"[eE][-+]?[0-9]+", suffix) and abs(int(suffix[1:])) <= _EXPONENT_LIMIT:
        return "DecimalExponent", 10, int(suffix[1:])
    raise ValueError(WRONG_SUFFIX)


def _is_canonical(text: str, digits: str, mantissa: int, format_: Format, exponent: int, fraction: str) -> bool:
    """Whether upstream keeps the text as it is: only texts of its fast path, and those that it considers canonical."""
    if text == "0":
        return True
    if format_ == "BinarySI":
        room = 15 - len(digits) - exponent * 3 // 10 - 1
        return not fraction and room >= 0 and mantissa & 7 != 0
    scale = exponent - len(fraction)
    short = len(digits) <= _DIGITS and scale >= -9
    return short and scale % 3 == 0 and not digits.endswith("000") and digits[0] != "0"


# -- lists of amounts -------------------------------------------------------------------------------------------------


def read(values: Mapping[str, Any] | None) -> dict[str, Quantity]:
    """Read a ResourceList."""
    return {name: Quantity.parse(value) for name, value in (values or {}).items()}


def written(amounts: Amounts) -> dict[str, str]:
    """Write a ResourceList, sorted by name as the server's JSON is."""
    return {name: str(amounts[name]) for name in sorted(amounts)}


def added(left: Amounts, right: Amounts) -> dict[str, Quantity]:
    """Return the sum, name by name."""
    total = {name: amount + right[name] if name in right else amount for name, amount in left.items()}
    return total | {name: amount for name, amount in right.items() if name not in left}


def subtracted(left: Amounts, right: Amounts) -> dict[str, Quantity]:
    """Return the difference, name by name, nowhere below zero."""
    less = {name: amount - right[name] if name in right else amount for name, amount in left.items()}
    return {name: max(less.get(name, ZERO), ZERO) for name in (*less, *(name for name in right if name not in left))}


def masked(amounts: Amounts, names: Iterable[str]) -> dict[str, Quantity]:
    """Return the amounts of these names."""
    wanted = frozenset(names)
    return {name: amount for name, amount in amounts.items() if name in wanted}


def non_zero(amounts: Amounts) -> dict[str, Quantity]:
    """Return the amounts that are not zero."""
    return {name: amount for name, amount in amounts.items() if amount}


def beyond(amounts: Amounts, limits: Amounts) -> list[str]:
    """Return the names whose amount is above its limit."""
    return [name for name, limit in limits.items() if name in amounts and limit < amounts[name]]


def equal(left: Amounts, right: Amounts) -> bool:
    """Return whether both have the same names with equal amounts, however written."""
    return left.keys() == right.keys() and all(amount == right[name] for name, amount in left.items())
