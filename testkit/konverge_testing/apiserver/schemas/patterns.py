r"""RE2 patterns of CRDs as Python's `re`: translated once, and refused with Go's messages if RE2 would refuse them.

Guarantees: pure. `$` is the very end, classes such as \d are ASCII, POSIX and Unicode classes are spelled out, flags work in the middle.
Syntax that RE2 lacks (look-around, back references) is refused. Source: github.com/google/re2 syntax, Go `regexp/syntax`.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from functools import lru_cache
from typing import Final

__all__ = ["PatternError", "compiled"]

_POSIX: Final = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "ascii": r"\x00-\x7F",
    "blank": r"\t ",
    "cntrl": r"\x00-\x1F\x7F",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": r"!-/:-@\[-`{-~",
    "space": r"\t\n\v\f\r ",
    "upper": "A-Z",
    "word": "0-9A-Za-z_",
    "xdigit": "0-9A-Fa-f",
}
_LAST_NAMED: Final = 0x3FFFF
"""Above this code point, Unicode has only selectors, private use and unassigned code points."""
_CLASSES: Final = {"d": "0-9", "s": r"\t\n\f\r ", "w": "0-9A-Za-z_"}
_SIMPLE: Final = {"a": r"\x07", "f": r"\f", "n": r"\n", "r": r"\r", "t": r"\t", "v": r"\v"}
_UNSUPPORTED: Final = ("(?=", "(?!", "(?<=", "(?<!", "(?>", "(?#", "(?(")


class PatternError(ValueError):
    """RE2 refuses the pattern; the message is Go's."""

    def __init__(self, what: str, where: str) -> None:
        super().__init__(f"error parsing regexp: {what}: `{where}`")


@lru_cache(maxsize=2048)
def compiled(pattern: str) -> re.Pattern[str]:
    r"""Compile a pattern; `search` it.

    >>> bool(compiled("^[[:alpha:]]+$").search("abc\n")), bool(compiled(r"^\d$").search("٣"))
    (False, False)
    """
    text = _Translation(pattern).translated()
    try:
        return re.compile(text, re.ASCII if text.isascii() and "(?i" not in text else re.UNICODE)
    except (re.error, OverflowError) as error:
        raise PatternError(str(error), pattern) from None


@lru_cache(maxsize=256)
def _category(name: str) -> str:
    """Spell out the characters of a Unicode category, as the inside of a class."""
    ranges: list[tuple[int, int]] = []
    start = -1
    last = sys.maxunicode if name.startswith("C") else _LAST_NAMED
    for code in range(last + 2):
        inside = code <= last and unicodedata.category(chr(code)).startswith(name)
        if inside and start < 0:
            start = code
        elif not inside and start >= 0:
            ranges.append((start, code - 1))
            start = -1
    return "".join(f"\\U{low:08x}-\\U{high:08x}" for low, high in ranges)


class _Translation:
    """One walk over a pattern."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.at = 0
        self.out: list[str] = []
        self.closing: list[str] = [""]
        """The flag groups to close before each open group: one per flag that was set inside it."""
        self.multi_line = [False]
        self.repeatable = False

    def translated(self) -> str:
        while self.at < len(self.pattern):
            self._step(self.pattern[self.at])
        if len(self.closing) > 1:
            raise PatternError("missing closing )", self.pattern)
        return "".join(self.out) + self.closing[0]

    def _emit(self, text: str, width: int = 1, *, repeatable: bool = True) -> None:
        self.out.append(text)
        self.at += width
        self.repeatable = repeatable

    def _step(self, char: str) -> None:
        if char == "\\":
            self._escape()
        elif char == "[":
            self._bracket()
        elif char == "(":
            self._open()
        elif char == ")":
            self._close()
        elif char == "|":
            self._emit("|", repeatable=False)
        elif char == "$":
            self._emit("$" if self.multi_line[-1] else r"\Z")
        elif char == "^":
            self._emit("^")
        elif char in "*+?" or (char == "{" and self._counted()):
            self._repeat()
        else:
            self._emit(r"\{" if char == "{" else char)

    # --- groups --------------------------------------------------------------------------------------------------------------

    def _open(self) -> None:
        rest = self.pattern[self.at :]
        if not rest.startswith("(?"):
            self.closing.append("")
            self.multi_line.append(self.multi_line[-1])
            self._emit("(", repeatable=False)
            return
        for bad in _UNSUPPORTED:
            if rest.startswith(bad):
                raise PatternError("invalid or unsupported Perl syntax", bad)
        if named := re.match(r"\(\?P?<(\w+)>", rest):
            self.closing.append("")
            self.multi_line.append(self.multi_line[-1])
            self._emit(f"(?P<{named[1]}>", named.end(), repeatable=False)
            return
        flags = re.match(r"\(\?([imsU]*)(?:-([imsU]+))?([:)])", rest)
        if flags is None:
            raise PatternError("invalid or unsupported Perl syntax", rest[:3])
        self._flags(flags)

    def _flags(self, flags: re.Match[str]) -> None:
        on = "".join(flag for flag in flags[1] if flag in "is")
        off = "".join(flag for flag in flags[2] or "" if flag in "is")
        opened = f"(?{on}{'-' + off if off else ''}:"
        multi = (self.multi_line[-1] or "m" in flags[1]) and "m" not in (flags[2] or "")
        if "m" in flags[1]:
            opened = f"(?{on}m{'-' + off if off else ''}:"
        if flags[3] == ":":
            self.closing.append("")
            self.multi_line.append(multi)
        else:  # to the end of the enclosing group
            self.closing[-1] += ")"
            self.multi_line[-1] = multi
        self._emit(opened, flags.end(), repeatable=False)

    def _close(self) -> None:
        if len(self.closing) == 1:
            raise PatternError("unexpected )", self.pattern)
        self.multi_line.pop()
        self._emit(self.closing.pop() + ")")

    # --- repetition ----------------------------------------------------------------------------------------------------------

    def _counted(self) -> re.Match[str] | None:
        return re.compile(r"\{(\d+)(?:(,)(\d*))?\}", re.ASCII).match(self.pattern, self.at)

    def _repeat(self) -> None:
        count = self._counted() if self.pattern[self.at] == "{" else None
        text = count[0] if count else self.pattern[self.at]
        if not self.repeatable:
            raise PatternError("missing argument to repetition operator", text)
        if count and (
            int(count[1]) > 1000 or int(count[3] or 0) > 1000 or (count[3] and int(count[1]) > int(count[3]))
        ):
            raise PatternError("invalid repeat count", text)
        lazy = "?" if self.pattern[self.at + len(text) : self.at + len(text) + 1] == "?" else ""
        after = self.pattern[self.at + len(text + lazy) :]
        if after[:1] in ("*", "+", "?") and after:
            raise PatternError("invalid nested repetition operator", text + lazy + after[0])
        self._emit(text + lazy, len(text + lazy))

    # --- escapes and classes -------------------------------------------------------------------------------------------------

    def _escape(self) -> None:
        char = self.pattern[self.at + 1 : self.at + 2]
        if not char:
            raise PatternError("trailing backslash at end of expression", "")
        if char == "Q":
            end = self.pattern.find("\\E", self.at)
            quoted = self.pattern[self.at + 2 : end if end >= 0 else None]
            self._emit(re.escape(quoted), len(quoted) + (4 if end >= 0 else 2))
        elif char in "bBA":
            self._emit(f"\\{char}", 2)
        elif char == "z":
            self._emit(r"\Z", 2)
        elif char == "C":
            self._emit("(?s:.)", 2)
        else:
            inside, width, negated = self._atom()
            self._emit(f"[{'^' if negated else ''}{inside}]", width)

    def _atom(self) -> tuple[str, int, bool]:
        """Read one escape, as the inside of a class: its text, its width, and whether it is negated."""
        char = self.pattern[self.at + 1 : self.at + 2]
        if char.lower() in _CLASSES:
            return _CLASSES[char.lower()], 2, char.isupper()
        if char in ("p", "P"):
            return self._unicode(char == "P")
        if char in _SIMPLE:
            return _SIMPLE[char], 2, False
        if found := re.compile(r"\\x(?:([0-9A-Fa-f]{2})|\{([0-9A-Fa-f]+)\})").match(self.pattern, self.at):
            return f"\\U{int(found[1] or found[2], 16):08x}", len(found[0]), False
        if found := re.compile(r"\\(0[0-7]{0,2}|[1-7][0-7]{1,2})").match(self.pattern, self.at):
            return f"\\U{int(found[1], 8):08x}", len(found[0]), False
        if char.isascii() and not char.isalnum() and char:
            return re.escape(char), 2, False
        raise PatternError("invalid escape sequence", f"\\{char}")

    def _unicode(self, negated: bool) -> tuple[str, int, bool]:
        found = re.compile(r"\\[pP](?:([A-Z])|\{(\^?)(\w+)\})").match(self.pattern, self.at)
        if found is None:
            raise PatternError("invalid character class range", self.pattern[self.at :])
        name = found[1] or found[3]
        inside = _category(name) if len(name) <= 2 else _script(name)
        if not inside:
            raise PatternError("invalid character class range", found[0])
        return inside, len(found[0]), negated != bool(found[2])

    def _bracket(self) -> None:
        start, at = self.at, self.at + 1
        negated = self.pattern[at : at + 1] == "^"
        self.at = at + negated
        inside: list[str] = []
        others: list[str] = []
        first = True
        while first or self.pattern[self.at : self.at + 1] != "]":
            if self.at >= len(self.pattern):
                raise PatternError("missing closing ]", self.pattern[start:])
            self._member(inside, others)
            first = False
        self.at += 1
        self.repeatable = True
        plain = f"[{'^' if negated else ''}{''.join(inside)}]"
        if not others:
            self.out.append(plain)
        elif negated:
            allowed = "".join(f"(?=[{other}])" for other in others)
            self.out.append(f"(?:{allowed}{plain if inside else '(?s:.)'})")
        else:
            self.out.append("(?:" + "|".join([f"[^{other}]" for other in others] + ([plain] if inside else [])) + ")")

    def _member(self, inside: list[str], others: list[str]) -> None:
        if posix := re.compile(r"\[:(\^?)(\w+):\]").match(self.pattern, self.at):
            if posix[2] not in _POSIX:
                raise PatternError("invalid character class range", posix[0])
            (others if posix[1] else inside).append(_POSIX[posix[2]])
            self.at = posix.end()
            return
        low, begin = self._single(inside, others), self.at
        if (
            low is None
            or self.pattern[self.at : self.at + 1] != "-"
            or self.pattern[self.at + 1 : self.at + 2] in ("]", "")
        ):
            if low is not None:
                inside.append(low)
            return
        self.at += 1
        high = self._single([], [])
        if high is None or _code(high) < _code(low):
            raise PatternError("invalid character class range", self.pattern[begin - 1 : self.at])
        inside.append(f"{low}-{high}")

    def _single(self, inside: list[str], others: list[str]) -> str | None:
        """Read one character of a class; None if it was a class itself."""
        char = self.pattern[self.at]
        if char != "\\":
            self.at += 1
            return re.escape(char) if char in "[]^-\\&~|" else char
        text, width, negated = self._atom()
        self.at += width
        if negated or len(text) > 10 or (len(text) > 2 and not text.startswith("\\U")):
            (others if negated else inside).append(text)
            return None
        return text


def _code(text: str) -> int:
    return ord(re.compile(r"\\U([0-9a-f]{8})").sub(lambda found: chr(int(found[1], 16)), text)[-1])


def _script(name: str) -> str:
    """Return the characters whose Unicode names begin with a common script, spelled out; "" for other scripts."""
    prefix = f"{name.upper()} "
    if name not in ("Latin", "Greek", "Cyrillic", "Han", "Hiragana", "Katakana", "Arabic", "Hebrew"):
        return ""
    prefix = "CJK " if name == "Han" else prefix
    found = [code for code in range(sys.maxunicode + 1) if unicodedata.name(chr(code), "").startswith(prefix)]
    return "".join(f"\\U{code:08x}" for code in found)
